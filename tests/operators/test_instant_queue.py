"""Rows that wait for an instant, against a list: what leaves, and what any snapshot on the way brings back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.operators.aggregate.accumulators.encoding import ALL
from eddyline.operators.aggregate.contributions import Batch
from eddyline.operators.aggregate.guarded import Members
from eddyline.operators.aggregate.instant_queue import InstantQueue
from tests.seeds import cases, first_seed


def batch(clock: list[int], first: int, *, nulls: bool) -> Batch:
    places = np.arange(first, first + len(clock))
    valid = [places % 3 > 0 if nulls else ALL, ALL]
    return Batch(np.array(clock), np.stack([places, -places], axis=1), [2 * places, 3 * places], valid, [])


def lines(parts: list[Batch]) -> list[tuple[int, ...]]:
    found = []
    for part in parts:
        there = part.valid[0] if len(part.valid[0]) else np.ones(len(part), np.bool_)
        columns = (part.clock, *part.groups.T, *part.encoded, there)
        found += list(zip(*(column.tolist() for column in columns), strict=True))
    return found


@pytest.mark.parametrize("seed", [first_seed(11) + at for at in range(cases(40))])
def test_rows_leave_in_order_whenever_the_queue_is_restored(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queue, run, expected, now, count = InstantQueue(Batch), 0, [], 0, 0
    tables: dict[str, pa.Table] = {}
    for _ in range(60):
        clock = np.sort(rng.integers(now, now + 9, int(rng.integers(0, 6)))).tolist()
        fresh = batch(clock, count, nulls=bool(rng.random() < 0.5))
        queue.append(fresh)
        expected, count = expected + lines([fresh]), count + len(clock)
        now = clock[-1] if clock else now
        if rng.random() < 0.4:
            final = now - int(rng.integers(-1, 12))
            assert lines(queue.up_to(final)) == [line for line in expected if line[0] <= final]
            assert lines(queue.until(final)) == [line for line in expected if line[0] <= final]
            expected = [line for line in expected if line[0] > final]
        if rng.random() < 0.6:
            state, blocks = queue.snapshot(f"q{run}")
            tables |= {name: make() for name, make in blocks.items() if name not in tables}
            assert (state is None) == (not expected)
            restored = InstantQueue(Batch)
            restored.restore(state, tables.__getitem__)
            assert lines(list(restored.parts)) == expected
            if rng.random() < 0.2:
                queue, run = restored, run + 1
    assert count > 50


def test_columns_of_references_that_do_not_exist_come_back_as_none() -> None:
    queue = InstantQueue(Members)
    none = np.zeros((2, 0), np.int64)
    queue.append(Members(np.array([1, 2]), np.array([0, 0]), none, np.array([8, 9]), [], []))
    state, blocks = queue.snapshot("q")
    restored = InstantQueue(Members)
    restored.restore(state, lambda name: blocks[name]())
    (part,) = restored.parts
    assert part.rows.shape == (2, 0) and part.ends.tolist() == [8, 9] and part.encoded == [] == part.valid
