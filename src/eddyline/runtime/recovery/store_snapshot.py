"""A stream's store in a snapshot: its segments, the rows that were dropped from them, and how far each timeline has read.

Answer   `saved_store` gives the part of the header, and puts blocks beside it; `restore_store` brings a store of a fresh pipeline, whose
         queries have their ports already, to that state.
State    None.
Limits   A segment is written once. Places and numbers of rows that a timeline had not reached then are in a block of their own, the
         amendments of this timeline, while the segment stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.operators.join.combination import Words, any_bit
from eddyline.operators.join.port import Port, bits_of
from eddyline.operators.keys import combined, key_words
from eddyline.operators.reading import BEFORE, ReadPosition
from eddyline.operators.stream import StreamState
from eddyline.runtime.supply import Supply
from eddyline.state.columns import Ints
from eddyline.state.segment import Segment, open_marks, payload_name
from eddyline.state.store import Store

Load = Callable[[str], pa.Table]


def saved_store(supply: Supply, blocks: dict[str, Callable[[], pa.Table]]) -> dict[str, Any]:
    segments, state = supply.segments, supply.state
    segments.seal()
    for segment in segments.segments:
        blocks[segment.name] = partial(segments.table, segment)
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
        readers[name] = {"position": reader.position, "now": reader.now, "seen": reader.seen, "passed": reader.passed, "amended": amended}
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
    }


def store_content(name: str, saved: Mapping[str, Any], block: str) -> str | None:
    """What a block that belongs to a store holds, in words."""
    if any(block == Segment(name, *segment).name for segment in saved["segments"]):
        return f"live rows of stream {name}"
    if block == saved["dropped"]:
        return f"the list of dropped rows of stream {name}"
    if any(block == reader["amended"] for reader in saved["readers"].values()):
        return f"the order of live rows of stream {name}"
    return None


def _amendments(state: StreamState, reader: ReadPosition, first: int, end: int) -> pa.Table:
    """Places and numbers of rows for a timeline, and whether its queries have lost a row."""
    ids = np.arange(first, end)
    ports = state.ports_of(reader)
    lost = np.array([port.stores_words for port in ports]).all() & np.ones(len(ids), np.bool_)
    for port in ports:
        words = port.words_at(state.store, ids)
        if words is not None:
            lost &= ~any_bit(words)
    return pa.table({"id": ids, **{f"_{mark}": state.store.at(mark, ids) for mark in reader.marks}, "lost": lost})


def restore_store(supply: Supply, saved: Mapping[str, Any], load: Load) -> None:
    state, segments = supply.state, supply.segments
    supply.reach = saved["reach"]
    segments.segments = [Segment(segments.store.name, *segment) for segment in saved["segments"]]
    _restore_rows(state, [load(s.name) for s in segments.segments], saved["end"])
    for name, reader in state.readers.items():
        _restore_reader(state, reader, saved["readers"].get(name), load)
    _restore_drops(segments.store, saved, load)


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
        for mark, values in open_marks(table).items():
            if mark in store.marks:
                store.marks[mark][ids - store.base] = values
        lost = ids[np.asarray(table.column("lost"))]
        if len(lost):
            for port in state.ports_of(reader):
                port.release(store, lost)
        first = int(ids[0])
    # The segments have these rows as not reached.
    reader.sealed = (first, store.end)


def _restore_rows(stream: StreamState, tables: list[pa.Table], end: int) -> None:
    store = stream.store
    rows = sum(len(t) for t in tables)
    store.base = store.first = store.end = end - rows
    for index in stream.store.indexes.values():
        index.rebuild()
    opened = [open_marks(table) for table in tables]
    for port in stream.ports:
        if not port.stores_words and any(port.words_mark in marks or _came_before(marks["ts"], port) for marks in opened):
            port.stores_words = True
            store.add_mark(port.words_mark, np.uint64, port.width)
    for table, marks in zip(tables, opened, strict=True):
        for port in stream.ports:
            if port.stores_words:
                # Rows that were written before words were: every member wants those after its start. And a bit may be that of a
                # query which has gone and whose slot was given to another after the segment was written.
                kept = _begun(port, marks["ts"])
                if port.words_mark in marks:
                    words = marks[port.words_mark].reshape(len(table), -1)
                    narrow = min(port.width, words.shape[1])
                    kept[:, :narrow] &= words[:, :narrow]
                    kept[:, narrow:] = 0
                marks[port.words_mark] = port.flat(kept)
        # A column that no query read when the segment was written: a query that reads it now began after these rows.
        payload = {
            name: table.column(saved).combine_chunks() if saved in table.column_names else pa.nulls(len(table), store.types[name].arrow)
            for name, saved in ((name, payload_name(name)) for name in store.columns)
        }
        for mark, (compiled, kind) in stream.keys.items():
            marks[mark] = key_words(compiled({at: payload[at[1]] for at in compiled.columns}, len(table)), kind)
        for mark, parts in stream.composites.items():
            marks[mark] = combined([marks[p] for p in parts])
        for reader in stream.readers.values():
            for mark in reader.marks:
                marks.setdefault(mark, np.full(len(table), BEFORE))
        store.append(len(table), payload, {name: values for name, values in marks.items() if name in store.marks})


def _restore_drops(store: Store, saved: Mapping[str, Any], load: Load) -> None:
    """Which of the rows that lie in segments are gone."""
    store.forget_before(saved["first"])
    if saved["dropped"] is not None:
        store.drop(np.asarray(load(saved["dropped"]).column("id")))
    store.generation, store.drops = saved["generation"], saved["drops"]


def _came_before(ts: Ints, port: Port) -> bool:
    """Whether some member began after some of the rows, which are in order."""
    return bool(len(ts)) and any(member.start >= ts[0] for member in port.members.values())


def _begun(port: Port, ts: Ints) -> Words:
    """Per row a bit for every member that had begun before it."""
    starts = np.array(sorted({member.start for member in port.members.values()}), np.int64)
    begun = np.zeros((len(starts) + 1, port.width), np.uint64)
    for slot, member in port.members.items():
        begun[np.searchsorted(starts, member.start) + 1] |= bits_of((slot,), port.width)
    np.bitwise_or.accumulate(begun, axis=0, out=begun)
    words: Words = begun[np.searchsorted(starts, ts, side="left")]
    return words
