"""Chains and scans against plain loops, also after rows have left and the arrays have slid."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.kernels.joins import probe
from eddyline.state.store import Store
from tests.oracle.kernels import matches


def filled(
    rng: np.random.Generator, rows: int, keys: int, gone: int, apart: int = 1
) -> tuple[Store, np.ndarray, np.ndarray, np.ndarray]:
    """A store with `rows` rows in portions, of which the first `gone` have left; keys lie so far `apart`."""
    store = Store("s")
    for column in ("key", "seq", "ts"):
        store.add_column(column, np.int64)
    store.add_index("key")
    key, seq, ts = rng.integers(0, keys, rows) * apart, np.arange(rows), np.sort(rng.integers(0, 50, rows))
    at = 0
    while at < rows:
        stop = min(rows, at + int(rng.integers(1, 40)))
        store.append(stop - at, {}, {"key": key[at:stop], "seq": seq[at:stop], "ts": ts[at:stop]})
        store.forget_before(min(gone, store.end))
        at = stop
    return store, key, seq, ts


@pytest.mark.parametrize("seed", range(40))
def test_chains_and_scans_find_the_same_as_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 700))
    gone = int(rng.integers(0, rows + 1))
    store, key, seq, ts = filled(rng, rows, int(rng.integers(1, 30)), gone)
    asked = int(rng.integers(0, 60))
    hashes, limit, floor = rng.integers(0, 30, asked), rng.integers(0, rows + 2, asked), rng.integers(-5, 55, asked)
    expected = sorted(matches(hashes, limit, floor, key, seq, ts, min(gone, rows), rows))
    index, asking = store.indexes["key"], probe.ProbeKeys(hashes, limit, floor)
    rest = (store.columns["seq"], store.columns["ts"], store.base, store.first)
    for in_time_order in (True, False):
        left, right, visited = probe.probe_chains(asking, index.chains("seq", "ts", in_time_order))
        assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == expected
        assert (np.diff(left) >= 0).all() and visited >= len(expected)
    left, right, visited = probe.probe_scan(asking, True, probe.StoredStretch(index.keys, *rest, store.end))
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == expected and visited == asked * store.live
    left, right, _ = probe.probe_scan(asking, False, probe.StoredStretch(index.keys, *rest, store.end))
    everything = matches(hashes, limit, floor, key, seq, ts, min(gone, rows), rows, keyed=False)
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == sorted(everything)


@pytest.mark.parametrize("seed", range(20))
def test_a_key_is_held_while_a_row_of_it_lives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 400))
    gone = int(rng.integers(0, rows + 1))
    store, key, _, ts = filled(rng, rows, int(rng.integers(1, 30)), gone)
    keys, least = rng.integers(0, 35, 60), rng.integers(-5, 55, 60)
    dropped = np.flatnonzero(rng.random(rows) < 0.3)
    store.drop(dropped)
    left = [row for row in range(min(gone, rows), rows) if row not in dropped]
    expected = [
        any(key[row] == one and ts[row] >= bound for row in left) for one, bound in zip(keys, least, strict=True)
    ]
    for in_time_order in (True, False):
        assert probe.held(keys, least, store.indexes["key"].chains("seq", "ts", in_time_order)).tolist() == expected


@pytest.mark.parametrize("apart", [1, 1024])
@pytest.mark.parametrize("seed", range(20))
def test_rows_are_unmet_whose_key_is_closed_and_not_stored(seed: int, apart: int) -> None:
    """Keys that lie 1,024 apart take each other's place among the keys that the kernel keeps at hand."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 400))
    gone = int(rng.integers(0, rows + 1))
    store, key, _, ts = filled(rng, rows, int(rng.integers(1, 30)), gone, apart)
    dropped = np.flatnonzero(rng.random(rows) < 0.5)
    store.drop(dropped)
    left = [row for row in range(min(gone, rows), rows) if row not in dropped]
    keys, ranks, times, span = (
        rng.integers(0, 40, 60) * apart,
        np.arange(100, 160),
        rng.integers(0, 60, 60),
        int(rng.integers(0, 20)),
    )
    old, later, places = (
        [(2, 5), (9, 9), (20, 24)][: seed % 4],
        [(12, 13), (30, 36)][: seed % 3],
        rng.integers(90, 170, seed % 8),
    )
    old, later = ([(low * apart, high * apart) for low, high in spans] for spans in (old, later))
    asked = probe.ProbeColumns(keys, ranks, times, 7)
    ends = [np.array([span[at] for span in spans], np.int64) for spans in (old, later) for at in (0, 1)]
    ranges = probe.ClosedRanges(*ends, 15, places)
    ids = np.sort(rng.choice(60, 40, replace=False)) + 7
    expected = []
    for at in (ids - 7).tolist():
        one = int(keys[at])
        closed = any(low <= one <= high for low, high in (*old, *later))
        closed = closed or (15 <= one < 15 + len(places) and places[one - 15] <= ranks[at])
        expected.append(closed and not any(key[row] == one and ts[row] >= times[at] - span for row in left))
    for in_time_order in (True, False):
        assert (
            probe.unmet(ids, asked, span, ranges, store.indexes["key"].chains("seq", "ts", in_time_order)).tolist()
            == expected
        )


@pytest.mark.parametrize("seed", range(10))
def test_words_are_shut_that_lie_in_intervals_or_have_a_place(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spans, never = [[(2, 5), (9, 9), (20, 24)][: seed % 4], [(12, 13), (30, 36)][: seed % 3]], 1_000
    places = np.where(rng.random(seed % 8) < 0.5, never, rng.integers(90, 170, seed % 8))
    ends = [np.array([span[at] for span in some], np.int64) for some in spans for at in (0, 1)]
    keys = rng.integers(-3, 40, 80)
    expected = [any(low <= one <= high for some in spans for low, high in some) for one in keys.tolist()]
    expected = [
        closed or (15 <= one < 15 + len(places) and places[one - 15] < never)
        for closed, one in zip(expected, keys.tolist(), strict=True)
    ]
    left_out = rng.random(80) < 0.3
    ranges = probe.ClosedRanges(*ends, 15, places)
    assert probe.closed_rows(keys, np.empty(0, np.bool_), ranges, never).tolist() == np.flatnonzero(expected).tolist()
    assert (
        probe.closed_rows(keys, left_out, ranges, never).tolist()
        == np.flatnonzero(np.array(expected) & ~left_out).tolist()
    )


def test_many_more_pairs_than_rows() -> None:
    store, key, seq, ts = filled(np.random.default_rng(1), 3_000, 2, 0)
    hashes = np.array([5, 0, 1, 0, 5, 1])
    limit, floor = np.full(6, 3_000), np.full(6, -1)
    left, right, visited = probe.probe_chains(
        probe.ProbeKeys(hashes, limit, floor), store.indexes["key"].chains("seq", "ts", True)
    )
    expected = matches(hashes, limit, floor, key, seq, ts, 0, 3_000)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == sorted(
        expected, key=lambda pair: (pair[0], -pair[1])
    )
    assert visited >= len(expected) > 1_024 + 2 * 6


@pytest.mark.parametrize("most", [1, 2, 7, 100, 5_000])
def test_portions_are_the_whole_probe_cut_anywhere(most: int) -> None:
    store, *_ = filled(np.random.default_rng(most), 600, 3, 20)
    hashes, limit, floor = np.array([1, 5, 0, 2, 1, 0, 0]), np.array([600, 9, 400, 600, 300, 0, 500]), np.full(7, 10)
    stored = store.indexes["key"].chains("seq", "ts", True)
    left, right, visited = probe.probe_chains(probe.ProbeKeys(hashes, limit, floor), stored)
    found: list[tuple[int, int]] = []
    done, start, seen, largest = 0, -1, 0, 0
    while done < len(hashes):
        rest = probe.ProbeKeys(hashes[done:], limit[done:], floor[done:])
        some, ids, looked, upto, start = probe.probe_portion(rest, stored, start, most)
        found += zip((some + done).tolist(), ids.tolist(), strict=True)
        done, seen, largest = done + upto, seen + looked, max(largest, len(ids))
    assert found == list(zip(left.tolist(), right.tolist(), strict=True)) and len(found) > 500
    assert largest <= most and seen == visited


def test_no_probing_row_finds_nothing() -> None:
    store, *_ = filled(np.random.default_rng(0), 10, 3, 0)
    none = np.empty(0, np.int64)
    index = store.indexes["key"]
    left, right, visited = probe.probe_chains(probe.ProbeKeys(none, none, none), index.chains("seq", "ts", True))
    assert len(left) == len(right) == visited == 0
