"""Which of many ranges contain each value.

Answer   Ranges are closed intervals `low <= key <= high` of int64 keys; `low > high` means "the value is null".
         Ranges make *terms* (one column: any of the term's ranges), terms make *boxes* (all of the box's terms). The
         kernels find the (box, row) pairs of a batch, each as one number: the box's label above `bits` bits, the row
         below.
State    None. Boxes, terms and ranges come as arrays: terms of box b are `box_term[b] .. box_term[b + 1]`, ranges of
         term t are `term_interval[t] .. term_interval[t + 1]`, ascending, the null range last. Keys of a batch are a
         matrix, one line per column.
Limits   The caller chooses: sort the batch and look the ranges up in it (many rows), or look the rows up in a tree over
         them (few).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


def ordered_rows(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers in the order of their keys, and the keys in that order.

    Key and row are packed into one integer: a plain sort is more than twice as fast as an argsort. Where a key does not
    fit beside its row, its low bits are dropped, and neighbours are put in order after the sort.

    >>> ordered_rows(np.array([30, 10, 20]))[0].tolist()
    [1, 2, 0]
    """
    if keys.size < 2:
        return np.arange(keys.size), keys
    least = int(keys.min())
    bits = (keys.size - 1).bit_length()
    dropped = max(0, (int(keys.max()) - least).bit_length() + bits - 63)
    packed = _packed_keys(keys, least, dropped, bits)
    packed.sort()
    rows = np.empty(keys.size, np.int64)
    ordered = np.empty(keys.size, np.int64)
    if not _unpacked_keys(packed, keys, bits, dropped > 0, rows, ordered):
        rows = np.argsort(keys)
        ordered = keys[rows]
    return rows, ordered


class Boxes(NamedTuple):
    """Boxes: where the terms of each begin, the column of each term, where its ranges begin, and the ends of each
    range."""

    box_term: Any
    term_column: Any
    term_interval: Any
    low: Any
    high: Any


class Swept(NamedTuple):
    """Ranges of one column: the ends of all ranges, the box of each, and which of them are looked up.

    `reach`: where these come by their low ends, the highest high end up to each; empty: they are looked up one by one.
    """

    low: Any
    high: Any
    interval_box: Any
    which: Any
    reach: Any


class Trees(NamedTuple):
    """Per column a tree of ranges, and the boxes that take nulls; boxes from `tail` on are in no tree."""

    column_from: Any
    low: Any
    high: Any
    top: Any
    box: Any
    null_from: Any
    null_box: Any
    tail: int


@njit(cache=True)
def _packed_keys(keys, least, dropped, bits):
    packed = np.empty(keys.size, np.int64)
    for row in range(keys.size):
        distance = np.uint64(keys[row]) - np.uint64(least)
        packed[row] = np.int64(((distance >> np.uint64(dropped)) << np.uint64(bits)) | np.uint64(row))
    return packed


@njit(cache=True)
def _unpacked_keys(packed, keys, bits, mend, rows, ordered):
    """Fills rows and ordered; False where too many neighbours would have to be moved."""
    mask = (np.int64(1) << np.int64(bits)) - 1
    budget = 2 * packed.size
    for at in range(packed.size):
        row = packed[at] & mask
        key = keys[row]
        place = at
        if mend:
            while place > 0 and ordered[place - 1] > key:
                ordered[place] = ordered[place - 1]
                rows[place] = rows[place - 1]
                place -= 1
            budget -= at - place
            if budget < 0:
                return False
        ordered[place] = key
        rows[place] = row
    return True


@njit(cache=True)
def double_keys(numbers, patterns, keys):
    """Write keys that ascend as doubles do, from numbers and their bit patterns: -0.0 is 0.0, NaN is one value above
    infinity."""
    for row in range(numbers.size):
        if numbers[row] != numbers[row]:
            keys[row] = 0x7FF8000000000000
        elif patterns[row] >= 0:
            keys[row] = patterns[row]
        else:
            keys[row] = 0 if numbers[row] == 0.0 else patterns[row] ^ np.int64(0x7FFFFFFFFFFFFFFF)


@njit(cache=True)
def _first_at_least(ordered, key, at):
    """The first place from `at` on whose key is >= key: doubling steps, then halving."""
    step = 1
    end = ordered.size
    while at < end and ordered[at] < key:
        reach = at + step
        if reach < end and ordered[reach] < key:
            at = reach
            step *= 2
            continue
        # The answer lies in at+1 .. reach.
        left, right = at + 1, min(reach, end)
        while left < right:
            middle = (left + right) >> 1
            if ordered[middle] < key:
                left = middle + 1
            else:
                right = middle
        return left
    return at


@njit(cache=True)
def cover_ranges(ordered, low, high, which, rows, start, stop):
    """The sorted places `start[i] .. stop[i]` that each range i of `which` covers; null rows come after the values.

    Fastest when `which` is in the order of `low`: each search then begins where the last one ended.
    """
    valid = ordered.size
    at = 0
    last = np.int64(-(2**63))
    for i in which:
        if low[i] > high[i]:
            start[i] = valid
            stop[i] = rows
            continue
        if low[i] < last:
            at = 0
        last = low[i]
        at = _first_at_least(ordered, low[i], at)
        start[i] = at
        stop[i] = valid if high[i] == 2**63 - 1 else _first_at_least(ordered, high[i] + 1, at)


@njit(cache=True)
def sweep_pairs(ordered, order, ranges, label, bits, first, pairs):
    """The pairs of boxes of one term, for the ranges `which[first:]` of their column: found and written in one go.

    `order` has the row numbers in key order, null rows last. As with `cover_ranges`, `which` is best in the order of
    `low`. Stops when `pairs` may not hold the pairs of the next range: an array that grows here would cost more than
    the search. Returns the number of pairs, the next range, and how many ranges were passed over.
    """
    low, high, interval_box, which, reach = ranges
    shift = np.int64(bits)
    valid = ordered.size
    used = 0
    passed_over = 0
    at = 0
    last = np.int64(-(2**63))
    n = first
    while n < which.size:
        if used + order.size > pairs.size:
            return used, n, passed_over
        i = which[n]
        if low[i] > high[i]:
            name = label[interval_box[i]]
            if name >= 0:
                base = np.int64(name) << shift
                for place in range(valid, order.size):
                    pairs[used] = base | order[place]
                    used += 1
            n += 1
            continue
        if low[i] < last:
            at = 0
        last = low[i]
        at = _first_at_least(ordered, low[i], at)
        if reach.size and (at == valid or reach[n] < ordered[at]):
            # No range before the first that reaches this key holds a key: between it and the key before there is none.
            step = which.size if at == valid else _first_at_least(reach, ordered[at], n)
            passed_over += step - n
            n = step
            continue
        name = label[interval_box[i]]
        n += 1
        if name < 0:
            continue
        base = np.int64(name) << shift
        place = at
        while place < valid and ordered[place] <= high[i]:
            pairs[used] = base | order[place]
            used += 1
            place += 1
    return used, which.size, passed_over


@njit(cache=True)
def choose_leads(label, boxes, start, stop, rows, lead, amount):
    """Per box the term that covers the fewest rows (on a tie: the narrowest), and how many; -1: no term; -2: no
    label."""
    box_term, _, term_interval, low, high = boxes
    for box in range(label.size):
        if label[box] < 0:
            lead[box] = -2
            amount[box] = 0
            continue
        lead[box] = -1
        amount[box] = rows
        narrowest = np.inf
        for term in range(box_term[box], box_term[box + 1]):
            count = 0
            for i in range(term_interval[term], term_interval[term + 1]):
                count += stop[i] - start[i]
            if lead[box] >= 0 and count > amount[box]:
                continue
            if box_term[box + 1] - box_term[box] > 1:
                width = 0.0
                for i in range(term_interval[term], term_interval[term + 1]):
                    if low[i] <= high[i]:
                        width += 1.0 + np.float64(high[i]) - np.float64(low[i])
                if lead[box] >= 0 and count == amount[box] and width >= narrowest:
                    continue
                narrowest = width
            lead[box] = term
            amount[box] = count


@njit(cache=True)
def collect_pairs(lead, amount, boxes, start, stop, order, bits, first, room):
    """The (box, row) pairs that the leads of the boxes from `first` on cover in a sorted batch, until there are more
    than `room`.

    `order` has the row numbers of each column in key order, null rows last. Returns the pairs, box by box and rows in
    no order, and the next box.
    """
    _, term_column, term_interval, _, _ = boxes
    shift = np.int64(bits)
    rows = order.shape[1]
    total = 0
    last = first
    while last < lead.size and total <= room:
        total += amount[last]
        last += 1
    pairs = np.empty(total, np.int64)
    used = 0
    for box in range(first, last):
        if amount[box] == 0:
            continue
        base = np.int64(box) << shift
        if lead[box] == -1:
            for row in range(rows):
                pairs[used + row] = base | row
            used += rows
            continue
        column = term_column[lead[box]]
        for i in range(term_interval[lead[box]], term_interval[lead[box] + 1]):
            for place in range(start[i], stop[i]):
                pairs[used] = base | order[column, place]
                used += 1
    return pairs, last


@njit(cache=True)
def confirm_pairs(pairs, label, lead, boxes, keys, valid, bits):
    """Of (box, row) pairs those that all terms but the lead let pass, with the box's label in place of the box.

    Writes in place. `lead` may be shorter than the boxes: those beyond have none. One loop without calls: a call with
    the arrays for every pair costs more than a hundred nanoseconds.
    """
    box_term, term_column, term_interval, low, high = boxes
    shift = np.int64(bits)
    mask = (np.int64(1) << shift) - 1
    used = 0
    for pair in pairs:
        box = pair >> shift
        row = pair & mask
        leading = lead[box] if box < lead.size else -1
        inside = True
        for term in range(box_term[box], box_term[box + 1]):
            if term == leading:
                continue
            first, last = term_interval[term], term_interval[term + 1]
            has_null = low[last - 1] > high[last - 1]
            if not valid[term_column[term], row]:
                inside = has_null
            else:
                key = keys[term_column[term], row]
                if has_null:
                    last -= 1
                # The first range that does not end below the key is the only one that can contain it.
                end = last
                while first < end:
                    middle = (first + end) >> 1
                    if high[middle] < key:
                        first = middle + 1
                    else:
                        end = middle
                inside = first < last and low[first] <= key
            if not inside:
                break
        if inside:
            pairs[used] = (np.int64(label[box]) << shift) | row
            used += 1
    return pairs[:used]


@njit(cache=True)
def build_tree(high, tops):
    """`tops[m]` becomes the highest `high` of the part of the array whose middle m is: a search tree without
    pointers."""
    # Each entry is a part [a, b) and whether its two halves are done.
    stack = np.empty((128, 3), np.int64)
    depth = 0
    if high.size:
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, high.size, 0
        depth = 1
    while depth:
        depth -= 1
        a, b, done = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        middle = (a + b) >> 1
        if done:
            top = high[middle]
            if a < middle:
                top = max(top, tops[(a + middle) >> 1])
            if middle + 1 < b:
                top = max(top, tops[(middle + 1 + b) >> 1])
            tops[middle] = top
            continue
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = a, b, 1
        depth += 1
        if a < middle:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = a, middle, 0
            depth += 1
        if middle + 1 < b:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = middle + 1, b, 0
            depth += 1


@njit(cache=True)
def stab_pairs(label, trees, keys, valid, bits, first, pairs):
    """The (box, row) pairs that the leads of the boxes cover in the rows from `first` on of a small batch.

    Each row is looked up in the tree of each column; boxes from `tail` on, which are in no tree, are candidates for
    every row. Stops when `pairs` may not hold the pairs of the next row. Returns the number of pairs, and the next row.
    """
    tree_from, tree_low, tree_high, tree_top, tree_box, null_from, null_box, tail = trees
    shift = np.int64(bits)
    columns, rows = keys.shape
    stack = np.empty((128, 2), np.int64)
    used = 0
    for row in range(first, rows):
        if used + label.size > pairs.size:
            return used, row
        for column in range(min(columns, tree_from.size - 1)):
            if not valid[column, row]:
                for n in range(null_from[column], null_from[column + 1]):
                    if label[null_box[n]] >= 0:
                        pairs[used] = (null_box[n] << shift) | row
                        used += 1
                continue
            key = keys[column, row]
            offset = tree_from[column]
            stack[0, 0], stack[0, 1] = 0, tree_from[column + 1] - offset
            depth = 1
            while depth:
                depth -= 1
                a, b = stack[depth, 0], stack[depth, 1]
                middle = (a + b) >> 1
                if a >= b or tree_top[offset + middle] < key:
                    continue
                stack[depth, 0], stack[depth, 1] = a, middle
                depth += 1
                if tree_low[offset + middle] > key:
                    continue
                stack[depth, 0], stack[depth, 1] = middle + 1, b
                depth += 1
                box = tree_box[offset + middle]
                if tree_high[offset + middle] >= key and label[box] >= 0:
                    pairs[used] = (box << shift) | row
                    used += 1
        for box in range(tail, label.size):
            if label[box] >= 0:
                pairs[used] = (box << shift) | row
                used += 1
    return used, rows
