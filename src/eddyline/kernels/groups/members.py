"""Which slots a group has: one chain of slots per group, from which a slot is taken out without a search.

Answer   `link` puts slots at the front of the chains of their groups, `unlink` takes slots out, `members` lists the
         slots of some groups, one group after the other.

             firsts[group] ─► slot ⇄ slot ⇄ slot ─► 0        after[slot], before[slot]

State    The caller's arrays, changed in place. Places in them are slots plus one; 0 is no slot, so that arrays that
         grow are zeros.
Limits   A slot is in one chain at most; `members` wants each group once.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def link(firsts, after, before, groups, slots):
    for i in range(len(slots)):
        slot, group = slots[i], groups[i]
        first = firsts[group]
        after[slot] = first
        before[slot] = 0
        if first > 0:
            before[first - 1] = slot + 1
        firsts[group] = slot + 1


@njit(cache=True, nogil=True)
def unlink(firsts, after, before, groups, slots):
    """`groups` are those of all slots, by slot."""
    for i in range(len(slots)):
        slot = slots[i]
        following, previous = after[slot], before[slot]
        if following > 0:
            before[following - 1] = previous
        if previous > 0:
            after[previous - 1] = following
        else:
            firsts[groups[slot]] = following


@njit(cache=True, nogil=True)
def members(firsts, after, groups):
    count = 0
    for group in groups:
        place = firsts[group]
        while place > 0:
            count += 1
            place = after[place - 1]
    found = np.empty(count, np.int64)
    count = 0
    for group in groups:
        place = firsts[group]
        while place > 0:
            found[count] = place - 1
            count += 1
            place = after[place - 1]
    return found
