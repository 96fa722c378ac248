"""Values inside of JSON texts, found by a walk over bytes.

Answer   `locate` tests for each text whether it is JSON, and finds where the value at a path begins and ends.
         `lengths` counts the elements of arrays. `written` gives values as text: as JSON without blanks, or with
         `plain` strings without quotes and escapes.
State    None.
Limits   At most `DEEPEST` lists and objects are nested. Of equal keys the first counts. Numbers stay as they are
         written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

DEEPEST = 256
#: The state of a text: it has the value, it does not have it, it is no JSON.
FOUND, MISSING, MALFORMED = 0, 1, 2

_QUOTE, _COMMA, _COLON, _ESCAPE = 34, 44, 58, 92
_LIST, _LIST_END, _OBJECT, _OBJECT_END = 91, 93, 123, 125
_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)


class Path(NamedTuple):
    """Steps of a path: per step the number of a key, or -1 and the place in an array (from 0; from -1 at the end)."""

    keys: np.ndarray
    places: np.ndarray
    key_offsets: np.ndarray
    key_data: np.ndarray


@njit(cache=True, nogil=True)
def _blank(data, at, end):
    while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 10 or data[at] == 13):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _hex(c):
    """The value of a hexadecimal digit; -1: it is none."""
    if 48 <= c <= 57:
        return c - 48
    if 97 <= c <= 102:
        return c - 87
    if 65 <= c <= 70:
        return c - 55
    return -1


@njit(cache=True, nogil=True)
def _text_end(data, at, end):
    """The place after the string that begins here; -1: it is malformed."""
    if at >= end or data[at] != _QUOTE:
        return -1
    at += 1
    while at < end:
        c = data[at]
        if c == _QUOTE:
            return at + 1
        if c < 32:
            return -1
        if c == _ESCAPE:
            at += 1
            if at >= end:
                return -1
            c = data[at]
            if c == 117:
                if at + 4 >= end:
                    return -1
                for k in range(1, 5):
                    if _hex(data[at + k]) < 0:
                        return -1
                at += 4
            elif not (c == 34 or c == 92 or c == 47 or c == 98 or c == 102 or c == 110 or c == 114 or c == 116):
                return -1
        at += 1
    return -1


@njit(cache=True, nogil=True)
def _digits(data, at, end):
    """The place after at least one digit; -1: there is none."""
    if at >= end or data[at] < 48 or data[at] > 57:
        return -1
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _number_end(data, at, end):
    if at < end and data[at] == 45:
        at += 1
    if at < end and data[at] == 48:
        at += 1
    else:
        at = _digits(data, at, end)
        if at < 0:
            return -1
    if at < end and data[at] == 46:
        at = _digits(data, at + 1, end)
        if at < 0:
            return -1
    if at < end and (data[at] == 101 or data[at] == 69):
        at += 1
        if at < end and (data[at] == 43 or data[at] == 45):
            at += 1
        at = _digits(data, at, end)
    return at


@njit(cache=True, nogil=True)
def _word_end(data, at, end, word):
    if at + len(word) > end:
        return -1
    for k in range(len(word)):
        if data[at + k] != word[k]:
            return -1
    return at + len(word)


@njit(cache=True, nogil=True)
def _scalar_end(data, at, end):
    c = data[at]
    if c == _QUOTE:
        return _text_end(data, at, end)
    if c == 116:
        return _word_end(data, at, end, _TRUE)
    if c == 102:
        return _word_end(data, at, end, _FALSE)
    if c == 110:
        return _word_end(data, at, end, _NULL)
    return _number_end(data, at, end)


@njit(cache=True, nogil=True)
def _after_key(data, at, end):
    """The place after a key and its colon; -1: there is none."""
    at = _text_end(data, _blank(data, at, end), end)
    if at < 0:
        return -1
    at = _blank(data, at, end)
    return at + 1 if at < end and data[at] == _COLON else -1


@njit(cache=True, nogil=True)
def _value_end(data, at, end, stack):
    """The place after the value that begins here; -1: it is malformed."""
    depth = 0
    while True:
        at = _blank(data, at, end)
        if at >= end:
            return -1
        c = data[at]
        if c in (_OBJECT, _LIST):
            if depth == len(stack):
                return -1
            stack[depth] = c
            depth += 1
            at = _blank(data, at + 1, end)
            if at < end and data[at] == c + 2:
                depth -= 1
                at += 1
            else:
                if c == _OBJECT:
                    at = _after_key(data, at, end)
                    if at < 0:
                        return -1
                continue
        else:
            at = _scalar_end(data, at, end)
            if at < 0:
                return -1
        while depth > 0:
            at = _blank(data, at, end)
            if at >= end:
                return -1
            if data[at] == _COMMA:
                at += 1
                if stack[depth - 1] == _OBJECT:
                    at = _after_key(data, at, end)
                    if at < 0:
                        return -1
                break
            if data[at] != stack[depth - 1] + 2:
                return -1
            depth -= 1
            at += 1
        if depth == 0:
            return at


@njit(cache=True, nogil=True)
def _count(data, at, end, stack):
    """How many elements the array that begins here has."""
    at = _blank(data, at + 1, end)
    if data[at] == _LIST_END:
        return 0
    found = 1
    while True:
        at = _blank(data, _value_end(data, at, end, stack), end)
        if data[at] == _LIST_END:
            return found
        at += 1
        found += 1


@njit(cache=True, nogil=True)
def _element(data, at, end, place, stack):
    """Where an element of the array that begins here begins; -1: it is not there."""
    count = _count(data, at, end, stack)
    if place < 0:
        place += count
    if place < 0 or place >= count:
        return -1
    at = _blank(data, at + 1, end)
    for _ in range(place):
        at = _blank(data, _blank(data, _value_end(data, at, end, stack), end) + 1, end)
    return at


@njit(cache=True, nogil=True)
def _code_point(data, at):
    return (_hex(data[at]) << 12) | (_hex(data[at + 1]) << 8) | (_hex(data[at + 2]) << 4) | _hex(data[at + 3])


@njit(cache=True, nogil=True)
def _put(out, size, code):
    """Writes a code point as UTF-8; returns the place after it."""
    if code < 0x80:
        out[size] = code
        return size + 1
    if code < 0x800:
        out[size] = 0xC0 | (code >> 6)
        out[size + 1] = 0x80 | (code & 63)
        return size + 2
    if code < 0x10000:
        out[size] = 0xE0 | (code >> 12)
        out[size + 1] = 0x80 | ((code >> 6) & 63)
        out[size + 2] = 0x80 | (code & 63)
        return size + 3
    out[size] = 0xF0 | (code >> 18)
    out[size + 1] = 0x80 | ((code >> 12) & 63)
    out[size + 2] = 0x80 | ((code >> 6) & 63)
    out[size + 3] = 0x80 | (code & 63)
    return size + 4


@njit(cache=True, nogil=True)
def _put_string(data, at, end, out, size):
    """Write a string without its escapes; half of a surrogate pair becomes U+FFFD."""
    while at < end:
        c = data[at]
        at += 1
        if c != _ESCAPE:
            out[size] = c
            size += 1
            continue
        c = data[at]
        at += 1
        if c == 117:
            code = _code_point(data, at)
            at += 4
            if 0xD800 <= code < 0xDC00 and at + 5 < end and data[at] == _ESCAPE and data[at + 1] == 117:
                low = _code_point(data, at + 2)
                if 0xDC00 <= low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    at += 6
            size = _put(out, size, 0xFFFD if 0xD800 <= code < 0xE000 else code)
            continue
        out[size] = 8 if c == 98 else 12 if c == 102 else 10 if c == 110 else 13 if c == 114 else 9 if c == 116 else c
        size += 1
    return size


@njit(cache=True, nogil=True)
def _is_key(data, at, end, key):
    """Whether the string between two quotes, without its escapes, is a key."""
    if _has_escape(data, at, end):
        out = np.empty(end - at, np.uint8)
        end = _put_string(data, at, end, out, 0)
        data, at = out, 0
    if end - at != len(key):
        return False
    for k in range(len(key)):
        if data[at + k] != key[k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _has_escape(data, at, end):
    for k in range(at, end):
        if data[k] == _ESCAPE:
            return True
    return False


@njit(cache=True, nogil=True)
def _member(data, at, end, key, stack):
    """Where the value of a key of the object that begins here begins; -1: it is not there."""
    at = _blank(data, at + 1, end)
    while data[at] == _QUOTE:
        same = _is_key(data, at + 1, _text_end(data, at, end) - 1, key)
        at = _blank(data, _after_key(data, at, end), end)
        if same:
            return at
        at = _blank(data, _value_end(data, at, end, stack), end)
        if data[at] != _COMMA:
            return -1
        at = _blank(data, at + 1, end)
    return -1


@njit(cache=True, nogil=True)
def locate(offsets, data, path):
    """Per text: its state, and the beginning and the end of its value in `data`."""
    keys, places, key_offsets, key_data = path
    rows = len(offsets) - 1
    states, starts, ends = np.empty(rows, np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    stack = np.empty(DEEPEST, np.uint8)
    for row in range(rows):
        end = offsets[row + 1]
        at = _blank(data, offsets[row], end)
        after = _value_end(data, at, end, stack)
        if after < 0 or _blank(data, after, end) < end:
            states[row] = MALFORMED
            continue
        for step in range(len(keys)):
            if keys[step] < 0:
                at = _element(data, at, end, places[step], stack) if data[at] == _LIST else -1
            elif data[at] == _OBJECT:
                at = _member(data, at, end, key_data[key_offsets[keys[step]] : key_offsets[keys[step] + 1]], stack)
            else:
                at = -1
            if at < 0:
                break
        states[row] = MISSING if at < 0 else FOUND
        if at >= 0:
            starts[row] = at
            ends[row] = _value_end(data, at, end, stack)
    return states, starts, ends


@njit(cache=True, nogil=True)
def lengths(data, states, starts, ends):
    """How many elements the values have; those that are no arrays have none."""
    out = np.zeros(len(states), np.int64)
    stack = np.empty(DEEPEST, np.uint8)
    for row in range(len(states)):
        if states[row] == FOUND and data[starts[row]] == _LIST:
            out[row] = _count(data, starts[row], ends[row], stack)
    return out


@njit(cache=True, nogil=True)
def written(data, states, starts, ends, plain):
    """The values as texts: their offsets, their bytes, and whether each is there. With `plain` a JSON null is none."""
    total = 0
    for row in range(len(states)):
        total += ends[row] - starts[row]
    out, offsets = np.empty(total, np.uint8), np.zeros(len(states) + 1, np.int64)
    there = np.zeros(len(states), np.bool_)
    size = 0
    for row in range(len(states)):
        at, end = starts[row], ends[row]
        if states[row] == FOUND and not (plain and data[at] == 110):
            there[row] = True
            if plain and data[at] == _QUOTE:
                size = _put_string(data, at + 1, end - 1, out, size)
            else:
                inside = False
                while at < end:
                    c = data[at]
                    if inside and c == _ESCAPE:
                        out[size] = c
                        size += 1
                        at += 1
                        c = data[at]
                    elif c == _QUOTE:
                        inside = not inside
                    if inside or not (c == 32 or c == 9 or c == 10 or c == 13):
                        out[size] = c
                        size += 1
                    at += 1
        offsets[row + 1] = size
    return offsets, out[:size], there
