"""An aggregation written down, and opened again: tables of words.

Answer   `save` gives one table per kind of state: interned bytes, groups with their sums and what was emitted, distinct values, live
         contributions, combinations that wait. `load` brings a fresh aggregation of the same query to exactly that state.
Limits   Heaps are not written: they are built from the contributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from eddyline.operators.aggregate.accumulators import Accumulator, Distinct, Extreme
from eddyline.operators.aggregate.aggregation import Aggregation
from eddyline.operators.aggregate.contributions import Batch, Contributions
from eddyline.operators.aggregate.words import ALL
from eddyline.state.columns import Array, Ints, string_buffers

Arrays = dict[str, Array]


def save(aggregation: Aggregation, waiting: Sequence[Batch]) -> dict[str, pa.Table]:
    ids, offsets, data = aggregation.words.saved()
    binary = pa.Array.from_buffers(pa.large_binary(), len(ids), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    tables = {"bytes": pa.table({"id": pa.array(ids), "bytes": binary.cast(pa.binary())}), "groups": _groups(aggregation)}
    for at, kept in enumerate(aggregation.accumulators):
        if isinstance(kept, Distinct):
            live = kept.values.live()
            tables[f"distinct-{at}"] = _table({"code": live, "key": kept.values.keys[live], "count": kept.counts[live]})
    if aggregation.contributions is not None:
        tables["contributions"] = _contributions(aggregation.contributions)
        for at, queue in enumerate(aggregation.contributions.queues):
            keys, tickets = queue.pairs()
            # Stale tickets stay behind: after a restart free slots begin again with generation 0.
            live = aggregation.contributions.is_live(tickets)
            tables[f"queue-{at}"] = _table({"key": keys[live], "ticket": tickets[live]})
    tables["waiting"] = _waiting(waiting, aggregation)
    return tables


def load(aggregation: Aggregation, read: Callable[[str], pa.Table]) -> list[Batch]:
    """The reverse; returns the combinations that wait."""
    strings = read("bytes")
    offsets, data = string_buffers(strings.column("bytes").combine_chunks())
    aggregation.words.restore(_plain(strings, "id"), offsets - offsets[0], data[int(offsets[0]) : int(offsets[-1])])
    _load_groups(aggregation, _arrays(read("groups")))
    for at, kept in enumerate(aggregation.accumulators):
        if isinstance(kept, Distinct):
            values = _arrays(read(f"distinct-{at}"))
            kept.values.restore(values["code"], values["key"])
            kept.counts = np.zeros(kept.values.capacity, np.int64)
            kept.counts[values["code"]] = values["count"]
    if aggregation.contributions is not None:
        _load_contributions(aggregation, aggregation.contributions, read)
    return _load_waiting(_arrays(read("waiting")), aggregation)


def _groups(aggregation: Aggregation) -> pa.Table:
    codes = np.zeros(1, np.int64) if aggregation.groups is None else aggregation.groups.live()
    arrays: Arrays = {"code": codes, "total": aggregation.totals[codes]}
    if aggregation.groups is not None:
        arrays["key"] = aggregation.groups.keys[codes]
    if aggregation.buckets is None:
        arrays["touched"] = aggregation.touched.flags[codes] if len(aggregation.touched.flags) > codes.max(initial=-1) else codes < 0
    arrays |= {
        "present": aggregation.emitted.present[codes],
        "words": aggregation.emitted.words[codes],
        "valid": aggregation.emitted.valid[codes],
    }
    for at, kept in enumerate(aggregation.accumulators):
        inner = _inner(kept)
        arrays |= {f"state-{at}-{name}": getattr(inner, name)[codes] for name in inner.by_group}
    return _table(arrays)


def _load_groups(aggregation: Aggregation, arrays: Arrays) -> None:
    codes = arrays["code"]
    if aggregation.groups is not None:
        aggregation.groups.restore(codes, arrays["key"])
    aggregation._reserve()
    aggregation.totals[codes] = arrays["total"]
    aggregation.touched.take()
    if aggregation.buckets is not None and aggregation.groups is not None:
        aggregation.buckets.enter(codes, aggregation.groups.keys)
    else:
        aggregation.touched.note(codes[arrays["touched"]], aggregation.capacity)
    emitted = aggregation.emitted
    emitted.present[codes] = arrays["present"]
    if emitted.words.shape[1]:
        emitted.words[codes], emitted.valid[codes] = arrays["words"], arrays["valid"]
    for at, kept in enumerate(aggregation.accumulators):
        inner = _inner(kept)
        for name in inner.by_group:
            getattr(inner, name)[codes] = arrays[f"state-{at}-{name}"]


def _contributions(held: Contributions) -> pa.Table:
    slots = held.live()
    arrays: Arrays = {"slot": slots, "code": held.codes[slots], "generation": held.generation[slots]}
    for at, (words, valid) in enumerate(zip(held.words, held.valid, strict=True)):
        arrays[f"words-{at}"] = words[slots]
        if len(valid):
            arrays[f"valid-{at}"] = valid[slots]
    return _table(arrays)


def _load_contributions(aggregation: Aggregation, held: Contributions, read: Callable[[str], pa.Table]) -> None:
    arrays = _arrays(read("contributions"))
    slots = arrays["slot"]
    held.restore(slots, arrays["code"], arrays["generation"])
    for at in range(len(held.words)):
        held.words[at][slots] = arrays[f"words-{at}"]
        if f"valid-{at}" in arrays:
            held.valid[at] = np.ones(held.capacity, np.bool_)
            held.valid[at][slots] = arrays[f"valid-{at}"]
    for at, queue in enumerate(held.queues):
        pairs = _arrays(read(f"queue-{at}"))
        queue.push(pairs["key"], pairs["ticket"])
    for family, kept in zip(aggregation.layout.families, aggregation.accumulators, strict=True):
        if isinstance(kept, Extreme):
            kept.add(held.codes[slots], slots, ALL, held.valid_at(family.argument, slots), held.words[family.argument])


def _waiting(waiting: Sequence[Batch], aggregation: Aggregation) -> pa.Table:
    arrays: Arrays = {"clock": np.concatenate([b.clock for b in waiting]) if waiting else np.empty(0, np.int64)}
    for batch in waiting[:1]:
        arrays["groups"] = np.concatenate([b.groups for b in waiting])
        for at in range(len(batch.words)):
            arrays[f"words-{at}"] = np.concatenate([b.words[at] for b in waiting])
            arrays[f"valid-{at}"] = np.concatenate([b.valid[at] if len(b.valid[at]) else np.ones(len(b), np.bool_) for b in waiting])
        for at in range(len(batch.leaving)):
            arrays[f"leaving-{at}"] = np.concatenate([b.leaving[at] for b in waiting])
    return _table(arrays)


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


def _table(arrays: Arrays) -> pa.Table:
    """One column per array; two-dimensional ones as `name#0`, `name#1`, …"""
    columns: dict[str, pa.Array] = {}
    for name, values in arrays.items():
        if values.ndim == 1:
            columns[name] = pa.array(values)
        else:
            columns |= {f"{name}#{at}": pa.array(np.ascontiguousarray(values[:, at])) for at in range(values.shape[1])}
    return pa.table(columns)


def _arrays(table: pa.Table) -> Arrays:
    arrays: Arrays = {}
    wide: dict[str, list[Array]] = {}
    for name in table.column_names:
        values = _plain(table, name)
        if "#" in name:
            wide.setdefault(name.rsplit("#", 1)[0], []).append(values)
        else:
            arrays[name] = values
    return arrays | {name: np.ascontiguousarray(np.stack(columns, axis=1)) for name, columns in wide.items()}


def _plain(table: pa.Table, name: str) -> Ints:
    return np.array(table.column(name).to_numpy())
