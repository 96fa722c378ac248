"""Requests that meet rows, against every pair of a probe and a row."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eddyline.kernels import requests as kernels
from eddyline.kernels.clustered import cluster


def matches(words, nulls, fixed, first, probes, low, high) -> list[tuple[int, int]]:
    """(probe, row id) for every row of equal words in the range of the probe."""
    found = []
    for row in range(words.shape[1]):
        for p in range(probes.shape[1]):
            inside = low[p] <= first + row < high[p] and not nulls[row] & fixed
            if inside and all(words[c, row] == probes[c, p] for c in range(len(words))):
                found.append((p, first + row))
    return sorted(found)


@pytest.mark.parametrize("seed", range(40))
def test_scanned_and_clustered_rows(seed: int) -> None:
    rng = Random(seed)
    columns, rows, count = rng.randint(1, 3), rng.randint(0, 60), rng.randint(1, 12)
    lots = np.random.default_rng(seed)
    words, probes = lots.integers(0, 3, (columns, rows)), lots.integers(0, 3, (columns, count))
    nulls = np.where(lots.random(rows) < 0.2, lots.integers(0, 1 << columns, rows), 0)
    first, fixed = rng.randint(0, 100), (1 << columns) - 1
    low = first + lots.integers(-2, rows + 2, count)
    high = low + lots.integers(0, rows + 2, count)
    right = matches(words, nulls, fixed, first, probes, low, high)
    assert gathered(lambda begin, a, b: _scan(words, nulls, fixed, first, begin, probes, low, high, a, b), rows, rng) == right
    # One bit of each column; the first column's field may be left open.
    address = sum((words[c] & 1) << c for c in range(columns)) if rows else np.zeros(0, np.int64)
    order, offsets = cluster(np.asarray(address, np.int64), 1 << columns)
    block = kernels.Clustered(offsets, order.astype(np.int32), np.ascontiguousarray(words[:, order]), nulls[order], first)
    asked = sum((probes[c] & 1) << c for c in range(columns))
    args = (block, np.arange(columns), fixed)
    asking, there = kernels.Probes(probes, low, high), np.ones(count, np.bool_)
    at = kernels.Places(np.asarray(asked, np.int64), there, 0, 0)
    assert gathered(lambda begin, a, b: kernels.read_addresses(*args, begin, asking, at, a, b)[:2], count, rng) == right
    free, low_free = (2, 0) if columns > 1 else (0, 1)
    masked = np.asarray(asked, np.int64) & ~(free | ((1 << low_free) - 1))
    open_bits = kernels.Places(masked, there, free, low_free)
    assert gathered(lambda begin, a, b: kernels.read_addresses(*args, begin, asking, open_bits, a, b)[:2], count, rng) == right


def _scan(words, nulls, fixed, first, begin, probes, low, high, out_probe, out_row):
    heads, following = kernels.table_of(probes)
    wanted = np.empty(0, np.bool_)
    stretch, asking = kernels.Stretch(words, nulls, wanted, first), kernels.Probes(probes, low, high)
    return kernels.scan(stretch, fixed, begin, asking, heads, following, out_probe, out_row)


def gathered(call, total: int, rng: Random) -> list[tuple[int, int]]:
    """All pairs, through buffers that are too small at first."""
    found: list[tuple[int, int]] = []
    begin, room = 0, rng.choice((1, 2, 64))
    while begin < total:
        out_probe, out_row = np.empty(room, np.int64), np.empty(room, np.int64)
        begin, count = call(begin, out_probe, out_row)
        found += zip(out_probe[:count].tolist(), out_row[:count].tolist(), strict=True)
        room *= 2
    return sorted(found)
