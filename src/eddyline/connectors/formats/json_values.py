"""JSON text as values, whatever is in it, and values as text.

Answer   `decode` gives the value of a text, `documents` the values of a text that holds several; numbers keep every
         digit. Text that cannot be a value raises a ValueError, also where Python's own parser would end with another
         error.
Limits   A value has at most `DEEPEST` lists and objects within each other. The limit does not depend on the stack of
         the process, so that both engines, and a run that continues, refuse the same lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

#: Lists and objects within each other that are read; real data has a handful.
DEEPEST = 256
OPENING = b"[{"

#: Python refuses to read longer integers at once.
_LONGEST_INTEGER = 4000
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def decode(text: str) -> Any:
    """The value of a text.

    >>> decode('{"price": 1.10}')
    {'price': Decimal('1.10')}
    """
    check_depth(text)
    value, end = _DECODER.raw_decode(text, _blanks(text, 0))
    if _blanks(text, end) < len(text):
        raise ValueError(f"something follows the value: {text[end : end + 20].strip()}")
    return value


def documents(text: str) -> Iterator[Any]:
    """The values of a text, one after another."""
    check_depth(text)
    place = _blanks(text, 0)
    while place < len(text):
        value, place = _DECODER.raw_decode(text, place)
        yield value
        place = _blanks(text, place)


def json_text(value: Any) -> str | None:
    """Any JSON value as text; text as it is."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
    if isinstance(value, Decimal):
        return format(value, "f") if -40 < value.adjusted() < 40 else str(value)
    return _dumped(value)


def _dumped(value: Any) -> str:
    """A list or an object as JSON, whose numbers keep every digit."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_dumped(found)}" for name, found in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dumped, value)) + "]"
    return str(json_text(value)) if isinstance(value, Decimal) else json.dumps(value, default=str)


def check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    letters = np.frombuffer(_STRINGS.sub("", text).encode("utf-8", "replace"), np.uint8)
    steps = np.isin(letters, (ord("["), ord("{"))).astype(np.int64) - np.isin(letters, (ord("]"), ord("}")))
    if len(steps) and int(np.cumsum(steps).max()) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")


def _blanks(text: str, place: int) -> int:
    """Where the next value begins."""
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _fraction(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond every number
        return text


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONGEST_INTEGER else Decimal(text)


_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(parse_float=_fraction, parse_int=_integer, parse_constant=str)
