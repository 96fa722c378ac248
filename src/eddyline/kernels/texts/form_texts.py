"""Texts that differ in their numbers only.

Answer   `form_numbers` reads the numbers of texts that consist of given pieces with a number between each two.
State    None.
Limits   Numbers have one to nine digits.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def form_numbers(offsets, data, places, pieces, ends):
    """Which of the texts at `places` consist of the pieces (their bytes one after the other, with the end of each), and
    their numbers, a line per text."""
    count = len(ends)
    fits = np.ones(len(places), np.bool_)
    numbers = np.zeros((len(places), count - 1), np.int64)
    for i in range(len(places)):
        at, stop, begin = offsets[places[i]], offsets[places[i] + 1], 0
        for p in range(count):
            length = ends[p] - begin
            good = length <= stop - at
            if good:
                for k in range(length):
                    good &= data[at + k] == pieces[begin + k]
            at += length
            begin = ends[p]
            if good and p < count - 1:
                value, digits = 0, 0
                while at < stop and digits < 10 and 48 <= data[at] <= 57:
                    value = 10 * value + data[at] - 48
                    digits += 1
                    at += 1
                good = 1 <= digits <= 9
                numbers[i, p] = value
            if not good:
                fits[i] = False
                break
        if at != stop:
            fits[i] = False
    return fits, numbers
