"""Requests that meet rows, against every pair of a probe and a row."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from eddyline.kernels.requests import request_blocks as alone
from eddyline.kernels.requests import requests as kernels
from eddyline.kernels.requests.block_building import cluster_rows
from eddyline.operators.template.blocks import Fields, Together, clustered
from eddyline.tuning import TemplateTuning


def matches(keys, nulls, fixed, first, probes, low, high) -> list[tuple[int, int]]:
    """(probe, row id) for every row of equal keys in the range of the probe."""
    found = []
    for row in range(keys.shape[1]):
        for p in range(probes.shape[1]):
            inside = low[p] <= first + row < high[p] and not nulls[row] & fixed
            if inside and all(keys[c, row] == probes[c, p] for c in range(len(keys))):
                found.append((p, first + row))
    return sorted(found)


@pytest.mark.parametrize("seed", range(40))
def test_scanned_and_clustered_rows(seed: int) -> None:
    rng = Random(seed)
    columns, rows, count = rng.randint(1, 3), rng.randint(0, 60), rng.randint(1, 12)
    lots = np.random.default_rng(seed)
    keys, probes = lots.integers(0, 3, (columns, rows)), lots.integers(0, 3, (columns, count))
    nulls = np.where(lots.random(rows) < 0.2, lots.integers(0, 1 << columns, rows), 0)
    first, fixed = rng.randint(0, 100), (1 << columns) - 1
    low = first + lots.integers(-2, rows + 2, count)
    high = low + lots.integers(0, rows + 2, count)
    right = matches(keys, nulls, fixed, first, probes, low, high)
    assert (
        gathered(lambda begin, a, b: _scan(keys, nulls, fixed, first, begin, probes, low, high, a, b), rows, rng)
        == right
    )
    # One bit of each column; the first column's field may be left open.
    address = sum((keys[c] & 1) << c for c in range(columns)) if rows else np.zeros(0, np.int64)
    none = np.empty(keys.shape, np.int32), np.zeros(columns, np.bool_)
    *rows_of, _ = cluster_rows(np.asarray(address, np.int64), 1 << columns, keys, *none, nulls, np.arange(rows))
    block = kernels.Clustered(*rows_of, first)
    asked = sum((probes[c] & 1) << c for c in range(columns))
    args = (block, np.arange(columns), fixed)
    asking, there = kernels.Probes(probes, low, high), np.ones(count, np.bool_)
    at = kernels.ProbePlaces(np.asarray(asked, np.int64), there, 0, 0)
    assert gathered(lambda begin, a, b: kernels.read_addresses(*args, asking, at, begin, a, b)[:2], count, rng) == right
    free, low_free = (2, 0) if columns > 1 else (0, 1)
    masked = np.asarray(asked, np.int64) & ~(free | ((1 << low_free) - 1))
    open_bits = kernels.ProbePlaces(masked, there, free, low_free)
    assert (
        gathered(lambda begin, a, b: kernels.read_addresses(*args, asking, open_bits, begin, a, b)[:2], count, rng)
        == right
    )


@pytest.mark.parametrize("seed", range(40))
def test_probes_that_work_alone(seed: int) -> None:
    """Scanned, and read from three blocks of any configuration."""
    rng, lots = Random(seed), np.random.default_rng(seed)
    columns, rows, count = rng.randint(1, 3), rng.randint(3, 60), rng.randint(1, 12)
    keys, probes = lots.integers(0, 5, (columns, rows)), lots.integers(0, 6, (columns, count))
    nulls = np.where(lots.random(rows) < 0.2, lots.integers(0, 1 << columns, rows), 0)
    first = rng.randint(0, 100)
    chosen = sorted(rng.sample(range(columns), rng.randint(1, columns)))
    fixed = sum(1 << c for c in chosen)
    low = first + lots.integers(-2, rows + 2, count)
    high = low + lots.integers(0, rows + 2, count)
    asking = alone.Alone(np.array(chosen), fixed, probes[chosen], low, high)
    right = matches(keys[chosen], nulls, fixed, first, probes[chosen], low, high)
    every = np.empty(0, np.bool_)
    ids = (first, first + rows, first)
    assert (
        gathered(lambda begin, a, b: alone.scan_each(keys, nulls, every, *ids, asking, begin, a, b)[:2], count, rng)
        == right
    )
    cuts = [0, *sorted(rng.sample(range(1, rows), 2)), rows]
    blocks = []
    for begin, end in pairwise(cuts):
        order = rng.choice(((), tuple(rng.sample(range(columns), columns))))
        fields = Fields(tuple(rng.randint(0, 3) for _ in range(columns)), rng.randrange(1 << columns), order)
        together = Together(tuple(sorted(rng.sample(range(columns), rng.randint(1, columns)))), rng.randint(0, 4))
        addressing = rng.choice((fields, together))
        here, gone = keys[:, begin:end], nulls[begin:end]
        tuning = TemplateTuning(most_codes=rng.choice((0, 100)), least_room=8)
        blocks.append(clustered(addressing, here, gone, np.arange(end - begin), first + begin, first + end, tuning))
    table = np.stack([block.line(columns) for block in blocks])
    assert gathered(lambda begin, a, b: alone.read_blocks(table, asking, begin, a, b)[:2], count, rng) == right


@pytest.mark.parametrize("rows", (1, 63, 64, 65, 127, 128, 129, 320))
@pytest.mark.parametrize("values", (1, 2, 40))
def test_runs_of_portions(rows: int, values: int) -> None:
    """Short forms are compared a portion at a time: runs end before, at and behind its end, and a row may fit at every
    place."""
    lots = np.random.default_rng(rows)
    keys, nulls = lots.integers(0, values, (2, rows)), np.zeros(rows, np.int64)
    probes = np.arange(min(values, 5)).reshape(1, -1)
    low, high = np.zeros(probes.shape[1], np.int64), np.full(probes.shape[1], rows)
    for column, bits in ((0, (0, 1)), (0, (1, 0)), (1, (2, 1)), (0, (0, 0))):
        for most in (0, 100):
            block = clustered(Fields(bits), keys, nulls, np.arange(rows), 0, rows, TemplateTuning(most_codes=most))
            asking = alone.Alone(np.array([column]), 1 << column, probes, low, high)
            table = np.stack([block.line(2)])

            def read(begin, a, b, table=table, asking=asking):
                return alone.read_blocks(table, asking, begin, a, b)[:2]

            right = matches(keys[[column]], nulls, 1 << column, 0, probes, low, high)
            assert gathered(read, probes.shape[1], Random(rows)) == right


def _scan(keys, nulls, fixed, first, begin, probes, low, high, out_probe, out_row):
    heads, following = kernels.table_of(probes)
    wanted = np.empty(0, np.bool_)
    stretch, asking = kernels.RequestStretch(keys, nulls, wanted, first), kernels.Probes(probes, low, high)
    return kernels.scan(stretch, fixed, asking, heads, following, begin, out_probe, out_row)


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
