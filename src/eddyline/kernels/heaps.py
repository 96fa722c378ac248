"""The extreme value of every group, under insertion and removal: one pairing heap per group, its nodes the live contributions.

Answer   `insert` adds contributions to the heaps of their groups, `remove` takes any of them out again; the root of a group's heap is
         its extreme value. `best` keeps only the extreme where nothing is ever taken out.

             root[g] ─► slot ── child ─► slot ── after ─► slot ── after ─► …        (before: to the left, or up)

State    The caller's arrays, changed in place. A removal costs amortised the logarithm of the heap.
Limits   Values are 64-bit words in the order of their values, or ids of interned byte strings (`texts`).
Reading  Fredman, Sedgewick, Sleator, Tarjan: The pairing heap
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True, inline="always")
def _beats(a, b, largest, texts, begins, sizes, arena):
    """Whether value a goes before value b."""
    if not texts:
        return a > b if largest else a < b
    size = min(sizes[a], sizes[b])
    for j in range(size):
        x, y = arena[begins[a] + j], arena[begins[b] + j]
        if x != y:
            return x > y if largest else x < y
    return sizes[a] > sizes[b] if largest else sizes[a] < sizes[b]


@njit(cache=True, nogil=True)
def _meld(a, b, words, links, largest, texts, begins, sizes, arena):
    """Two heaps as one; returns its root. links[s] = (child, after, before)."""
    if a < 0:
        return b
    if b < 0:
        return a
    if _beats(words[b], words[a], largest, texts, begins, sizes, arena):
        a, b = b, a
    child = links[a, 0]
    links[b, 1] = child
    links[b, 2] = a
    if child >= 0:
        links[child, 2] = b
    links[a, 0] = b
    links[a, 1] = -1
    links[a, 2] = -1
    return a


@njit(cache=True, nogil=True)
def _without_root(slot, words, links, largest, texts, begins, sizes, arena):
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
            at = _meld(at, second, words, links, largest, texts, begins, sizes, arena)
        links[at, 1] = pairs
        pairs = at
        at = rest
    root = -1
    while pairs >= 0:
        rest = links[pairs, 1]
        links[pairs, 1] = -1
        root = _meld(root, pairs, words, links, largest, texts, begins, sizes, arena)
        pairs = rest
    if root >= 0:
        links[root, 2] = -1
    return root


@njit(cache=True, nogil=True)
def insert(roots, codes, slots, words, links, valid, largest, texts, begins, sizes, arena):
    """`words` and `links` by slot; `valid` by contribution, empty where all count."""
    for i in range(len(codes)):
        if len(valid) and not valid[i]:
            continue
        slot = slots[i]
        links[slot, 0] = -1
        links[slot, 1] = -1
        links[slot, 2] = -1
        roots[codes[i]] = _meld(roots[codes[i]], slot, words, links, largest, texts, begins, sizes, arena)


@njit(cache=True, nogil=True)
def remove(roots, codes, slots, words, links, valid, largest, texts, begins, sizes, arena):
    for i in range(len(codes)):
        if len(valid) and not valid[i]:
            continue
        slot = slots[i]
        rest = _without_root(slot, words, links, largest, texts, begins, sizes, arena)
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
        roots[codes[i]] = _meld(roots[codes[i]], rest, words, links, largest, texts, begins, sizes, arena)


@njit(cache=True, nogil=True)
def best(codes, words, valid, extremes, known, largest, texts, begins, sizes, arena):
    """Extremes of groups from which nothing is ever taken out."""
    for i in range(len(codes)):
        if len(valid) and not valid[i]:
            continue
        g = codes[i]
        if not known[g] or _beats(words[i], extremes[g], largest, texts, begins, sizes, arena):
            known[g] = True
            extremes[g] = words[i]
