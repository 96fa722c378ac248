"""Any sequence of append, forget, keep and new columns: the store equals a plain list."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.model.datatypes import BIGINT, BOOLEAN, DOUBLE, STRING, DataType, decimal
from eddyline.state.segment import SegmentList, open_columns
from eddyline.state.store import Store

TYPES: dict[str, DataType] = {"n": BIGINT, "x": DOUBLE, "t": STRING, "b": BOOLEAN, "d": decimal(12, 2)}


def some_row(rng: Random) -> dict[str, object]:
    from decimal import Decimal

    text = "".join(rng.choice("aé日 z") for _ in range(rng.randrange(12)))
    row: dict[str, object] = {
        "n": rng.randrange(-5, 5),
        "x": rng.random(),
        "t": text,
        "b": rng.random() < 0.5,
        "d": Decimal(rng.randrange(10_000)) / 100,
    }
    return {name: None if rng.random() < 0.1 else value for name, value in row.items()}


@pytest.mark.parametrize("spills", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_a_store_is_a_list_that_forgets(seed: int, spills: bool, tmp_path: Path) -> None:
    rng = Random(seed)
    store = Store("s", TYPES)
    store.add_column("key", np.int64)
    store.add_column("words", np.uint64, 2)
    store.add_index("key")
    rows: list[tuple[dict[str, object], int]] = []
    for _ in range(60):
        choice = rng.random()
        if choice < 0.6:
            new = [(some_row(rng), rng.randrange(9)) for _ in range(rng.randrange(40))]
            payload = {name: pa.array([row[name] for row, _ in new], kind.arrow) for name, kind in TYPES.items()}
            keys = np.array([key for _, key in new], np.int64)
            words = np.stack([keys, keys + 1], axis=1).astype(np.uint64) if new else np.empty((0, 2), np.uint64)
            start = store.append(len(new), payload, {"key": keys, "words": words})
            assert start == store.end - len(new)
            rows += new
        elif choice < 0.9:
            gone = rng.randrange(len(rows) + 1)
            store.forget_before(store.first + gone)
            rows = rows[gone:]
        else:
            alive = np.array([rng.random() < 0.7 for _ in rows], np.bool_)
            store.keep(alive)
            rows = [row for row, kept in zip(rows, alive, strict=True) if kept]
        if spills and rng.random() < 0.3:
            store.spill(tmp_path, least_rows=1)
        check(store, rows)
    store.forget_before(store.end)
    # What is forgotten leaves the disk when its room is used again.
    store.append(store.capacity, {}, {"key": np.zeros(store.capacity, np.int64)})
    assert not list(tmp_path.iterdir())


def check(store: Store, rows: list[tuple[dict[str, object], int]]) -> None:
    assert store.live == len(rows)
    ids = np.arange(store.first, store.end)
    for name in TYPES:
        assert store.gather(name, ids).to_pylist() == [row[name] for row, _ in rows]
    assert store.column("key").tolist() == [key for _, key in rows]
    assert store.column("words")[:, 1].tolist() == [key + 1 for _, key in rows]
    index = store.indexes["key"]
    found: dict[int, list[int]] = {}
    for key in range(9):
        from eddyline.kernels.joins import probe

        one = np.array([key])
        far = np.array([2**62])
        _, right, _ = probe.probe_chains(probe.ProbeKeys(one, far, -far), index.chains("key", "key", False))
        found[key] = sorted((right - store.first).tolist())
    assert found == {key: [i for i, (_, k) in enumerate(rows) if k == key] for key in range(9)}


def test_dropped_rows_are_not_live() -> None:
    store = Store("s", {"n": BIGINT})
    store.append(6, {"n": pa.array(range(6))}, {})
    store.drop(np.array([1, 4]))
    assert (store.live, store.extent) == (4, 6)
    store.forget_before(store.first + 2)
    assert (store.live, store.extent) == (3, 4)


def test_a_column_that_comes_later_is_null_for_the_rows_before() -> None:
    store = Store("s", {"n": BIGINT})
    store.append(2, {"n": pa.array([1, 2])}, {})
    store.add_payload("t", STRING)
    store.append(1, {"n": pa.array([3]), "t": pa.array(["x"])}, {})
    assert store.gather("t", np.arange(3)).to_pylist() == [None, None, "x"]


@pytest.mark.parametrize("seed", range(5))
def test_segments_cover_the_live_rows_and_grow_slowly(seed: int) -> None:
    rng = Random(seed)
    store = Store("s", {"n": BIGINT})
    store.add_column("seq", np.int64)
    segments = SegmentList(store)
    total = 0
    for _ in range(200):
        count = rng.randrange(1, 30)
        store.append(count, {"n": pa.array(range(total, total + count))}, {"seq": np.arange(total, total + count)})
        total += count
        store.forget_before(total - rng.randrange(200, 2000))
        segments.seal()
        assert len(segments.segments) <= 16
        tables = [segments.table(s) for s in segments.segments]
        values = [v for t in tables for v in t.column("n").to_pylist()]
        assert values == list(range(store.first, store.end))
        assert [v for t in tables for v in open_columns(t)["seq"].tolist()] == values


def test_a_segment_that_is_mostly_dead_is_written_again() -> None:
    store = Store("s", {"n": BIGINT})
    segments = SegmentList(store)
    store.append(4000, {"n": pa.array(range(4000))}, {})
    segments.seal()
    store.append(10, {"n": pa.array(range(10))}, {})
    store.forget_before(2999)
    segments.seal()
    assert _ranges(segments) == [(0, 4000), (4000, 4010)]
    store.forget_before(3000)
    segments.seal()
    assert _ranges(segments) == [(3000, 4000), (4000, 4010)]
    assert segments.table(segments.segments[0]).column("n").to_pylist() == list(range(3000, 4000))
    store.forget_before(3900)
    segments.seal()
    assert _ranges(segments) == [(3000, 4000), (4000, 4010)], "a small one is left alone until it is dead"
    store.forget_before(4000)
    segments.seal()
    assert _ranges(segments) == [(4000, 4010)]


def _ranges(segments: SegmentList) -> list[tuple[int, int]]:
    return [(s.first, s.end) for s in segments.segments]


def test_the_same_rows_keep_their_name_and_others_have_another() -> None:
    store, other = Store("s", {"n": BIGINT}), Store("s", {"n": BIGINT})
    for one in (store, other):
        one.append(10, {"n": pa.array(range(10))}, {})
    first, second = SegmentList(store), SegmentList(other)
    for segments in (first, second, first):
        segments.seal()
    (named,) = first.segments
    first.seal()
    assert first.segments == [named] and second.segments[0].name != named.name
