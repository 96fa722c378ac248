"""Sums of doubles from which values can be subtracted again: exact while their parts span less than about 150 bits.

Answer   `add_floats` adds values to sums of three doubles, or subtracts them (sign -1), without rounding: the error of
         each addition goes into the next double. NaN and infinities are counted, not added. `merge_floats` adds sums
         to sums.
State    `sums[g]` = (sum, error, error of the error, largest magnitude, 1 where a rest was lost); `tallies[g]` =
         (values, NaN, +infinity, -infinity).
Limits   Where a rest was lost and little of the largest magnitude remains, the caller computes the sum anew from live
         values: `doubtful` finds such sums, `uncertain` such sums of squares.
Reading  Knuth's TwoSum, Dekker's product
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: A sum of three doubles keeps about 150 bits; below this part of the largest magnitude it may have lost the digits
#: that count.
_LITTLE = 2.0**-100
_SPLIT = 134217729.0
#: Sums of squares from here on are scaled down before they are multiplied.
_LARGE = 2.0**900
_SCALE = 2.0**200
_SMALLEST = 2.0**-1074


@njit(cache=True, nogil=True, inline="always")
def _two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@njit(cache=True, nogil=True, inline="always")
def _two_product(a, b):
    p = a * b
    t = _SPLIT * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = _SPLIT * b
    b_high = t - (t - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


@njit(cache=True, nogil=True, inline="always")
def _accumulate(sums, g, x):
    s, rest = _two_sum(sums[g, 0], x)
    c, rest = _two_sum(sums[g, 1], rest)
    e, rest = _two_sum(sums[g, 2], rest)
    sums[g, 0] = s
    sums[g, 1] = c
    sums[g, 2] = e
    largest = max(abs(x), abs(s))
    if largest > sums[g, 3]:
        sums[g, 3] = largest
    if rest != 0.0:
        sums[g, 4] = 1.0


@njit(cache=True, nogil=True)
def add_floats(codes, values, valid, sign, sums, squares, tallies):
    """`squares` has no rows where no aggregate needs sums of squares; `valid` is empty where all count."""
    with_squares = len(squares) > 0
    for i in range(len(codes)):
        if len(valid) and not valid[i]:
            continue
        g = codes[i]
        x = values[i]
        tallies[g, 0] += sign
        if x != x:
            tallies[g, 1] += sign
        elif x == np.inf:
            tallies[g, 2] += sign
        elif x == -np.inf:
            tallies[g, 3] += sign
        else:
            _accumulate(sums, g, sign * x)
            if with_squares:
                p, rest = _two_product(x, x)
                _accumulate(squares, g, sign * p)
                _accumulate(squares, g, sign * rest)
        if tallies[g, 0] == tallies[g, 1] + tallies[g, 2] + tallies[g, 3]:
            sums[g, :] = 0.0
            if with_squares:
                squares[g, :] = 0.0


@njit(cache=True, nogil=True)
def merge_floats(codes, parts, sums):
    """Add the sums in the rows of `parts` to those of their groups."""
    for i in range(len(codes)):
        g = codes[i]
        for k in range(3):
            _accumulate(sums, g, parts[i, k])
        sums[g, 3] = max(sums[g, 3], parts[i, 3])
        if parts[i, 4] != 0.0:
            sums[g, 4] = 1.0


@njit(cache=True, nogil=True, inline="always")
def _normal(sums, g):
    """The sum as one double, the nearest to the whole."""
    if not abs(sums[g, 0]) < np.inf:
        return sums[g, 0]
    b, c = _two_sum(sums[g, 1], sums[g, 2])
    a, b = _two_sum(sums[g, 0], b)
    b, c = _two_sum(b, c)
    a, b = _two_sum(a, b)
    return a


@njit(cache=True, nogil=True, inline="always")
def is_doubtful(sums, g):
    """Whether the sum of a group may have lost digits that count."""
    if sums[g, 4] == 0.0:
        return False
    # The three doubles can be far larger than their sum.
    whole = abs(_normal(sums, g))
    return not (whole >= sums[g, 3] * _LITTLE and whole < np.inf)


@njit(cache=True, nogil=True)
def doubtful(codes, sums):
    """Which of the groups' sums may have lost digits that count."""
    out = np.empty(len(codes), np.bool_)
    for i in range(len(codes)):
        out[i] = is_doubtful(sums, codes[i])
    return out


@njit(cache=True, nogil=True)
def read_sums(codes, sums, tallies, mean):
    """Sums, or means; the result of a group without values is arbitrary."""
    out = np.empty(len(codes), np.float64)
    for i in range(len(codes)):
        g = codes[i]
        if tallies[g, 1] > 0 or (tallies[g, 2] > 0 and tallies[g, 3] > 0):
            out[i] = np.nan
        elif tallies[g, 2] > 0:
            out[i] = np.inf
        elif tallies[g, 3] > 0:
            out[i] = -np.inf
        else:
            out[i] = _normal(sums, g)
            if mean and tallies[g, 0] > 0:
                out[i] /= tallies[g, 0]
    return out


@njit(cache=True, nogil=True, inline="always")
def _spread(sums, squares, g, n, difference):
    """Write n times the sum of squares, less the square of the sum, into the three doubles of `difference`; returns the
    scale of both.

    Most digits cancel, so both are added up in three doubles.
    """
    scale = 1.0 if abs(squares[g, 0]) < _LARGE else 1.0 / _SCALE
    difference[:] = 0.0
    for k in range(3):
        p, rest = _two_product(np.float64(n), squares[g, k] * scale * scale)
        _accumulate(difference, 0, p)
        _accumulate(difference, 0, rest)
        for j in range(k + 1):
            p, rest = _two_product(sums[g, k] * scale, (sums[g, j] if j == k else 2.0 * sums[g, j]) * scale)
            _accumulate(difference, 0, -p)
            _accumulate(difference, 0, -rest)
    return scale


@njit(cache=True, nogil=True, inline="always")
def is_uncertain(sums, squares, tallies, g, difference):
    """Whether the deviation of a group may have lost digits that count, though its sums have not."""
    n = tallies[g, 0]
    if n < 2 or (sums[g, 4] == 0.0 and squares[g, 4] == 0.0):
        return False
    scale = _spread(sums, squares, g, n, difference)
    # The largest sum counts with its square: digits that it lost are multiplied by the sum.
    largest = max(squares[g, 3] * scale * scale, (sums[g, 3] * scale) ** 2 / n)
    rest = _normal(difference, 0) / n
    return not (rest >= largest * _LITTLE and rest < np.inf)


@njit(cache=True, nogil=True)
def uncertain(codes, sums, squares, tallies):
    """Which of the groups' deviations may have lost digits that count."""
    out = np.empty(len(codes), np.bool_)
    difference = np.zeros((1, 5), np.float64)
    for i in range(len(codes)):
        out[i] = is_uncertain(sums, squares, tallies, codes[i], difference)
    return out


@njit(cache=True, nogil=True)
def read_deviations(codes, sums, squares, tallies):
    """Sample standard deviations; the result of a group with fewer than two values is arbitrary."""
    out = np.zeros(len(codes), np.float64)
    difference = np.zeros((1, 5), np.float64)
    for i in range(len(codes)):
        g = codes[i]
        n = tallies[g, 0]
        if n < 2:
            continue
        if tallies[g, 1] + tallies[g, 2] + tallies[g, 3] > 0:
            out[i] = np.nan
            continue
        scale = _spread(sums, squares, g, n, difference)
        spread = _normal(difference, 0)
        # A square below the smallest double is rounded to it: so small a difference counts as 0.
        if spread <= (8.0 * n * n + 64.0) * _SMALLEST:
            continue
        variance = spread / np.float64(n) / np.float64(n - 1)
        out[i] = np.sqrt(variance) / scale if variance == variance else np.nan
    return out
