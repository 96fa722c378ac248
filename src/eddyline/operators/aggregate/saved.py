"""The state of an aggregation as tables of encoded values, and back.

Answer   `save` gives one table per kind of state: interned bytes, groups with their sums and emitted results,
         combinations that wait, and distinct values where nothing ever leaves. `block_table` gives a sealed block of
         contributions, which is written once. `load_state` and then `load_block` bring a fresh aggregation of the same
         query to exactly that state.
Limits   Heaps, and counts of distinct values that can leave, are not in the tables: the contributions give them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate import tables
from eddyline.operators.aggregate.accumulators.accumulators import Accumulator, Distinct, Extreme
from eddyline.operators.aggregate.aggregation import Aggregation
from eddyline.operators.aggregate.contributions import Batch, ContributionBlock, Contributions


def save(aggregation: Aggregation, waiting: Sequence[Batch]) -> dict[str, pa.Table]:
    saved = {"bytes": tables.bytes_table(aggregation.encoder), "groups": _groups(aggregation)}
    for at, kept in enumerate(aggregation.accumulators):
        if isinstance(kept, Distinct) and kept.lasting:
            values = kept.values.saved()
            saved[f"distinct-{at}"] = tables.as_table(values | {"count": kept.counts[values["code"]]})
    saved["waiting"] = waiting_table(waiting, {"clock": "clock", "groups": "groups"})
    return saved


def load_state(aggregation: Aggregation, read: Callable[[str], pa.Table]) -> list[Batch]:
    """The reverse; returns the combinations that wait."""
    tables.restore_bytes(aggregation.encoder, read("bytes"))
    _load_groups(aggregation, tables.arrays_of(read("groups")))
    for at, kept in enumerate(aggregation.accumulators):
        if isinstance(kept, Distinct) and kept.lasting:
            values = tables.arrays_of(read(f"distinct-{at}"))
            kept.values.restore(values["code"], values["key"])
            kept.counts = np.zeros(kept.values.capacity, np.int64)
            kept.counts[values["code"]] = values["count"]
    arrays = tables.arrays_of(read("waiting"))
    if not len(arrays["clock"]):
        return []
    return [
        Batch(arrays["clock"], arrays["groups"], *tables.encoded_columns(arrays), tables.numbered(arrays, "leaving"))
    ]


def _groups(aggregation: Aggregation) -> pa.Table:
    codes = np.zeros(1, np.int64) if aggregation.groups is None else aggregation.groups.live()
    arrays: tables.Arrays = {"code": codes, "total": aggregation.totals[codes]}
    if aggregation.groups is not None:
        arrays["key"] = aggregation.groups.keys[codes]
    if aggregation.buckets is not None:
        arrays["due"] = aggregation.buckets.due[codes] if len(codes) else codes
    if not aggregation.closes:
        arrays["touched"] = (
            aggregation.touched.flags[codes] if len(aggregation.touched.flags) > codes.max(initial=-1) else codes < 0
        )
    arrays |= {
        "present": aggregation.emitted.present[codes],
        "words": aggregation.emitted.encoded[codes],
        "valid": aggregation.emitted.valid[codes],
    }
    for at, kept in enumerate(aggregation.accumulators):
        inner = _inner(kept)
        arrays |= {f"state-{at}-{name}": getattr(inner, name)[codes] for name in inner.by_group}
    return tables.as_table(arrays)


def _load_groups(aggregation: Aggregation, arrays: tables.Arrays) -> None:
    codes = arrays["code"]
    if aggregation.groups is not None:
        aggregation.groups.restore(codes, arrays["key"])
    aggregation.reserve()
    aggregation.totals[codes] = arrays["total"]
    aggregation.touched.take()
    if aggregation.buckets is not None and aggregation.groups is not None:
        gap = aggregation.buckets.gap
        aggregation.buckets.enter(codes, aggregation.groups.keys, codes if gap is None else arrays["due"] - gap - 1)
    if not aggregation.closes:
        aggregation.touched.note(codes[arrays["touched"]], aggregation.capacity)
    emitted = aggregation.emitted
    emitted.present[codes] = arrays["present"]
    if emitted.encoded.shape[1]:
        emitted.encoded[codes], emitted.valid[codes] = arrays["words"], arrays["valid"]
    for at, kept in enumerate(aggregation.accumulators):
        inner = _inner(kept)
        for name in inner.by_group:
            getattr(inner, name)[codes] = arrays[f"state-{at}-{name}"]


def block_table(held: Contributions, block: ContributionBlock) -> pa.Table:
    """The live contributions of a block."""
    slots = held.of_block(block.number)
    arrays: tables.Arrays = {"code": held.codes[slots]}
    arrays |= {f"leaving-{at}": keys[slots] for at, keys in enumerate(held.keys())}
    return tables.as_table(arrays | tables.encoded_arrays(held.encoded, held.valid, slots))


def load_block(aggregation: Aggregation, block: ContributionBlock, table: pa.Table, limits: Sequence[int]) -> None:
    """Add the contributions of a block that are still live: none of their keys lies below the limit of its queue."""
    held = aggregation.contributions
    assert held is not None
    arrays = tables.arrays_of(table)
    leaving = tables.numbered(arrays, "leaving")
    live = np.logical_and.reduce([keys >= limit for keys, limit in zip(leaving, limits, strict=True)])
    codes = arrays["code"][live]
    encoded, valid = tables.encoded_columns(arrays, live)
    slots = held.add(codes, encoded, valid, [keys[live] for keys in leaving])
    held.restore(block, slots)
    for family, kept in zip(aggregation.layout.families, aggregation.accumulators, strict=True):
        at = family.argument
        if isinstance(kept, Extreme):
            kept.add(codes, slots, encoded[at], valid[at], held.encoded[at])
        elif isinstance(kept, Distinct):
            kept.recount(codes, encoded[at], valid[at])


def waiting_table(waiting: Sequence[Batch], names: Mapping[str, str]) -> pa.Table:
    """Rows that wait; `names` has the fields that are plain arrays, by their names in the table."""
    if not waiting:
        return tables.as_table({"clock": np.empty(0, np.int64)})
    rows = type(waiting[0]).joined(waiting)
    valid = [there if len(there) else np.ones(len(rows), np.bool_) for there in rows.valid]
    arrays: tables.Arrays = {name: getattr(rows, field) for name, field in names.items()}
    arrays |= {f"leaving-{at}": keys for at, keys in enumerate(rows.leaving)}
    return tables.as_table(arrays | tables.encoded_arrays(rows.encoded, valid))


def _inner(kept: Accumulator) -> Accumulator:
    return kept.inner if isinstance(kept, Distinct) else kept
