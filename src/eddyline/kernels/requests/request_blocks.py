"""Probes of requests, one after the other, against many clustered blocks or against rows.

Answer   `read_blocks`: every probe computes its address in every block and reads the runs that its fixed fields leave
         open. `scan_each`: every probe compares the rows of its own range. Both write pairs into buffers that the
         caller gives, and stop where these are full: the caller makes them larger and goes on.
State    None. A line of a block table has the addresses of a block's arrays; the caller keeps the arrays.
Limits   As in `requests.py`: keys of texts are hashes, and a row whose `nulls` meet the fixed columns matches nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic

from eddyline.kernels.hashing import fold, mix

#: Places in a line of a block table. FIRST, STOP: the first row id and the one after the last. ROWS: how many rows the
#: block has. OFFSETS to FORMS: the addresses of its arrays. NULL_BITS: columns that are null somewhere. TOGETHER: the
#: columns that are hashed together (0: each column has a field of its own), with HASH_BITS bits.
FIRST, STOP, ROWS, OFFSETS, IDS, KEYS, NULLS, FORMS, NULL_BITS, TOGETHER, HASH_BITS = range(11)
#: From here on, per column: the bits of its field and those below it, how keys become fields, and the sorted codes or
#: cuts with their number.
FIELDS, PER_FIELD = 11, 5
BITS, SHIFT, KIND, SORTED, COUNT = range(5)
HASHED, CODES, CUTS = range(3)
#: A run costs as much to begin as this number of rows to compare, by the costs of `lab calibrate` (6.4 ns and 0.076
#: ns) rounded down.
RUN_ROWS = 64
#: Rows of a run whose short forms are compared at once: one per bit of a word. A block has as many more forms behind
#: its last row: kernels read them and ignore the result.
PORTION = 64


class Alone(NamedTuple):
    """Probes of one pattern: keys, one line per fixed column, and the ids of each one's rows, `high` excluded."""

    #: The numbers of the fixed columns, and the same as bits.
    columns: npt.NDArray[np.int64]
    fixed: int
    keys: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(address), generate


@intrinsic
def _equal_forms(typing_context: Any, address: Any, form: Any) -> Any:
    """Which of the `PORTION` short forms from an address on are this one, as the bits of a word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        many = ir.VectorType(ir.IntType(16), PORTION)
        here = builder.load(builder.inttoptr(arguments[0], many.as_pointer()), align=2)
        one = builder.insert_element(ir.Constant(many, ir.Undefined), arguments[1], ir.Constant(ir.IntType(32), 0))
        same = builder.shuffle_vector(
            one, ir.Constant(many, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), PORTION), None)
        )
        return builder.bitcast(builder.icmp_unsigned("==", here, same), ir.IntType(PORTION))

    return types.uint64(types.int64, types.uint16), generate


@intrinsic
def _lowest(typing_context: Any, bits: Any) -> Any:
    """The place of the lowest bit of a word; 64 where it has none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@njit(cache=True, inline="always")
def _longs(address, count):
    return carray(_pointer(address), (count,), np.int64)


@njit(cache=True, inline="always")
def _place(values, key, count, right):
    """Where a key belongs among sorted values; after equal ones if `right`."""
    low = 0
    # Without a branch: the side on which a key lies is unpredictable.
    while count > 0:
        half = count >> 1
        behind = (values[low + half] < key) | (right & (values[low + half] == key))
        low += (half + 1) * behind
        count = half + (count - 2 * half - 1) * behind
    return low


@njit(cache=True, inline="always")
def form_of(key):
    """The short form of a key without a code, sixteen bits of its hash: rows with other bits have another key."""
    return np.uint16(mix(key) >> np.uint64(48))


@njit(cache=True, inline="always")
def _is_exact(line, at):
    """Whether equal short forms of a column are equal keys: they are its codes."""
    return line[at + KIND] == CODES and line[at + COUNT] <= 1 << 16


@njit(cache=True, nogil=True)
def _code(key, line, at):
    """The code of a key or the cut that it lies behind; -1: the block has no such key."""
    count = line[at + COUNT]
    values = _longs(line[at + SORTED], count)
    place = _place(values, key, count, line[at + KIND] == CUTS)
    if line[at + KIND] == CODES and (place == count or values[place] != key):
        return np.int64(-1)
    return np.int64(place)


@njit(cache=True, nogil=True)
def _hashed(probed, p, line):
    """The address under one hash of several columns; -1: the probe does not fix all of them."""
    together = line[TOGETHER]
    if together & ~probed.fixed:
        return np.int64(-1)
    h = np.uint64(0)
    taken = 0
    for c in range(len(probed.columns)):
        if together >> probed.columns[c] & 1:
            key = probed.keys[c, p]
            h = np.uint64(key) if taken == 0 else fold(mix(h) if taken == 1 else h, key)
            taken += 1
    return np.int64(mix(h) & ((np.uint64(1) << np.uint64(line[HASH_BITS])) - np.uint64(1)))


@njit(cache=True, nogil=True)
def _located(probed, p, line, columns, forms):
    """Where a probe reads in a block: address (-1: nowhere), open bits above the lowest run, bits of the lowest run.

    The short forms of its keys in the block are written to `forms`.
    """
    address, taken, total = np.int64(0), np.int64(0), np.int64(0)
    for column in range(columns):
        total += line[FIELDS + PER_FIELD * column + BITS]
    low_free = total
    for c in range(len(probed.columns)):
        at, key = FIELDS + PER_FIELD * probed.columns[c], probed.keys[c, p]
        bits, shift, kind = line[at + BITS], line[at + SHIFT], line[at + KIND]
        field = (
            np.int64(mix(key) & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1)))
            if kind == HASHED
            else _code(key, line, at)
        )
        if field < 0:
            return np.int64(-1), np.int64(0), np.int64(0)
        forms[c] = np.uint16(field) if kind == CODES else form_of(key)
        if bits:
            if kind == CODES and line[at + COUNT] > 1 << bits:
                field = (field << bits) // line[at + COUNT]
            address |= field << shift
            taken |= ((np.int64(1) << bits) - 1) << shift
            low_free = min(low_free, shift)
    if line[TOGETHER]:
        hashed = _hashed(probed, p, line)
        return (np.int64(0), np.int64(0), line[HASH_BITS]) if hashed < 0 else (hashed, np.int64(0), np.int64(0))
    free = ((np.int64(1) << total) - 1) & ~taken & ~((np.int64(1) << low_free) - 1)
    runs, rest = np.int64(1), free
    while rest:
        runs *= 2
        rest &= rest - 1
    if runs * RUN_ROWS > line[ROWS]:
        # A block of another configuration, or a small piece: all of it is read as one run.
        return np.int64(0), np.int64(0), total
    return address, free, low_free


@njit(cache=True, inline="always")
def _fitting(address, begin, stop, form, out, n):
    """Write the places from `begin` on with this short form; `address` is that of the column's forms. Returns n plus
    their number.

    There is room for `PORTION` more than it writes at most; a negative number: there was not.
    """
    at = begin
    while True:
        left = min(stop - at, PORTION)
        same = _equal_forms(address + 2 * at, form) & (
            ((np.uint64(1) << np.uint64(left & PORTION - 1)) - np.uint64(1)) | -np.uint64(left == PORTION)
        )
        if n + PORTION > len(out):
            return np.int64(-1)
        # Without a branch for the first one: it is unpredictable which runs have a row that fits.
        out[n] = at + _lowest(same)
        n += same != 0
        same &= same - np.uint64(1)
        while same:
            out[n] = at + _lowest(same)
            n += 1
            same &= same - np.uint64(1)
        at += PORTION
        if at >= stop:
            return n


@njit(cache=True, inline="always")
def _keenest(probed, line):
    """The place among the fixed columns of the one whose field has the fewest bits: its keys differ most within a
    run."""
    chosen, fewest = 0, np.int64(64)
    for c in range(len(probed.columns)):
        bits = line[FIELDS + PER_FIELD * probed.columns[c] + BITS]
        if bits < fewest:
            chosen, fewest = c, bits
    return chosen


@njit(cache=True, nogil=True)
def _kept(probed, p, line, forms, out_probe, out_row, start, n):
    """Of the places `out_row[start:n]` keep the rows that have all keys of a probe and lie in its range, as row ids;
    returns their end.

    One loop over all places of a block: its reads lie far apart, and the processor fetches several at the same time.
    """
    rows, first, low, high = line[ROWS], line[FIRST], probed.low[p], probed.high[p]
    ids = carray(_pointer(line[IDS]), (rows,), np.int32)
    kept = start
    for at in range(start, n):
        out_probe[kept] = p
        id = first + ids[out_row[at]]
        place = out_row[at]
        fits = low <= id < high
        for c in range(len(probed.columns)):
            column = probed.columns[c]
            if len(probed.columns) > 1:
                fits &= carray(_pointer(line[FORMS] + 2 * rows * column), (rows,), np.uint16)[place] == forms[c]
            if not _is_exact(line, FIELDS + PER_FIELD * column):
                fits &= _longs(line[KEYS] + 8 * rows * column, rows)[place] == probed.keys[c, p]
        if probed.fixed & line[NULL_BITS]:
            fits &= _longs(line[NULLS], rows)[place] & probed.fixed == 0
        out_row[kept] = id
        kept += fits
    return kept


@njit(cache=True, nogil=True)
def read_blocks(table, probed, begin, out_probe, out_row):
    """Probes from `begin` on read what lies behind their addresses in all blocks of a table.

    Returns:
        the first probe that was not finished, pairs written, runs begun, rows visited.
    """
    n, runs, visited = np.int64(0), 0, np.int64(0)
    low, high = probed.low, probed.high
    fields = (table.shape[1] - FIELDS) // PER_FIELD
    forms = np.empty(fields, np.uint16)
    for p in range(begin, len(low)):
        before = n
        for b in range(len(table)):
            line = table[b]
            if low[p] >= line[STOP] or high[p] <= line[FIRST] or low[p] >= high[p]:
                continue
            address, free, low_free = _located(probed, p, line, fields, forms)
            if address < 0:
                continue
            offsets = carray(_pointer(line[OFFSETS]), (1,), np.int32)
            keenest = _keenest(probed, line)
            column, form = line[FORMS] + 2 * line[ROWS] * probed.columns[keenest], forms[keenest]
            width, part, start = np.int64(1) << low_free, np.int64(0), n
            while True:
                place = address | part
                runs += 1
                at, stop = np.int64(offsets[place]), np.int64(offsets[place + width])
                visited += stop - at
                n = _fitting(column, at, stop, form, out_row, n)
                if n < 0:
                    return p, before, runs, visited
                # The next subset of the free bits.
                part = (part - free) & free
                if part == 0:
                    break
            n = _kept(probed, p, line, forms, out_probe, out_row, start, n)
    return len(low), n, runs, visited


@njit(cache=True, nogil=True)
def scan_each(keys, nulls, wanted, first, end, base, probed, begin, out_probe, out_row):
    """Probes from `begin` on compare the rows of their ranges between the ids `first` and `end`.

    Args:
        keys: one line per column of the template, nulls: bits of the columns that are null; both begin with the id
        `base`. wanted: which rows from `first` on count; empty where all do.

    Returns:
        the first probe that was not finished, pairs written, rows visited.
    """
    n, visited = 0, 0
    columns, fixed = probed.columns, probed.fixed
    for p in range(begin, len(probed.low)):
        before = n
        start, stop = max(probed.low[p], first) - base, min(probed.high[p], end) - base
        if start >= stop:
            continue
        visited += stop - start
        column, key = keys[columns[0]], probed.keys[0, p]
        for at in range(start, stop):
            if column[at] != key or nulls[at] & fixed or (len(wanted) and not wanted[at + base - first]):
                continue
            same = True
            for c in range(1, len(columns)):
                same &= probed.keys[c, p] == keys[columns[c], at]
            if same:
                if n == len(out_probe):
                    return p, before, visited
                out_probe[n] = p
                out_row[n] = at + base
                n += 1
    return len(probed.low), n, visited
