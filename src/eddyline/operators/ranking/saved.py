"""Ranked rows written down, and opened again.

Answer   `save` gives tables of interned bytes, partitions, which rows are live and what was shown of them, and rows
         that wait; sealed blocks of rows are written once, by `block_table` of aggregates. `load_state` and then
         `load_block` bring fresh rows to exactly that state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate.contributions import ContributionBlock
from eddyline.operators.aggregate.saved import waiting_table
from eddyline.operators.aggregate.tables import (
    Arrays,
    arrays_of,
    as_table,
    bytes_table,
    encoded_columns,
    numbered,
    restore_bytes,
)
from eddyline.operators.ranking.ranked import ArrivingRows, RankedRows


def save(ranked: RankedRows, waiting: Sequence[ArrivingRows]) -> dict[str, pa.Table]:
    codes = ranked.partitions.live()
    live = ranked.rows.live()
    partitions: Arrays = {"code": codes, "key": ranked.partitions.keys[codes]}
    if ranked.buckets is not None:
        partitions["open"] = ranked.buckets.open[codes] if len(codes) else codes > 0
    return {
        "bytes": bytes_table(ranked.encoder),
        "partitions": as_table(partitions),
        # Blocks are written once: they hold rows that have gone since.
        "live": as_table(
            {"serial": ranked.rows.encoded[-1][live], "number": ranked.number[live], "owner": ranked.owner[live]}
        ),
        "waiting": waiting_table(waiting, {"clock": "clock", "partition": "groups", "serial": "serial"}),
    }


def load_state(ranked: RankedRows, read: Callable[[str], pa.Table]) -> list[ArrivingRows]:
    """The reverse, without the rows themselves; returns the rows that wait."""
    restore_bytes(ranked.encoder, read("bytes"))
    partitions = arrays_of(read("partitions"))
    ranked.partitions.restore(partitions["code"], partitions["key"])
    if ranked.buckets is not None:
        opened = partitions["code"][partitions["open"].astype(np.bool_)]
        ranked.buckets.enter(opened, ranked.partitions.keys, opened)
    arrays = arrays_of(read("waiting"))
    if not len(arrays["clock"]):
        return []
    encoded, leaving = encoded_columns(arrays), numbered(arrays, "leaving")
    return [ArrivingRows(arrays["clock"], arrays["partition"], *encoded, leaving, arrays["serial"])]


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
    slots = held.add(arrays["code"][here], *encoded_columns(arrays, here), numbered(arrays, "leaving", here))
    held.restore(block, slots)
    ranked.reserve()
    rows = order[place[here]]
    ranked.number[slots], ranked.owner[slots] = known["number"][rows], known["owner"][rows]
