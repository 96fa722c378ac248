"""The state of ranked rows as tables, and back.

Answer   `save` gives tables of interned bytes, of partitions, of live rows with their numbers in the answer, and of
         rows that wait. `block_table` of aggregates writes the rows themselves, in sealed blocks, each once.
         `load_state` and then `load_block` bring fresh `RankedRows` to exactly that state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate import tables
from eddyline.operators.aggregate.contributions import ContributionBlock
from eddyline.operators.aggregate.saved import waiting_table
from eddyline.operators.ranking.ranked import ArrivingRows, RankedRows


def save(ranked: RankedRows, waiting: Sequence[ArrivingRows]) -> dict[str, pa.Table]:
    live = ranked.rows.live()
    partitions: tables.Arrays = {**ranked.partitions.saved()}
    codes = partitions["code"]
    if ranked.buckets is not None:
        partitions["open"] = ranked.buckets.open[codes] if len(codes) else codes > 0
    return {
        "bytes": tables.bytes_table(ranked.encoder),
        "partitions": tables.as_table(partitions),
        # Blocks are written once: they hold rows that have gone since.
        "live": tables.as_table(
            {"serial": ranked.rows.encoded[-1][live], "number": ranked.number[live], "owner": ranked.owner[live]}
        ),
        "waiting": waiting_table(waiting, {"clock": "clock", "partition": "groups", "serial": "serial"}),
    }


def load_state(ranked: RankedRows, read: Callable[[str], pa.Table]) -> list[ArrivingRows]:
    """The reverse, without the rows themselves; returns the rows that wait."""
    tables.restore_bytes(ranked.encoder, read("bytes"))
    partitions = tables.arrays_of(read("partitions"))
    ranked.partitions.restore(partitions["code"], partitions["key"])
    ranked.enter(np.empty(0, np.int64))
    if ranked.buckets is not None:
        opened = partitions["code"][partitions["open"].astype(np.bool_)]
        ranked.buckets.enter(opened, ranked.partitions.keys, opened)
    arrays = tables.arrays_of(read("waiting"))
    if not len(arrays["clock"]):
        return []
    encoded, leaving = tables.encoded_columns(arrays), tables.numbered(arrays, "leaving")
    return [ArrivingRows(arrays["clock"], arrays["partition"], *encoded, leaving, arrays["serial"])]


def load_block(ranked: RankedRows, block: ContributionBlock, table: pa.Table, live: pa.Table) -> None:
    """Add the rows of a block that are still live; `live` has all live rows, by serial number."""
    held = ranked.rows
    arrays, known = tables.arrays_of(table), tables.arrays_of(live)
    order = np.argsort(known["serial"], kind="stable")
    serials = known["serial"][order]
    mine = arrays[f"words-{len(held.encoded) - 1}"]
    place = np.searchsorted(serials, mine)
    here = np.zeros(len(mine), np.bool_)
    inside = place < len(serials)
    here[inside] = serials[place[inside]] == mine[inside]
    slots = held.add(
        arrays["code"][here], *tables.encoded_columns(arrays, here), tables.numbered(arrays, "leaving", here)
    )
    held.restore(block, slots)
    ranked.enter(slots)
    rows = order[place[here]]
    ranked.number[slots], ranked.owner[slots] = known["number"][rows], known["owner"][rows]
