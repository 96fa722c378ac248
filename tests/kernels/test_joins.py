"""Kernels of shared joins, strips, schedules and arrivals against plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from eddyline.kernels.joins import arrivals, schedule, sharing, strips
from eddyline.operators.join.port import Ages
from eddyline.state.runs import run_begins
from eddyline.state.store import Store
from tests.oracle import kernels_joins as slow


def lineage_of(rows: list[slow.Row], width: int) -> np.ndarray:
    lineage = np.zeros((len(rows), width), np.uint64)
    for at, row in enumerate(rows):
        for query in row.queries:
            lineage[at, query // 64] |= np.uint64(1) << np.uint64(query % 64)
    return lineage


class Joined:
    """A store with rows of which some have left, and rows that probe it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.width = int(rng.integers(1, 3))
        self.queries = sorted(rng.choice(64 * self.width, int(rng.integers(1, 12)), replace=False).tolist())
        rows, keys = int(rng.integers(0, 150)), int(rng.integers(1, 6))
        times = np.sort(rng.integers(0, 60, rows)).tolist()
        order = (2 * np.arange(rows)).tolist()
        old = [slow.Row(int(rng.integers(keys)), order[at], times[at], at, self._some(rng)) for at in range(rows)]
        self.store = Store("s")
        for column in ("key", "seq", "ts", "num"):
            self.store.add_column(column, np.int64)
        self.index = self.store.add_index("key")
        self.store.add_column("words", np.uint64, self.width + 1)
        columns = {"key": [r.key for r in old], "seq": order, "ts": times, "num": [r.number for r in old]}
        lineage = np.concatenate([lineage_of(old, self.width), np.zeros((rows, 1), np.uint64)], axis=1)
        self.store.append(
            rows, {}, {**{name: np.array(values, np.int64) for name, values in columns.items()}, "words": lineage}
        )
        self.store.forget_before(int(rng.integers(0, rows + 1)))
        self.stored = {at: row for at, row in enumerate(old) if at >= self.store.first}
        self.lineage = np.ascontiguousarray(self.store.columns["words"][:, : self.width])
        asked = int(rng.integers(0, 40))
        limits = np.sort(rng.integers(0, 2 * rows + 2, asked))
        clocks = [times[min(limit // 2, rows - 1)] + 3 if rows else 3 for limit in limits.tolist()]
        self.probing = [
            slow.Row(int(rng.integers(keys)), limit, clock, (limit + 1) // 2, self._some(rng))
            for limit, clock in zip(limits.tolist(), clocks, strict=True)
        ]

    def _some(self, rng: np.random.Generator) -> frozenset[int]:
        return frozenset(query for query in self.queries if rng.random() < 0.7)

    def column(self, name: str) -> np.ndarray:
        return np.array([getattr(row, name) for row in self.probing], np.int64)


@pytest.mark.parametrize("seed", range(30))
def test_shares_of_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = Joined(rng)
    counted = {q: int(rng.integers(1, 30)) for q in case.queries if rng.random() < (0.4 if seed % 2 else 0.0)}
    timed = {q: int(rng.integers(0, 40)) for q in case.queries if q not in counted}
    time = Ages(tuple(timed.items()), case.width, list(counted))
    rows_back = Ages(tuple(counted.items()), case.width, list(timed))
    place_of = np.full(64 * case.width, -1)
    place_of[case.queries] = np.arange(len(case.queries))
    store, index = case.store, case.index
    limits = case.column("order")
    probing = sharing.Probing(
        case.column("key"),
        limits,
        case.column("ts"),
        case.column("number"),
        lineage_of(case.probing, case.width),
        1,
        True,
    )
    chained = sharing.Chained(
        index.heads,
        index.back,
        index.keys,
        store.columns["seq"],
        store.columns["ts"],
        store.columns["num"],
        case.lineage,
        1,
        store.base,
        store.first,
    )
    windows = sharing.Windows(
        time.sizes, time.table, time.size_of, rows_back.sizes, rows_back.table, rows_back.size_of, place_of
    )
    sequence = sharing.by_bucket(probing.hashes, index.heads)
    room, at, made, pairs = 1, 0, 0, 0
    shares = sharing.ShareArrays(*(np.empty(room, np.int64) for _ in range(3)))
    while at < len(sequence):
        made, at, found, _ = sharing.expand_chains(shares, made, 100, at, sequence, probing, chained, windows)
        pairs += found
        room *= 2
        shares = sharing.ShareArrays(*(np.concatenate([column[:made], np.empty(room, np.int64)]) for column in shares))
    found = [
        (case.queries[p], o - 100, row)
        for p, o, row in zip(*(column[:made].tolist() for column in shares), strict=True)
    ]
    expected = slow.shares(case.probing, {at - store.base: row for at, row in case.stored.items()}, timed, counted)
    assert sorted(found) == sorted(expected) and pairs == len({(o, row) for _, o, row in expected})
    rank = rng.permutation(len(case.probing)) + 7
    lefts, rights, edges = sharing.order_shares(
        shares.place[:made],
        shares.left[:made] - 100,
        shares.right[:made],
        rank,
        len(case.queries),
        7,
        max(len(rank), 1),
    )
    places = np.repeat(np.arange(len(case.queries)), np.diff(edges)).tolist()
    ordered = [(case.queries[p], o, row) for p, o, row in zip(places, lefts.tolist(), rights.tolist(), strict=True)]
    assert ordered == slow.ordered_shares(found, rank.tolist())


@pytest.mark.parametrize("seed", range(10))
def test_shares_of_words(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lineage = rng.integers(0, 2**63, (int(rng.integers(0, 20)), 2)).astype(np.uint64)
    place_of = np.where(rng.random(128) < 0.5, np.arange(128), -1)
    place, left = np.empty(1, np.int64), np.empty(1, np.int64)
    made = at = 0
    while at < len(lineage):
        made, at = sharing.expand_lineage(place, left, made, 5, at, lineage, place_of)
        place, left = (np.concatenate([column[:made], np.empty(256, np.int64)]) for column in (place, left))
    expected = [
        (b, 5 + o)
        for o in range(len(lineage))
        for b in range(128)
        if int(lineage[o, b // 64]) >> (b % 64) & 1 and place_of[b] >= 0
    ]
    assert list(zip(place[:made].tolist(), left[:made].tolist(), strict=True)) == expected


@pytest.mark.parametrize("seed", range(10))
def test_a_part_of_pairs_that_were_found_for_several(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 50, 40))
    met = [sorted(rng.choice(40, int(rng.integers(0, 8)), replace=False).tolist(), reverse=True) for _ in range(12)]
    begin = np.cumsum([0, *(len(one) for one in met)])
    chosen = np.sort(rng.choice(12, 6, replace=False))
    floors, first = rng.integers(0, 50, 6), int(rng.integers(0, 20))
    left, right = sharing.pairs_of(
        chosen, floors, begin, np.array([10 + r for one in met for r in one], np.int64), ts, 10, 10 + first
    )
    expected = [(o, 10 + r) for o in range(6) for r in met[chosen[o]] if r >= first and ts[r] >= floors[o]]
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected


@pytest.mark.parametrize("scans", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_runs_of_strips(seed: int, scans: bool) -> None:
    rng = np.random.default_rng(seed)
    case = Joined(rng)
    counted, keyed = bool(seed % 2), not scans or bool(rng.integers(2))
    sizes = np.sort(rng.choice(40, 4, replace=False))
    hashes, limits, store, index = case.column("key"), case.column("order"), case.store, case.index
    age = store.columns["num" if counted else "ts"]
    if scans:
        cursor = store.first + np.searchsorted(store.column("seq"), limits) - 1
    else:
        cursor, tops = limits.copy(), np.full(len(index.heads), strips.UNKNOWN)
        strips.enter_chains(
            hashes, cursor, tops, index.heads, index.back, store.columns["seq"], store.base, store.first
        )
        assert (tops == strips.UNKNOWN).all()
    rows = len(hashes)
    place = rng.permutation(rows)
    start, ends = np.empty(rows, np.int64), np.empty((rows, 4), np.int32)
    walkers = strips.Walkers(hashes, case.column("number" if counted else "ts"), cursor, place)
    stored = strips.Aged(index.keys, age, store.base, store.first)
    room, used = np.empty(1, np.int64), 0
    for low, high in ((0, 1), (1, 3), (3, 4)):
        visited, turn, sequence = np.zeros(high - low, np.int64), 0, rng.permutation(rows)
        runs = strips.RunPlaces(start, ends, low)
        while turn < rows:
            if scans:
                used, turn = strips.scan_strips(
                    turn, walkers, sizes[low:high], runs, visited, room, used, keyed, stored
                )
            else:
                used, turn = strips.probe_strips(
                    sequence, turn, walkers, sizes[low:high], runs, visited, room, used, index.back, stored
                )
            room = np.concatenate([room[:used], np.empty(2 * len(room) + 64, np.int64)]) if turn < rows else room
    expected = slow.runs(case.probing, case.stored, sizes.tolist(), keyed, counted)
    for o, mine in enumerate(expected):
        found = [room[start[place[o]] :][: ends[place[o], window]].tolist() for window in range(4)]
        assert found == mine


@pytest.mark.parametrize("seed", range(10))
def test_rows_of_both_inputs_and_the_results_of_a_window(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stamps = rng.choice(100, 30, replace=False)
    one, other = np.sort(stamps[:12]), np.sort(stamps[12:])
    of, merged, clocks, owns, place, other_place = strips.merged(one, other, one + 1, other + 1, one + 2, other + 2)
    assert (
        merged.tolist() == sorted(stamps.tolist())
        and clocks.tolist() == (merged + 1).tolist()
        and owns.tolist() == (merged + 2).tolist()
    )
    assert merged[place].tolist() == one.tolist() and merged[other_place].tolist() == other.tolist()
    assert of.tolist() == [int(stamp in set(other.tolist())) for stamp in merged.tolist()]
    ends = rng.integers(0, 4, (30, 1)).astype(np.int32)
    start = np.cumsum(np.concatenate([[0], ends[:-1, 0]])).astype(np.int64)
    room = rng.integers(0, 1000, int(ends.sum()))
    first, second, stamp, clock = strips.lay_out(of, 0, owns, start, ends, merged, clocks, room)
    lines = [(r, room[start[r] + k]) for r in range(30) for k in range(ends[r, 0])]
    expected = [((found, owns[r]) if of[r] else (owns[r], found)) + (merged[r], clocks[r]) for r, found in lines]
    assert list(zip(first, second, stamp, clock, strict=True)) == expected


@pytest.mark.parametrize("seed", range(40))
def test_units_of_work(seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows, batches = int(rng.integers(1, 6)), int(rng.integers(1, 12))
    priority, onward = rng.integers(0, 4, (2, windows, windows + 1)).astype(np.float64)
    need = rng.integers(1, 60, (windows + 1, windows + 1)).astype(np.float64)
    bounds = np.concatenate([[0], np.cumsum(rng.integers(1, 20, batches))])
    done = np.array([batches, *([0] * windows)])
    slowly = done.tolist()
    while True:
        unit = schedule.next_unit(done, priority, onward, bounds, need)
        assert tuple(unit) == slow.next_unit(slowly, priority.tolist(), onward.tolist(), bounds.tolist(), need.tolist())
        assert done.tolist() == slowly
        if unit[2] < 0:
            break
    assert done.tolist() == [batches] * (windows + 1)


@pytest.mark.parametrize("seed", range(10))
def test_arrivals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, epochs = int(rng.integers(1, 60)), int(rng.integers(1, 6))
    numbers, ends = rng.permutation(rows), np.sort(rng.integers(0, rows + 1, epochs))
    came = rng.integers(0, 9, epochs)
    ranks, began = rng.permutation(rows) + 3, np.zeros(rows, np.int64)
    arrivals.note_arrivals(began, ranks, 3, numbers, ends, came)
    assert began[ranks - 3].tolist() == slow.instants(numbers.tolist(), ends.tolist(), came.tolist())
    turns = np.flatnonzero(run_begins(began))
    assert turns.tolist() == [i for i in range(rows) if i == 0 or began[i] != began[i - 1]]
    edges = np.sort(rng.integers(0, 50, 4))
    edges[0] = 0
    stamps = np.concatenate([np.sort(rng.integers(0, rows, stop - start)) for start, stop in pairwise(edges.tolist())])
    kind_of = rng.integers(0, 3, len(turns))
    found = arrivals.count_kinds(edges, stamps, turns, kind_of, 3)
    for part, (start, stop) in enumerate(pairwise(edges.tolist())):
        assert found[part].tolist() == slow.kinds(stamps[start:stop].tolist(), turns.tolist(), kind_of.tolist(), 3)
