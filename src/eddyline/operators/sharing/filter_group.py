"""All queries that only filter and project one stream, answered together.

Answer   `match` takes new rows of the stream in total order and gives *bundles*. A bundle has the results of all
         queries with one SELECT list as one table, by query and within a query in total order, with the cuts between
         the queries.

             rows ─► grouped filter ─► (slot, row) pairs ─► starts, stops, routes ─► one table per SELECT list

State    The grouped filter, and per slot: name, start, stop, route, SELECT list, how many results there were.
         No row is kept: a row is its own newest row, so it is in every window when it comes and never again.
Limits   Cost grows with rows and matches. A query without matches costs nothing in Python. One with matches costs a
         slice of a table, and only where the driver separates its results from those of other queries.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.expressions.expression import Expression
from eddyline.model.query import OutputColumn
from eddyline.operators.expressions.evaluate import Compiled, Issues, compile_expression
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.sharing.grouped_filter import GroupedFilter
from eddyline.operators.worth import Worth
from eddyline.state.columns import Ints
from eddyline.state.runs import run_begins
from eddyline.tuning import SharingTuning

#: The end of time: the stop of a query that has not been dropped.
_NEVER = np.iinfo(np.int64).max
#: The arrays by slot, and what a free slot has there.
_FILLS = {"_starts": LONG_AGO, "_stops": _NEVER, "_routes": -1, "_lists": -1, "counts": 0}


@dataclass(frozen=True, slots=True)
class Bundle:
    """Results of many queries in one table: those of `names[slots[i]]` are rows `edges[i]` to `edges[i + 1] - 1`."""

    table: pa.Table
    slots: Ints
    edges: Ints
    #: The queries' names by slot.
    names: pa.Array
    #: Of each result, which of the rows that were matched it is; None: it is not known.
    rows: Ints | None = None

    def pieces(self) -> Iterator[tuple[str, pa.Table]]:
        """The results query by query, without a copy."""
        cuts = self.edges.tolist()
        for name, first, stop in zip(self.names.take(pa.array(self.slots)).to_pylist(), cuts, cuts[1:], strict=False):
            yield name, self.table.slice(first, stop - first)

    def queries(self) -> pa.Array:
        """Per row the name of its query."""
        return self.names.take(pa.array(np.repeat(self.slots, np.diff(self.edges))))


class RowProjection:
    """A SELECT list over one stream, computed for the matched rows of all queries that have it."""

    def __init__(self, outputs: tuple[OutputColumn, ...]) -> None:
        self.schema = pa.schema([(o.name, o.type.arrow) for o in outputs] + [("_ts", TIMESTAMP.arrow)])
        self._compiled: list[Compiled] = [compile_expression(o.expression) for o in outputs]
        self._columns = sorted({at for compiled in self._compiled for at in compiled.columns})

    def table(self, columns: Mapping[str, pa.Array], ts: Ints, rows: Ints, issues: Issues | None) -> pa.Table:
        places = None
        if len(rows) > len(ts):
            # Rows that several queries want are computed once and then handed to each.
            rows, places = np.unique(rows, return_inverse=True)
        if len(rows) == len(ts) and (rows == np.arange(len(ts))).all():
            # All rows, in their order: no column is copied.
            here = {at: columns[at[1]] for at in self._columns}
        else:
            taken = pa.array(rows)
            here, ts = {at: columns[at[1]].take(taken) for at in self._columns}, ts[rows]
        arrays = [compiled(here, len(rows), issues) for compiled in self._compiled]
        arrays.append(pa.array(ts).cast(TIMESTAMP.arrow))
        made = pa.Table.from_arrays(arrays, schema=self.schema)
        return made if places is None else made.take(pa.array(places)).combine_chunks()


class FilterGroup:
    def __init__(
        self,
        stream: str,
        issues: Issues | None = None,
        tuning: SharingTuning | None = None,
        sorts_out: bool = True,
        worth: Worth | None = None,
    ) -> None:
        self.stream = stream
        #: As the join groups have it: the only reference.
        self.tree = 0
        self.issues = issues
        self.filter = GroupedFilter(issues, tuning, sorts_out, worth)
        self.slots: dict[str, int] = {}
        self._names: list[str] = []
        self._free: list[int] = []
        self._starts, self._stops, self._routes, self._lists = (np.empty(0, np.int64) for _ in range(4))
        #: Results so far, by slot.
        self.counts = np.empty(0, np.int64)
        self._projections: dict[tuple[OutputColumn, ...], int] = {}
        self._by_number: dict[int, RowProjection] = {}
        self._uses: dict[int, int] = {}
        self._next_list = 0
        self._name_array: pa.Array | None = None
        self._latest_start = LONG_AGO
        self.rows_in = 0
        self.rows_out = 0
        self.seconds = 0.0

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def nbytes(self) -> int:
        """Bytes of filter and router, without names and expressions."""
        return self.filter.nbytes + sum(getattr(self, name).nbytes for name in _FILLS)

    # -- members

    def free_slot(self) -> int:
        while self._free and self._free[0] in self.filter:
            heapq.heappop(self._free)
        return self._free[0] if self._free else len(self._names)

    def add(
        self,
        slot: int,
        name: str,
        predicate: Expression | None,
        outputs: tuple[OutputColumn, ...],
        start: int,
        route: int | None,
    ) -> RowProjection:
        """A query joins; rows at or before `start` do not exist for it."""
        self._reserve(slot + 1)
        self.filter.add(slot, predicate, self.tree)
        self.slots[name] = slot
        self._names[slot] = name
        number = self._projections.get(outputs)
        if number is None:
            number = self._projections[outputs] = self._next_list
            self._by_number[number] = RowProjection(outputs)
            self._next_list += 1
        self._uses[number] = self._uses.get(number, 0) + 1
        self._starts[slot], self._stops[slot], self._lists[slot], self.counts[slot] = start, _NEVER, number, 0
        self._routes[slot] = -1 if route is None else route
        self._latest_start = max(self._latest_start, start)
        self._name_array = None
        return self._by_number[number]

    def stop(self, name: str, stop: int) -> None:
        """Rows after `stop` do not exist for the query any more."""
        self._stops[self.slots[name]] = stop

    def remove(self, name: str) -> None:
        slot = self.slots.pop(name)
        self.filter.remove(slot)
        number = int(self._lists[slot])
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number], self._by_number[number]
            self._projections = {outputs: n for outputs, n in self._projections.items() if n != number}
        self._stops[slot], self._routes[slot] = _NEVER, -1
        self._names[slot] = ""
        self._name_array = None
        heapq.heappush(self._free, slot)

    def _reserve(self, size: int) -> None:
        known = len(self._names)
        if size <= known:
            return
        for slot in range(known, size - 1):
            heapq.heappush(self._free, slot)
        self._names += [""] * (size - known)
        if size > len(self._starts):
            room = max(16, size + size // 2)
            for attribute, fill in _FILLS.items():
                old = getattr(self, attribute)
                new = np.full(room, fill, np.int64)
                new[: len(old)] = old
                setattr(self, attribute, new)

    # -- rows

    def match(self, columns: Mapping[str, pa.Array], ts: Ints, routes: npt.NDArray[np.uint64] | None) -> list[Bundle]:
        """The results of new rows, which come in total order."""
        self.rows_in += len(ts)
        slots, rows = self.filter.match_pairs(columns, len(ts))
        keep = self._kept(slots, rows, ts, routes)
        if keep is not None:
            slots, rows = slots[keep], rows[keep]
        if not len(slots):
            return []
        self.rows_out += len(slots)
        edges = np.append(np.flatnonzero(run_begins(slots)), len(slots))
        present = slots[edges[:-1]]
        self.counts[present] += np.diff(edges)
        if self._name_array is None:
            self._name_array = pa.array(self._names, pa.string())
        lists = self._lists[present]
        if (lists == lists[0]).all():
            table = self._by_number[int(lists[0])].table(columns, ts, rows, self.issues)
            return [Bundle(table, present, edges, self._name_array, rows)]
        return list(self._by_list(columns, ts, rows, present, edges, lists))

    def _by_list(
        self, columns: Mapping[str, pa.Array], ts: Ints, rows: Ints, present: Ints, edges: Ints, lists: Ints
    ) -> Iterator[Bundle]:
        assert self._name_array is not None
        counts = np.diff(edges)
        row_lists = np.repeat(lists, counts)
        for number in np.unique(lists).tolist():
            mine = lists == number
            cuts = np.concatenate(([0], np.cumsum(counts[mine])))
            chosen = rows[row_lists == number]
            table = self._by_number[number].table(columns, ts, chosen, self.issues)
            yield Bundle(table, present[mine], cuts, self._name_array, chosen)

    def _kept(
        self, slots: Ints, rows: Ints, ts: Ints, routes: npt.NDArray[np.uint64] | None
    ) -> npt.NDArray[np.bool_] | None:
        """Which pairs lie within the starts, stops and routes of their queries; None: all."""
        if not len(slots):
            return None
        keep: npt.NDArray[np.bool_] | None = None
        if int(ts[0]) <= self._latest_start:
            keep = ts[rows] > self._starts[slots]
        stops = self._stops[: len(self._names)]
        if len(stops) and int(stops.min()) < _NEVER:
            on = ts[rows] <= self._stops[slots]
            keep = on if keep is None else keep & on
        if routes is not None:
            route = self._routes[slots]
            sent = (route < 0) | ((routes[rows] >> np.maximum(route, 0).astype(np.uint64)) & np.uint64(1) != 0)
            keep = sent if keep is None else keep & sent
        return keep
