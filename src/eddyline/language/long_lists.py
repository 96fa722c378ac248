"""Long lists of constants are taken out of a text before it is read token by token.

Answer   `shortened` gives the text with blanks in place of all values but the first of each long `IN (…)` list, so that everything
         else stays where it was, and the values of the lists.
Limits   A list has whole numbers only, or numbers with a point only, or texts only, and no comment among them; others, and short ones,
         stay as they are. Whether a list stands within a text or a comment is for the tokens to tell.
Cost     One pass of a regular expression over texts that could hold a long list.
"""

from __future__ import annotations

import re
from typing import Any

#: Values from which on a list is a long one.
LONG = 1000

#: By where its first value begins, without its sign: the kind of constant, and the values.
Lists = dict[int, tuple[str, tuple[Any, ...]]]

_VALUES = {"integers": r"-?[0-9]++", "doubles": r"-?[0-9]++\.[0-9]++", "strings": r"'(?:[^']|'')*+'"}
_LIST = re.compile(
    r"\bIN\s*+\(\s*+(?:" + "|".join(rf"(?P<{kind}>{one}(?:\s*+,\s*+{one}){{{LONG - 1},}}+)" for kind, one in _VALUES.items()) + r")\s*+\)",
    re.IGNORECASE,
)
_ONE = {kind: re.compile(one) for kind, one in _VALUES.items()}


def shortened(text: str) -> tuple[str, Lists]:
    """
    >>> text = f"x IN ({', '.join(map(str, range(1000)))})"
    >>> short, lists = shortened(text)
    >>> short.split(), len(short) == len(text), {at: (kind, len(values)) for at, (kind, values) in lists.items()}
    (['x', 'IN', '(0', ')'], True, {6: ('integers', 1000)})
    """
    lists: Lists = {}
    parts, done = [], 0
    # Two characters are the least that a value and its comma take.
    for found in _LIST.finditer(text) if len(text) > 2 * LONG else ():
        kind = found.lastgroup
        assert kind is not None
        start, end = found.span(kind)
        values = _ONE[kind].findall(found[kind])
        first = start + len(values[0])
        lists[start + (values[0][0] == "-")] = (kind, _read(kind, values))
        parts += [text[done:first], " " * (end - first)]
        done = end
    return "".join([*parts, text[done:]]) if lists else text, lists


def _read(kind: str, values: list[str]) -> tuple[Any, ...]:
    if kind == "strings":
        return tuple(value[1:-1].replace("''", "'") for value in values)
    return tuple(map(int if kind == "integers" else float, values))
