"""Paths into JSON values.

Answer   `read_path` gives the steps of `$.a.b[0]`: names of keys and places in arrays. A text without `$` is one key.
Limits   No wildcards and no filters.
"""

from __future__ import annotations

import re

_STEP = re.compile(r"""\.(?:"((?:[^"\\]|\\.)*)"|([^.\["]+))|\[(-?\d{1,18})\]""")


def read_path(text: str) -> tuple[str | int, ...]:
    """The steps of a path.

    >>> read_path('$.a."b c"[0]')
    ('a', 'b c', 0)
    """
    if text.startswith("/"):
        raise ValueError(f"{text!r} is a JSON pointer")
    if not text.startswith("$"):
        return (text,) if text else ()
    steps: list[str | int] = []
    place = 1
    while place < len(text):
        found = _STEP.match(text, place)
        if found is None:
            raise ValueError(f"{text!r} is no path after {text[:place]!r}")
        steps.append(int(found[3]) if found[3] is not None else found[1] if found[1] is not None else found[2])
        place = found.end()
    return tuple(steps)
