"""The state of groups at each of many instants: changes are applied instant by instant, and the state of changed groups
is copied after each.

Answer   `touched_rows` gives one row per instant and group that changes at the instant.
         `follow_counts`, `follow_floats`, `follow_whole`, `follow_heaps` and `follow_best` change the state of the
         groups and copy it into the rows.
         `follow_distinct` flags the values that are the first to come and the last to leave.
         `note_presence` and `note_outputs` compare rows with the results that were emitted before.

             instant 0: came, left ─► state ─► rows    instant 1: came, left ─► state ─► rows    …

State    The caller's arrays, changed in place. `came` and `left` lie in the order of instants; `ends[i]` is where those
         of instant i end.
Limits   `follow_floats` stops at an instant at which a sum is doubtful: the caller sums live values anew and goes on
         there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from eddyline.kernels.groups.group import add_counts, count_by
from eddyline.kernels.groups.heaps import best, insert, remove
from eddyline.kernels.groups.sums import add_floats, is_doubtful, is_uncertain
from eddyline.kernels.groups.whole_sums import add_whole


class ContributionMoves(NamedTuple):
    """Contributions that come, or that leave, in the order of instants: groups, values or slots, validity, where each
    instant ends."""

    codes: Any
    values: Any
    valid: Any
    ends: Any


class WideMoves(NamedTuple):
    """The same with values of 128 bits, in two halves."""

    codes: Any
    low: Any
    high: Any
    valid: Any
    ends: Any


class Instants(NamedTuple):
    """Groups that change, instant by instant, and where those of each instant end."""

    codes: Any
    ends: Any


class FloatSumArrays(NamedTuple):
    """Sums of doubles, of their squares (empty: not wanted), and tallies, by group or by row."""

    sums: Any
    squares: Any
    tallies: Any


class WholeSumArrays(NamedTuple):
    """Sums of whole numbers and tallies, by group or by row."""

    sums: Any
    tallies: Any


class Extremes(NamedTuple):
    """Extremes, and whether there is one, by group or by row."""

    extremes: Any
    known: Any


class Heaps(NamedTuple):
    """A heap per group: roots by group, encoded values and links by slot."""

    roots: Any
    encoded: Any
    links: Any


@njit(cache=True, nogil=True)
def touched_rows(before, came, came_ends, left, left_ends, latest):
    """Codes of rows, and where the rows of each instant end.

    `before` are groups that were touched before the first instant; `latest` is -1 for every group, and becomes its last
    row.
    """
    size = len(before) + len(came) + len(left)
    codes = np.empty(size, np.int64)
    ends = np.empty(len(came_ends), np.int64)
    count = 0
    c = 0
    d = 0
    for i in range(len(came_ends)):
        first = count
        for part in range(3):
            if part == 0:
                chosen = before[: len(before) if i == 0 else 0]
            elif part == 1:
                chosen = came[c : came_ends[i]]
            else:
                chosen = left[d : left_ends[i]]
            for j in range(len(chosen)):
                code = chosen[j]
                if latest[code] < first:
                    codes[count] = code
                    latest[code] = count
                    count += 1
        c = came_ends[i]
        d = left_ends[i]
        ends[i] = count
    return codes[:count], ends


@njit(cache=True, nogil=True)
def note_presence(codes, stays, present):
    """Whether the group of each row was present before the row; `present` is by group, and each row sets it."""
    before = np.empty(len(codes), np.bool_)
    for r in range(len(codes)):
        before[r] = present[codes[r]]
        present[codes[r]] = stays[r]
    return before


@njit(cache=True, nogil=True)
def note_outputs(codes, stays, before, new, new_valid, encoded, valid, column, changed):
    """Set `changed` at rows whose group was present before with another value.

    `encoded` and `valid` are the values of groups, by group and column; each row sets those of its group. `new` has the
    encoded values of the rows that stay, `new_valid` is empty where all of them have a value.
    """
    place = 0
    for r in range(len(codes)):
        if stays[r]:
            g = codes[r]
            there = len(new_valid) == 0 or new_valid[place]
            if before[r] and (encoded[g, column] != new[place] or valid[g, column] != there):
                changed[r] = True
            encoded[g, column] = new[place]
            valid[g, column] = there
            place += 1


@njit(cache=True, nogil=True)
def no_longer_counted(counts, values):
    """The values whose count is 0, each once."""
    out = np.empty(len(values), np.int64)
    count = 0
    for i in range(len(values)):
        if counts[values[i]] == 0:
            counts[values[i]] = -1
            out[count] = values[i]
            count += 1
    for i in range(count):
        counts[out[i]] = 0
    return out[:count]


@njit(cache=True, nogil=True)
def follow_counts(counts, coming, leaving, rows_at):
    """The counts of the rows' groups at their instants; the values themselves are not read."""
    came, _, came_valid, came_ends = coming
    left, _, left_valid, left_ends = leaving
    rows, row_ends = rows_at
    out = np.empty(len(rows), np.int64)
    c = 0
    d = 0
    r = 0
    for i in range(len(row_ends)):
        add_counts(counts, came[c : came_ends[i]], came_valid[c : came_ends[i]], 1)
        add_counts(counts, left[d : left_ends[i]], left_valid[d : left_ends[i]], -1)
        c = came_ends[i]
        d = left_ends[i]
        while r < row_ends[i]:
            out[r] = counts[rows[r]]
            r += 1
    return out


@njit(cache=True, nogil=True)
def follow_floats(coming, leaving, rows_at, start, renewed, checked, by_group, by_row):
    """Goes on at instant `start`; returns the instant at which a sum is doubtful, or the number of instants.

    `renewed`: the changes of the first instant are applied already. `checked`: whether sums can be renewed at all.
    """
    came, came_values, came_valid, came_ends = coming
    left, left_values, left_valid, left_ends = leaving
    rows, row_ends = rows_at
    sums, squares, tallies = by_group
    row_sums, row_squares, row_tallies = by_row
    with_squares = len(squares) > 0
    difference = np.zeros((1, 5), np.float64)
    for i in range(start, len(row_ends)):
        r = row_ends[i - 1] if i > 0 else 0
        if not (renewed and i == start):
            c, e = came_ends[i - 1] if i > 0 else 0, came_ends[i]
            d, f = left_ends[i - 1] if i > 0 else 0, left_ends[i]
            add_floats(came[c:e], came_values[c:e], came_valid[c:e], 1, sums, squares, tallies)
            add_floats(left[d:f], left_values[d:f], left_valid[d:f], -1, sums, squares, tallies)
            if checked:
                for k in range(r, row_ends[i]):
                    g = rows[k]
                    if is_doubtful(sums, g):
                        return i
                    if with_squares and (
                        is_doubtful(squares, g) or is_uncertain(sums, squares, tallies, g, difference)
                    ):
                        return i
        for k in range(r, row_ends[i]):
            for j in range(5):
                row_sums[k, j] = sums[rows[k], j]
                if with_squares:
                    row_squares[k, j] = squares[rows[k], j]
            for j in range(4):
                row_tallies[k, j] = tallies[rows[k], j]
    return len(row_ends)


@njit(cache=True, nogil=True)
def follow_whole(coming, leaving, rows_at, by_group, by_row):
    """Write the sums and tallies of the rows' groups at their instants."""
    came, came_low, came_high, came_valid, came_ends = coming
    left, left_low, left_high, left_valid, left_ends = leaving
    rows, row_ends = rows_at
    sums, tallies = by_group
    row_sums, row_tallies = by_row
    c = 0
    d = 0
    r = 0
    for i in range(len(row_ends)):
        e = came_ends[i]
        f = left_ends[i]
        add_whole(came[c:e], came_low[c:e], came_high[c:e], came_valid[c:e], 1, sums, tallies)
        add_whole(left[d:f], left_low[d:f], left_high[d:f], left_valid[d:f], -1, sums, tallies)
        c = e
        d = f
        while r < row_ends[i]:
            for k in range(sums.shape[1]):
                row_sums[r, k] = sums[rows[r], k]
            row_tallies[r] = tallies[rows[r]]
            r += 1


@njit(cache=True, nogil=True)
def follow_heaps(heaps, coming, leaving, rows_at, by_row, largest, texts):
    """Write the extremes of the rows' groups; `known` is False where a group has no value."""
    roots, encoded, links = heaps
    came, came_slots, came_valid, came_ends = coming
    left, left_slots, left_valid, left_ends = leaving
    rows, row_ends = rows_at
    extremes, known = by_row
    c = 0
    d = 0
    r = 0
    for i in range(len(row_ends)):
        e = came_ends[i]
        f = left_ends[i]
        insert(roots, came[c:e], came_slots[c:e], encoded, links, came_valid[c:e], largest, texts)
        remove(roots, left[d:f], left_slots[d:f], encoded, links, left_valid[d:f], largest, texts)
        c = e
        d = f
        while r < row_ends[i]:
            root = roots[rows[r]]
            known[r] = root >= 0
            extremes[r] = encoded[root] if root >= 0 else 0
            r += 1


@njit(cache=True, nogil=True)
def follow_best(coming, rows_at, by_group, by_row, largest, texts):
    """As `follow_heaps`, where nothing ever leaves."""
    came, came_values, came_valid, came_ends = coming
    rows, row_ends = rows_at
    extremes, known = by_group
    row_extremes, row_known = by_row
    c = 0
    r = 0
    for i in range(len(row_ends)):
        e = came_ends[i]
        best(came[c:e], came_values[c:e], came_valid[c:e], extremes, known, largest, texts)
        c = e
        while r < row_ends[i]:
            row_known[r] = known[rows[r]]
            row_extremes[r] = extremes[rows[r]]
            r += 1


@njit(cache=True, nogil=True)
def follow_distinct(counts, came, came_ends, left, left_ends):
    """Counts values that come and leave; True where a value is the first of its kind to come, or the last to leave."""
    first = np.empty(len(came), np.bool_)
    last = np.empty(len(left), np.bool_)
    c = 0
    d = 0
    for i in range(len(came_ends)):
        first[c : came_ends[i]] = count_by(counts, came[c : came_ends[i]], 1)
        last[d : left_ends[i]] = count_by(counts, left[d : left_ends[i]], -1)
        c = came_ends[i]
        d = left_ends[i]
    return first, last
