"""Streams of requests: each row is a request to a template, at its own event time.

Answer   `RequestsUnit.advance` answers the requests that the epoch brought: all rows of the template's stream up to
         their instants are in the store then. Results come in the order of the requests. Where other shards have
         further rows of the template, each gives the parts that it has, and `merged` makes the results of them.
State    Rows of the template's stream that the requests have reached before the template (`early_rows.py`). Requests wait in
         the intake of their stream.
Limits   A request whose window is too long, or that names columns which do not exist, is a dead letter.
Reading  docs/operators/templates.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import DataProblem
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.query import BoundQuery
from eddyline.model.template import BoundRequests, RequestStream
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.template.answer import REQUEST
from eddyline.operators.template.probes import Requests, of_rows
from eddyline.plan.shards.routing import HOME_BIT
from eddyline.plan.template_text import requests_text
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.registered.base import RegisteredBase
from eddyline.runtime.engine.unit import EpochEnd, Merging, Slice, UnitFigures
from eddyline.runtime.engine.units.base import QueryKind, UnitBase
from eddyline.runtime.engine.units.early_rows import EarlyRows
from eddyline.runtime.engine.units.templates import TemplateKind, TemplateUnit
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline

#: Columns that results carry along, on their way.
_CARRIED = "_carried_"


class RequestsQuery(RegisteredBase):
    """The answers of a stream of requests, as pipelines know them."""

    def __init__(self, query: BoundQuery, unit: RequestsUnit, start: int) -> None:
        super().__init__(query, unit, 0, start)
        self.stop: int | None = None
        self.results = 0
        self.rows_in = 0
        self.schema = unit.request_stream.schema

    @property
    def merging(self) -> Merging | None:
        assert isinstance(self.unit, RequestsUnit)
        return Merging(self.unit.merged) if self.unit.in_parts else None

    def plan(self, pipeline: Pipeline | None = None) -> str:
        assert isinstance(self.unit, RequestsUnit)
        return requests_text(self.unit.request_stream)

    def analysis(self) -> list[str]:
        return [f"requests: {self.rows_in} answered with {self.results} rows"]


class RequestsUnit(UnitBase):
    def __init__(
        self, kind: RequestsKind, query: BoundQuery, request_stream: RequestStream, template: TemplateUnit, start: int
    ) -> None:
        self.kind = kind
        self.request_stream = request_stream
        self.template = template
        self.name = f"requests {request_stream.name}"
        self.streams = frozenset([request_stream.name, request_stream.template.source])
        self.query = RequestsQuery(query, self, start)
        #: Whether other shards answer the same requests from their rows.
        self.in_parts = kind.pipeline.routes.is_merged(query.name)
        #: Requests, their instants, and whether this shard keeps the books for them.
        self._waiting: list[tuple[pa.Table, Ints, npt.NDArray[np.bool_]]] = []
        #: Rows of the template's stream that the requests have reached before the template.
        self.early_rows = EarlyRows(
            template.registered, kind.pipeline.intakes[request_stream.template.source].stream.time
        )
        template.read_by(request_stream.name, LONG_AGO)

    @property
    def queries(self) -> Mapping[str, RequestsQuery]:
        return {self.query.name: self.query}

    def leave(self, name: str) -> None:
        self.template.read_by(self.request_stream.name, None)
        del self.kind.units[name]

    # -- an epoch

    def take(self, part: Slice, outcome: Outcome) -> int:
        self.early_rows.take(part, self.template.frontier)
        table = part.tables.get(self.request_stream.name)
        if table is None:
            return 0
        ts, routes = part.ts[self.request_stream.name], part.routes[self.request_stream.name]
        home = np.ones(len(ts), np.bool_) if routes is None else routes >> np.uint64(HOME_BIT) == 1
        begun = int(np.searchsorted(ts, self.query.start, side="right"))
        self._waiting.append((table.slice(begun), ts[begun:], home[begun:]))
        return len(ts)

    def advance(self, end: EpochEnd, outcome: Outcome) -> None:
        due, self._waiting = self._waiting, []
        self.early_rows.trim(self.template.frontier)
        if sum(len(ts) for _, ts, _ in due):
            began = perf_counter()
            rows = pa.concat_tables([t for t, _, _ in due]).combine_chunks()
            self._answer(
                rows, np.concatenate([ts for _, ts, _ in due]), np.concatenate([h for _, _, h in due]), outcome
            )
            self.query.seconds += perf_counter() - began
        self.template.read_by(self.request_stream.name, end.frontier)

    def _answer(self, rows: pa.Table, instants: Ints, home: npt.NDArray[np.bool_], outcome: Outcome) -> None:
        if self.query.stop is not None:
            rows, instants = (
                rows.slice(0, n := int(np.searchsorted(instants, self.query.stop, side="right"))),
                instants[:n],
            )
            home = home[:n]
        requests, good, reasons = of_rows(self.request_stream, rows, instants)
        chosen = np.flatnonzero(good)
        if len(chosen) < len(rows):
            self._refuse(rows, np.flatnonzero(~good & home), reasons, outcome)
            requests = requests.some(chosen)
        self.query.rows_in += int((good & home).sum())
        if self.in_parts:
            mine = self.template.answered_here(requests)
            chosen, requests = chosen[mine], requests.some(mine)
        if not len(chosen):
            return
        found = self._found(requests)
        number = chosen[np.asarray(found.column(REQUEST))]
        # All shards number the requests of an epoch alike.
        found = found.set_column(0, REQUEST, pa.array(number))
        for name in self.request_stream.carried:
            found = found.append_column(f"{_CARRIED}{name}", rows.column(name).take(pa.array(number)))
        found = found.append_column("_ts", pa.array(instants[number], pa.int64()).cast(TIMESTAMP.arrow))
        table = found if self.in_parts else self._shaped(found)
        self.query.results += len(table)
        if len(table):
            outcome.results[self.query.name].append(table)

    def _found(self, requests: Requests) -> pa.Table:
        """Answers from the rows of the template, or what its rows here add to them."""
        if not len(self.early_rows):
            return self.template.parts(requests) if self.in_parts else self.template.answer(requests)
        parts = [self.template.parts(self.early_rows.fewer(requests)), self.early_rows.parts(requests)]
        if self.in_parts:
            return pa.concat_tables([part for part in parts if part.num_rows] or parts[:1])
        return self.template.registered.answering.merged(parts, self.kind.pipeline.issues)

    def _shaped(self, found: pa.Table) -> pa.Table:
        """Answers with their carried columns, as results."""
        names = [f"{_CARRIED}{name}" for name in self.request_stream.carried] + self.query.schema.names[
            len(self.request_stream.carried) :
        ]
        return pa.table([found.column(name).combine_chunks() for name in names], schema=self.query.schema)

    def merged(self, parts: Sequence[pa.Table], issues: Issues) -> pa.Table:
        """The results of an epoch from the parts of all shards."""
        whole = pa.concat_tables(parts).combine_chunks()
        found = self.template.registered.answering.merged(parts, issues)
        numbers, first = np.unique(np.asarray(whole.column(REQUEST)), return_index=True)
        at = pa.array(first[np.searchsorted(numbers, np.asarray(found.column(REQUEST)))])
        for name in [name for name in whole.column_names if name.startswith(_CARRIED) or name == "_ts"]:
            found = found.append_column(name, whole.column(name).take(at))
        return self._shaped(found)

    def _refuse(self, rows: pa.Table, bad: Ints, reasons: list[str], outcome: Outcome) -> None:
        """Requests that cannot be answered are rows that cannot be read; the shard that keeps their books says so."""
        if not len(bad):
            return
        pipeline = self.kind.pipeline
        wrong = [reasons[at] for at in bad.tolist()]
        if pipeline.settings.on_bad == "error":
            raise DataProblem(
                f"a request of {self.request_stream.name} cannot be answered",
                detail=wrong[0],
                hint="mend the source, or SET on_bad = 'dead-letter'",
            )
        pipeline.intakes[self.request_stream.name].bad += len(bad)
        letters = rows.take(pa.array(bad)).append_column("_reason", pa.array(wrong, pa.string()))
        outcome.dead.setdefault(self.request_stream.name, []).append(letters)

    def in_portions(self, rows: int) -> bool:
        return True

    # -- snapshots and figures

    def snapshot(self) -> dict[str, tuple[object, Blocks]]:
        blocks: Blocks = {}
        early = self.early_rows.saved(self.query.name, blocks)
        return {
            self.query.name: (
                {
                    "answered": self.query.rows_in,
                    "upto": self.template.readers[self.request_stream.name],
                    "ahead": early,
                },
                blocks,
            )
        }

    def restore(self, states: Mapping[str, object], load: Load) -> None:
        saved = dict(states[self.query.name])  # type: ignore[call-overload]
        self.query.rows_in = saved["answered"]
        self.template.read_by(self.request_stream.name, saved["upto"])
        self.early_rows.restore(saved, load)

    def report(self) -> UnitFigures:
        query = self.query
        return UnitFigures(
            operators={self.name: {"rows_in": query.rows_in, "rows_out": query.results, "seconds": query.seconds}}
        )


class RequestsKind(QueryKind[RequestsUnit]):
    """Its units have the names of their streams of requests."""

    def serves(self, query: BoundQuery, start: int) -> bool:
        return isinstance(query, BoundRequests)

    def register(self, query: BoundQuery, start: int, slot: int | None) -> RequestsQuery:
        assert isinstance(query, BoundRequests) and query.request_stream is not None
        template = self.pipeline.kinds.one(TemplateKind).unit(query.request_stream.template.name)
        unit = self.units[query.name] = RequestsUnit(self, query, query.request_stream, template, start)
        return unit.query
