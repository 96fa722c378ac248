"""Text as bytes: what a stretch of lines has in it, in one pass.

Answer   `survey`: how many line ends there are, whether all is ASCII, whether a number such as 0x10 may be in it, and whether some line may
         be blank (nothing, or a carriage return alone). `nth_pieces`: of each of many strings the n-th of the pieces between separators.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def survey(data):
    """Number of line ends, whether all bytes are ASCII, whether `0x` or `0X` occurs, whether a line begins with a line end or a return."""
    if len(data) == 0:
        return np.int64(0), True, False, False
    total = np.int64(data[0] == 10)
    seen, hexadecimal, blank = data[0], np.uint8(0), np.uint8(data[0] == 10)
    # Stretch by stretch, with a count that fits into a byte: the inner loop is vectorised, and takes half as long as one with an int64.
    for begin in range(1, len(data), 128):
        end = min(begin + 128, len(data))
        these, before = data[begin:end], data[begin - 1 : end - 1]
        count = np.uint8(0)
        for i in range(len(these)):
            byte, previous = these[i], before[i]
            ends = np.uint8(byte == 10)
            count += ends
            seen |= byte
            hexadecimal |= np.uint8(previous == 48) & np.uint8((byte | np.uint8(32)) == 120)
            blank |= np.uint8(previous == 10) & (ends | np.uint8(byte == 13))
        total += count
    return total, seen < 128, hexadecimal != 0, blank != 0 or data[0] == 13


@njit(cache=True, nogil=True)
def nth_pieces(offsets, data, separator, n):
    """The n-th piece of each string, from 1, or from the end where n is negative, empty where there is none: offsets (int32) and bytes."""
    packed = np.zeros(len(offsets), np.int32)
    out = np.empty(offsets[-1] - offsets[0], np.uint8)
    width, total = len(separator), 0
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        wanted = n
        if n < 0:
            # How many pieces there are says which one it is from the front.
            pieces, at = 1, begin
            while at <= end - width:
                if _stands(data, at, separator):
                    pieces += 1
                    at += width
                else:
                    at += 1
            wanted = pieces + 1 + n
        at, number, left = begin, 1, begin
        if wanted > 0:
            while at <= end - width:
                if _stands(data, at, separator):
                    if number == wanted:
                        break
                    number += 1
                    at += width
                    left = at
                else:
                    at += 1
            if number == wanted:
                right = at if at <= end - width else end
                for j in range(left, right):
                    out[total] = data[j]
                    total += 1
        packed[i + 1] = total
    return packed, out[:total]


@njit(cache=True, nogil=True, inline="always")
def _stands(data, at, separator):
    if data[at] != separator[0]:
        return False
    for j in range(1, len(separator)):
        if data[at + j] != separator[j]:
            return False
    return True
