"""Rows of a template clustered by address: values are numbered, fields put into addresses, rows sorted by counting.

Answer   `number_distinct` numbers the distinct keys of a column in the order in which they come; `code_rows` makes
         codes of these numbers; `add_field` puts the field of each code into the addresses; `cluster_rows` sorts rows
         by address and copies what requests read of them.
State    None.
Limits   A row whose column is null has no number there: its field is 0. At most 2^31 rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.hashing import mix
from eddyline.kernels.requests.request_blocks import PORTION, form_of


@njit(cache=True, nogil=True)
def number_distinct(keys, nulls, column, most):
    """The distinct keys of the rows in which a column is not null, and the number of each row's key (-1: null).

    Returns:
        no keys, and arbitrary numbers, where there are more than `most` distinct keys.
    """
    rows = len(keys)
    size = 16
    while size < 4 * min(most, rows):
        size *= 2
    mask = np.uint64(size - 1)
    heads = np.full(size, -1, np.int32)
    found = np.empty(min(most, rows), np.int64)
    numbers = np.full(rows, -1, np.int32)
    count = 0
    for row in range(rows):
        if nulls[row] >> column & 1:
            continue
        key = keys[row]
        place = mix(key) & mask
        while heads[place] >= 0 and found[heads[place]] != key:
            place = (place + np.uint64(1)) & mask
        if heads[place] < 0:
            if count == most:
                return found[:0], numbers
            found[count] = key
            heads[place] = count
            count += 1
        numbers[row] = heads[place]
    return found[:count], numbers


@njit(cache=True, nogil=True)
def code_rows(numbers, codes):
    """Replace the number of each row's key by the code of the key."""
    for row in range(len(numbers)):
        if numbers[row] >= 0:
            numbers[row] = codes[numbers[row]]


@njit(cache=True, nogil=True)
def add_field(address, codes, fields, shift):
    """Put the field of each row's code into its address."""
    for row in range(len(codes)):
        if codes[row] >= 0:
            address[row] |= fields[codes[row]] << shift


@njit(cache=True, nogil=True)
def cluster_rows(address, count, keys, codes, coded, nulls, ids):
    """Rows in the order of their addresses, rows of one address in the order in which they come.

    Args:
        count: addresses; ids: distances of the rows from the first id of the block.
        keys, codes: one line per column; coded: the columns that have codes.

    Returns:
        where the rows of each address begin (one more than there are addresses), ids, keys, null bits and short forms
        of keys.
    """
    rows, columns = len(address), keys.shape[0]
    offsets = np.zeros(count + 1, np.int32)
    for row in range(rows):
        offsets[address[row] + 1] += 1
    for place in range(count):
        offsets[place + 1] += offsets[place]
    free = offsets[:-1].copy()
    place_of = np.empty(rows, np.int32)
    out_ids, out_nulls = np.empty(rows, np.int32), np.empty(rows, np.int64)
    for row in range(rows):
        place = free[address[row]]
        free[address[row]] = place + 1
        place_of[row] = place
        out_ids[place] = ids[row]
        out_nulls[place] = nulls[row]
    out_keys = np.empty((columns, rows), np.int64)
    forms = np.zeros(columns * rows + PORTION, np.uint16)[: columns * rows].reshape(columns, rows)
    for c in range(columns):
        if coded[c]:
            for row in range(rows):
                out_keys[c, place_of[row]] = keys[c, row]
                forms[c, place_of[row]] = np.uint16(codes[c, row])
        else:
            for row in range(rows):
                out_keys[c, place_of[row]] = keys[c, row]
                forms[c, place_of[row]] = form_of(keys[c, row])
    return offsets, out_ids, out_keys, out_nulls, forms
