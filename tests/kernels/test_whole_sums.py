"""Sums of whole numbers beyond 128 bits, compared with Python's integers, and means, compared with its fractions."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from eddyline.kernels.groups import sums, whole_sums

ALL = np.empty(0, np.bool_)
ZERO = np.zeros(1, np.int64)
MASK = 2**64 - 1


def words(value: int, count: int) -> list[int]:
    """An integer as signed words of 64 bits, the lowest first."""
    return [int(np.uint64(value >> 64 * k & MASK).view(np.int64)) for k in range(count)]


def whole(state: np.ndarray) -> int:
    """The integer that words stand for."""
    return sum((int(word) & MASK) << 64 * k for k, word in enumerate(state[:-1])) + (
        int(state[-1]) << 64 * (len(state) - 1)
    )


@pytest.mark.parametrize(("width", "least", "most"), [(2, -(2**63), 2**63 - 1), (3, 1 - 10**38, 10**38 - 1)])
def test_sums_go_beyond_their_type_and_back(width: int, least: int, most: int) -> None:
    rng = Random(5)
    for _ in range(30):
        state, tallies = np.zeros((1, width), np.int64), np.zeros(1, np.int64)
        parts = np.zeros((2, width), np.int64)
        live: list[int] = []
        beyond = 0
        for _ in range(100):
            if live and rng.random() < 0.4:
                value, sign = live.pop(rng.randrange(len(live))), -1
            else:
                value, sign = (
                    rng.choice((most, least, most - 1, least + 1, rng.randrange(-100, 100), rng.randint(least, most))),
                    1,
                )
                live.append(value)
            low, high = words(value, 2)
            whole_sums.add_whole(ZERO, np.array([low]), np.array([high]), ALL, sign, state, tallies)
            whole_sums.add_whole(
                np.array([rng.randrange(2)]), np.array([low]), np.array([high]), ALL, sign, parts, np.zeros(2, np.int64)
            )
            assert whole(state[0]) == sum(live)
            assert tallies[0] == len(live)
            beyond += not least <= sum(live) <= most
        merged = np.zeros((1, width), np.int64)
        whole_sums.merge_whole(np.zeros(2, np.int64), parts, merged)
        assert merged.tolist() == state.tolist()
        assert beyond > 5


def test_means_are_rounded_once() -> None:
    rng = Random(7)
    for _ in range(3_000):
        width = rng.choice((2, 3))
        scale = rng.randint(0, 38) if width == 3 else 0
        count = rng.choice((1, 2, 3, 7, rng.randint(1, 2 ** rng.randint(1, 62))))
        total = rng.choice((-1, 1)) * rng.randint(0, 2 ** rng.randint(1, 126 if width == 2 else 189))
        if rng.random() < 0.1:
            total, count, scale = rng.choice((-1, 1)) * (2**53 + rng.randint(-2, 3)), rng.choice((1, 3, 5)), 0
        elif rng.random() < 0.2:
            # Halfway between two doubles, or beside it.
            total = count * 10**scale * (2 ** rng.randint(53, 55) + rng.randint(0, 9)) // 2 + rng.choice((-1, 0, 0, 1))
        if not -(2 ** (64 * width - 2)) < total < 2 ** (64 * width - 2):
            continue
        units = np.array([10**scale & MASK, 10**scale >> 64], np.uint64)
        found = whole_sums.read_means(ZERO, np.array([words(total, width)]), np.array([count]), units)[0]
        assert found == float(Fraction(total, count * 10**scale)), (total, count, scale)


@pytest.mark.parametrize("value", [0.1, 7.860520742121478e18, 1e16, 3.116705602457957e-151, 1e150, -0.7])
def test_equal_values_do_not_deviate(value: float) -> None:
    """Also in large numbers, and in two parts."""
    for count in (2, 3, 156, 100_000):
        state, squares, tallies = np.zeros((2, 5)), np.zeros((2, 5)), np.zeros((2, 4), np.int64)
        codes = np.arange(count) % 2
        sums.add_floats(codes, np.full(count, value), ALL, 1, state, squares, tallies)
        sums.merge_floats(ZERO, state[1:], state)
        sums.merge_floats(ZERO, squares[1:], squares)
        tallies[0] += tallies[1]
        assert sums.read_deviations(ZERO, state, squares, tallies)[0] == 0.0


def test_a_deviation_that_lost_its_digits_is_uncertain() -> None:
    """What stands for a deviation after values of other sizes have left is 0 for equal values, or uncertain."""
    rng = Random(8)
    doubts = right = 0
    for _ in range(400):
        state, squares, tallies = np.zeros((1, 5)), np.zeros((1, 5)), np.zeros((1, 4), np.int64)
        reach = rng.choice((2, 20))
        stays = np.full(rng.randint(2, 50), rng.uniform(1, 10) * 10.0 ** rng.randint(-reach, reach))
        leaves = np.array([rng.uniform(1, 10) * 10.0 ** rng.randint(-reach, reach) for _ in range(rng.randint(1, 8))])
        for values, sign in ((stays, 1), (leaves, 1), (leaves[::-1].copy(), -1)):
            sums.add_floats(np.zeros(len(values), np.int64), values, ALL, sign, state, squares, tallies)
        if (
            sums.doubtful(ZERO, state)[0]
            or sums.doubtful(ZERO, squares)[0]
            or sums.uncertain(ZERO, state, squares, tallies)[0]
        ):
            doubts += 1
        else:
            assert sums.read_deviations(ZERO, state, squares, tallies)[0] == 0.0
            right += 1
    assert doubts > 50 and right > 50
