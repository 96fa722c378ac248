"""The inputs of a join node: a stream's store through a port, or the output of another node with a store of its own.

Answer   Both look alike to the node: rows with an order, a death and key hashes; ids that expand to the row ids of the
         references below. What differs is written here once: how "older" and "still in its window" are tested.

             stream    older:  seq < limit      alive:  ts >= clock - window     (both rise along the store)
             node      older:  stamp < limit    alive:  dead >= clock            (dead does not rise)

State    A node input's store holds one id per reference, stamp, clock, dead and lineage of each combination.
Limits   A combination dies with its first component to leave; its stamp alone does not say when.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.joining import is_exact
from eddyline.operators.join.combination import POSITION_BITS, Combinations, LineageBits, any_bit
from eddyline.operators.join.port import LONG_AGO, Port, clear_bit
from eddyline.operators.join.probing.inverse import column_of
from eddyline.operators.stream.keys import combined
from eddyline.operators.stream.stream import ALWAYS, StreamState
from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering
from eddyline.state.store import Store
from eddyline.state.zones import ZoneColumn, Zones

#: The bits of a stamp that hold the position of a reference.
_POSITION = (1 << POSITION_BITS) - 1

#: Stands for a key in an index over the components of combinations: which rows they are.
ID = ""


class Input(Protocol):
    """What a node calls of its inputs. `order` and `death` name columns of the store."""

    store: Store
    references: tuple[int, ...]
    order: str
    death: str
    in_time_order: bool

    def limits(self, stamps: Ints) -> Ints: ...

    def floors(self, clocks: Ints) -> Ints: ...

    @property
    def end(self) -> int:
        """The first id of the rows that the group has not reached."""

    def ids(self) -> Ints:
        """The ids of the live rows that the group has reached."""

    def need_index(self, keys: tuple[tuple[int, str], ...]) -> str: ...

    def expand(self, ids: Ints) -> dict[int, Ints]: ...

    def deaths(self, ids: Ints) -> Ints: ...

    def lineage(self, ids: Ints) -> LineageBits | None: ...


class StreamInput:
    """New rows and old rows of a stream or table, as one reference of the join reads them."""

    death: str = "ts"
    in_time_order: bool = True

    def __init__(self, stream: StreamState, port: Port) -> None:
        self.stream = stream
        self.port = port
        self.order: str = port.reader.order
        self.store = stream.store
        self.references: tuple[int, ...] = (port.position,)

    def limits(self, stamps: Ints) -> Ints:
        # The rank, and one more where the position of the stamp is above this one: the sum carries into the rank there.
        return (stamps + (_POSITION - self.port.position)) >> POSITION_BITS

    def floors(self, clocks: Ints) -> Ints:
        return clocks - self.port.span

    def need_index(self, keys: tuple[tuple[int, str], ...]) -> str:
        return self.stream.need_index(tuple(column for _, column in keys))

    @property
    def end(self) -> int:
        return self.store.end if self.stream.is_table else self.port.reader.position

    def ids(self) -> Ints:
        ids = self.store.ids()
        return ids[: int(np.searchsorted(ids, self.end))]

    def expand(self, ids: Ints) -> dict[int, Ints]:
        return {self.port.position: ids}

    def deaths(self, ids: Ints) -> Ints:
        return self._deaths(self.store.at("ts", ids))

    def _deaths(self, ts: Ints) -> Ints:
        if self.stream.is_table:
            return np.full(len(ts), ALWAYS)
        return np.minimum(ts, ALWAYS - self.port.span) + self.port.span

    def values_of(self, column: str, ids: Ints) -> pa.Array:
        """The values of a key of stored rows."""
        compiled, kind = self.stream.keys[column]
        if is_exact(kind) and column in self.port.required:
            # No row without a value is stored; the key of a null would mean nothing.
            return column_of(self.store.at(column, ids), kind)
        return compiled({at: self.store.gather(at[1], ids) for at in compiled.columns}, len(ids))

    def stamps(self, ids: Ints) -> Ints:
        """Places of rows in the order of all combinations."""
        return (self.store.at(self.order, ids) << POSITION_BITS) | self.port.position

    def least_stamp(self, row: int) -> int:
        """A lower bound of the stamps of combinations whose newest row is this row or a later one."""
        return int(self.store.at(self.order, np.array([row]))[0]) << POSITION_BITS

    def lineage(self, ids: Ints) -> LineageBits | None:
        return self.port.lineage_at(self.store, ids) if self.port.stores_lineage else None

    def wanted(self, ids: Ints) -> Ints:
        """Those of some stored rows that a member wants."""
        lineage = self.lineage(ids) if len(ids) else None
        return ids if lineage is None else ids[any_bit(lineage)]

    def fresh(self, start: int, stop: int) -> Combinations:
        """The rows start … stop-1 as combinations of one reference, without those that no member wants."""
        ids = np.arange(start, stop)
        ts = self.store.stretch("ts", start, stop)
        stamps = (self.store.stretch(self.order, start, stop) << POSITION_BITS) | self.port.position
        lineage = self.port.lineage_of(self.store, start, stop) if self.port.stores_lineage else None
        # A single port wants every stored row, unless it has passed rows.
        if (
            lineage is not None
            and (len(self.stream.ports) > 1 or self.port.releases)
            and not (wanted := any_bit(lineage)).all()
        ):
            ids, ts, stamps, lineage = ids[wanted], ts[wanted], stamps[wanted], lineage[wanted]
        return Combinations({self.port.position: ids}, stamps, ts, self._deaths(ts), lineage)


class NodeInput:
    """Combinations made by another node, kept while they live."""

    order: str = "stamp"
    death: str = "dead"
    in_time_order: bool = False

    def __init__(self, name: str, references: tuple[int, ...], bases: Mapping[int, StreamInput]) -> None:
        self.references = references
        self.bases = bases
        self.store = Store(name)
        for reference in references:
            self.store.add_column(f"id:{reference}", np.int64)
        for column in ("stamp", "clock", "dead"):
            self.store.add_column(column, np.int64)
        self.store.zones = Zones(self._zone_keys, next(iter(bases.values())).store.zones.tuning)
        self.indexed: dict[str, tuple[tuple[int, str], ...]] = {}
        self.width = 0
        self.peak = 0
        self._since_purge = 0

    def _zone_keys(self, name: Hashable, start: int, stop: int) -> tuple[Ints, npt.NDArray[np.bool_] | None]:
        """Keys of a component's column. A component that its store has forgotten has none: its combination is dead."""
        assert isinstance(name, tuple), "zones of combinations are over (reference, payload or column)"
        reference, column = name
        store = self.bases[reference].store
        ids = self.store.stretch(f"id:{reference}", start, stop)
        held = store.holds(ids)
        if isinstance(column, ZoneColumn):
            return store.at(
                column.name, ids if held.all() else np.where(held, ids, store.first)
            ), None if held.all() else held
        if held.all():
            return store.keys_at(column, ids)
        keys, valid = store.keys_at(column, np.where(held, ids, store.first))
        return keys, held if valid is None else valid & held

    def limits(self, stamps: Ints) -> Ints:
        return stamps

    def floors(self, clocks: Ints) -> Ints:
        return clocks

    def need_index(self, keys: tuple[tuple[int, str], ...]) -> str:
        column = "hash:" + "+".join(f"{reference}.{key}" for reference, key in keys)
        if column not in self.indexed:
            self.indexed[column] = keys
            self.store.add_column(column, np.int64)
            if self.store.extent:
                self._sweep(self.store.column("dead") >= LONG_AGO)
                held = self.expand(np.arange(self.store.first, self.store.end))
                self.store.column(column)[:] = self.combined_keys(keys, held)
            self.store.add_index(column)
        return column

    def combined_keys(self, keys: tuple[tuple[int, str], ...], ids: Mapping[int, Ints]) -> Ints:
        """The hashes of keys over components; the key `ID` is the component itself."""
        return combined([ids[r] if key == ID else self.bases[r].store.at(key, ids[r]) for r, key in keys])

    @property
    def end(self) -> int:
        return self.store.end

    def ids(self) -> Ints:
        return self.store.ids()

    def expand(self, ids: Ints) -> dict[int, Ints]:
        return {reference: self.store.at(f"id:{reference}", ids) for reference in self.references}

    def deaths(self, ids: Ints) -> Ints:
        return self.store.at("dead", ids)

    def lineage(self, ids: Ints) -> LineageBits | None:
        if not self.width:
            return None
        found: LineageBits = self.store.at("words", ids)
        return found.reshape(len(ids), self.width)

    def add(self, made: Combinations) -> None:
        """Keep new combinations, with the hashes that probes will need."""
        if made.lineage is not None and self.width != made.lineage.shape[1]:
            assert self.width == 0 or self.store.live == 0, "the lineage of a live intermediate store change width"
            self.width = made.lineage.shape[1]
            self.store.add_column("words", np.uint64, self.width)
            self.store.column("words")[:] = ~np.uint64(0)
        columns = {f"id:{r}": ids for r, ids in made.ids.items()}
        assert made.dead is not None, "a stored combination knows when it dies"
        columns |= {"stamp": made.stamp, "clock": made.clock, "dead": made.dead}
        for column, keys in self.indexed.items():
            columns[column] = self.combined_keys(keys, made.ids)
        if self.width:
            lineage = made.lineage if made.lineage is not None else np.full((len(made), self.width), ~np.uint64(0))
            self.store.append(len(made), {}, {**columns, "words": lineage[:, 0] if self.width == 1 else lineage})
        else:
            self.store.append(len(made), {}, columns)
        self._since_purge += len(made)
        self.peak = max(self.peak, self.store.live)

    def clear_bit(self, slot: int) -> None:
        if self.width:
            clear_bit(self.store.columns["words"], slot)

    def purge(self, frontier: int) -> None:
        """Drop the dead once they are worth the sweep: its cost is paid for by what came in since the last one."""
        self._since_purge += 1
        if 4 * self._since_purge < self.store.live:
            return
        self._since_purge = 0
        self._sweep(self.store.column("dead") >= frontier)

    def _sweep(self, alive: npt.NDArray[np.bool_]) -> None:
        for reference in self.references:
            # A row that its own store has forgotten is out of every window, counted ones included; no answer needs one
            # that was dropped.
            alive &= self.bases[reference].store.holds(self.store.column(f"id:{reference}"))
        if not alive.all():
            self.store.keep(alive)

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids: combinations of rows that are gone leave, the others follow."""
        mine = [r for r in self.references if self.bases[r].store is old_to_new.store]
        if not mine or not self.store.extent:
            return
        for reference in mine:
            ids = self.store.column(f"id:{reference}")
            ids[:] = old_to_new.of(ids)
        self._sweep(np.ones(self.store.extent, np.bool_))
        held = self.expand(np.arange(self.store.first, self.store.end))
        for column, keys in self.indexed.items():
            if any(key == ID for _, key in keys):
                self.store.column(column)[:] = self.combined_keys(keys, held)
                self.store.indexes[column].rebuild()
