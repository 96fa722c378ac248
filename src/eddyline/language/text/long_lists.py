"""Long lists of constants are taken out of a text before it is read token by token.

Answer   `shortened` leaves out all values but the first of each long `IN (…)` list; it gives the shorter text, the
         values of the lists, and where letters were left out. `put_back` moves the tokens of the shorter text to where
         they were.
Limits   A list has whole numbers only, or numbers with a point only, or texts only, and no comment among them; others,
         and short ones, stay as they are. `parse.py` tests with the tokens whether a list is inside a text or a comment.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot.tokens import Token

#: Values from which on a list is a long one.
LONG = 1000

#: By where its first value begins, without its sign: the kind of constant, and the values.
Lists = dict[int, tuple[str, tuple[Any, ...]]]
#: Where letters are left out of the shorter text, and how many.
Cuts = list[tuple[int, int]]

_VALUES = {"integers": r"-?[0-9]++", "doubles": r"-?[0-9]++\.[0-9]++", "strings": r"'(?:[^']|'')*+'"}
_LIST = re.compile(
    r"\bIN\s*+\(\s*+(?:"
    + "|".join(rf"(?P<{kind}>{one}(?:\s*+,\s*+{one}){{{LONG - 1},}}+)" for kind, one in _VALUES.items())
    + r")\s*+\)",
    re.IGNORECASE,
)
_ONE = {kind: re.compile(one) for kind, one in _VALUES.items()}


def shortened(text: str) -> tuple[str, Lists, Cuts]:
    """
    >>> text = f"x IN ({', '.join(map(str, range(1000)))})"
    >>> short, lists, cuts = shortened(text)
    >>> short, cuts == [(7, len(text) - 8)], {at: (kind, len(values)) for at, (kind, values) in lists.items()}
    ('x IN (0)', True, {6: ('integers', 1000)})
    """
    lists: Lists = {}
    cuts: Cuts = []
    parts, done, missing = [], 0, 0
    # Two characters are the least that a value and its comma take.
    for found in _LIST.finditer(text) if len(text) > 2 * LONG else ():
        kind = found.lastgroup
        assert kind is not None
        start, end = found.span(kind)
        values = _ONE[kind].findall(found[kind])
        first = start + len(values[0])
        lists[start + (values[0][0] == "-")] = (kind, _read(kind, values))
        parts.append(text[done:first])
        cuts.append((first - missing, end - first))
        missing += end - first
        done = end
    return "".join([*parts, text[done:]]) if lists else text, lists, cuts


def put_back(tokens: list[Token], cuts: Cuts) -> None:
    """Tokens of a shortened text get the places that they have in the whole one."""
    coming = iter([*cuts, (1 << 62, 0)])
    (place, letters), missing = next(coming), 0
    for token in tokens if cuts else ():
        while token.start >= place:
            missing += letters
            place, letters = next(coming)
        token.start += missing
        token.end += missing


def _read(kind: str, values: list[str]) -> tuple[Any, ...]:
    if kind == "strings":
        return tuple(value[1:-1].replace("''", "'") for value in values)
    return tuple(map(int if kind == "integers" else float, values))
