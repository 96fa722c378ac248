"""The extreme value of every group, under insertion and removal: one pairing heap per group, its nodes the live
contributions.

Answer   `insert` adds contributions to the heaps of their groups, `remove` takes any of them out again. The root of a
         group's heap is its extreme value. `best` keeps only the extreme, for groups that no contribution leaves.

             root[g] ─► slot ── child ─► slot ── after ─► slot ── after ─► …        (before: to the left, or up)

State    The caller's arrays, changed in place. A removal costs amortised the logarithm of the heap.
Limits   Values are 64-bit integers in the order of their values. With `texts` (begins, sizes, arena) they are ids of
         interned byte strings. With None another function is compiled, which counts no references to arrays.
Reading  Fredman, Sedgewick, Sleator, Tarjan: The pairing heap
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _text_beats(a, b, largest, texts):
    """Whether the byte string of id a goes before that of id b."""
    begins, sizes, arena = texts
    size = min(sizes[a], sizes[b])
    at = 0
    while at < size and arena[begins[a] + at] == arena[begins[b] + at]:
        at += 1
    x, y = (arena[begins[a] + at], arena[begins[b] + at]) if at < size else (sizes[a], sizes[b])
    return x > y if largest else x < y


@njit(cache=True, nogil=True)
def _beats(a, b, largest, texts):
    """Whether value a goes before value b."""
    if texts is None:
        found = a > b if largest else a < b
    else:
        found = _text_beats(a, b, largest, texts)
    return found


@njit(cache=True, nogil=True)
def _meld(a, b, encoded, links, largest, texts):
    """Two heaps as one; returns its root. links[s] = (child, after, before).

    It returns in one place: with several, compiled code counts references to the arrays in every call, which costs ten
    times the rest.
    """
    if a < 0:
        root = np.int64(b)
    elif b < 0:
        root = np.int64(a)
    else:
        turned = _beats(encoded[b], encoded[a], largest, texts)
        root, under = (np.int64(b), np.int64(a)) if turned else (np.int64(a), np.int64(b))
        child = links[root, 0]
        links[under, 1] = child
        links[under, 2] = root
        if child >= 0:
            links[child, 2] = under
        links[root, 0] = under
        links[root, 1] = -1
        links[root, 2] = -1
    return root


@njit(cache=True, nogil=True)
def _without_root(slot, encoded, links, largest, texts):
    """The children of a node as one heap: melded in pairs from the left, the pairs from the right."""
    pairs = -1
    at = links[slot, 0]
    while at >= 0:
        second = links[at, 1]
        rest = -1
        links[at, 1] = -1
        if second >= 0:
            rest = links[second, 1]
            links[second, 1] = -1
            at = _meld(at, second, encoded, links, largest, texts)
        links[at, 1] = pairs
        pairs = at
        at = rest
    root = -1
    while pairs >= 0:
        rest = links[pairs, 1]
        links[pairs, 1] = -1
        root = _meld(root, pairs, encoded, links, largest, texts)
        pairs = rest
    if root >= 0:
        links[root, 2] = -1
    return root


@njit(cache=True, nogil=True)
def insert(roots, codes, slots, encoded, links, valid, largest, texts):
    """`encoded` and `links` by slot; `valid` by contribution, empty where all count."""
    for i in range(len(codes)):
        if len(valid) and not valid[i]:
            continue
        slot = slots[i]
        links[slot, 0] = -1
        links[slot, 1] = -1
        links[slot, 2] = -1
        roots[codes[i]] = _meld(roots[codes[i]], slot, encoded, links, largest, texts)


@njit(cache=True, nogil=True)
def remove(roots, codes, slots, encoded, links, valid, largest, texts):
    for i in range(len(codes)):
        if len(valid) and not valid[i]:
            continue
        slot = slots[i]
        rest = _without_root(slot, encoded, links, largest, texts)
        if roots[codes[i]] == slot:
            roots[codes[i]] = rest
            continue
        before, after = links[slot, 2], links[slot, 1]
        if links[before, 0] == slot:
            links[before, 0] = after
        else:
            links[before, 1] = after
        if after >= 0:
            links[after, 2] = before
        roots[codes[i]] = _meld(roots[codes[i]], rest, encoded, links, largest, texts)


@njit(cache=True, nogil=True)
def best(codes, encoded, valid, extremes, known, largest, texts):
    """Extremes of groups that no contribution leaves."""
    for i in range(len(codes)):
        if len(valid) and not valid[i]:
            continue
        g = codes[i]
        if not known[g] or _beats(encoded[i], extremes[g], largest, texts):
            known[g] = True
            extremes[g] = encoded[i]
