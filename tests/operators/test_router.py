"""Combinations split by lineage in one pass, against looking at them bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.kernels.bitsets import keep_within, rows_by_bit
from eddyline.operators.join.combination import Combinations
from eddyline.operators.sharing.router import split


def made(rows: int, width: int | None, seed: int) -> Combinations:
    rng = np.random.default_rng(seed)
    words = (
        None
        if width is None
        else rng.integers(0, 2**63, (rows, width), dtype=np.uint64) & rng.integers(0, 2**63, (rows, width), dtype=np.uint64)
    )
    return Combinations(
        {0: np.arange(rows), 1: np.arange(rows) * 7}, np.arange(rows) << 6, np.sort(rng.integers(0, 100, rows)), None, words
    )


@pytest.mark.parametrize("rows", [0, 1, 200])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_rows_by_bit(rows: int, width: int) -> None:
    words = made(rows, width, rows + width).words
    assert words is not None
    words[: rows // 2, 0] |= np.uint64(1) << np.uint64(63)
    starts, found = rows_by_bit(words)
    for bit in range(64 * width):
        has = (words[:, bit // 64] >> np.uint64(bit % 64)) & np.uint64(1) != 0
        assert found[starts[bit] : starts[bit + 1]].tolist() == np.flatnonzero(has).tolist()


def test_keep_within() -> None:
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**63, (100, 2), dtype=np.uint64)
    ages = rng.integers(0, 50, 100)
    sizes = np.array([5, 10, 30])
    table = np.array([[7, 7], [3, 3], [1, 0], [0, 0]], np.uint64)
    expected = words & table[np.searchsorted(sizes, ages)]
    some = keep_within(words, ages, sizes, table)
    assert (words == expected).all() and (some == expected.any(axis=1)).all()


@pytest.mark.parametrize("slots", [(0, 3, 64, 70), (70, 3), (5,)])
@pytest.mark.parametrize("width", [None, 2])
def test_split(slots: tuple[int, ...], width: int | None) -> None:
    rows = made(300, width, 5)
    stops = [None, 40, None, 90][: len(slots)]
    mine, edges = split(rows, slots, stops)
    assert mine.words is None and len(edges) == len(slots) + 1
    for place, (slot, stop) in enumerate(zip(slots, stops, strict=True)):
        has = np.ones(300, np.bool_) if rows.words is None else (rows.words[:, slot // 64] >> np.uint64(slot % 64)) & np.uint64(1) != 0
        has = has & (rows.clock <= (1000 if stop is None else stop))
        part = slice(edges[place], edges[place + 1])
        assert mine.ids[1][part].tolist() == rows.ids[1][has].tolist()
        assert mine.stamp[part].tolist() == rows.stamp[has].tolist()
