"""A standing outer, semi or anti join of two references.

Answer   Rows of the references that are kept wait until no partner can come: the frontier has passed their time plus their window, or the
         row that pushes them out. Those without a partner are results at that instant, with nulls for the other reference. A semi join
         gives a row with the combination that is its first.

             slice ─► pending rows        combinations ─► "has a partner", results        end of the epoch ─► rows without one

State    The rows that wait, with the columns that are selected of them; all of them are in every snapshot.
Limits   Results of an epoch come in no order of time: the derived stream that they feed has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.errors import Fault
from eddyline.model.expression import ColumnRef, conjunction
from eddyline.model.query import BoundQuery, Keeping
from eddyline.model.schema import ROW
from eddyline.model.window import Now, Range, Rows
from eddyline.operators.evaluate import Issues, compile_predicate
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.pending import Left, Pending
from eddyline.operators.stream import whole_columns
from eddyline.plan.lower import Lowered
from eddyline.runtime.standing import Released, SelectQuery
from eddyline.runtime.unit import Slice, Unit
from eddyline.state.columns import Ints


class KeepingQuery(SelectQuery):
    def __init__(self, query: BoundQuery, lowered: Lowered, unit: Unit, group: JoinGroup, slot: int, start: int) -> None:
        super().__init__(query, lowered, unit, group, slot, start)
        assert query.keeping is not None
        self.keeping: Keeping = query.keeping
        positions = [lowered.aliases.index(alias) for alias in self.keeping.aliases]
        gives = self.keeping.kind != "semi"
        #: Position -> its rows that may still find a partner.
        self.pending = {p: Pending(tuple(dict.fromkeys(self._selected(p))) if gives else ()) for p in positions}
        self._condition = compile_predicate(conjunction(self.keeping.conditions)) if self.keeping.conditions else None
        self.watch = self._see
        self._run, self._version = uuid4().hex[:8], 0

    def _selected(self, position: int) -> list[str]:
        """The columns of a reference that are selected."""
        found = [o.expression for o in self.lowered.outputs]
        return [e.column for e in found if isinstance(e, ColumnRef) and e.ref == position]

    # -- a slice

    def _see(self, part: Slice) -> None:
        for position, pending in self.pending.items():
            source = self.lowered.seats[position].source
            if source not in part.tables:
                continue
            chosen = self._chosen(position, part, source)
            table, ts, ranks, numbers = part.tables[source], part.ts[source], part.ranks[source], part.numbers[source]
            if ROW in pending.columns:
                table = table.append_column(ROW, pa.array(part.arrival[source]))
            if chosen is not None:
                table, ts, ranks, numbers = table.take(pa.array(chosen)), ts[chosen], ranks[chosen], numbers[chosen]
            pending.append(table, ts, ranks, numbers)

    def _chosen(self, position: int, part: Slice, source: str) -> Ints | None:
        """The rows of a slice that the query wants of a reference; None: all."""
        ts, routes, route = part.ts[source], part.routes[source], self.group.bases[position].port.route
        wanted = ts > self.start
        if routes is not None and route is not None:
            wanted &= (routes >> np.uint64(route)) & np.uint64(1) != 0
        if self._condition is not None:
            columns = whole_columns(part.tables[source])
            here = {(alias, name): columns[name] for alias, name in self._condition.columns}
            wanted &= self._condition(here, len(ts))
        return None if wanted.all() else np.flatnonzero(wanted)

    def accept(self, rows: Combinations, issues: Issues) -> list[pa.Table]:
        rows = self.mine(rows)
        if not len(rows):
            return []
        new = np.zeros(len(rows), np.bool_)
        for position, pending in self.pending.items():
            base = self.bases[position]
            ranks = base.store.at(base.order, rows.ids[position])
            firsts = np.sort(np.unique(ranks, return_index=True)[1])
            new[firsts[pending.meet(ranks[firsts])]] = True
        if self.keeping.kind == "anti":
            self.rows_in += len(rows)
            return []
        return super().accept(rows if self.keeping.kind == "outer" else rows.take(new), issues)

    # -- the end of an epoch

    def advance(self, frontier: int, closing: bool, issues: Issues, released: Released) -> list[pa.Table]:
        made = []
        for position, pending in self.pending.items():
            count, instants = self._certain(position, pending, frontier, released)
            left = pending.take(count)
            if self.keeping.kind != "semi" and len(left.ts):
                made.append(self._alone(position, left, instants(left)))
        self.results += sum(len(table) for table in made)
        self._version += 1
        return made

    def _certain(self, position: int, pending: Pending, frontier: int, released: Released) -> tuple[int, Callable[[Left], Ints]]:
        """How many of the oldest rows can find no partner any more, and since when."""
        window = self.lowered.windows[position]
        if isinstance(window, Rows) and len(self.lowered.moving) > 1:
            before, times = released(self.lowered.seats[position].source)
            count = int(np.searchsorted(pending.number, before + len(times) - window.count))
            pushing = window.count - before
            return count, lambda left: times[np.maximum(left.number + pushing, 0)]
        span = 0
        if isinstance(window, Range) and len(self.lowered.moving) > 1:
            span = window.micros
        elif not isinstance(window, Now) and len(self.lowered.moving) > 1:
            if self.keeping.kind != "semi":
                raise Fault(f"query {self.name} waits for partners for ever", detail=f"{self.lowered.aliases[position]} is [{window}]")
            return 0, lambda left: left.ts
        return int(np.searchsorted(pending.ts, frontier - span)), lambda left: left.ts + span

    def _alone(self, position: int, left: Left, instants: Ints) -> pa.Table:
        """Rows without a partner as results."""
        arrays = []
        for output in self.lowered.outputs:
            e = output.expression
            mine = isinstance(e, ColumnRef) and e.ref == position
            if mine:
                assert left.table is not None and isinstance(e, ColumnRef)
                arrays.append(left.table.column(e.column).combine_chunks())
            else:
                arrays.append(pa.nulls(len(left.ts), output.type.arrow))
        return pa.table([*arrays, pa.array(instants).cast(pa.timestamp("us"))], schema=self.schema)

    # -- snapshots

    def snapshot(self) -> tuple[object, dict[str, Callable[[], pa.Table]]]:
        # A name of its own for every state: a block that exists under its name is not written again.
        name = f"pending-{blake2b(self.name.encode(), digest_size=5).hexdigest()}-{self._run}-v{self._version}"
        names = {position: f"{name}-{position}" for position in self.pending}
        blocks: dict[str, Callable[[], pa.Table]] = {names[p]: partial(_same, pending.saved()) for p, pending in self.pending.items()}
        return {"pending": list(names.values())}, blocks

    def restore(self, state: object, load: Callable[[str], pa.Table]) -> None:
        assert isinstance(state, Mapping)
        for name, pending in zip(state["pending"], self.pending.values(), strict=True):
            pending.restore(load(name))


def _same(table: pa.Table) -> pa.Table:
    return table
