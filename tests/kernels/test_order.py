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
