"""Sums of whole numbers from which values can be subtracted again, exact whatever their size, and means of them.

Answer   `add_whole` adds integers of 128 bits, or subtracts them (sign -1). `merge_whole` adds sums to sums.
         `read_means` divides sums by their counts: the double that is nearest to the quotient.
State    `sums[g]` is one integer in two's complement, two or three words of 64 bits, the lowest first; `tallies[g]` =
         values.
Limits   Two words hold all sums of 64-bit integers, three all sums of 128-bit ones: there are fewer than 2^63 values.
Reading  long division, one bit of the quotient at a time
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: Up to here whole numbers are doubles.
_EXACT = 1 << 53
_FULL = np.uint64(2**64 - 1)
_ONE = np.uint64(1)
_NIL = np.uint64(0)
#: Words of the numbers that are divided.
_WORDS = 4


@njit(cache=True, nogil=True)
def add_whole(codes, low, high, valid, sign, sums, tallies):
    """Add 128-bit integers, or take them away; `valid` is empty where all count."""
    wide = sums.shape[1] == 3
    for i in range(len(codes)):
        if len(valid) and not valid[i]:
            continue
        g = codes[i]
        tallies[g] += sign
        before = np.uint64(sums[g, 0])
        if sign > 0:
            after = before + np.uint64(low[i])
            carry = np.int64(after < before)
        else:
            after = before - np.uint64(low[i])
            carry = np.int64(after > before)
        sums[g, 0] = np.int64(after)
        if not wide:
            sums[g, 1] += sign * (high[i] + carry)
            continue
        middle = np.uint64(sums[g, 1])
        top = high[i] >> 63
        if sign > 0:
            part = middle + np.uint64(high[i])
            whole = part + np.uint64(carry)
            sums[g, 2] += top + np.int64(part < middle) + np.int64(whole < part)
        else:
            part = middle - np.uint64(high[i])
            whole = part - np.uint64(carry)
            sums[g, 2] -= top + np.int64(part > middle) + np.int64(whole > part)
        sums[g, 1] = np.int64(whole)


@njit(cache=True, nogil=True)
def merge_whole(codes, parts, sums):
    """Add the sums in the rows of `parts` to those of their groups."""
    for i in range(len(codes)):
        g = codes[i]
        carry = _NIL
        for k in range(sums.shape[1]):
            before = np.uint64(sums[g, k])
            part = before + np.uint64(parts[i, k])
            whole = part + carry
            carry = np.uint64(part < before) + np.uint64(whole < part)
            sums[g, k] = np.int64(whole)


@njit(cache=True, nogil=True, inline="always")
def _length(number):
    """How many bits a number has."""
    for k in range(_WORDS - 1, -1, -1):
        word = number[k]
        if word != _NIL:
            bits = 64 * k
            while word != _NIL:
                word >>= _ONE
                bits += 1
            return bits
    return 0


@njit(cache=True, nogil=True, inline="always")
def _shift(number, by):
    """Multiply a number by a power of two."""
    words, bits = by // 64, np.uint64(by % 64)
    for k in range(_WORDS - 1, -1, -1):
        found = number[k - words] << bits if k >= words else _NIL
        if bits > _NIL and k > words:
            found |= number[k - words - 1] >> (np.uint64(64) - bits)
        number[k] = found


@njit(cache=True, nogil=True, inline="always")
def _is_less(a, b):
    for k in range(_WORDS - 1, -1, -1):
        if a[k] != b[k]:
            return a[k] < b[k]
    return False


@njit(cache=True, nogil=True, inline="always")
def _take(a, b):
    """Take b away from a."""
    borrow = _NIL
    for k in range(_WORDS):
        part = a[k] - b[k]
        whole = part - borrow
        borrow = np.uint64(part > a[k]) + np.uint64(whole > part)
        a[k] = whole


@njit(cache=True, nogil=True, inline="always")
def _multiply(number, by):
    """Multiply a number by one of 64 bits, 32 bits at a time."""
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    low, high = by & mask, by >> half
    carry = _NIL
    for k in range(_WORDS):
        a, b = number[k] & mask, number[k] >> half
        first = a * low
        second = b * low + (first >> half)
        third = a * high + (second & mask)
        top = b * high + (second >> half) + (third >> half)
        whole = (third << half) | (first & mask)
        number[k] = whole + carry
        carry = top + np.uint64(number[k] < whole)


@njit(cache=True, nogil=True)
def _quotient(dividend, divisor):
    """The double nearest to a quotient of two numbers above 0, which are changed."""
    exponent = _length(dividend) - _length(divisor)
    if exponent > 0:
        _shift(divisor, exponent)
    else:
        _shift(dividend, -exponent)
    if _is_less(dividend, divisor):
        _shift(dividend, 1)
        exponent -= 1
    # The quotient lies between 1 and 2 now: 53 bits of it, and one to round by.
    bits = _NIL
    for _ in range(54):
        bits <<= _ONE
        if not _is_less(dividend, divisor):
            _take(dividend, divisor)
            bits |= _ONE
        _shift(dividend, 1)
    beyond = False
    for k in range(_WORDS):
        beyond |= dividend[k] != _NIL
    up = bits & _ONE == _ONE and (beyond or bits & np.uint64(2) != _NIL)
    whole = np.float64((bits >> _ONE) + np.uint64(up))
    return np.ldexp(whole, exponent - 52)


@njit(cache=True, nogil=True)
def read_means(codes, sums, tallies, units):
    """Means of groups; the result of a group without values is arbitrary.

    Args:
        units: how many of the summed units are one, as the words of a whole number: 10^s for DECIMALs with s digits
        after the point.
    """
    out = np.zeros(len(codes), np.float64)
    dividend, divisor = np.zeros(_WORDS, np.uint64), np.zeros(_WORDS, np.uint64)
    wide = sums.shape[1]
    unit = np.float64(units[0]) if units[1] == _NIL else np.inf
    for i in range(len(codes)):
        g = codes[i]
        if tallies[g] <= 0:
            continue
        low = sums[g, 0]
        fits = sums[g, wide - 1] == low >> 63 and sums[g, 1] == low >> 63
        # As whole numbers: 2^53 + 1 as a double is 2^53.
        if fits and -_EXACT <= low <= _EXACT and np.float64(tallies[g]) * unit < _EXACT:
            out[i] = np.float64(low) / (np.float64(tallies[g]) * unit)
            continue
        negative = sums[g, wide - 1] < 0
        zero = True
        carry = _ONE
        for k in range(_WORDS):
            word = np.uint64(sums[g, k]) if k < wide else _FULL if negative else _NIL
            if negative:
                word = ~word + carry
                carry = np.uint64(carry == _ONE and word == _NIL)
            dividend[k] = word
            zero &= word == _NIL
            divisor[k] = units[k] if k < len(units) else _NIL
        if zero:
            continue
        _multiply(divisor, np.uint64(tallies[g]))
        found = _quotient(dividend, divisor)
        out[i] = -found if negative else found
    return out
