"""Bit sets against Python sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from eddyline.kernels.bitsets import and_rows, any_bits, count_bits, full_set, has_bit, members, set_pairs, words_for
from tests.oracle.kernels_sharing import as_sets

WORDS = arrays.arrays(np.uint64, st.tuples(st.integers(0, 6), st.integers(1, 3)), elements=st.integers(0, 2**64 - 1) | st.just(1 << 63))


@pytest.mark.parametrize(("bits", "words"), [(0, 1), (1, 1), (64, 1), (65, 2), (128, 2), (10_000, 157)])
def test_words_that_bits_need(bits: int, words: int) -> None:
    assert words_for(bits) == words


@settings(max_examples=50, deadline=None)
@given(WORDS)
def test_what_is_in_the_sets(words: np.ndarray) -> None:
    sets = as_sets(words.tolist())
    rows, bits = members(words)
    assert list(zip(rows.tolist(), bits.tolist(), strict=True)) == [(row, bit) for row, one in enumerate(sets) for bit in sorted(one)]
    assert any_bits(words).tolist() == [bool(one) for one in sets]
    assert count_bits(words).tolist() == [len(one) for one in sets]
    for bit in (0, 63, 64 * words.shape[1] - 1):
        assert has_bit(words, bit).tolist() == [bit in one for one in sets]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9))), st.lists(st.integers(-1, 150), min_size=5, max_size=5))
def test_pairs_become_bits(pairs: list[tuple[int, int]], bit_of: list[int]) -> None:
    words = np.zeros((10, words_for(151)), np.uint64)
    set_pairs(words, np.array([(label << 4) | row for label, row in pairs], np.int64), 4, np.array(bit_of))
    assert as_sets(words.tolist()) == [{bit_of[label] for label, r in pairs if r == row and bit_of[label] >= 0} for row in range(10)]


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(0, 191)))
def test_one_line_of_words(bits: set[int]) -> None:
    assert as_sets([full_set(np.array(sorted(bits), np.int64), 3).tolist()]) == [bits]


def test_intersections_of_rows() -> None:
    random = np.random.default_rng(3)
    left, right = random.integers(0, 2**63, (2, 5, 2), dtype=np.uint64)
    l, r = np.array([0, 4, 4, 2]), np.array([1, 1, 3, 2])
    one, other = as_sets(left.tolist()), as_sets(right.tolist())
    assert as_sets(and_rows(left, l, right, r).tolist()) == [one[a] & other[b] for a, b in zip(l, r, strict=True)]
