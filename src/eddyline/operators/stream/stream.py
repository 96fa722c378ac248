"""A stream (or static table) as the joins see it: one store, its keys, the timelines that read it, and their ports.

Answer   `admit` stores the rows that at least one port wants, `take` gives a timeline the ids of rows that it has
         reached. All queries over the stream share this one store, whatever other streams they read; it is sized by
         what any of them still needs.
State    Payload that a query reads; columns `ts`, `arrival` (number of arrival), one per join key, one per
         composite key, one of lineage per port, and those of each read position (`reading.py`).
Limits   Rows come in the order of the stream; the caller has sorted them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.kernels import order as order_kernels
from eddyline.model.datatypes import BIGINT, DataType
from eddyline.model.expressions.expression import ColumnKey
from eddyline.model.joining import JoinKeyColumn
from eddyline.model.schema import ROW
from eddyline.model.window import FOREVER
from eddyline.operators.expressions.evaluate import Columns, compile_expression
from eddyline.operators.join.combination import LineageBits, any_bit
from eddyline.operators.join.port import NewRows, Port
from eddyline.operators.stream.keys import combined, keys_of
from eddyline.operators.stream.reading import BEFORE, UNREAD, ReadPosition
from eddyline.state.columns import Ints, validity
from eddyline.state.renumbering import Renumbering
from eddyline.state.store import Store
from eddyline.tuning import ZoneTuning

#: A sweep over all rows is not worth its cost for fewer rows.
_FEW = 64
#: The event time under which rows of a static table are stored: never out of any window.
ALWAYS = FOREVER


class Computed(Protocol):
    """A function of columns, such as a compiled expression."""

    @property
    def columns(self) -> tuple[ColumnKey, ...]: ...

    def __call__(self, columns: Columns, rows: int) -> pa.Array: ...


class StreamState:
    def __init__(
        self, name: str, types: Mapping[str, DataType], is_table: bool = False, zones: ZoneTuning | None = None
    ) -> None:
        self.name = name
        self.types = dict(types)
        self.is_table = is_table
        #: Of a table: whether it is read again now and then.
        self.changes = False
        self.store = Store(name, zones=zones)
        self.store.add_column("ts", np.int64)
        self.store.add_column("arrival", np.int64)
        self.keys: dict[str, tuple[Computed, DataType]] = {}
        self.composites: dict[str, tuple[str, ...]] = {}
        self.ports: list[Port] = []
        #: Rows that one port has released and another still wanted, since the last sweep over all rows.
        self._kept = 0
        #: By the name of the timeline.
        self.readers: dict[str, ReadPosition] = {}
        self.peak = 0

    # -- what readers need

    def need_column(self, name: str) -> None:
        if name == ROW:
            self.types[ROW] = BIGINT
        self.store.add_payload(name, self.types[name])

    def reader(self, timeline: str) -> ReadPosition:
        """The position of a timeline in the store; it begins after the rows that are here."""
        if timeline not in self.readers:
            self.readers[timeline] = ReadPosition(timeline, self.store)
        return self.readers[timeline]

    def ports_of(self, reader: ReadPosition) -> list[Port]:
        return [port for port in self.ports if port.reader is reader]

    def leave(self, port: Port) -> None:
        """A port reads no longer; a position without ports goes."""
        self.ports.remove(port)
        # Another port may come under the same name: what it has not stored is not its lineage.
        self.store.columns.pop(port.lineage_column, None)
        if not self.ports_of(port.reader):
            self.readers.pop(port.reader.name, None)
            for name in port.reader.columns:
                del self.store.columns[name]

    def need_key(self, key: JoinKeyColumn) -> None:
        """Hold the key of every row; rows that are already here get theirs now."""
        if key.name not in self.keys:
            self.need_keys(key.name, compile_expression(key.expression), key.expression.type)

    def need_keys(self, name: str, compiled: Computed, kind: DataType) -> None:
        """Hold the keys of something that is computed from every row."""
        self.keys[name] = (compiled, kind)
        self.store.add_column(name, np.int64, derived=True)
        if self.store.extent:
            ids = np.arange(self.store.first, self.store.end)
            here = {at: self.store.gather(at[1], ids) for at in compiled.columns}
            self.store.column(name)[:] = keys_of(compiled(here, len(ids)), kind)

    def index_name(self, names: tuple[str, ...]) -> str:
        """The column that an index over one or several keys is built on."""
        return names[0] if len(names) == 1 else "hash:" + "+".join(names)

    def need_index(self, names: tuple[str, ...]) -> str:
        """An index over one or several keys; returns the column that it is built on."""
        name = self.index_name(names)
        if len(names) > 1 and name not in self.composites:
            self.composites[name] = names
            self.store.add_column(name, np.int64, derived=True)
            if self.store.extent:
                self.store.column(name)[:] = combined([self.store.column(m) for m in names])
        self.store.add_index(name)
        return name

    # -- rows

    def admit(
        self, table: pa.Table, ts: Ints, arrival: Ints, routes: npt.NDArray[np.uint64] | None, ranks: Ints | None = None
    ) -> int:
        """Store the rows that some port wants, at the end; returns the id of the first.

        Args:
            ranks: Places of the rows in the order of the timeline that takes them all now; None: several read the
            store.
        """
        rows = len(ts)
        columns = whole_columns(table)
        if ROW in self.store.payload:
            columns[ROW] = pa.array(arrival)
        keys, missing = self._key_columns(columns, rows)
        wanted = np.zeros(rows, np.bool_)
        lineages = []
        for port in self.ports:
            lineage = port.lineage(columns, ts, rows, routes, missing)
            lineages.append(lineage)
            mine = None if lineage is None else any_bit(lineage)
            port.count(rows, rows if mine is None else int(np.count_nonzero(mine)), routes)
            if ranks is not None and port.refuses is not None:
                mine, lineages[-1] = self._accepted(port, NewRows(keys, ts, ranks), mine, lineage)
            wanted |= True if mine is None else mine
        chosen = None if wanted.all() else np.flatnonzero(wanted)
        stored_columns: dict[str, npt.NDArray[np.generic]] = {"ts": ts, "arrival": arrival, **keys}
        for port, lineage in zip(self.ports, lineages, strict=True):
            stored = port.lineage_to_store(self, lineage, rows)
            if stored is not None:
                stored_columns[port.lineage_column] = stored
        if chosen is not None:
            rows = len(chosen)
            take = pa.array(chosen)
            columns = {name: columns[name].take(take) for name in self.store.payload}
            stored_columns = {name: values[chosen] for name, values in stored_columns.items()}
        for name, parts in self.composites.items():
            stored_columns[name] = combined([np.asarray(stored_columns[p]) for p in parts])
        # Rows of a table are older than every row of a stream.
        place = np.array(BEFORE if self.is_table else UNREAD)
        stored_columns |= {name: place for reader in self.readers.values() for name in reader.columns}
        start = self.store.append(rows, columns, stored_columns)
        self.peak = max(self.peak, self.store.live)
        return start

    def _accepted(
        self, port: Port, new: NewRows, mine: npt.NDArray[np.bool_] | None, lineage: LineageBits | None
    ) -> tuple[npt.NDArray[np.bool_] | None, LineageBits | None]:
        """Which rows a port wants and their lineage, without rows that it refuses to have stored."""
        assert port.refuses is not None
        rows = len(new.ts)
        refused = port.refuses(new, mine)
        if refused is None or not len(refused):
            return mine, lineage
        mine = np.ones(rows, np.bool_) if mine is None else mine
        mine[refused] = False
        if lineage is not None or len(self.ports) > 1:
            lineage = port.without(lineage, refused, rows)
        return mine, lineage

    def take(self, reader: ReadPosition, last: int, arrival: Ints, ranks: Ints, numbers: Ints) -> tuple[int, int]:
        """A timeline has reached rows, given by their numbers of arrival in the order of the stream, up to the event
        time `last`.

        Returns the ids of new rows, the first and the one after the last; rows among them that were not given are
        passed.
        """
        store = self.store
        start = reader.position = max(reader.position, store.first)
        times = store.columns["ts"][start - store.base : store.end - store.base]
        here = store.columns["arrival"][
            start - store.base : start - store.base + int(times.searchsorted(last, "right"))
        ]
        if len(here) == len(arrival) and (here == arrival).all():
            # All of them are stored, and no others: the usual case.
            reader.take_all(start + len(here), ranks, numbers)
            first, reader.given = max(reader.given, store.first), reader.position
            return first, reader.given
        places: Ints = order_kernels.places_in(arrival, here)
        if len(places) < len(here):
            places = _places(arrival, here)
        found = np.flatnonzero(places >= 0)
        stop = start + int(found[-1]) + 1 if len(found) else start
        if stop == start:
            return start, start
        passed = reader.take(stop, places[: stop - start], ranks, numbers)
        if len(passed):
            self._release_all(reader, passed)
        start, reader.given = max(reader.given, store.first), stop
        return start, stop

    def pass_to(self, reader: ReadPosition, frontier: int) -> None:
        """A timeline has taken what it takes of the rows below its frontier: it has passed the others."""
        store = self.store
        start = reader.position = max(reader.position, store.first)
        if start == store.end:
            return
        times = store.columns["ts"][start - store.base : store.end - store.base]
        stop = start + int(times.searchsorted(frontier))
        if stop > start:
            self._release_all(reader, reader.pass_to(stop))

    def insert(
        self,
        table: pa.Table,
        ts: Ints,
        arrival: Ints,
        routes: npt.NDArray[np.uint64] | None,
        fronts: Mapping[str, int | None],
        sequence: str | None,
    ) -> Renumbering | None:
        """Store rows that lie between others: they are late for the timelines whose frontier (by name) has passed them.

        Returns the map to the new ids; None: no port wants any of the rows.
        """
        store = self.store
        old = store.end
        self.admit(table, ts, arrival, routes)
        if store.end == old:
            return None
        new, alive = np.arange(old, store.end), store.ids()
        times = store.at("ts", new)
        late = {name: 0 if front is None else int(np.count_nonzero(times < front)) for name, front in fronts.items()}
        unread = {name: int(np.count_nonzero(alive >= one.position)) - late[name] for name, one in self.readers.items()}
        moved = store.arrange(self._in_order(alive, sequence) - store.base)
        new = np.sort(moved.of(new))
        # Holders know the rows that were there before.
        moved = replace(moved, ids=moved.ids[: old - moved.first])
        for name, reader in self.readers.items():
            reader.renumber(moved)
            reader.position = store.end - unread[name]
            reader.given = min(reader.given, reader.position)
            missed = new[new < reader.position]
            if len(missed):
                reader.pass_over(missed)
                self._release_all(reader, missed)
        return moved

    def _in_order(self, ids: Ints, sequence: str | None) -> Ints:
        """The ids in the order of the stream: by event time, then by its `sequence`, then as the rows came."""
        keys = {"t": self.store.at("ts", ids), "n": self.store.at("arrival", ids)}
        if sequence is None:
            return ids[np.lexsort((keys["n"], keys["t"]))]
        by = pa.table({**keys, "s": self.store.gather(sequence, ids)})
        order = pc.sort_indices(by, sort_keys=[("t", "ascending"), ("s", "ascending"), ("n", "ascending")])
        return ids[np.asarray(order).astype(np.int64)]

    def _release_all(self, reader: ReadPosition, ids: Ints) -> None:
        """No query behind a position wants these rows."""
        for port in self.ports_of(reader):
            port.release(self.store, ids)

    def _key_columns(
        self, columns: Mapping[str, pa.Array], rows: int
    ) -> tuple[dict[str, npt.NDArray[np.generic]], dict[str, npt.NDArray[np.bool_]]]:
        keys: dict[str, npt.NDArray[np.generic]] = {}
        missing: dict[str, npt.NDArray[np.bool_]] = {}
        for name, (compiled, kind) in self.keys.items():
            values = compiled({at: columns[at[1]] for at in compiled.columns}, rows)
            keys[name] = keys_of(values, kind)
            there = validity(values)
            if there is not None:
                missing[name] = ~there
        return keys, missing

    def purge(self, reader: ReadPosition, frontier: int, seen: int) -> None:
        """Rows still to come to a timeline are at or after the frontier: forget the rows that no timeline needs any
        more."""
        if self.is_table:
            return
        reader.now, reader.seen = frontier, seen
        store = self.store
        cut = store.end
        for port in self.ports:
            cut = min(cut, self._first_needed(port))
        store.forget_before(cut)

    def release(self, port: Port, ids: Ints) -> int:
        """No row still to come can meet these rows under this port; returns how many of them no port wants any more and
        are dropped.

        The rows keep their numbers: a ROWS window does not reach further back because rows have gone.
        """
        if len(self.ports) == 1:
            return self.store.drop(ids)
        ids = ids[self.store.holds(ids)]
        port.release(self.store, ids)
        wanted = np.zeros(len(ids), np.bool_)
        for one in self.ports:
            lineage = one.lineage_at(self.store, ids)
            wanted |= (ids >= self._first_needed(one)) & (True if lineage is None else any_bit(lineage))
        dropped = self.store.drop(ids[~wanted])
        # Rows that another port still wanted are removed by a full sweep once they number half the live rows.
        self._kept += int(wanted.sum())
        if 2 * self._kept >= max(self.store.live, _FEW):
            dropped += self.drop_unwanted()
        return dropped

    def _first_needed(self, port: Port) -> int:
        """The first id that a port may still need: rows before it have left its windows, or it keeps none."""
        reader = port.reader
        return reader.position if reader.now is None else port.first_needed(self.store, reader.now, reader.seen)

    def drop_unwanted(self) -> int:
        """Drop the rows that no port wants: those that only a query wanted that has gone, and those that all ports have
        released."""
        store = self.store
        self._kept = 0
        if not self.ports or not store.extent:
            return 0
        wanted = np.zeros(store.extent, np.bool_)
        for port in self.ports:
            start = max(self._first_needed(port), store.first)
            lineage = port.lineage_of(store, start, store.end)
            wanted[start - store.first :] |= True if lineage is None else any_bit(lineage)
        return 0 if wanted.all() else store.drop(np.flatnonzero(~wanted) + store.first)


def _places(given: Ints, wanted: Ints) -> Ints:
    """The place of each wanted number among the given ones; -1: it is not there."""
    order = np.argsort(given)
    at = np.minimum(np.searchsorted(given[order], wanted), len(given) - 1)
    found: Ints = order[at]
    return np.where(given[found] == wanted, found, -1)


def whole_columns(table: pa.Table) -> dict[str, pa.Array]:
    """The columns of a table, each as one array."""
    columns = zip(table.column_names, table.columns, strict=True)
    return {name: column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for name, column in columns}
