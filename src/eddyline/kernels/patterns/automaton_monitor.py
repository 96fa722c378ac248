"""Constraints on the types of one trace: closure, and the four ways in which an event breaks a rule.

Answer   `breaks` says whether an event of type t is a violation after the types accepted so far, and gives the closure
         with it.
Limits   Sets of types are rows of 64-bit words.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True, inline="always")
def _has(words, t):
    return (words[t >> 6] >> np.uint64(t & 63)) & _ONE != _ZERO


@njit(cache=True, nogil=True, forceinline=True)
def is_within(part, whole):
    for w in range(len(part)):
        if part[w] & ~whole[w] != _ZERO:
            return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def meets(a, b):
    for w in range(len(a)):
        if a[w] & b[w] != _ZERO:
            return True
    return False


@njit(cache=True, nogil=True, forceinline=True)
def _closed(monitor, closed, t):
    """The closure of a closed set with one more type."""
    new = closed | monitor.requires[t]
    grows = True
    while grows:
        grows = False
        for c in range(len(monitor.clause_needed)):
            needed = monitor.clause_needed[c]
            if not _has(new, needed) and is_within(monitor.clause_given[c], new):
                new |= monitor.requires[needed]
                grows = True
    return new


@njit(cache=True, nogil=True, forceinline=True)
def _has_cycle(monitor, closed):
    """Whether PRIOR goes round among the types of a set."""
    left = closed & monitor.cyclic
    while True:
        taken = False
        empty = True
        for t in range(len(left) * 64):
            if not _has(left, t):
                continue
            empty = False
            follows = False
            for w in range(len(left)):
                other = monitor.after[t, w] & left[w]
                if w == t >> 6:
                    other &= ~(_ONE << np.uint64(t & 63))
                if other != _ZERO:
                    follows = True
                    break
            if not follows:
                left[t >> 6] &= ~(_ONE << np.uint64(t & 63))
                taken = True
        if empty:
            return False
        if not taken:
            return True


@njit(cache=True, nogil=True, forceinline=True)
def breaks(monitor, seen, closed, t, whole):
    """Whether an event of type t breaks a rule; returns that and the closure with it."""
    new = _closed(monitor, closed, t)
    if meets(monitor.after[t], seen):
        return True, new
    grown = not is_within(new, closed)
    if grown:
        for n in range(len(monitor.never)):
            if is_within(monitor.never[n], new):
                return True, new
        if meets(new, monitor.cyclic) and _has_cycle(monitor, new):
            return True, new
    if whole:
        now = seen.copy()
        now[t >> 6] |= _ONE << np.uint64(t & 63)
        missing = new & ~now
        for w in range(len(missing)):
            word = missing[w]
            k = w * 64
            while word != _ZERO:
                if word & _ONE and meets(monitor.after[k], now):
                    return True, new
                word >>= _ONE
                k += 1
        if monitor.end[t]:
            for w in range(len(missing)):
                if missing[w] != _ZERO:
                    return True, new
    return False, new
