"""Dictionaries of groups: rows of 64-bit integers to small codes, byte strings to ids, with codes that come back.

Answer   `find_or_add` gives every row the code of its integers, new codes for new rows. `find` gives -1 for a row that
         is not there. `remove` takes codes out and puts them on the stack of free ones. `intern` gives byte strings
         ids, and keeps their bytes in one arena.

             heads[hash] ─► entry ─► following[entry] ─► … ─► -1        free: a stack of entries without a row

State    The caller's arrays, changed in place; `free_count[0]` is the height of the stack of free codes.
Limits   `find_or_add` and `intern` stop where there is no room and return how far they came: the caller makes room and
         goes on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from eddyline.kernels.hashing import mix
from eddyline.kernels.raw import copy_bytes, same_bytes

_GOLD = np.uint64(0x9E3779B97F4A7C15)


class Interned(NamedTuple):
    """Byte strings by id: chains, hashes, where the bytes of each lie in the arena, and the stack of free ids.

    `used[0]` is the filled part of the arena.
    """

    heads: Any
    following: Any
    hashes: Any
    begins: Any
    sizes: Any
    arena: Any
    used: Any
    free: Any
    free_count: Any


class Strings(NamedTuple):
    """Byte strings that come, with their hashes; `valid` is empty where all count."""

    string_hashes: Any
    offsets: Any
    data: Any
    valid: Any


@njit(cache=True, nogil=True, inline="always")
def _hash_row(rows, i):
    h = np.uint64(0)
    for j in range(rows.shape[1]):
        h = mix(h * _GOLD + np.uint64(rows[i, j]))
    return h


@njit(cache=True, nogil=True, inline="always")
def _entry_of(heads, following, keys, rows, i, bucket):
    """The entry of a row, -1 where there is none.

    Its loops have one way out each: with several, compiled code counts references to the arrays for every row, five
    times the other work.
    """
    entry = heads[bucket]
    goes_on = entry >= 0
    while goes_on:
        unlike = np.int64(0)
        for j in range(rows.shape[1]):
            unlike |= keys[entry, j] ^ rows[i, j]
        if unlike != 0:
            entry = following[entry]
            goes_on = entry >= 0
        else:
            goes_on = False
    return entry


@njit(cache=True, nogil=True)
def find_or_add(heads, following, keys, free, free_count, rows, start, codes):
    """Codes of rows[start:]; returns the first row for which there was no free code."""
    mask = np.uint64(len(heads) - 1)
    for i in range(start, len(rows)):
        bucket = np.int64(_hash_row(rows, i) & mask)
        entry = _entry_of(heads, following, keys, rows, i, bucket)
        if entry < 0:
            if free_count[0] == 0:
                return i
            free_count[0] -= 1
            entry = free[free_count[0]]
            for j in range(rows.shape[1]):
                keys[entry, j] = rows[i, j]
            following[entry] = heads[bucket]
            heads[bucket] = entry
        codes[i] = entry
    return len(rows)


@njit(cache=True, nogil=True)
def find(heads, following, keys, rows):
    """Codes of rows; -1 where a row is not there."""
    mask = np.uint64(len(heads) - 1)
    codes = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        codes[i] = _entry_of(heads, following, keys, rows, i, np.int64(_hash_row(rows, i) & mask))
    return codes


@njit(cache=True, nogil=True)
def remove(heads, following, keys, free, free_count, codes):
    """Take the entries out; each is there, once."""
    mask = np.uint64(len(heads) - 1)
    for i in range(len(codes)):
        code = codes[i]
        bucket = np.int64(_hash_row(keys, code) & mask)
        if heads[bucket] == code:
            heads[bucket] = following[code]
        else:
            before = heads[bucket]
            while following[before] != code:
                before = following[before]
            following[before] = following[code]
        free[free_count[0]] = code
        free_count[0] += 1


@njit(cache=True, nogil=True)
def rehash(heads, following, keys, codes):
    """Link the entries anew into empty heads."""
    mask = np.uint64(len(heads) - 1)
    for i in range(len(codes)):
        bucket = np.int64(_hash_row(keys, codes[i]) & mask)
        following[codes[i]] = heads[bucket]
        heads[bucket] = codes[i]


@njit(cache=True, nogil=True)
def intern(known, strings, start, ids):
    """Write the ids of the byte strings from `start` on; returns the first that has no room."""
    heads, following, hashes, begins, sizes, arena, used, free, free_count = known
    string_hashes, offsets, data, valid = strings
    mask = np.int64(len(heads) - 1)
    for i in range(start, len(string_hashes)):
        if len(valid) and not valid[i]:
            ids[i] = 0
            continue
        size = offsets[i + 1] - offsets[i]
        bucket = string_hashes[i] & mask
        entry = heads[bucket]
        while entry >= 0:
            if (
                hashes[entry] == string_hashes[i]
                and sizes[entry] == size
                and same_bytes(arena, begins[entry], data, offsets[i], size)
            ):
                break
            entry = following[entry]
        if entry < 0:
            if free_count[0] == 0 or used[0] + size > len(arena):
                return i
            free_count[0] -= 1
            entry = free[free_count[0]]
            hashes[entry] = string_hashes[i]
            begins[entry] = used[0]
            sizes[entry] = size
            copy_bytes(arena, used[0], data, offsets[i], size)
            used[0] += size
            following[entry] = heads[bucket]
            heads[bucket] = entry
        ids[i] = entry
    return len(string_hashes)


@njit(cache=True, nogil=True)
def relink(heads, following, hashes, ids):
    """Link interned strings anew into empty heads."""
    mask = np.int64(len(heads) - 1)
    for i in range(len(ids)):
        bucket = hashes[ids[i]] & mask
        following[ids[i]] = heads[bucket]
        heads[bucket] = ids[i]


@njit(cache=True, nogil=True)
def gather_bytes(begins, sizes, arena, ids):
    """Offsets (int64) and packed bytes of interned strings."""
    offsets = np.empty(len(ids) + 1, np.int64)
    offsets[0] = 0
    for i in range(len(ids)):
        offsets[i + 1] = offsets[i] + sizes[ids[i]]
    out = np.empty(offsets[-1], np.uint8)
    for i in range(len(ids)):
        copy_bytes(out, offsets[i], arena, begins[ids[i]], sizes[ids[i]])
    return offsets, out


@njit(cache=True, nogil=True)
def collect(flags, codes, out, count):
    """Append the codes that have no flag yet to `out`, which has `count` codes, and flag them; returns the new
    number."""
    for i in range(len(codes)):
        code = codes[i]
        if not flags[code]:
            flags[code] = True
            out[count] = code
            count += 1
    return count


@njit(cache=True, nogil=True)
def count_by(counts, codes, sign):
    """Add `sign` for each code; True where the count was 0 or is 0 now: the first of a code comes, or the last goes."""
    crosses = np.empty(len(codes), np.bool_)
    for i in range(len(codes)):
        before = counts[codes[i]]
        counts[codes[i]] = before + sign
        crosses[i] = before == 0 or before + sign == 0
    return crosses


@njit(cache=True, nogil=True)
def add_counts(counts, codes, valid, sign):
    """Add `sign` for each code; `valid` is empty where all count."""
    for i in range(len(codes)):
        if len(valid) == 0 or valid[i]:
            counts[codes[i]] += sign


@njit(cache=True, nogil=True)
def sessions(codes, times, gap, known, starts, lasts):
    """Per row, in the order of time, the beginning of its session; `starts` and `lasts` hold the newest session of
    each code."""
    found = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        code = codes[i]
        if not known[code] or times[i] - lasts[code] > gap:
            known[code] = True
            starts[code] = times[i]
        lasts[code] = times[i]
        found[i] = starts[code]
    return found
