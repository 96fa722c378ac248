"""A stream's store in a snapshot: its segments, the rows dropped from them, and the read position of each timeline.

Answer   `saved_store` gives the part of the header and adds the blocks. `restore_store` brings a store of a fresh
         pipeline, whose queries have their ports already, to that state.
State    None.
Limits   A segment is written once. A timeline may reach rows of it later: as long as the segment exists, their places and
         numbers are in a block of their own, the amendments of that timeline.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import CheckpointProblem
from eddyline.operators.join.combination import LineageBits, any_bit
from eddyline.operators.join.port import Port, bits_of
from eddyline.operators.stream.keys import combined, keys_of
from eddyline.operators.stream.reading import BEFORE, ReadPosition
from eddyline.operators.stream.stream import StreamState
from eddyline.runtime.engine.supply import Supply
from eddyline.state.columns import Ints
from eddyline.state.segment import Segment, open_columns, payload_name
from eddyline.state.store import Store

Load = Callable[[str], pa.Table]

#: Metadata of a segment: the columns of lineage that it does not hold because their queries want all rows.
_WHOLE = b"whole"
#: Rows of which the bits are unpacked at once.
_AT_ONCE = 4096


def saved_store(supply: Supply, blocks: dict[str, Callable[[], pa.Table]]) -> dict[str, Any]:
    segments, state = supply.segments, supply.state
    segments.seal()
    for segment in segments.segments:
        blocks[segment.name] = partial(_segment_table, supply, segment)
    if segments.dropped is not None:
        blocks[segments.dropped] = segments.dropped_table
    readers = {}
    for name, reader in state.readers.items():
        reader.unsealed()
        first, end = reader.amended
        amended = None
        if first < end:
            amended = f"{state.name}-read-by-{name}-{segments.token}-{state.store.generation}-{first}-{end}"
            blocks[amended] = partial(_amendments, state, reader, first, end)
        positions = {"position": reader.position, "now": reader.now, "seen": reader.seen, "passed": reader.passed}
        readers[name] = {**positions, "amended": amended}
    store = state.store
    return {
        "reach": supply.reach,
        "end": store.end,
        "first": store.first,
        "generation": store.generation,
        "drops": store.drops,
        "dropped": segments.dropped,
        "segments": [[s.first, s.end, s.token] for s in segments.segments],
        "readers": readers,
        "lineage": {
            port.lineage_column: [[m.query, m.reference, slot] for slot, m in port.members.items()]
            for port in state.ports
        },
    }


def _segment_table(supply: Supply, segment: Segment) -> pa.Table:
    """The rows of a segment. Its metadata names the columns that it does not hold because their queries want all rows."""
    table = supply.segments.table(segment)
    whole = [port.lineage_column for port in supply.state.ports if not port.stores_lineage]
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _WHOLE: json.dumps(whole)})


def store_content(name: str, saved: Mapping[str, Any], block: str) -> str | None:
    """A text for errors: what a block of a store holds; None: the block is of another store."""
    if any(block == Segment(name, *segment).name for segment in saved["segments"]):
        return f"live rows of stream {name}"
    if block == saved["dropped"]:
        return f"the list of dropped rows of stream {name}"
    if any(block == reader["amended"] for reader in saved["readers"].values()):
        return f"the order of live rows of stream {name}"
    return None


def _amendments(state: StreamState, reader: ReadPosition, first: int, end: int) -> pa.Table:
    """Places and numbers of rows for a timeline, and whether no query of the timeline wants a row any more."""
    ids = np.arange(first, end)
    ports = state.ports_of(reader)
    lost = np.array([port.stores_lineage for port in ports]).all() & np.ones(len(ids), np.bool_)
    for port in ports:
        lineage = port.lineage_at(state.store, ids)
        if lineage is not None:
            lost &= ~any_bit(lineage)
    return pa.table(
        {"id": ids, **{f"_{column}": state.store.at(column, ids) for column in reader.columns}, "lost": lost}
    )


def restore_store(supply: Supply, saved: Mapping[str, Any], load: Load) -> None:
    state, segments = supply.state, supply.segments
    supply.reach = saved["reach"]
    written = [Segment(segments.store.name, *segment) for segment in saved["segments"]]
    lineage = Lineage.of(state, saved["lineage"])
    _restore_rows(state, [load(s.name) for s in written], saved["end"], lineage)
    for name, reader in state.readers.items():
        _restore_reader(state, reader, saved["readers"].get(name), load)
    _restore_drops(segments.store, saved, load)
    if lineage.is_as_written:
        segments.segments = written
        return
    # The next checkpoint writes all segments anew: these have lineage columns of joins that the job no longer has.
    for reader in state.readers.values():
        reader.sealed = (0, 0)


def _restore_reader(state: StreamState, reader: ReadPosition, saved: Mapping[str, Any] | None, load: Load) -> None:
    store = state.store
    if saved is None:
        reader.position = reader.given = store.end
        return
    reader.position = reader.given = saved["position"]
    reader.now, reader.seen, reader.passed = saved["now"], saved["seen"], saved["passed"]
    first = reader.position
    if saved["amended"] is not None:
        table = load(saved["amended"])
        ids = np.asarray(table.column("id"))
        for column, values in open_columns(table).items():
            if column in store.columns:
                store.columns[column][ids - store.base] = values
        lost = ids[np.asarray(table.column("lost"))]
        if len(lost):
            for port in state.ports_of(reader):
                port.release(store, lost)
        first = int(ids[0])
    # In the segments these rows are not reached by the timeline.
    reader.sealed = (first, store.end)


def _restore_rows(stream: StreamState, tables: list[pa.Table], end: int, lineage: Lineage) -> None:
    store = stream.store
    rows = sum(len(t) for t in tables)
    store.base = store.first = store.end = end - rows
    for index in stream.store.indexes.values():
        index.rebuild()
    opened = [open_columns(table) for table in tables]
    bits = [
        [lineage.bits(port, table, columns) for table, columns in zip(tables, opened, strict=True)]
        for port in stream.ports
    ]
    for port, found in zip(stream.ports, bits, strict=True):
        if not port.stores_lineage and any((one != port.full()).any() for one in found):
            port.stores_lineage = True
            store.add_column(port.lineage_column, np.uint64, port.width)
    for number, (table, columns) in enumerate(zip(tables, opened, strict=True)):
        columns |= {
            port.lineage_column: port.flat(found[number])
            for port, found in zip(stream.ports, bits, strict=True)
            if port.stores_lineage
        }
        payload = {}
        for name in store.payload:
            # No query read a missing column when the segment was written. One that reads it now began after these rows.
            known = payload_name(name) in table.column_names
            column = table.column(payload_name(name)).combine_chunks() if known else None
            payload[name] = pa.nulls(len(table), store.types[name].arrow) if column is None else column
        for column, (compiled, kind) in stream.keys.items():
            columns[column] = keys_of(compiled({at: payload[at[1]] for at in compiled.columns}, len(table)), kind)
        for column, parts in stream.composites.items():
            columns[column] = combined([columns[p] for p in parts])
        for reader in stream.readers.values():
            for column in reader.columns:
                columns.setdefault(column, np.full(len(table), BEFORE))
        store.append(len(table), payload, {name: values for name, values in columns.items() if name in store.columns})


def _restore_drops(store: Store, saved: Mapping[str, Any], load: Load) -> None:
    """Drop the rows that segments hold and the store had dropped."""
    store.forget_before(saved["first"])
    if saved["dropped"] is not None:
        store.drop(np.asarray(load(saved["dropped"]).column("id")))
    store.generation, store.drops = saved["generation"], saved["drops"]


@dataclass
class Lineage:
    """The columns and slots that the lineage of each query and reference had in the run before, which wrote the
    segments."""

    #: (query, reference) -> the column and the slot of the run before.
    known: Mapping[tuple[str, str], tuple[str, int]]
    #: Whether all queries have the same columns and slots as in the run before.
    is_as_written: bool

    @classmethod
    def of(cls, stream: StreamState, saved: Mapping[str, list[tuple[str, str, int]]]) -> Lineage:
        known = {
            (query, reference): (column, slot)
            for column, members in saved.items()
            for query, reference, slot in members
        }
        as_written = True
        for port in stream.ports:
            for slot, member in port.members.items():
                place = known.get((member.query, member.reference))
                if place is None and port.probed:
                    raise CheckpointProblem(
                        f"the checkpoint has no lineage of query {member.query} for the rows of stream {stream.name}",
                        detail=f"the query reads the stream as {member.reference}, and is part of the checkpoint",
                        hint="drop the query from the job for one run and add it again: it then reads the rows from there on",
                    )
                as_written &= place == (port.lineage_column, slot)
        return cls(known, as_written)

    def bits(self, port: Port, table: pa.Table, columns: Mapping[str, npt.NDArray[Any]]) -> LineageBits:
        """The lineage of the rows of a segment under a port."""
        rows, whole = len(table), json.loads(table.schema.metadata[_WHOLE])
        slots: dict[str, list[tuple[int, int]]] = {}
        for slot, member in port.members.items():
            # A query without a place stored no rows: no segment has its bit.
            if (place := self.known.get((member.query, member.reference))) is not None:
                slots.setdefault(place[0], []).append((place[1], slot))
        found = np.zeros((rows, port.width), np.uint64)
        for column, pairs in slots.items():
            if column in columns:
                found |= _moved(columns[column].reshape(rows, -1), pairs, port.width)
            elif column in whole:
                found |= bits_of(tuple(slot for _, slot in pairs), port.width)
            # Otherwise the rows were stored before the join existed: its queries do not read them.
        # A bit may be that of a dropped query whose slot another query got after the segment was written.
        return found & _begun(port, columns["ts"])


def _moved(lineage: LineageBits, pairs: Sequence[tuple[int, int]], width: int) -> LineageBits:
    """Lineage in which, per pair of slots, the second slot has the bit that the first has in `lineage`."""
    known = [(before, slot) for before, slot in pairs if before < 64 * lineage.shape[1]]
    found = np.zeros((len(lineage), width), np.uint64)
    if all(before == slot for before, slot in known):
        narrow = min(width, lineage.shape[1])
        found[:, :narrow] = lineage[:, :narrow] & bits_of(tuple(slot for slot, _ in known), width)[:narrow]
        return found
    before, after = np.array(known, np.int64).T
    for start in range(0, len(lineage), _AT_ONCE):
        some = np.ascontiguousarray(lineage[start : start + _AT_ONCE])
        bits = np.unpackbits(some.view(np.uint8), axis=1, bitorder="little")
        moved = np.zeros((len(some), 64 * width), np.uint8)
        moved[:, after] = bits[:, before]
        found[start : start + _AT_ONCE] = np.packbits(moved, axis=1, bitorder="little").view(np.uint64)
    return found


def _begun(port: Port, ts: Ints) -> LineageBits:
    """Per row a bit for every member that had begun before it."""
    starts = np.array(sorted({member.start for member in port.members.values()}), np.int64)
    begun = np.zeros((len(starts) + 1, port.width), np.uint64)
    for slot, member in port.members.items():
        begun[np.searchsorted(starts, member.start) + 1] |= bits_of((slot,), port.width)
    np.bitwise_or.accumulate(begun, axis=0, out=begun)
    lineage: LineageBits = begun[np.searchsorted(starts, ts, side="left")]
    return lineage
