"""Membership by chain and by Bloom filter, and probes that ask on their way, against plain sets and loops."""

from __future__ import annotations

import numpy as np

from eddyline.kernels.joins import bloom, probe
from eddyline.operators.stream.keys import combined


def test_a_filter_never_denies_what_it_holds_and_rarely_affirms_what_it_does_not() -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(-(2**62), 2**62, 5_000)
    words = bloom.filter_for(len(keys))
    bloom.fill(words, keys)
    assert bloom.may_hold(words, keys).all()
    others = rng.integers(-(2**62), 2**62, 20_000)
    assert bloom.may_hold(words, others).mean() < 0.05


def chains(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    heads, back = np.full(256, -1, np.int64), np.zeros(len(keys), np.int32)
    probe.link(heads, back, keys, 0, 0, len(keys), np.empty(0, np.bool_))
    return heads, back


def test_held_looks_at_ids_and_ages() -> None:
    keys = np.array([5, 6, 5, 7])
    begins, dead = np.array([0, 1, 2, 3]), np.array([10, 11, 12, 13])
    heads, back = chains(keys)

    def held(key: int, floor: int = 0, ceiling: int = 99, first: int = 0, before: int = 4) -> bool:
        one = np.array([key]), np.array([floor]), np.array([ceiling])
        stored = probe.ChainedRows(heads, back, keys, begins, dead, 0, first, False)
        return bool(bloom.holders(*one, stored, before)[0] >= 0)

    assert held(5) and held(6) and not held(8)
    assert held(5, floor=12) and not held(5, floor=13)
    assert held(5, ceiling=0) and not held(7, ceiling=2)
    assert held(5, before=1) and not held(7, before=3) and not held(6, first=2)


def test_probe_wanted_is_probe_and_then_ask() -> None:
    rng = np.random.default_rng(3)
    for own_width, other_width, own_first in ((1, 1, True), (1, 2, False), (2, 2, True), (2, 1, False)):
        stored, asked_rows, probing = 300, 200, 90
        keys = rng.integers(0, 9, stored)
        order, dead = np.arange(stored), np.arange(stored)
        other = [rng.integers(0, 4, stored) for _ in range(2)]
        own = [rng.integers(0, 4, probing) for _ in range(2)]
        parts = [rng.integers(0, 4, asked_rows) for _ in range(own_width + other_width)]
        asked_keys, asked_dead = combined(parts), np.arange(asked_rows)
        heads, back = chains(keys)
        asked_heads, asked_back = chains(asked_keys)
        hashes, limit = rng.integers(0, 9, probing), rng.integers(0, stored, probing)
        floor, asked_floor = rng.integers(0, stored // 2, probing), rng.integers(0, asked_rows, probing)
        asking, rows = (
            probe.ProbeKeys(hashes, limit, floor),
            probe.ChainedRows(heads, back, keys, order, dead, 0, 0, True),
        )
        left, right, _, refused = bloom.probe_wanted(
            asking, rows, bloom.PairKey(own[0], own[own_width - 1], own_width, other[0], other[other_width - 1], other_width, own_first),
            asked_floor, probe.ChainedRows(asked_heads, asked_back, asked_keys, asked_dead, asked_dead, 0, 0, True),
        )  # fmt: skip
        plain_left, plain_right, _ = probe.probe_chains(asking, rows)
        mine = [own[n][plain_left] for n in range(own_width)]
        theirs = [other[n][plain_right] for n in range(other_width)]
        words = combined([*mine, *theirs] if own_first else [*theirs, *mine])
        wanted = [
            bool(((asked_keys == w) & (asked_dead >= asked_floor[o])).any())
            for w, o in zip(words, plain_left, strict=True)
        ]
        assert list(zip(left, right, strict=True)) == [
            pair for pair, is_wanted in zip(zip(plain_left, plain_right, strict=True), wanted, strict=True) if is_wanted
        ]
        assert refused == len(wanted) - sum(wanted) > 0
