"""Bytes by the word: loads at any address, copies and comparisons of stretches.

Answer   `word_at`: the eight bytes from a place on as one number, the first of them lowest. `copy_bytes` copies a
         stretch from one array to another. `same_bytes`: whether two stretches are equal. Loops over single bytes took
         four to ten times as long. `put` writes an array into a part of another one.
Limits   Nothing is checked: all places lie within their arrays, for `word_at` the last of the eight bytes too.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic


def _address(context, builder, kind, array, place):
    return builder.gep(context.make_array(kind)(context, builder, array).data, [place])


@intrinsic
def word_at(typing, data, place):
    """`word_at(data, place)`: data[place] to data[place + 7]."""

    def generate(context, builder, signature, values):
        address = _address(context, builder, signature.args[0], values[0], values[1])
        word = ir.IntType(64)
        return builder.load(builder.bitcast(address, word.as_pointer()), align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def copy_bytes(typing, target, to, source, start, size):
    """`copy_bytes(target, to, source, start, size)`: the two stretches do not overlap."""

    def generate(context, builder, signature, values):
        kinds = signature.args
        there = _address(context, builder, kinds[0], values[0], values[1])
        here = _address(context, builder, kinds[2], values[2], values[3])
        cgutils.raw_memcpy(builder, there, here, values[4], 1, align=1)
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64, types.int64), generate


@njit(nogil=True, forceinline=True)
def put(target, at, values):
    """`target[at : at + len(values)] = values`. With that assignment Numba also compiles the text of an error about
    shapes, which takes a second of CPU time."""
    for i in range(len(values)):
        target[at + i] = values[i]


@njit(cache=True, nogil=True, inline="always")
def same_bytes(a, start_a, b, start_b, size):
    """Whether `size` bytes of the one array from `start_a` on equal those of the other from `start_b` on."""
    at = np.int64(0)
    while at + 8 <= size and word_at(a, start_a + at) == word_at(b, start_b + at):
        at += 8
    if at + 8 <= size:
        return False
    while at < size and a[start_a + at] == b[start_b + at]:
        at += 1
    return at == size
