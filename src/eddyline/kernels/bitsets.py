"""Sets of queries as bits.

Answer   A matrix of uint64 words holds one set per row: bit i is bit `i % 64` of word `i // 64`.
State    None.
Limits   Widths of two matrices must agree; bits beyond the last one in use are always zero.
"""

from __future__ import annotations

import numpy as np
from numba import njit


def words_for(bits: int) -> int:
    """How many words hold `bits` bits; at least one.

    >>> words_for(64), words_for(65)
    (1, 2)
    """
    return max(1, (bits + 63) >> 6)


@njit(cache=True)
def set_pairs(words, pairs, bits, bit_of):
    """Sets, for each pair `label << bits | row`, the bit `bit_of[label]` of the row; -1 there: no bit."""
    mask = (np.int64(1) << np.int64(bits)) - 1
    for pair in pairs:
        bit = bit_of[pair >> np.int64(bits)]
        if bit >= 0:
            words[pair & mask, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


def full_set(bits: np.ndarray, width: int) -> np.ndarray:
    """One row of words with these bits set."""
    line = np.zeros(width, np.uint64)
    np.bitwise_or.at(line, bits >> 6, np.uint64(1) << (bits & 63).astype(np.uint64))
    return line


@njit(cache=True)
def any_bits(words):
    """Per row, whether any bit is set."""
    some = np.zeros(words.shape[0], np.bool_)
    for row in range(words.shape[0]):
        for word in words[row]:
            if word:
                some[row] = True
                break
    return some


#: The number of a single bit: multiplied by this de Bruijn number, the 64 single bits differ in their top six bits.
DE_BRUIJN = np.uint64(0x022FDD63CC95386D)
PLACES = np.empty(64, np.int64)
for _bit in range(64):
    PLACES[((1 << _bit) * int(DE_BRUIJN) & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit


@njit(cache=True)
def keep_within(words, ages, sizes, table):
    """Clears, in place, the bits of each row that are not in `table[i]`; returns per row whether any bit is left.

    `sizes` ascend, and i is the place of the first one that reaches the row's age; len(sizes) where none does.
    """
    some = np.zeros(words.shape[0], np.bool_)
    for row in range(words.shape[0]):
        low, high = 0, sizes.size
        while low < high:
            middle = (low + high) >> 1
            if sizes[middle] < ages[row]:
                low = middle + 1
            else:
                high = middle
        for place in range(words.shape[1]):
            word = words[row, place] & table[low, place]
            words[row, place] = word
            if word:
                some[row] = True
    return some
