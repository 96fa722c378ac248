"""Orders of rows: tests of order, sorts of ranks, merges, and strings by position.

Answer   `ascends`: whether an int64 array never falls.
         `rank_order`: the stable permutation that sorts ranks of a dense range, in linear time.
         `merge_order` and `pick`: two ascending arrays as one.
         `leading`: how many values of each of several ascending runs are among the first of all.
         `running_count` and `count_upto`: how many ranks of a dense range are not above others.
         `places_in`: the positions of values in an array that has them in the same order.
         `least_at`: the least place of each key of a range.
         `gather_strings` and `equal_strings`: strings of buffers by position, packed or compared.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.raw import copy_bytes, same_bytes


@njit(cache=True, nogil=True)
def ascends(values):
    # By stretches of 1024: a loop that may end at every value is not vectorised, and took six times as long.
    following = values[1:]
    for begin in range(0, len(following), 1024):
        earlier = values[begin : min(begin + 1024, len(following))]
        later = following[begin : begin + 1024]
        falls = np.int64(0)
        for i in range(len(earlier)):
            falls += np.int64(later[i] < earlier[i])
        if falls:
            return False
    return True


@njit(cache=True, nogil=True)
def places_in(given, wanted):
    """The position of each wanted value among the given ones, which are in the same order; ends before the first value
    that is not there."""
    out = np.empty(len(wanted), np.int64)
    i = 0
    for j in range(len(wanted)):
        while i < len(given) and given[i] != wanted[j]:
            i += 1
        if i == len(given):
            return out[:j]
        out[j] = i
        i += 1
    return out


@njit(cache=True, nogil=True)
def rank_order(ranks, lowest, span):
    """Positions in ascending order of rank; equal ranks keep their order. All ranks lie in [lowest, lowest + span)."""
    counts = np.zeros(span + 1, np.int64)
    for i in range(len(ranks)):
        counts[ranks[i] - lowest + 1] += 1
    for r in range(span):
        counts[r + 1] += counts[r]
    out = np.empty(len(ranks), np.int64)
    for i in range(len(ranks)):
        r = ranks[i] - lowest
        out[counts[r]] = i
        counts[r] += 1
    return out


@njit(cache=True, nogil=True)
def least_at(keys, low, high, places, none):
    """For each number from `low` to `high`, the least place of a key that equals it; `none`: no key does."""
    out = np.full(high - low + 1, none)
    for i in range(len(keys)):
        out[keys[i] - low] = min(out[keys[i] - low], places[i])
    return out


@njit(cache=True, nogil=True)
def merge_order(a, b):
    """Two ascending arrays as one: positions into a followed by b; equal values come from a first."""
    out = np.empty(len(a) + len(b), np.int64)
    i = 0
    j = 0
    for at in range(len(out)):
        if j == len(b) or (i < len(a) and a[i] <= b[j]):
            out[at] = i
            i += 1
        else:
            out[at] = len(a) + j
            j += 1
    return out


@njit(cache=True, nogil=True)
def leading(values, ends, most):
    """How many values of each ascending run are among the `most` first of all values; there are more values than that.

    Of equal values those of the earlier run come first. Run i ends before `ends[i]`.
    """
    low = np.int64(np.iinfo(np.int64).max)
    high = np.int64(np.iinfo(np.int64).min)
    begin = 0
    for end in ends:
        if end > begin:
            low = min(low, values[begin])
            high = max(high, values[end - 1])
        begin = end
    # The least value up to which there are enough.
    while low < high:
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        found = 0
        begin = 0
        for end in ends:
            found += int(np.searchsorted(values[begin:end], middle, side="right"))
            begin = end
        if found >= most:
            high = middle
        else:
            low = middle + 1
    counts = np.empty(len(ends), np.int64)
    begin = 0
    left = most
    for r in range(len(ends)):
        counts[r] = np.searchsorted(values[begin : ends[r]], low)
        left -= counts[r]
        begin = ends[r]
    begin = 0
    for r in range(len(ends)):
        more = min(left, np.searchsorted(values[begin : ends[r]], low, side="right") - counts[r])
        counts[r] += more
        left -= more
        begin = ends[r]
    return counts


@njit(cache=True, nogil=True)
def running_count(ranks, first, total):
    """At place i, how many of the ranks, which differ and lie in [first, first + total), are below first + i."""
    out = np.zeros(total + 1, np.int64)
    for i in range(len(ranks)):
        out[ranks[i] - first + 1] = 1
    for i in range(total):
        out[i + 1] += out[i]
    return out


@njit(cache=True, nogil=True)
def count_upto(running, first, ranks):
    """How many of the ranks that a running count was made of are not above each of these."""
    out = np.empty(len(ranks), np.int64)
    for i in range(len(ranks)):
        out[i] = running[min(max(ranks[i] - first + 1, 0), len(running) - 1)]
    return out


@njit(cache=True, nogil=True)
def pick(a, b, positions):
    """Values at positions into a followed by b, without a copy of both."""
    out = np.empty(len(positions), a.dtype)
    for i in range(len(positions)):
        p = positions[i]
        out[i] = a[p] if p < len(a) else b[p - len(a)]
    return out


@njit(cache=True, nogil=True)
def string_lengths(offsets, positions):
    """Offsets (int64, one more than positions) of the chosen strings when packed one after the other."""
    out = np.empty(len(positions) + 1, np.int64)
    out[0] = 0
    for i in range(len(positions)):
        p = positions[i]
        out[i + 1] = out[i] + offsets[p + 1] - offsets[p]
    return out


@njit(cache=True, nogil=True)
def gather_strings(offsets, data, shift, positions, packed):
    """The bytes of the chosen strings; `packed` are their offsets, `shift` is the offset at which `data` begins."""
    out = np.empty(packed[-1], np.uint8)
    for i in range(len(positions)):
        copy_bytes(out, packed[i], data, offsets[positions[i]] - shift, packed[i + 1] - packed[i])
    return out


@njit(cache=True, nogil=True)
def equal_strings(offsets_a, data_a, shift_a, at_a, offsets_b, data_b, shift_b, at_b):
    """Whether string at_a[i] of the one buffer equals string at_b[i] of the other."""
    out = np.empty(len(at_a), np.bool_)
    for i in range(len(at_a)):
        a, b = at_a[i], at_b[i]
        size = offsets_a[a + 1] - offsets_a[a]
        same = size == offsets_b[b + 1] - offsets_b[b]
        out[i] = same and same_bytes(data_a, offsets_a[a] - shift_a, data_b, offsets_b[b] - shift_b, size)
    return out
