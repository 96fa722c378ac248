"""Bit sets against Python sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from eddyline.kernels.bitsets import any_bits, full_set, set_pairs, words_for
from tests.oracle.kernels_sharing import as_sets
from tests.seeds import cases

WORDS = arrays.arrays(
    np.uint64, st.tuples(st.integers(0, 6), st.integers(1, 3)), elements=st.integers(0, 2**64 - 1) | st.just(1 << 63)
)


@pytest.mark.parametrize(("bits", "words"), [(0, 1), (1, 1), (64, 1), (65, 2), (128, 2), (10_000, 157)])
def test_words_that_bits_need(bits: int, words: int) -> None:
    assert words_for(bits) == words


@settings(max_examples=cases(50), deadline=None)
@given(WORDS)
def test_what_is_in_the_sets(words: np.ndarray) -> None:
    sets = as_sets(words.tolist())
    assert any_bits(words).tolist() == [bool(one) for one in sets]


@settings(max_examples=cases(50), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9))), st.lists(st.integers(-1, 150), min_size=5, max_size=5)
)
def test_pairs_become_bits(pairs: list[tuple[int, int]], bit_of: list[int]) -> None:
    words = np.zeros((10, words_for(151)), np.uint64)
    set_pairs(words, np.array([(label << 4) | row for label, row in pairs], np.int64), 4, np.array(bit_of))
    assert as_sets(words.tolist()) == [
        {bit_of[label] for label, r in pairs if r == row and bit_of[label] >= 0} for row in range(10)
    ]


@settings(max_examples=cases(50), deadline=None)
@given(st.sets(st.integers(0, 191)))
def test_one_line_of_words(bits: set[int]) -> None:
    assert as_sets([full_set(np.array(sorted(bits), np.int64), 3).tolist()]) == [bits]
