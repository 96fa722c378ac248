"""Kernels of groups, sums and heaps against plain Python."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from eddyline.kernels.groups import group, heaps, members, sums
from eddyline.kernels.hashing import hash_strings

ALL = np.empty(0, np.bool_)


def table(capacity: int, width: int) -> tuple[np.ndarray, ...]:
    heads, following = np.full(8, -1, np.int64), np.full(capacity, -1, np.int64)
    return (
        heads,
        following,
        np.zeros((capacity, width), np.int64),
        np.arange(capacity - 1, -1, -1),
        np.array([capacity]),
    )


def test_codes_of_rows_come_and_go_as_in_a_dict() -> None:
    rng = Random(1)
    heads, following, keys, free, free_count = table(64, 2)
    known: dict[tuple[int, int], int] = {}
    for _ in range(300):
        rows = np.array([(rng.randrange(5), rng.randrange(8)) for _ in range(rng.randrange(1, 12))], np.int64)
        codes = np.empty(len(rows), np.int64)
        assert group.find_or_add(heads, following, keys, free, free_count, rows, 0, codes) == len(rows)
        for row, code in zip(map(tuple, rows.tolist()), codes.tolist(), strict=True):
            assert known.setdefault(row, code) == code
        assert len(set(known.values())) == len(known) == 64 - free_count[0]
        gone = rng.sample(sorted(known), rng.randrange(len(known) + 1))
        group.remove(heads, following, keys, free, free_count, np.array([known.pop(row) for row in gone], np.int64))
        asked = np.array([(a, b) for a in range(5) for b in range(8)], np.int64)
        assert group.find(heads, following, keys, asked).tolist() == [known.get((a, b), -1) for a, b in asked.tolist()]


def test_members_of_groups_come_and_go_as_in_sets() -> None:
    rng = Random(2)
    firsts, after, before, group_of = (np.zeros(size, np.int64) for size in (7, 40, 40, 40))
    known: dict[int, set[int]] = {at: set() for at in range(7)}
    for _ in range(200):
        free = [slot for slot in range(40) if not any(slot in held for held in known.values())]
        slots = np.array(rng.sample(free, rng.randrange(len(free) + 1)), np.int64)
        group_of[slots] = [rng.randrange(7) for _ in slots]
        members.link(firsts, after, before, group_of[slots], slots)
        for slot in slots.tolist():
            known[int(group_of[slot])].add(slot)
        held = sorted(slot for some in known.values() for slot in some)
        gone = rng.sample(held, rng.randrange(len(held) + 1))
        members.unlink(firsts, after, before, group_of, np.array(gone, np.int64))
        for slot in gone:
            known[int(group_of[slot])].remove(slot)
        asked = rng.sample(range(7), rng.randrange(8))
        found = members.members(firsts, after, np.array(asked, np.int64)).tolist()
        for one in asked:
            mine, found = found[: len(known[one])], found[len(known[one]) :]
            assert sorted(mine) == sorted(known[one])
        assert not found


def test_a_full_dictionary_says_how_far_it_came() -> None:
    heads, following, keys, free, free_count = table(2, 1)
    codes = np.full(4, -1, np.int64)
    rows = np.array([[7], [8], [7], [9]], np.int64)
    assert group.find_or_add(heads, following, keys, free, free_count, rows, 0, codes) == 3
    assert codes.tolist() == [0, 1, 0, -1]


def test_equal_bytes_have_one_id() -> None:
    texts = [b"", b"a", b"ab", b"a", b"", b"longer than eight bytes", b"ab", b"longer than eight bytez"]
    offsets = np.cumsum([0, *map(len, texts)])
    data = np.frombuffer(b"".join(texts), np.uint8)
    heads, following, _, free, free_count = table(16, 1)
    hashes, begins, sizes = (np.zeros(16, np.int64) for _ in range(3))
    arena, used = np.zeros(64, np.uint8), np.zeros(1, np.int64)
    ids = np.zeros(len(texts), np.int64)
    encoded = hash_strings(offsets, data)
    known = group.Interned(heads, following, hashes, begins, sizes, arena, used, free, free_count)
    done = group.intern(known, group.Strings(encoded, offsets, data, ALL), 0, ids)
    assert done == len(texts)
    assert [texts.index(t) for t in texts] == [ids.tolist().index(i) for i in ids.tolist()]
    packed_offsets, packed = group.gather_bytes(begins, sizes, arena, ids)
    assert [bytes(packed[a:b]) for a, b in pairwise(packed_offsets)] == texts


#: Byte strings in the order of their ids; some begin with another, and the first is empty.
NAMES = [bytes([3] * (n // 4) + [2] * (n % 4)) for n in range(40)]
BYTES = (
    np.cumsum([0, *map(len, NAMES[:-1])]),
    np.array([*map(len, NAMES)]),
    np.frombuffer(b"".join(NAMES), np.uint8).copy(),
)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("texts", [None, BYTES], ids=["words", "texts"])
def test_heaps_know_the_extreme_whatever_leaves(largest: bool, texts: tuple[np.ndarray, ...] | None) -> None:
    assert sorted(NAMES) == NAMES
    rng = Random(2 + largest)
    lowest = -20 if texts is None else 0
    roots, encoded, links = np.full(3, -1, np.int64), np.zeros(200, np.int64), np.zeros((200, 3), np.int32)
    live: dict[int, tuple[int, int]] = {}
    for _ in range(400):
        free = [s for s in range(200) if s not in live]
        slots = np.array(rng.sample(free, min(len(free), rng.randrange(9))), np.int64)
        codes = np.array([rng.randrange(3) for _ in slots], np.int64)
        encoded[slots] = [rng.randrange(lowest, lowest + 40) for _ in slots]
        live.update({s: (c, int(encoded[s])) for s, c in zip(slots.tolist(), codes.tolist(), strict=True)})
        heaps.insert(roots, codes, slots, encoded, links, ALL, largest, texts)
        gone = np.array(rng.sample(sorted(live), rng.randrange(min(len(live), 9) + 1)), np.int64)
        heaps.remove(
            roots, np.array([live[s][0] for s in gone.tolist()], np.int64), gone, encoded, links, ALL, largest, texts
        )
        for s in gone.tolist():
            del live[s]
        for code in range(3):
            values = [v for c, v in live.values() if c == code]
            assert (int(encoded[roots[code]]) if roots[code] >= 0 else None) == (
                (max if largest else min)(values) if values else None
            )


def test_float_sums_are_exact_under_retraction() -> None:
    rng = Random(4)
    state, squares, tallies = np.zeros((1, 5)), np.zeros((1, 5)), np.zeros((1, 4), np.int64)
    live: list[float] = []
    zero = np.zeros(1, np.int64)
    for _ in range(3000):
        if live and rng.random() < 0.5:
            value, sign = live.pop(rng.randrange(len(live))), -1
        else:
            value, sign = rng.uniform(-1, 1) * 10.0 ** rng.randint(-8, 9), 1
            live.append(value)
        sums.add_floats(zero, np.array([value]), ALL, sign, state, squares, tallies)
        assert sums.read_sums(zero, state, tallies, False)[0] == pytest.approx(math.fsum(live), rel=1e-15, abs=0.0)
        assert sum(map(Fraction, state[0, :3].tolist())) == sum(map(Fraction, live))
        if len(live) > 1:
            assert sums.read_deviations(zero, state, squares, tallies)[0] == pytest.approx(
                statistics.stdev(live), rel=1e-9
            )


def test_deviation_of_close_values_far_from_zero() -> None:
    values = np.array([1e9 + x * 1e-3 for x in range(50)])
    state, squares, tallies = np.zeros((1, 5)), np.zeros((1, 5)), np.zeros((1, 4), np.int64)
    sums.add_floats(np.zeros(50, np.int64), values, ALL, 1, state, squares, tallies)
    found = sums.read_deviations(np.zeros(1, np.int64), state, squares, tallies)[0]
    assert found == pytest.approx(statistics.stdev(map(Fraction, values.tolist())), rel=1e-6)


@pytest.mark.parametrize(
    "values", [[1e16, 1e16 + 2, 1e16 + 4], [1e16, 1e16], [-1e15, -1e15 - 0.125, 3.0], [1e153, 1e153]]
)
def test_deviation_of_huge_values(values: list[float]) -> None:
    state, squares, tallies = np.zeros((1, 5)), np.zeros((1, 5)), np.zeros((1, 4), np.int64)
    sums.add_floats(np.zeros(len(values), np.int64), np.array(values), ALL, 1, state, squares, tallies)
    found = sums.read_deviations(np.zeros(1, np.int64), state, squares, tallies)[0]
    assert found == pytest.approx(float(statistics.stdev(map(Fraction, values))), rel=1e-15)


def test_nan_and_infinities_leave_no_trace() -> None:
    state, squares, tallies = np.zeros((1, 5)), np.zeros((0, 5)), np.zeros((1, 4), np.int64)
    zero = np.zeros(1, np.int64)

    def change(value: float, sign: int) -> float:
        sums.add_floats(zero, np.array([value]), ALL, sign, state, squares, tallies)
        return float(sums.read_sums(zero, state, tallies, False)[0])

    assert change(1.5, 1) == 1.5
    assert change(math.inf, 1) == math.inf
    assert math.isnan(change(-math.inf, 1))
    assert change(math.inf, -1) == -math.inf
    assert math.isnan(change(math.nan, 1))
    assert change(-math.inf, -1) != 0.0
    assert change(math.nan, -1) == 1.5


def test_a_sum_that_lost_its_digits_is_doubtful() -> None:
    state, squares, tallies = np.zeros((1, 5)), np.zeros((0, 5)), np.zeros((1, 4), np.int64)
    zero = np.zeros(1, np.int64)
    for value, sign in ((1e-300, 1), (1e300, 1), (1.0, 1), (1e150, 1)):
        sums.add_floats(zero, np.array([value]), ALL, sign, state, squares, tallies)
    assert not sums.doubtful(zero, state)[0]
    for value in (1e300, 1e150, 1.0):
        sums.add_floats(zero, np.array([value]), ALL, -1, state, squares, tallies)
    assert sums.doubtful(zero, state)[0]


def test_a_sum_whose_doubles_cancel_is_doubtful() -> None:
    rng = Random(6)
    doubts = 0
    for _ in range(300):
        state, squares, tallies = np.zeros((1, 5)), np.zeros((0, 5)), np.zeros((1, 4), np.int64)
        values = [rng.choice([1e150, 1e100, 0.1, 0.7]) for _ in range(12)]
        leaving = [value for value in values if value > 1e120 or rng.random() < 0.3]
        rest = values.copy()
        for value in leaving:
            rest.remove(value)
        rng.shuffle(leaving)
        zeros = np.zeros(12, np.int64)
        sums.add_floats(zeros, np.array(values), ALL, 1, state, squares, tallies)
        sums.add_floats(zeros[: len(leaving)], np.array(leaving), ALL, -1, state, squares, tallies)
        if sums.doubtful(zeros[:1], state)[0]:
            doubts += 1
        else:
            assert sums.read_sums(zeros[:1], state, tallies, False)[0] == math.fsum(rest)
    assert 100 < doubts < 300
