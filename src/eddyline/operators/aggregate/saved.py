"""An aggregation written down, and opened again: tables of encoded values.

Answer   `save` gives one table per kind of state: interned bytes, groups with their sums and what was emitted,
         combinations that wait, and, where nothing ever leaves, distinct values. `block_table` gives a sealed block of
         contributions, which is written once. `load_state` and then `load_block` bring a fresh aggregation of the same
         query to exactly that state.
Limits   Heaps and counts of distinct values that can leave are not written: they are built from the contributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate.accumulators.accumulators import Accumulator, Distinct, Extreme
from eddyline.operators.aggregate.accumulators.encoding import ALL
from eddyline.operators.aggregate.aggregation import Aggregation
from eddyline.operators.aggregate.contributions import Batch, ContributionBlock, Contributions
from eddyline.operators.aggregate.tables import Arrays, arrays_of, as_table, plain_of
from eddyline.state.columns import string_buffers


def save(aggregation: Aggregation, waiting: Sequence[Batch]) -> dict[str, pa.Table]:
    ids, offsets, data = aggregation.encoder.saved()
    packed = pa.Array.from_buffers(pa.large_binary(), len(ids), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    tables = {
        "bytes": pa.table({"id": pa.array(ids), "bytes": packed.cast(pa.binary())}),
        "groups": _groups(aggregation),
    }
    for at, kept in enumerate(aggregation.accumulators):
        if isinstance(kept, Distinct) and kept.lasting:
            entries = kept.values.live()
            tables[f"distinct-{at}"] = as_table(
                {"code": entries, "key": kept.values.keys[entries], "count": kept.counts[entries]}
            )
    tables["waiting"] = _waiting(waiting, aggregation)
    return tables


def load_state(aggregation: Aggregation, read: Callable[[str], pa.Table]) -> list[Batch]:
    """The reverse; returns the combinations that wait."""
    strings = read("bytes")
    offsets, data = string_buffers(strings.column("bytes").combine_chunks())
    aggregation.encoder.restore(plain_of(strings, "id"), offsets - offsets[0], data[int(offsets[0]) : int(offsets[-1])])
    _load_groups(aggregation, arrays_of(read("groups")))
    for at, kept in enumerate(aggregation.accumulators):
        if isinstance(kept, Distinct) and kept.lasting:
            values = arrays_of(read(f"distinct-{at}"))
            kept.values.restore(values["code"], values["key"])
            kept.counts = np.zeros(kept.values.capacity, np.int64)
            kept.counts[values["code"]] = values["count"]
    return _load_waiting(arrays_of(read("waiting")), aggregation)


def _groups(aggregation: Aggregation) -> pa.Table:
    codes = np.zeros(1, np.int64) if aggregation.groups is None else aggregation.groups.live()
    arrays: Arrays = {"code": codes, "total": aggregation.totals[codes]}
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
    return as_table(arrays)


def _load_groups(aggregation: Aggregation, arrays: Arrays) -> None:
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
    """What is live of a block of contributions."""
    slots = held.of_block(block.number)
    arrays: Arrays = {"code": held.codes[slots]}
    arrays |= {f"leaving-{at}": keys[slots] for at, keys in enumerate(held.keys())}
    for at, (encoded, valid) in enumerate(zip(held.encoded, held.valid, strict=True)):
        arrays[f"words-{at}"] = encoded[slots]
        if len(valid):
            arrays[f"valid-{at}"] = valid[slots]
    return as_table(arrays)


def load_block(aggregation: Aggregation, block: ContributionBlock, table: pa.Table, limits: Sequence[int]) -> None:
    """Take in what is still live of a block: every key has reached the limit of its queue."""
    held = aggregation.contributions
    assert held is not None
    arrays = arrays_of(table)
    leaving = [arrays[f"leaving-{at}"] for at in range(len(held.queues))]
    live = np.logical_and.reduce([keys >= limit for keys, limit in zip(leaving, limits, strict=True)])
    codes = arrays["code"][live]
    encoded = [arrays[f"words-{at}"][live] for at in range(len(held.encoded))]
    valid = [arrays[f"valid-{at}"][live] if f"valid-{at}" in arrays else ALL for at in range(len(held.encoded))]
    slots = held.add(codes, encoded, valid, [keys[live] for keys in leaving])
    held.restore(block, slots)
    for family, kept in zip(aggregation.layout.families, aggregation.accumulators, strict=True):
        at = family.argument
        if isinstance(kept, Extreme):
            kept.add(codes, slots, encoded[at], valid[at], held.encoded[at])
        elif isinstance(kept, Distinct):
            kept.recount(codes, encoded[at], valid[at])


def _waiting(waiting: Sequence[Batch], aggregation: Aggregation) -> pa.Table:
    arrays: Arrays = {"clock": np.concatenate([b.clock for b in waiting]) if waiting else np.empty(0, np.int64)}
    for batch in waiting[:1]:
        arrays["groups"] = np.concatenate([b.groups for b in waiting])
        for at in range(len(batch.encoded)):
            arrays[f"words-{at}"] = np.concatenate([b.encoded[at] for b in waiting])
            arrays[f"valid-{at}"] = np.concatenate(
                [b.valid[at] if len(b.valid[at]) else np.ones(len(b), np.bool_) for b in waiting]
            )
        for at in range(len(batch.leaving)):
            arrays[f"leaving-{at}"] = np.concatenate([b.leaving[at] for b in waiting])
    return as_table(arrays)


def _load_waiting(arrays: Arrays, aggregation: Aggregation) -> list[Batch]:
    if not len(arrays["clock"]):
        return []
    arguments, queues = range(len(aggregation.layout.arguments)), range(aggregation.config.queues)
    return [
        Batch(
            arrays["clock"],
            arrays["groups"],
            [arrays[f"words-{at}"] for at in arguments],
            [ALL if arrays[f"valid-{at}"].all() else arrays[f"valid-{at}"] for at in arguments],
            [arrays[f"leaving-{at}"] for at in queues],
        )
    ]


def _inner(kept: Accumulator) -> Accumulator:
    return kept.inner if isinstance(kept, Distinct) else kept
