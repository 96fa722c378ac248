"""Templates: each is a unit that keeps rows and answers requests.

Answer   `TemplateUnit.answer` gives the answers of requests at instants below the frontier of the template's stream. A
         template has no results of its own.
State    The registered template: a port on the stream's store, its index and tuning.
Reading  docs/operators/templates.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from eddyline.errors import Fault
from eddyline.model.query import BoundQuery
from eddyline.model.template import BoundTemplate, window_size
from eddyline.model.window import Range, Rows
from eddyline.operators.template.probes import Requests
from eddyline.operators.template.registered import RegisteredTemplate
from eddyline.plan.index_choice.templates import TemplatePrice
from eddyline.plan.prepare import prepare
from eddyline.plan.template_text import template_text
from eddyline.plan.tree.budget import index_costs
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.registered.base import RegisteredBase
from eddyline.runtime.engine.unit import EpochEnd, UnitFigures
from eddyline.runtime.engine.units.base import QueryKind, UnitBase
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline


class TemplateQuery(RegisteredBase):
    """A template as pipelines know it."""

    schema = pa.schema([])

    def __init__(self, query: BoundQuery, unit: TemplateUnit, start: int) -> None:
        super().__init__(query, unit, 0, start)
        self.stop: int | None = None
        self.results = 0

    @property
    def rows_in(self) -> int:
        return cast(TemplateUnit, self.unit).registered.answered

    def plan(self, pipeline: Pipeline | None = None) -> str:
        return template_text(cast(TemplateUnit, self.unit).template, cast(TemplateUnit, self.unit).registered)

    def analysis(self) -> list[str]:
        registered = cast(TemplateUnit, self.unit).registered
        paths = ", ".join(f"{count} by {path}" for path, count in sorted(registered.paths.items())) or "none"
        return [f"requests: {registered.answered} answered; probes: {paths}; rows looked at: {registered.visits.rows}"]


class TemplateUnit(UnitBase):
    def __init__(self, kind: TemplateKind, query: BoundQuery, start: int) -> None:
        assert isinstance(query, BoundTemplate) and query.template is not None
        pipeline = kind.pipeline
        lowered = pipeline.routes.routed(prepare(query))
        self.kind = kind
        self.template = template = query.template
        self.name = f"template {template.name}"
        self.streams = frozenset([template.source])
        keys = tuple(o for o in lowered.outputs if o.expression in lowered.group_by)
        aggregates = tuple(o for o in lowered.outputs if o.expression not in lowered.group_by)
        tuning = pipeline.settings.tuning.templates
        self.registered = RegisteredTemplate(
            template,
            keys,
            aggregates,
            lowered.filters[0],
            pipeline.timeline(self.streams).streams[template.source],
            start,
            TemplatePrice(len(keys), template.bits, index_costs(), tuning),
            pipeline.issues,
            lowered.seats[0].route,
            tuning,
        )
        self.registered.tuned = query.settings.template_tuning == "on"
        self.registered.batched = query.settings.template_batch == "on"
        self.query = TemplateQuery(query, self, start)
        #: Rows below are in the store; None: no row has passed.
        self.frontier: int | None = None
        #: Streams of requests that are answered from this template, with the instants below which they have been
        #: answered.
        self.readers: dict[str, int] = {}
        #: Later instants that requests wait for, by token.
        self.waiting: dict[str, int] = {}
        self.dropped = False
        #: Rows for instants before this one have left under the shorter history of an earlier run; None: there was
        #: none.
        self.kept_from: int | None = None

    @property
    def queries(self) -> Mapping[str, TemplateQuery]:
        return {self.query.name: self.query}

    def leave(self, name: str) -> None:
        del self.kind.units[name]
        self.dropped = True
        self._close_if_unread()

    def _close_if_unread(self) -> None:
        """A stream of requests that was dropped before the template may still have answers to give."""
        if self.dropped and not self.readers:
            self.registered.close()

    # -- requests

    def answer(self, requests: Requests) -> pa.Table:
        began = perf_counter()
        found = self.registered.answer(requests)
        self.query.seconds += perf_counter() - began
        return found

    def columns(self, requests: Requests, wanted: Sequence[tuple[bool, int]]) -> Sequence[pa.Array | pa.ChunkedArray]:
        """The columns of the answer of one request."""
        began = perf_counter()
        found = self.registered.columns(requests, wanted)
        self.query.seconds += perf_counter() - began
        return found

    def parts(self, requests: Requests) -> pa.Table:
        """What the rows of this pipeline add to the answers."""
        began = perf_counter()
        found = self.registered.parts(requests)
        self.query.seconds += perf_counter() - began
        return found

    def answered_here(self, requests: Requests) -> Ints:
        """The numbers of the requests for which this pipeline may have rows: others fix the whole key, and it is sent
        elsewhere."""
        whole = (1 << len(self.template.keys)) - 1
        here = self.kind.pipeline.routes.here(self.template, requests.keys)
        if here is None:
            return np.arange(requests.count)
        asks = here | (requests.fixed != whole)
        probes = np.bincount(requests.request, minlength=requests.count)
        found: Ints = np.flatnonzero(
            (np.bincount(requests.request[asks], minlength=requests.count) > 0) | (probes == 0)
        )
        return found

    def read_by(self, reader: str, upto: int | None) -> None:
        """A stream of requests has been answered below an instant; None: it reads no longer."""
        if upto is None:
            self.readers.pop(reader, None)
            self._close_if_unread()
        else:
            self.readers[reader] = upto
        self._keep()

    def wait(self, token: str, instant: int | None) -> None:
        """A request waits for a later instant, whose rows are kept for it; None: it waits no longer."""
        if instant is None:
            self.waiting.pop(token, None)
        else:
            self.waiting[token] = min(instant, self.waiting.get(token, instant))
        self._keep()

    def _keep(self) -> None:
        self.registered.port.behind = min((*self.readers.values(), *self.waiting.values()), default=None)

    def oldest(self, window: Range | Rows) -> int | None:
        """The oldest instant that can still be requested with a window; None: every instant."""
        if self.frontier is None:
            return None
        # Rows are kept for the whole window of the template: a shorter one of the same instant reaches less far back.
        spare = window_size(self.template.window) - window_size(window) if isinstance(window, Range) else 0
        found = min((self.frontier - 1 - self.template.history, *self.waiting.values()))
        return (found if self.kept_from is None else max(found, self.kept_from)) - spare

    # -- an epoch

    def advance(self, end: EpochEnd, outcome: Outcome) -> None:
        self.frontier = end.frontier
        self.registered.after_epoch()

    def held(self) -> tuple[int, int]:
        return 0, self.registered.nbytes

    def in_portions(self, rows: int) -> bool:
        return True

    # -- snapshots and figures

    def snapshot(self) -> dict[str, tuple[object, Blocks]]:
        known = {"frontier": self.frontier, "history": self.template.history, "kept_from": self.kept_from}
        return {self.query.name: ({**self.registered.saved(), **known}, {})}

    def restore(self, states: Mapping[str, object], load: Load) -> None:
        saved: dict[str, Any] = dict(states[self.query.name])  # type: ignore[call-overload]
        self.frontier = saved["frontier"]
        # Checkpoints of earlier versions do not have how long rows were kept.
        self.kept_from = saved.get("kept_from")
        history = saved.get("history", self.template.history)
        if self.frontier is not None and history < self.template.history:
            oldest = self.frontier - 1 - history
            self.kept_from = oldest if self.kept_from is None else max(self.kept_from, oldest)
        self.registered.restore(saved)

    def report(self) -> UnitFigures:
        registered = self.registered
        return UnitFigures(
            operators={
                self.name: {
                    "rows_in": registered.visits.rows,
                    "rows_out": registered.answered,
                    "seconds": self.query.seconds,
                }
            },
            own={"templates": {self.template.name: {"index": self._index_text(), "answered": registered.answered}}},
        )

    def _index_text(self) -> str:
        """The index that requests use now: address bits of each column, or its kind."""
        bits = self.registered.address_bits
        if bits is not None:
            return "+".join(map(str, bits)) + " bits"
        return self.template.index if self.registered.index is not None else "scan"


def figures_together(
    a: Mapping[str, Mapping[str, Any]], b: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The templates of two shards: each tunes its own index, and answers its part of every request."""
    found = {name: dict(figures) for name, figures in a.items()}
    for name, figures in b.items():
        mine = found.setdefault(name, dict(figures))
        if mine["index"] != figures["index"] and figures["index"] not in mine["index"].split(", "):
            mine["index"] = f"{mine['index']}, {figures['index']}"
        mine["answered"] = max(mine["answered"], figures["answered"])
    return found


class TemplateKind(QueryKind[TemplateUnit]):
    """Its units have the names of their templates."""

    figures: ClassVar = {"templates": figures_together}

    def serves(self, query: BoundQuery, start: int) -> bool:
        return isinstance(query, BoundTemplate)

    def register(self, query: BoundQuery, start: int, slot: int | None) -> TemplateQuery:
        unit = self.units[query.name] = TemplateUnit(self, query, start)
        return unit.query

    def unit(self, name: str) -> TemplateUnit:
        found = self.units.get(name)
        if found is None:
            raise Fault(f"no template {name} stands")
        return found
