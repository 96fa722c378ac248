"""Queries that are equal to one that is registered already: its results are theirs, and nothing is computed twice.

Answer   `s JOIN LATEST q` reads the changes of q. Where q itself is registered in the job since the same instant, the maker of
         these changes is a *copy*: `CopyUnit.advance` takes the results of the epoch from the query that computes them,
         the *original*.

             q: GROUP BY … EMIT EVERY 10 SECONDS ─┬─► results of q
                                                  └─► copy _r-1 ─► changes ─► r: s JOIN LATEST q

State    None of its own: a snapshot has the name of the original. When the original goes, its oldest copy becomes
         the original, and the leaver's outstanding results come from it.
Limits   Aggregates with EMIT EVERY, of which one feeds a stream of changes: equal texts, settings, starts, and on
         shards equal routes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline.model.query import BoundQuery
from eddyline.operators.project import result_schema
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.registered.aggregate import AggregateQuery
from eddyline.runtime.engine.registered.base import RegisteredBase
from eddyline.runtime.engine.unit import EpochEnd, StreamsEnd
from eddyline.runtime.engine.units.base import QueryKind, UnitBase
from eddyline.runtime.engine.units.joins import JoinKind, JoinUnit, partition_state, until
from eddyline.state.blocks import Blocks

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline


class CopiedQuery(RegisteredBase):
    def __init__(self, query: BoundQuery, unit: CopyUnit, start: int) -> None:
        super().__init__(query, unit, -1, start)
        self.copy_unit = unit
        self.stop: int | None = None
        self.results = 0

    @property
    def schema(self) -> pa.Schema:
        *outputs, time = result_schema(self.query.outputs)
        return pa.schema([*outputs, ("_op", pa.string()), time])

    @property
    def rows_in(self) -> int:
        return self.results

    def plan(self, pipeline: Pipeline | None = None) -> str:
        return f"query: {self.name}\nresults of query {self.copy_unit.original}, which is equal to it"


class CopyUnit(UnitBase):
    def __init__(self, kind: CopyKind, query: BoundQuery, start: int, original: str) -> None:
        self.kind = kind
        self.name = f"copy {query.name}"
        self.streams = frozenset(reference.source for reference in query.streams)
        self.original = original
        self.registered = CopiedQuery(query, self, start)

    @property
    def queries(self) -> Mapping[str, CopiedQuery]:
        return {self.registered.name: self.registered}

    def leave(self, name: str) -> None:
        del self.kind.units[name]

    def advance(self, end: EpochEnd, outcome: Outcome) -> None:
        made, registered = list(outcome.results[self.original]), self.registered
        made = made if registered.stop is None else until(registered.stop, made)
        registered.results += sum(len(table) for table in made)
        outcome.results[registered.name].extend(made)

    def end(self, end: StreamsEnd, outcome: Outcome) -> None:
        original, registered = self.kind.pipeline.queries[self.original], self.registered
        assert isinstance(original, AggregateQuery)
        made = original.at_end
        if registered.query.feeds is not None:
            made = [*made, *original.beyond(self.kind.pipeline.issues, end.came)]
        made = made if registered.stop is None else until(registered.stop, made)
        registered.results += sum(len(table) for table in made)
        outcome.results[registered.name].extend(made)

    def in_portions(self, rows: int) -> bool:
        return True

    def snapshot(self) -> dict[str, tuple[object, Blocks]]:
        return {self.registered.name: ({"copy": self.original}, {})}


class CopyKind(QueryKind[CopyUnit]):
    #: A copy takes what its original has made.
    runs_last = True

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        #: Of a pipeline that is being restored: what was saved of its queries.
        self._saved: Mapping[str, Mapping[str, Any]] = {}

    def before_restore(self, saved: Mapping[str, Mapping[str, Any]]) -> None:
        self._saved = saved

    def after_restore(self) -> None:
        self._saved = {}

    def serves(self, query: BoundQuery, start: int) -> bool:
        return self._original_of(query, start) is not None

    def _original_of(self, query: BoundQuery, start: int) -> str | None:
        """The query whose results are those of a query that begins at `start`; None: it computes them itself."""
        if query.name in self._saved:
            state = self._saved[query.name]["state"]
            found = state.get("copy") if isinstance(state, Mapping) else None
            return None if found is None else str(found)
        if not _has_table(query):
            return None
        for registered in self.pipeline.queries.values():
            if (
                isinstance(registered, AggregateQuery)
                and registered.start == start
                and registered.stop is None
                and registered.name not in self._saved
            ):
                other = registered.query
                if (
                    (query.feeds is not None or other.feeds is not None)
                    and _plain(query) == _plain(other)
                    and self._is_routed_alike(query, other)
                ):
                    return registered.name
        return None

    def _is_routed_alike(self, one: BoundQuery, other: BoundQuery) -> bool:
        joins = self.pipeline.kinds.one(JoinKind)
        return joins.lowered(one).signature == joins.lowered(other).signature

    def register(self, query: BoundQuery, start: int, slot: int | None) -> CopiedQuery:
        original = self._original_of(query, start)
        assert original is not None
        unit = self.units[query.name] = CopyUnit(self, query, start, original)
        return unit.registered

    def before_drop(self, name: str) -> None:
        """A query goes: if others are copies of it, the first of them takes its place."""
        copies = [unit for unit in self.units.values() if unit.original == name]
        original = self.pipeline.queries[name]
        if not copies or not isinstance(original, AggregateQuery):
            return
        heir, *others = copies
        unit = original.unit
        assert isinstance(unit, JoinUnit)
        leaving = self.units[name] = CopyUnit(self, original.query, original.start, heir.registered.name)
        leaving.registered.results = original.results
        self.pipeline.queries[name] = leaving.registered
        del self.units[heir.registered.name], unit.queries[name]
        original.query, original.name, original.results = (
            heir.registered.query,
            heir.registered.name,
            heir.registered.results,
        )
        unit.queries[original.name] = original
        self.pipeline.queries[original.name] = original
        unit.results.changed()
        for other in others:
            other.original = original.name

    @classmethod
    def pass_on(cls, header: dict[str, Any], here: Collection[str]) -> None:
        """Where a query that is gone has computed the results of a copy, the copy gets its state."""
        queries = header["queries"]
        originals = {
            name: saved["state"]["copy"] for name, saved in queries.items() if "copy" in (saved["state"] or {})
        }
        heirs: dict[str, str] = {}
        for name, original in originals.items():
            if name in here and original not in here:
                heir = heirs.setdefault(original, name)
                given = (
                    {key: queries[original][key] for key in ("slot", "state")}
                    if heir == name
                    else {"state": {"copy": heir}}
                )
                queries[name] = {**queries[name], **given}
        for store in header["stores"].values() if heirs else ():
            for members in store["lineage"].values():
                members[:] = [[heirs.get(query, query), reference, slot] for query, reference, slot in members]
        for original, heir in heirs.items():
            start = partition_state(original, "")
            saved = {n.removeprefix(start): state for n, state in header["units"].items() if n.startswith(start)}
            header["units"] |= {partition_state(heir, reference): state for reference, state in saved.items()}


def _has_table(query: BoundQuery) -> bool:
    """Whether a query is one that JOIN LATEST takes."""
    return query.is_aggregate and query.emit.kind == "every" and query.ranking is None and query.pattern is None


def _plain(query: BoundQuery) -> BoundQuery:
    """The query without its name and without what becomes of its results."""
    return replace(query, name="", text="", feeds=None, makers=())
