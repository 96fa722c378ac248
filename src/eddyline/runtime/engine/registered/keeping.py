"""A registered outer, semi or anti join of two references.

Answer   Rows of the references that are kept wait until no partner can come: the frontier has passed their time plus
         their window, the row that pushes them out, or a punctuation that closes their partners. Those without a
         partner are results at that instant, with nulls for the other reference. A semi join gives a row with the
         combination that is its first.

             slice             ─►  pending rows
             combinations      ─►  "has a partner", results
             end of the epoch  ─►  rows without a partner

State    The rows that wait, with the columns that are selected of them; a snapshot writes those that are new.
Limits   Results of an epoch come in no order of time: the derived stream that they feed has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.model.expressions.expression import ColumnRef, columns_of, conjunction
from eddyline.model.query import Keeping
from eddyline.model.schema import ROW
from eddyline.model.window import FOREVER, Now, PartitionedRows, Range, Rows
from eddyline.operators.aggregate.pushed import PushedOut
from eddyline.operators.expressions.evaluate import Issues, compile_expression, compile_predicate
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.pending import Left, PendingRows
from eddyline.operators.promises.closed import LONG_AGO
from eddyline.operators.promises.closings import Closings
from eddyline.operators.promises.covering import there
from eddyline.operators.stream.stream import whole_columns
from eddyline.runtime.engine.registered.query import Registration, Released, SelectQuery
from eddyline.runtime.engine.unit import Slice
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

_NONE: Ints = np.empty(0, np.int64)


class KeepingQuery(SelectQuery):
    advances = True

    def __init__(self, given: Registration) -> None:
        super().__init__(given)
        # Which rows have found a partner is seen in the combinations.
        self.reads = None
        query, lowered, group, closings = given.query, given.lowered, given.group, given.closings
        assert query.keeping is not None
        self.keeping: Keeping = query.keeping
        positions = [lowered.aliases.index(alias) for alias in self.keeping.aliases]
        gives = self.keeping.kind != "semi"
        #: Position -> its rows that may still find a partner.
        self.partners: dict[int, Partners] = {}
        if closings is not None and len(lowered.moving) == len(lowered.seats) == 2:
            self.partners = {
                p: Partners(group, closings, p) for p in positions if lowered.aliases[p] in self.keeping.closed
            }
        wanted = {p: [*self._selected(p)] if gives else [] for p in positions}
        self.pending = {
            p: PendingRows(
                tuple(dict.fromkeys([*wanted[p], *(self.partners[p].columns if p in self.partners else ())]))
            )
            for p in positions
        }
        #: Position -> the rows that later rows push out of their partition.
        self.pushed: dict[int, PushedOut] = {}
        for position in positions:
            window, types = lowered.windows[position], group.bases[position].stream.types
            if isinstance(window, PartitionedRows) and len(lowered.moving) > 1:
                self.pushed[position] = PushedOut(
                    window.columns, [types[name] for name in window.columns], window.count
                )
        # Punctuations take effect at the end of an epoch, at instants within it.
        self.advances_within = not self.partners
        self._condition = compile_predicate(conjunction(self.keeping.conditions)) if self.keeping.conditions else None
        self.watch = self._see
        #: Begins the names of all blocks.
        self._name = f"pending-{blake2b(self.name.encode(), digest_size=5).hexdigest()}-{uuid4().hex[:8]}"

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
            if position in self.pushed:
                self.pushed[position].add(part.tables[source], part.ts[source], part.arrival[source])
            chosen = self._chosen(position, part, source)
            table, ts, ranks, numbers = part.tables[source], part.ts[source], part.ranks[source], part.numbers[source]
            arrival = part.arrival[source]
            if ROW in pending.columns:
                table = table.append_column(ROW, pa.array(part.arrival[source]))
            if chosen is not None:
                table, ts, ranks, numbers = table.take(pa.array(chosen)), ts[chosen], ranks[chosen], numbers[chosen]
                arrival = arrival[chosen]
            pending.append(table, ts, ranks, numbers, arrival)

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

    @property
    def left_open(self) -> int:
        return 0 if self.keeping.kind == "semi" else sum(pending.alone for pending in self.pending.values())

    # -- the end of an epoch

    def advance(self, frontier: int, closing: bool, issues: Issues, released: Released) -> list[pa.Table]:
        made = []
        for position, pending in self.pending.items():
            left, instants = self._early(position, pending, frontier, released)
            if self.keeping.kind != "semi" and len(left.ts):
                made.append(self._alone(position, left, instants))
            count, later = self._certain(position, pending, frontier, released)
            left = pending.take(count)
            if self.keeping.kind != "semi" and len(left.ts):
                made.append(self._alone(position, left, later(left)))
            if position in self.partners:
                self.partners[position].seen = len(pending)
        self.results += sum(len(table) for table in made)
        return made

    def end(self, now: int, issues: Issues, released: Released) -> list[pa.Table]:
        """The rows that wait find no partner any more."""
        made = []
        for position, pending in self.pending.items():
            window = self.lowered.windows[position]
            if isinstance(window, Rows | PartitionedRows):
                due = np.full(len(pending), now)
            else:
                due = pending.ts + window.micros if isinstance(window, Range) else np.full(len(pending), FOREVER)
            if position in self.partners:
                closed = self.partners[position].closed(pending, is_end=True)
                due = np.minimum(due, np.maximum(closed, pending.ts))
            left, alone = pending.remove(np.flatnonzero(due < FOREVER))
            if self.keeping.kind != "semi" and len(left.ts):
                made.append(self._alone(position, left, due[alone]))
        self.results += sum(len(table) for table in made)
        return made

    def _early(self, position: int, pending: PendingRows, frontier: int, released: Released) -> tuple[Left, Ints]:
        """Rows that leave before the oldest ones: their partners were closed, or later rows of their partition pushed
        them out."""
        partners = self.partners.get(position)
        is_closed = partners is not None and partners.is_due(len(pending))
        names, times = self._pushed_out(position, frontier)
        if not is_closed and not len(names):
            return Left(None, _NONE, _NONE), _NONE
        due = np.full(len(pending), FOREVER)
        if partners is not None and is_closed:
            due = np.maximum(partners.closed(pending), pending.ts)
        if len(names):
            at = np.minimum(np.searchsorted(names, pending.arrival), len(names) - 1)
            out = names[at] == pending.arrival
            due[out] = np.minimum(due[out], times[at[out]])
        # A window that ends before decides.
        window = self.lowered.windows[position]
        if isinstance(window, Range | Now):
            due[due > pending.ts + (window.micros if isinstance(window, Range) else 0)] = FOREVER
        elif isinstance(window, Rows):
            before, times = released(self.lowered.seats[position].source)
            pusher = pending.number + window.count - before
            there = np.flatnonzero(pusher < len(times))
            due[there[due[there] > times[np.maximum(pusher[there], 0)]]] = FOREVER
        places = np.flatnonzero(due < frontier)
        if not len(places):
            return Left(None, places, places), places
        left, alone = pending.remove(places)
        return left, due[alone]

    def _pushed_out(self, position: int, frontier: int) -> tuple[Ints, Ints]:
        """The rows that later rows of their partition have pushed out, by their numbers of arrival, and when."""
        pushed = self.pushed.get(position)
        if pushed is None:
            return _NONE, _NONE
        found = pushed.out(frontier - 1)
        pushed.forget(frontier - 1)
        return found

    def _certain(
        self, position: int, pending: PendingRows, frontier: int, released: Released
    ) -> tuple[int, Callable[[Left], Ints]]:
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

    def snapshot(self) -> tuple[object, Blocks]:
        pending = {str(p): rows.snapshot(f"{self._name}-{p}") for p, rows in self.pending.items()}
        pushed = {str(p): rows.snapshot(f"{self._name}-{p}-pushed") for p, rows in self.pushed.items()}
        blocks: Blocks = {}
        for _, made in (*pending.values(), *pushed.values()):
            blocks |= made
        return {
            "waits": self._name,
            "pending": {position: saved for position, (saved, _) in pending.items()},
            "pushed": {position: saved for position, (saved, _) in pushed.items()},
        }, blocks

    def restore(self, state: object, load: Load) -> None:
        assert isinstance(state, Mapping)
        for position, pending in self.pending.items():
            pending.restore(state["pending"][str(position)], load)
            if position in self.partners:
                self.partners[position].seen = len(pending)
        for position, pushed in self.pushed.items():
            pushed.restore(state["pushed"][str(position)], load)


class Partners:
    """When punctuations have closed the partners of rows of one of two references."""

    def __init__(self, group: JoinGroup, closings: Closings, position: int) -> None:
        # What only some queries need is loaded with the first of them.
        from eddyline.operators.join.punctuations.alive import JoinShape

        self.rule, self.closings = JoinShape(group, closings), closings
        self.links = self.rule.links[position]
        self.source = group.bases[1 - position].port.source
        keys = {key.name: key.expression for key in group.config.seats[position].keys}
        self.keys = {
            key_name: (keys[key_name], compile_expression(keys[key_name]))
            for link in self.links
            for key_name in link.keys
        }
        self.columns = sorted({str(name) for e, _ in self.keys.values() for _, name in columns_of(e)})
        #: How many of the oldest rows have been tested.
        self.seen = 0

    def is_due(self, rows: int) -> bool:
        """Whether there are rows or punctuations that have not been tested."""
        closed = self.closings.closed.get(self.source)
        return bool(self.links) and (rows > self.seen or (closed is not None and bool(closed.fresh)))

    def closed(self, pending: PendingRows, is_end: bool = False) -> Ints:
        """When the partners of each row were closed, LONG_AGO where a key is null, which nothing equals; FOREVER: they
        are not, or it is
        known."""
        found = np.full(len(pending), FOREVER)
        closed = self.closings.closed.get(self.source)
        first = 0 if is_end or (closed is not None and closed.fresh) else self.seen
        table = pending.payload(first)
        if table is None:
            return found
        columns = {}
        without = np.zeros(len(table), np.bool_)
        for link in self.links:
            for pin, key_name in zip(link.pins, link.keys, strict=True):
                e, compiled = self.keys[key_name]
                here = {(ref, name): table.column(name).combine_chunks() for ref, name in columns_of(e)}
                values = compiled(here, len(table))
                without |= ~there(values)
                if pin.column is not None and pin.turned is not None:
                    columns[pin.column] = pin.turned(values)
        if closed is not None and not closed.is_empty:
            self.rule.reload()
            found[first:] = closed.instants(columns, len(table), self.rule.regions[self.links[0].child])
        found[first:][without] = LONG_AGO
        return found
