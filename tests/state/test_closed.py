"""Sets of closed keys against plain Python sets, and what they cost."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.model.datatypes import BIGINT, DOUBLE, STRING
from eddyline.model.records.punctuation import PATTERN, Interval, ValuePattern, to_text
from eddyline.operators.promises.closed import Closed
from eddyline.operators.promises.covering import ordered_keys
from eddyline.operators.stream.keys import combined, keys_of
from eddyline.state.closed import Intervals, Keys, distinct, earliest, least_places, places_of


@pytest.mark.parametrize("spread", [3, 60, 100_000])
@pytest.mark.parametrize("seed", range(5))
def test_words_and_their_least_places(seed: int, spread: int) -> None:
    rng = np.random.default_rng(seed)
    some, places = rng.integers(0, spread, 12), rng.integers(0, 9, 12)
    low, high = int(some.min()), int(some.max())
    found = least_places(some, low, high, places, 99)
    if found is None:
        assert high - low >= 8 * len(some)
        return
    pairs = [*zip(some.tolist(), places.tolist(), strict=True)]
    assert found.tolist() == [min((p for w, p in pairs if w == key), default=99) for key in range(low, high + 1)]


@pytest.mark.parametrize("seed", range(20))
def test_intervals_hold_what_was_added(seed: int) -> None:
    rng = Random(seed)
    kept, model = Intervals(), set()
    for _ in range(rng.randrange(1, 40)):
        pairs = [
            (low, low + rng.choice((0, 0, 1, 5)))
            for low in (rng.randrange(-60, 60) for _ in range(rng.randrange(1, 30)))
        ]
        kept.add(np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64))
        model |= {x for a, b in pairs for x in range(a, b + 1)}
        asked = np.arange(-70, 80)
        assert kept.holds(asked).tolist() == [x in model for x in asked.tolist()]
        low, high = sorted((rng.randrange(-70, 80), rng.randrange(-70, 80)))
        assert kept.is_near(low, high) or not any(low <= x <= high for x in model)
        first, last, later_first, later_last = (part.tolist() for part in kept.parts())
        spans = [*zip(first, last, strict=True), *zip(later_first, later_last, strict=True)]
        assert {x for a, b in spans for x in range(a, b + 1)} == model
        assert first == sorted(first) and later_first == sorted(later_first)
        assert kept.covers(low, high) == all(x in model for x in range(low, high + 1))
    again = Intervals()
    again.add(*kept.spans())
    assert again.holds(asked).tolist() == kept.holds(asked).tolist()


def test_the_ends_of_all_words() -> None:
    kept = Intervals()
    first, last = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    kept.add(np.array([first, last - 1]), np.array([first, last]))
    kept.add(np.array([last]), np.array([last]))
    assert kept.holds(np.array([first, first + 1, last - 1, last])).tolist() == [True, False, True, True]


@pytest.mark.parametrize("seed", range(20))
def test_single_words_become_intervals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kept, model, next_one = Intervals(), set(), 0
    for _ in range(30):
        draw = rng.random()
        # The next ones in order, some near ones, or some that lie far apart.
        count = int(rng.integers(1, 12))
        keys = (
            np.arange(next_one, next_one + count)
            if draw < 0.5
            else rng.integers(-40, 200, count)
            if draw < 0.8
            else rng.integers(-(2**40), 2**40, 3)
        )
        next_one += count
        kept.add_keys(rng.permutation(keys))
        model |= set(keys.tolist())
        asked = np.array([*range(-50, 220), *model])
        assert kept.holds(asked).tolist() == [x in model for x in asked.tolist()]
    kept.merge()
    assert int((kept.high - kept.low + 1).sum()) == len(model)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("spread", [5, 60, 2**50])
def test_words_are_found_whether_dense_or_not(seed: int, spread: int) -> None:
    rng = np.random.default_rng(seed)
    keys, asked = (
        rng.integers(-spread, spread, int(rng.integers(0, 40))),
        rng.integers(-spread, 2 * spread, int(rng.integers(0, 40))),
    )
    asked = np.concatenate([asked, keys[::2]])
    places = rng.integers(0, 100, len(keys))
    once = distinct(keys)
    assert once.tolist() == sorted(set(keys.tolist()))
    assert places_of(once, asked).tolist() == [once.tolist().index(x) if x in once else -1 for x in asked.tolist()]
    found = earliest(keys, places, asked, 1000)
    wanted = [
        min((p for w, p in zip(keys.tolist(), places.tolist(), strict=True) if w == x), default=1000)
        for x in asked.tolist()
    ]
    assert wanted == ([1000] * len(asked) if found is None else found.tolist())


def test_the_ends_of_all_words_are_distinct() -> None:
    ends = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    assert distinct(ends).tolist() == sorted(set(ends.tolist()))
    assert places_of(distinct(ends), ends).tolist() == [1, 0, 1]
    found = earliest(ends, np.array([5, 6, 7]), ends, 1000)
    assert found is not None and found.tolist() == [5, 6, 5]
    kept = Intervals()
    kept.add_keys(ends)
    assert kept.holds(np.array([*ends, 0])).tolist() == [True, True, True, False]


@pytest.mark.parametrize("seed", range(10))
def test_keys_compare_values_and_not_hashes(seed: int) -> None:
    rng = Random(seed)
    kept, model = Keys(), set()
    for _ in range(30):
        rows = [(rng.randrange(20), f"x{rng.randrange(5)}") for _ in range(rng.randrange(1, 40))]
        table = pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
        # Few hashes: different keys share them.
        keys = np.array([a % 3 for a, _ in rows], np.int64)
        asked = [(rng.randrange(20), rng.choice((f"x{rng.randrange(5)}", None))) for _ in range(40)]
        found = kept.holds(
            np.array([a % 3 for a, _ in asked]),
            pa.table({"a": [a for a, _ in asked], "b": pa.array([b for _, b in asked])}),
        )
        assert found.tolist() == [row in model for row in asked]
        kept.add(keys, table)
        model |= set(rows)
    assert len(kept.values) == len(model)


def test_a_million_promises_are_small() -> None:
    dense, sparse = Intervals(), Intervals()
    rng = np.random.default_rng(1)
    order = rng.permutation(1_000_000)
    scattered = np.unique(rng.integers(-(2**62), 2**62, 1_000_000))
    for at in range(0, 1_000_000, 50_000):
        dense.add_keys(order[at : at + 50_000])
        sparse.add_keys(scattered[at : at + 50_000])
    dense.merge()
    sparse.merge()
    assert dense.nbytes <= 1024
    assert sparse.nbytes <= 32 * 2**20
    texts = Keys()
    names = pa.array([f"order-{n}" for n in range(100_000)])
    texts.add(combined([keys_of(names, STRING)]), pa.table({"name": names}))
    assert texts.nbytes <= 3.2 * 2**20


def test_words_of_doubles_keep_their_order() -> None:
    values = [float("-inf"), -2.5, -1e-300, -0.0, 0.0, 1e-300, 2.5, float("inf"), float("nan")]
    keys = ordered_keys(pa.array(values), DOUBLE)
    assert keys[3] == keys[4]
    assert (np.diff(keys) >= 0).all() and len(np.unique(keys)) == len(values) - 1


def test_promises_are_forgotten_by_generations() -> None:
    closed = Closed({"k": BIGINT}, remember=10)
    for now in range(0, 100, 5):
        closed.add(pa.table({"k": [now]}), np.array([now]))
        closed.make_old(now)
    assert len(closed.generations) == 2
    asked = {"k": pa.array([75, 80, 95])}
    assert closed.old(asked, 3, ts=np.full(3, 99)).tolist() == [False, True, True]
    assert closed.old(asked, 3, ts=np.full(3, 100)).tolist() == [False, False, True]


@pytest.mark.parametrize("seed", range(12))
def test_promises_that_were_saved_cover_what_they_covered(seed: int) -> None:
    rng = Random(seed)
    types = {"k": BIGINT, "n": BIGINT, "s": STRING}
    closed, run, tables, written = Closed(types), 0, {}, []
    for step in range(40):
        size = rng.randrange(1, 12)
        numbers = pa.array([rng.choice((None, step, rng.randrange(300))) for _ in range(size)], pa.int64())
        texts = pa.array([rng.choice((None, f"x{rng.randrange(20)}")) for _ in range(size)], pa.string())
        low = rng.randrange(300)
        near = ValuePattern((Interval(low, low + 9),))
        body = rng.choice(
            [
                pa.table({"k": numbers}),
                pa.table({"s": texts}),
                pa.table({"k": numbers, "s": texts}),
                pa.table({PATTERN: [to_text({"k": near}), to_text({"k": near, "n": ValuePattern((Interval(low),))})]}),
            ]
        )
        closed.add(body, np.zeros(len(body), np.int64))
        closed.make_old()
        if rng.random() < 0.5:
            state, blocks = closed.snapshot(f"closed-{run}")
            fresh = {name: make() for name, make in blocks.items() if name not in tables}
            tables |= fresh
            written.append(sum(map(len, fresh.values())))
            again = Closed(types)
            again.restore(json.loads(json.dumps(state)), tables.__getitem__)
            asked = {
                "k": pa.array([*range(-5, 320)], pa.int64()),
                "n": pa.array([rng.randrange(320) for _ in range(325)], pa.int64()),
                "s": pa.array([rng.choice((None, f"x{rng.randrange(22)}")) for _ in range(325)]),
            }
            assert again.old(asked, 325).tolist() == closed.old(asked, 325).tolist()
            copied = Closed(types)
            copied.copy_old(closed)
            assert copied.old(asked, 325).tolist() == closed.old(asked, 325).tolist()
            if rng.random() < 0.3:
                closed, run = again, run + 1
    assert sorted(written)[len(written) // 2] < 60


@pytest.mark.parametrize("kind", ["texts", "pairs", "ranges"])
def test_a_promise_of_an_earlier_epoch_closes_values_at_every_place_of_a_later_one(kind: str) -> None:
    bodies = {
        "texts": {"s": ["x"]},
        "pairs": {"k": [1], "s": ["x"]},
        "ranges": {
            PATTERN: [to_text({"k": ValuePattern((Interval(1, 4),)), "s": ValuePattern((Interval("x", "x"),))})]
        },
    }
    closed = Closed({"k": BIGINT, "s": STRING})
    columns, ranks = {"k": pa.array([1, 1, 1]), "s": pa.array(["x", "y", "x"])}, np.array([0, 1, 2])
    promise = pa.table(bodies[kind])
    # In its own epoch it stands between the first row and the last.
    closed.expect(promise, np.array([1]))
    closed.add(promise, np.array([50]))
    assert closed.before(columns, ranks, {}).tolist() == [False, False, True]
    closed.make_old(60)
    assert closed.before(columns, ranks, {}).tolist() == [True, False, True]
    closed.expect(pa.table({"s": ["y"]}), np.array([2]))
    assert closed.before(columns, np.array([0, 1, 2]), {}).tolist() == [True, False, True]
    assert closed.before(columns, np.array([0, 2, 2]), {}).tolist() == [True, True, True]
