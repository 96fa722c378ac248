"""Ranked rows written down, and opened again.

Answer   `save` gives tables of interned bytes, partitions, which rows are live and what was shown of them, and rows
         that wait; sealed blocks of rows are written once, by `block_table` of aggregates. `load_state` and then
         `load_block` bring fresh rows to exactly that state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate.accumulators.encoding import ALL
from eddyline.operators.aggregate.contributions import ContributionBlock
from eddyline.operators.aggregate.tables import Arrays, arrays_of, as_table, plain_of
from eddyline.operators.ranking.ranked import ArrivingRows, RankedRows
from eddyline.state.columns import string_buffers


def save(ranked: RankedRows, waiting: Sequence[ArrivingRows]) -> dict[str, pa.Table]:
    ids, offsets, data = ranked.encoder.saved()
    packed = pa.Array.from_buffers(pa.large_binary(), len(ids), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    codes = ranked.partitions.live()
    live = ranked.rows.live()
    partitions: Arrays = {"code": codes, "key": ranked.partitions.keys[codes]}
    if ranked.buckets is not None:
        partitions["open"] = ranked.buckets.open[codes] if len(codes) else codes > 0
    return {
        "bytes": pa.table({"id": pa.array(ids), "bytes": packed.cast(pa.binary())}),
        "partitions": as_table(partitions),
        # Blocks are written once: they hold rows that have gone since.
        "live": as_table(
            {"serial": ranked.rows.encoded[-1][live], "number": ranked.number[live], "owner": ranked.owner[live]}
        ),
        "waiting": _waiting(waiting),
    }


def load_state(ranked: RankedRows, read: Callable[[str], pa.Table]) -> list[ArrivingRows]:
    """The reverse, without the rows themselves; returns the rows that wait."""
    strings = read("bytes")
    offsets, data = string_buffers(strings.column("bytes").combine_chunks())
    ranked.encoder.restore(plain_of(strings, "id"), offsets - offsets[0], data[int(offsets[0]) : int(offsets[-1])])
    partitions = arrays_of(read("partitions"))
    ranked.partitions.restore(partitions["code"], partitions["key"])
    if ranked.buckets is not None:
        opened = partitions["code"][partitions["open"].astype(np.bool_)]
        ranked.buckets.enter(opened, ranked.partitions.keys, opened)
    return _load_waiting(ranked, arrays_of(read("waiting")))


def load_block(ranked: RankedRows, block: ContributionBlock, table: pa.Table, live: pa.Table) -> None:
    """Take in what is still live of a block; `live` has all rows that are, by serial number."""
    held = ranked.rows
    arrays, known = arrays_of(table), arrays_of(live)
    order = np.argsort(known["serial"], kind="stable")
    serials = known["serial"][order]
    mine = arrays[f"words-{len(held.encoded) - 1}"]
    place = np.searchsorted(serials, mine)
    here = np.zeros(len(mine), np.bool_)
    inside = place < len(serials)
    here[inside] = serials[place[inside]] == mine[inside]
    encoded = [arrays[f"words-{at}"][here] for at in range(len(held.encoded))]
    valid = [arrays[f"valid-{at}"][here] if f"valid-{at}" in arrays else ALL for at in range(len(held.encoded))]
    slots = held.add(
        arrays["code"][here], encoded, valid, [arrays[f"leaving-{at}"][here] for at in range(len(held.queues))]
    )
    held.restore(block, slots)
    ranked.reserve()
    rows = order[place[here]]
    ranked.number[slots], ranked.owner[slots] = known["number"][rows], known["owner"][rows]


def _waiting(waiting: Sequence[ArrivingRows]) -> pa.Table:
    arrays: Arrays = {"clock": np.concatenate([r.clock for r in waiting]) if waiting else np.empty(0, np.int64)}
    for rows in waiting[:1]:
        arrays["partition"] = np.concatenate([r.partition for r in waiting])
        arrays["serial"] = np.concatenate([r.serial for r in waiting])
        for at in range(len(rows.encoded)):
            arrays[f"words-{at}"] = np.concatenate([r.encoded[at] for r in waiting])
            arrays[f"valid-{at}"] = np.concatenate(
                [r.valid[at] if len(r.valid[at]) else np.ones(len(r.clock), np.bool_) for r in waiting]
            )
        for at in range(len(rows.leaving)):
            arrays[f"leaving-{at}"] = np.concatenate([r.leaving[at] for r in waiting])
    return as_table(arrays)


def _load_waiting(ranked: RankedRows, arrays: Arrays) -> list[ArrivingRows]:
    if not len(arrays["clock"]):
        return []
    columns, queues = range(len(ranked.spec.kinds)), range(ranked.spec.queues)
    valid = [ALL if arrays[f"valid-{at}"].all() else arrays[f"valid-{at}"] for at in columns]
    encoded, leaving = [arrays[f"words-{at}"] for at in columns], [arrays[f"leaving-{at}"] for at in queues]
    return [ArrivingRows(arrays["partition"], encoded, valid, arrays["serial"], arrays["clock"], leaving)]
