"""Requests that read many clustered blocks, or scan rows, each for itself: one call for all of them.

Answer   `read_blocks` lets every probe compute its address in every block and read the runs that its fixed fields leave open. `scan_each`
         lets every probe compare the rows of its own range. Both write pairs into buffers that the caller gives, and stop where these are
         full: the caller makes them larger and goes on.
State    None. A line of a block table has the addresses of a block's arrays; the caller keeps the arrays.
Limits   As in `requests.py`: words of texts are hashes, and a row whose `nulls` meet the fixed columns matches nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import carray, njit, types
from numba.extending import intrinsic

from eddyline.kernels.hashing import fold, mix

#: Places in a line of a block table: the first row id and the one after the last, rows in the block, the addresses of its arrays, the bits
#: of all columns that are null somewhere, the columns that are hashed together (0: each column has a field of its own) and their bits.
FIRST, STOP, ROWS, OFFSETS, IDS, WORDS, NULLS, PRINTS, NULL_BITS, TOGETHER, HASH_BITS = range(11)
#: From here on, per column: the bits of its field, how words become fields, and the sorted codes or cuts with their number.
FIELDS, PER_FIELD = 11, 4
BITS, KIND, SORTED, COUNT = range(4)
HASHED, CODES, CUTS = range(3)


class Alone(NamedTuple):
    """Probes of one pattern: key words, one line per fixed column, and the ids that each looks at, `high` excluded."""

    #: The numbers of the fixed columns, and the same as bits.
    columns: npt.NDArray[np.int64]
    fixed: int
    words: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(address), generate


@njit(cache=True, inline="always")
def _longs(address, count):
    return carray(_pointer(address), (count,), np.int64)


@njit(cache=True, inline="always")
def _place(values, word, count, right):
    """Where a word belongs among sorted values; after equal ones if `right`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < word or (right and values[middle] == word):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, inline="always")
def _print(word):
    return np.uint16(mix(word) >> np.uint64(48))


@njit(cache=True, nogil=True)
def prints_of(words):
    """Sixteen bits of each word's hash: rows with other bits have another word, and a run of them is short to read."""
    out = np.empty(words.shape, np.uint16)
    for c in range(words.shape[0]):
        for row in range(words.shape[1]):
            out[c, row] = _print(words[c, row])
    return out


@njit(cache=True, nogil=True)
def _field(word, line, at):
    """The field of a word, or -1: the block has no such word."""
    bits, kind, count = line[at + BITS], line[at + KIND], line[at + COUNT]
    if kind == HASHED:
        return np.int64(mix(word) & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1)))
    values = _longs(line[at + SORTED], count)
    place = _place(values, word, count, kind == CUTS)
    if kind == CUTS:
        return np.int64(place)
    if place == count or values[place] != word:
        return np.int64(-1)
    return np.int64(place if count <= 1 << bits else (place << bits) // count)


@njit(cache=True, nogil=True)
def _hashed(asking, p, line):
    """The address under one hash of several columns; -1: the probe does not fix all of them."""
    together = line[TOGETHER]
    if together & ~asking.fixed:
        return np.int64(-1)
    h = np.uint64(0)
    taken = 0
    for c in range(len(asking.columns)):
        if together >> asking.columns[c] & 1:
            word = asking.words[c, p]
            h = np.uint64(word) if taken == 0 else fold(mix(h) if taken == 1 else h, word)
            taken += 1
    return np.int64(mix(h) & ((np.uint64(1) << np.uint64(line[HASH_BITS])) - np.uint64(1)))


@njit(cache=True, nogil=True)
def _located(asking, p, line, columns):
    """Where a probe looks in a block: address (-1: nowhere), open bits above the lowest run, bits of the lowest run."""
    if line[TOGETHER]:
        hashed = _hashed(asking, p, line)
        return (np.int64(0), np.int64(0), line[HASH_BITS]) if hashed < 0 else (hashed, np.int64(0), np.int64(0))
    address, taken, shift, c = np.int64(0), np.int64(0), np.int64(0), 0
    for column in range(columns):
        bits = line[FIELDS + PER_FIELD * column + BITS]
        here = c < len(asking.columns) and asking.columns[c] == column
        if bits and here:
            field = _field(asking.words[c, p], line, FIELDS + PER_FIELD * column)
            if field < 0:
                return np.int64(-1), np.int64(0), np.int64(0)
            address |= field << shift
            taken |= ((np.int64(1) << bits) - 1) << shift
        c += here
        shift += bits
    low_free = shift
    if taken:
        low_free = np.int64(0)
        while not taken >> low_free & 1:
            low_free += 1
    return address, ((np.int64(1) << shift) - 1) & ~taken & ~((np.int64(1) << low_free) - 1), low_free


@njit(cache=True, nogil=True)
def read_blocks(table, begin, asking, out_probe, out_row):
    """Probes from `begin` on read what lies behind their addresses in all blocks of a table.

    Returns:
        the first probe that was not finished, pairs written, runs begun, rows looked at.
    """
    n, runs, visited = 0, 0, 0
    columns, low, high = asking.columns, asking.low, asking.high
    fields = (table.shape[1] - FIELDS) // PER_FIELD
    for p in range(begin, len(low)):
        mark = n
        key = asking.words[0, p]
        key_print = _print(key)
        for b in range(len(table)):
            line = table[b]
            if low[p] >= line[STOP] or high[p] <= line[FIRST] or low[p] >= high[p]:
                continue
            address, free, low_free = _located(asking, p, line, fields)
            if address < 0:
                continue
            rows, first = line[ROWS], line[FIRST]
            offsets = _longs(line[OFFSETS], 1)
            ids = carray(_pointer(line[IDS]), (rows,), np.int32)
            nulls = _longs(line[NULLS], rows)
            fixed = asking.fixed & line[NULL_BITS]
            words = _longs(line[WORDS] + 8 * rows * columns[0], rows)
            prints = carray(_pointer(line[PRINTS] + 2 * rows * columns[0]), (rows,), np.uint16)
            width, part = np.int64(1) << low_free, np.int64(0)
            while True:
                place = address | part
                runs += 1
                start, stop = offsets[place], offsets[place + width]
                visited += stop - start
                for at in range(start, stop):
                    if prints[at] != key_print:
                        continue
                    if words[at] != key or (fixed and nulls[at] & fixed):
                        continue
                    id = first + ids[at]
                    same = low[p] <= id < high[p]
                    for c in range(1, len(columns)):
                        same &= asking.words[c, p] == _longs(line[WORDS] + 8 * rows * columns[c], rows)[at]
                    if same:
                        if n == len(out_probe):
                            return p, mark, runs, visited
                        out_probe[n] = p
                        out_row[n] = id
                        n += 1
                # The next subset of the free bits.
                part = (part - free) & free
                if part == 0:
                    break
    return len(low), n, runs, visited


@njit(cache=True, nogil=True)
def scan_each(words, nulls, wanted, first, end, base, begin, asking, out_probe, out_row):
    """Probes from `begin` on compare the rows of their ranges between the ids `first` and `end`.

    Args:
        words: one line per column of the template, nulls: bits of the columns that are null; both begin with the id `base`.
        wanted: which rows from `first` on count; empty where all do.

    Returns:
        the first probe that was not finished, pairs written, rows looked at.
    """
    n, visited = 0, 0
    columns, fixed = asking.columns, asking.fixed
    for p in range(begin, len(asking.low)):
        mark = n
        start, stop = max(asking.low[p], first) - base, min(asking.high[p], end) - base
        if start >= stop:
            continue
        visited += stop - start
        column, key = words[columns[0]], asking.words[0, p]
        for at in range(start, stop):
            if column[at] != key or nulls[at] & fixed or (len(wanted) and not wanted[at + base - first]):
                continue
            same = True
            for c in range(1, len(columns)):
                same &= asking.words[c, p] == words[columns[c], at]
            if same:
                if n == len(out_probe):
                    return p, mark, visited
                out_probe[n] = p
                out_row[n] = at + base
                n += 1
    return len(asking.low), n, visited
