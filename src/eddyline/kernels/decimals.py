"""Decimals with fewer digits after the point, rounded exactly: Arrow's division of 128 and 256 bits gives wrong digits
for some values.

Answer   `rescale` divides integers of 256 bits by a power of ten, rounds, and multiplies by another one.
Limits   Products are those of 256 bits: the caller leaves room. Divisors are powers of 10, up to 10^76.
Reading  long division by 10^9, 32 bits at a time
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: How `rescale` rounds.
HALF_AWAY, UP, DOWN = 0, 1, 2
_HALVES = 8
_MASK = np.uint64(2**32 - 1)
_SHIFT = np.uint64(32)


@njit(cache=True, nogil=True, inline="always")
def _divide(number, by):
    """Divide a number by one of at most 32 bits; gives the rest."""
    rest = np.uint64(0)
    for k in range(_HALVES - 1, -1, -1):
        part = (rest << _SHIFT) | number[k]
        number[k] = part // by
        rest = part - number[k] * by
    return rest


@njit(cache=True, nogil=True, inline="always")
def _multiply(number, by, more):
    """Multiply a number by one of at most 32 bits and add one."""
    carry = more
    for k in range(_HALVES):
        part = number[k] * by + carry
        number[k] = part & _MASK
        carry = part >> _SHIFT


@njit(cache=True, nogil=True)
def rescale(words, down, up, rounding, out):
    """Write integers divided by 10^down, rounded, and multiplied by 10^up: rows of four words, the lowest first, in
    two's complement."""
    number = np.zeros(_HALVES, np.uint64)
    billion, ten = np.uint64(10**9), np.uint64(10)
    for i in range(len(words)):
        negative = words[i, 3] < 0
        carry = np.uint64(1)
        for k in range(4):
            word = np.uint64(words[i, k])
            if negative:
                word = ~word + carry
                carry = np.uint64(carry == np.uint64(1) and word == np.uint64(0))
            number[2 * k] = word & _MASK
            number[2 * k + 1] = word >> _SHIFT
        # All digits but the first that is cut off, then that one: halves are known by it alone.
        lost = False
        for step in range(0, down - 1, 9):
            power = np.uint64(10 ** min(9, down - 1 - step))
            lost |= _divide(number, power) != np.uint64(0)
        if down > 0:
            digit = _divide(number, ten)
            lost |= digit != np.uint64(0)
            add = digit >= np.uint64(5) if rounding == HALF_AWAY else lost and (rounding == UP) != negative
            if add:
                _multiply(number, np.uint64(1), np.uint64(1))
        for step in range(0, up, 9):
            _multiply(number, billion if up - step >= 9 else np.uint64(10 ** (up - step)), np.uint64(0))
        carry = np.uint64(1)
        for k in range(4):
            word = number[2 * k] | (number[2 * k + 1] << _SHIFT)
            if negative:
                word = ~word + carry
                carry = np.uint64(carry == np.uint64(1) and word == np.uint64(0))
            out[i, k] = np.int64(word)
