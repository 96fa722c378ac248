"""Streams of requests: each row asks a template, at its own event time.

Answer   `RequestsUnit.advance` answers the requests that the epoch brought: all rows of the template's stream up to their instants are
         in the store then. Results come in the order of the requests.
State    Nothing between two epochs: requests wait in the intake of their stream.
Limits   A request whose window is too long, or that names columns which do not exist, is a dead letter.
Reading  docs/operators/templates.md
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eddyline.errors import DataProblem
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.query import BoundQuery
from eddyline.model.template import BoundRequests, RequestStream
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.template.answer import REQUEST
from eddyline.operators.template.probes import of_rows
from eddyline.plan.template_text import requests_text
from eddyline.runtime.epoch import Outcome
from eddyline.runtime.unit import Blocks, Load, Moment, Slice, Unit, UnitFigures
from eddyline.runtime.units.templates import TemplateKind, TemplateUnit
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.runtime.pipeline import Pipeline


class RequestsQuery:
    """The answers of a stream of requests, as pipelines know them."""

    is_timed = False
    merging = None

    def __init__(self, query: BoundQuery, unit: RequestsUnit, start: int) -> None:
        self.query = query
        self.name = query.name
        self.unit: Unit = unit
        self.slot = 0
        self.start = start
        self.stop: int | None = None
        self.results = 0
        self.rows_in = 0
        self.seconds = 0.0
        self.schema = unit.asking.schema

    def plan(self, pipeline: Pipeline | None = None) -> str:
        assert isinstance(self.unit, RequestsUnit)
        return requests_text(self.unit.asking)

    def analysis(self) -> list[str]:
        return [f"requests: {self.rows_in} answered with {self.results} rows"]


class RequestsUnit:
    def __init__(self, kind: RequestsKind, query: BoundQuery, asking: RequestStream, template: TemplateUnit, start: int) -> None:
        self.kind = kind
        self.asking = asking
        self.template = template
        self.name = f"requests {asking.name}"
        self.streams = frozenset([asking.name, asking.template.source])
        self.query = RequestsQuery(query, self, start)
        self._waiting: list[tuple[pa.Table, Ints]] = []
        template.read_by(asking.name, LONG_AGO)

    @property
    def queries(self) -> Mapping[str, RequestsQuery]:
        return {self.query.name: self.query}

    def leave(self, name: str) -> None:
        self.template.read_by(self.asking.name, None)
        del self.kind.units[name]

    # -- an epoch

    def take(self, part: Slice, outcome: Outcome) -> int:
        table = part.tables.get(self.asking.name)
        if table is None:
            return 0
        ts = part.ts[self.asking.name]
        begun = int(np.searchsorted(ts, self.query.start, side="right"))
        self._waiting.append((table.slice(begun), ts[begun:]))
        return len(ts)

    def advance(self, moment: Moment, outcome: Outcome) -> None:
        asked, self._waiting = self._waiting, []
        if sum(len(ts) for _, ts in asked):
            began = perf_counter()
            self._answer(pa.concat_tables([t for t, _ in asked]).combine_chunks(), np.concatenate([ts for _, ts in asked]), outcome)
            self.query.seconds += perf_counter() - began
        self.template.read_by(self.asking.name, moment.frontier)

    def _answer(self, rows: pa.Table, instants: Ints, outcome: Outcome) -> None:
        if self.query.stop is not None:
            rows, instants = rows.slice(0, n := int(np.searchsorted(instants, self.query.stop, side="right"))), instants[:n]
        requests, good, reasons = of_rows(self.asking, rows, instants)
        chosen = np.flatnonzero(good)
        if len(chosen) < len(rows):
            self._refuse(rows, np.flatnonzero(~good), reasons, outcome)
            requests = requests.some(chosen)
        if not len(chosen):
            return
        found = self.template.answer(requests)
        number = chosen[np.asarray(found.column(REQUEST))]
        columns = [rows.column(name).take(pa.array(number)) for name in self.asking.carried]
        columns += [found.column(name) for name in found.column_names if name != REQUEST]
        columns.append(pa.array(instants[number], pa.int64()).cast(TIMESTAMP.arrow))
        arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
        order = [field.name for field in self.query.schema]
        named = dict(zip([*self.asking.carried, *(n for n in found.column_names if n != REQUEST), "_ts"], arrays, strict=True))
        table = pa.table([named[name] for name in order], schema=self.query.schema)
        self.query.rows_in += len(chosen)
        self.query.results += len(table)
        if len(table):
            outcome.results[self.query.name].append(table)

    def _refuse(self, rows: pa.Table, bad: Ints, reasons: list[str], outcome: Outcome) -> None:
        """Requests that cannot be answered are rows that cannot be read."""
        pipeline = self.kind.pipeline
        told = [reasons[at] for at in bad.tolist()]
        if pipeline.settings.on_bad == "error":
            raise DataProblem(
                f"a request of {self.asking.name} cannot be answered", detail=told[0], hint="mend the source, or SET on_bad = 'dead-letter'"
            )
        pipeline.intakes[self.asking.name].bad += len(bad)
        letters = rows.take(pa.array(bad)).append_column("_reason", pa.array(told, pa.string()))
        outcome.dead.setdefault(self.asking.name, []).append(letters)

    def purge(self, now: int) -> None:
        """The template's port says what the store has to keep."""

    def held(self) -> tuple[int, int]:
        return 0, 0

    def in_portions(self, rows: int) -> bool:
        return True

    # -- snapshots and figures

    def snapshot(self) -> dict[str, tuple[object, Blocks]]:
        return {self.query.name: ({"answered": self.query.rows_in, "upto": self.template.readers[self.asking.name]}, {})}

    def restore(self, states: Mapping[str, object], load: Load) -> None:
        saved = dict(states[self.query.name])  # type: ignore[call-overload]
        self.query.rows_in = saved["answered"]
        self.template.read_by(self.asking.name, saved["upto"])

    def report(self) -> UnitFigures:
        query = self.query
        return UnitFigures(operators={self.name: {"rows_in": query.rows_in, "rows_out": query.results, "seconds": query.seconds}})


class RequestsKind:
    in_bundles = False

    def __init__(self, pipeline: Pipeline, templates: TemplateKind) -> None:
        self.pipeline = pipeline
        self.templates = templates
        #: By name.
        self.units: dict[str, RequestsUnit] = {}

    def serves(self, query: BoundQuery) -> bool:
        return isinstance(query, BoundRequests)

    def stand(self, query: BoundQuery, start: int, slot: int | None) -> RequestsQuery:
        assert isinstance(query, BoundRequests) and query.asking is not None
        template = self.templates.unit(query.asking.template.name)
        unit = self.units[query.name] = RequestsUnit(self, query, query.asking, template, start)
        return unit.query
