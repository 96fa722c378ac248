"""Ranges of stretches, prefixes of texts and scans of stretches against their slow twins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.kernels.joins import zones
from eddyline.kernels.joins.probe import ProbeKeys
from eddyline.state.columns import string_buffers
from tests.oracle.kernels_zones import bounded, prefix, ranges, scanned, settled, starts


@pytest.mark.parametrize("seed", range(20))
def test_ranges_of_stretches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 200))
    keys = rng.choice([-(2**63), -5, 0, 7, 2**63 - 1], rows)
    valid = rng.random(rows) < 0.7
    cuts = np.unique(np.concatenate(([0, rows], rng.integers(0, rows + 1, 5))))
    for has_nulls in (True, False):
        low, high, nulls = (
            np.empty(len(cuts) - 1, np.int64),
            np.empty(len(cuts) - 1, np.int64),
            np.empty(len(cuts) - 1, np.bool_),
        )
        zones.stretch_ranges(keys, valid, has_nulls, cuts, low, high, nulls)
        found = list(zip(low.tolist(), high.tolist(), nulls.tolist(), strict=True))
        assert found == ranges(keys.tolist(), valid.tolist() if has_nulls else [True] * rows, cuts.tolist())


@pytest.mark.parametrize("seed", range(40))
def test_starts_of_zones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    begin, rows = int(rng.integers(0, 50)), int(rng.integers(1, 300))
    heralds = np.unique(rng.integers(begin + 1, begin + rows + 1, int(rng.integers(1, 40))))
    heralds = heralds[heralds < begin + rows]
    least = int(rng.integers(1, 20))
    most = least + int(rng.integers(0, 60))
    found = zones.zone_starts(begin, begin + rows, heralds, most, least)
    assert found.tolist() == starts(begin, begin + rows, heralds.tolist(), most, least)


def test_prefixes_of_texts_ascend_as_texts_do() -> None:
    texts = sorted(["", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgz", "é", "\x7f", "zz\0", "zz"], key=str.encode)
    offsets, data = string_buffers(pa.array(texts))
    keys = np.empty(len(texts), np.int64)
    zones.text_prefixes(offsets, data, 0, np.arange(len(texts)), keys)
    assert keys.tolist() == [prefix(text) for text in texts]
    assert (np.diff(keys) >= 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_scans_of_stretches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stored, asked = int(rng.integers(1, 90)), int(rng.integers(1, 60))
    base, first = int(rng.integers(0, 50)), int(rng.integers(0, 20))
    order, dead, keys = np.arange(stored), np.sort(rng.integers(0, 20, stored)), rng.integers(0, 4, stored)
    hashes, limit, floor = rng.integers(0, 4, asked), rng.integers(0, stored + 1, asked), rng.integers(0, 20, asked)
    first = min(first, stored - 1)
    cuts = np.unique(np.concatenate(([first, stored], rng.integers(first, stored, 4)))) + base
    row_cuts = np.unique(np.concatenate(([0, asked], rng.integers(0, asked, 3))))
    kinds = rng.integers(-1, 3, (len(row_cuts) - 1, len(cuts) - 1))
    asking, grid = ProbeKeys(hashes, limit, floor), zones.ZoneCells(row_cuts, cuts, kinds)
    for keyed in (True, False):
        expected, looked = scanned(hashes, limit, floor, keyed, keys, order, dead, base, row_cuts, cuts, kinds)
        for in_time_order in (True, False):
            for wants_kinds in (True, False):
                stored_rows = zones.Laid(keyed, keys, order, dead, base, in_time_order)
                left, right, cells, visited = zones.probe_stretches(asking, stored_rows, grid, wants_kinds)
                assert (
                    list(zip(left.tolist(), right.tolist(), strict=True)) == [pair[:2] for pair in expected]
                    and visited == looked
                )
                assert cells.tolist() == ([kind for _, _, kind in expected] if wants_kinds else [])
    # Where neither rises along the store, every row is looked at.
    order, dead = rng.permutation(stored), rng.integers(0, 20, stored)
    left, right, _, _ = zones.probe_stretches(asking, zones.Laid(True, keys, order, dead, base, False), grid, True)
    expected, _ = scanned(hashes, limit, floor, True, keys, order, dead, base, row_cuts, cuts, kinds)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == [pair[:2] for pair in expected]


@pytest.mark.parametrize("seed", range(20))
def test_settled_stretches_stand_among_pairs_that_were_tested(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stored, asked, base = int(rng.integers(1, 90)), int(rng.integers(1, 60)), int(rng.integers(0, 50))
    cuts = np.unique(np.concatenate(([0, stored], rng.integers(0, stored, 4)))) + base
    row_cuts = np.unique(np.concatenate(([0, asked], rng.integers(0, asked, 3))))
    kinds = rng.integers(-1, 3, (len(row_cuts) - 1, len(cuts) - 1))
    by_kind = np.array([False, bool(seed % 2), True])
    limit, floor = rng.integers(0, stored + 1, asked), rng.integers(0, 20, asked)
    asking, grid = ProbeKeys(limit, limit, floor), zones.ZoneCells(row_cuts, cuts, kinds)
    for in_time_order in (True, False):
        order = np.arange(stored) if in_time_order else rng.permutation(stored)
        dead = np.sort(rng.integers(0, 20, stored)) if in_time_order else rng.integers(0, 20, stored)
        pairs, _ = scanned(limit, limit, floor, False, order, order, dead, base, row_cuts, cuts, kinds)
        tested = [(o, row) for o, row, kind in pairs if not by_kind[kind] and rng.random() < 0.4]
        left, right = (np.array([pair[at] for pair in tested], np.int64) for at in (0, 1))
        laid = zones.Laid(False, order, order, dead, base, in_time_order)
        counts, found, visited = zones.settled_stretches(asking, laid, grid, by_kind, left, right)
        expected, looked = settled(limit, floor, order, dead, base, row_cuts, cuts, kinds, by_kind, tested)
        rows = np.repeat(np.arange(asked), counts)
        assert list(zip(rows.tolist(), found.tolist(), strict=True)) == expected and visited == looked


@pytest.mark.parametrize("seed", range(60))
def test_bounds_of_keys_are_tested_on_the_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stored, asked, base, lines = (
        int(rng.integers(1, 400)),
        int(rng.integers(1, 60)),
        int(rng.integers(0, 50)),
        1 + seed % 2,
    )
    start = int(rng.integers(0, stored))
    cuts = np.unique(np.concatenate(([start, stored], rng.integers(start, stored, 4)))) + base
    row_cuts = np.unique(np.concatenate(([0, asked], rng.integers(0, asked, 3))))
    kinds = rng.integers(-1, 3, (len(row_cuts) - 1, len(cuts) - 1))
    by_kind = np.array([False, False, True])
    limit, floor = rng.integers(0, stored + 1, asked), rng.integers(0, 20, asked)
    # With few values most pairs match, with many hardly any; zones are sorted where many rows ask.
    values = int(rng.choice([9, 300]))
    keys, valid = rng.integers(0, values, (lines, stored - start)), rng.random((lines, stored - start)) < 0.8
    least = rng.integers(0, max(values - 3, 6), (lines, asked))
    most = least + rng.integers(-1, 5, (lines, asked))
    asking, grid = ProbeKeys(limit, limit, floor), zones.ZoneCells(row_cuts, cuts, kinds)
    for in_time_order in (True, False):
        order = np.arange(stored) if in_time_order else rng.permutation(stored)
        dead = np.sort(rng.integers(0, 20, stored)) if in_time_order else rng.integers(0, 20, stored)
        laid = zones.Laid(False, order, order, dead, base, in_time_order)
        pairs, looked = scanned(limit, limit, floor, False, order, order, dead, base, row_cuts, cuts, kinds)
        for has_nulls in (True, False):
            within = zones.Within(keys, valid, has_nulls, least, most)
            expected = [
                (o, row)
                for o, row, kind in pairs
                if by_kind[kind] or bounded(keys, valid if has_nulls else None, least, most, o, row - base - start)
            ]
            counts, found, visited, untested = zones.within_stretches(asking, laid, grid, by_kind, within)
            rows = np.repeat(np.arange(asked), counts)
            assert list(zip(rows.tolist(), found.tolist(), strict=True)) == expected and visited == looked
            assert untested == sum(bool(by_kind[kind]) for _, _, kind in pairs)
