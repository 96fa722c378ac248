"""Orders and string buffers against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.kernels import order
from tests.oracle.kernels import never_falls, stable_order


@pytest.mark.parametrize("seed", range(20))
def test_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks = rng.integers(100, 130, int(rng.integers(0, 200)))
    assert order.rank_order(ranks, 100, 30).tolist() == stable_order(ranks.tolist())
    assert order.ascends(ranks) == never_falls(ranks.tolist())
    assert order.ascends(np.sort(ranks))
    a, b = np.sort(rng.integers(0, 20, 30)), np.sort(rng.integers(0, 20, int(rng.integers(0, 30))))
    chosen = order.merge_order(a, b)
    assert chosen.tolist() == stable_order([*a.tolist(), *b.tolist()])
    assert order.pick(a, b, chosen).tolist() == sorted([*a.tolist(), *b.tolist()])


def test_a_fall_is_seen_at_every_place() -> None:
    for rows in (1, 2, 1_024, 1_025, 2_049, 3_000):
        values = np.arange(rows)
        assert order.ascends(values) and order.ascends(np.zeros(rows, np.int64))
        for place in {1, 1_023, 1_024, 1_025, 2_048, rows - 1} & set(range(1, rows)):
            fallen = values.copy()
            fallen[place:] -= 2
            assert not order.ascends(fallen)


@pytest.mark.parametrize("seed", range(30))
def test_the_first_of_several_runs_are_those_of_a_stable_sort(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = [(0, 5), (-1_000, 1_000), (-(2**63), 2**63 - 1)][seed % 3]
    runs = [np.sort(rng.integers(low, high, int(rng.integers(0, 30)))) for _ in range(int(rng.integers(1, 5)))]
    values = np.concatenate(runs)
    owner = (
        np.repeat(np.arange(len(runs)), [len(run) for run in runs])[stable_order(values.tolist())]
        if len(values)
        else values
    )
    for most in range(1, len(values)):
        found = order.leading(values, np.cumsum([len(run) for run in runs]), most)
        assert found.tolist() == np.bincount(owner[:most], minlength=len(runs)).tolist()


def test_strings_are_gathered_and_compared() -> None:
    texts = ["", "a", "ab", "straße", "日本", "ab", "longer than eight bytes"]
    raw = [t.encode() for t in texts]
    offsets = np.cumsum([0, *(len(r) for r in raw)]) + 7
    data = np.frombuffer(b"".join(raw), np.uint8)
    chosen = np.array([6, 0, 3, 3, 1])
    packed = order.string_lengths(offsets, chosen)
    found = order.gather_strings(offsets, data, 7, chosen, packed).tobytes()
    assert found == b"".join(raw[i] for i in chosen)
    one, other = np.repeat(np.arange(7), 7), np.tile(np.arange(7), 7)
    same = order.equal_strings(offsets, data, 7, one, offsets, data, 7, other)
    assert same.tolist() == [texts[i] == texts[j] for i, j in zip(one, other, strict=True)]


@pytest.mark.parametrize("seed", range(6))
def test_counts_of_ranks_are_those_of_a_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    total = int(rng.integers(0, 300))
    ranks = 50 + np.sort(rng.permutation(total)[: total // 2])
    others = rng.integers(30, 80 + total, 300)
    running = order.running_count(ranks, 50, total)
    assert order.count_upto(running, 50, others).tolist() == np.searchsorted(ranks, others, side="right").tolist()
