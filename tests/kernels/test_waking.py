"""Pairs that rows ask for, against three nested loops."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.kernels import hashing
from eddyline.kernels.joins import waking
from eddyline.operators.stream.keys import combined
from tests.kernels.test_bloom import chains


def side(rng: np.random.Generator, rows: int, values: int, parts: int, floor: int, span: int) -> tuple[object, ...]:
    """A store of rows with `parts` keys towards the asking side, one key towards the other side and one towards the
    third."""
    own = rng.integers(0, values, (rows, parts))
    joint, third = rng.integers(0, values, (rows, 1)), np.zeros((rows, 2), np.int64)
    keys = combined([np.ascontiguousarray(column) for column in own.T])
    ts = np.sort(rng.integers(0, 100, rows))
    spread = hashing.mix_all(joint[:, 0].copy())
    return (*chains(keys), keys, ts, 0, 0, floor, ts + span, own, spread, joint, third)


@pytest.mark.parametrize(("rows", "values", "asks"), [(60, 3, True), (60, 3, False), (400, 2, True), (300, 2, False)])
def test_asked_pairs_are_those_of_three_loops(rows: int, values: int, asks: bool) -> None:
    rng = np.random.default_rng(rows + asks)
    low = 40
    near, far = side(rng, rows, values, 2, low - 50, 50), side(rng, rows + 7, values, 1, low - 30, 30)
    near[11][:, 0] = rng.integers(0, 4, rows)
    far[11][:, 1] = rng.integers(0, 4, rows + 7)
    asking_near, asking_far = rng.integers(0, values, (25, 2)), rng.integers(0, values, (25, 1))
    parts = [rng.integers(0, 4, 30), rng.integers(0, 4, 30)]
    third_keys, third_dead = combined(parts), rng.integers(0, 100, 30)
    third = (asks, np.array([True, False]), *chains(third_keys), third_keys, third_dead, 0, 0, 20)
    hashes = combined([np.ascontiguousarray(column) for column in asking_near.T])
    found = waking.demanded_pairs((hashes, asking_far[:, 0].copy(), asking_near, asking_far), near, far, third, low)

    def held(i: int, j: int, clock: int) -> bool:
        return bool(((parts[0] == near[11][i, 0]) & (parts[1] == far[11][j, 1]) & (third_dead >= clock - 20)).any())

    wanted, refused = [], 0
    for o in range(25):
        for i in np.flatnonzero((near[8] == asking_near[o]).all(axis=1) & (near[3] >= near[6])):
            for j in np.flatnonzero(
                (far[8] == asking_far[o]).all(axis=1) & (far[3] >= far[6]) & (far[10][:, 0] == near[10][i, 0])
            ):
                clock = max(near[3][i], far[3][j])
                if min(near[7][i], far[7][j]) < max(clock, low):
                    continue
                if asks and not held(i, j, clock):
                    refused += 1
                    continue
                wanted.append((i, j))
    nears, fars, visited, asked, dropped = found
    assert sorted(zip(nears.tolist(), fars.tolist(), strict=True)) == sorted(wanted)
    assert len(wanted) > (4096 if rows > 100 else 10), "more than the first buffer holds"
    assert dropped == refused and asked == (refused + len(wanted) if asks else 0) and visited > 0
