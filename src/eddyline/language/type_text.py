"""Types as statements write them.

Answer   `read_type` reads the type that comes next, as it stands after a column and after RETURNS.
Limits   Which types there are is said in `datatypes.py`.
"""

from __future__ import annotations

from eddyline.language.datatypes import data_type
from eddyline.language.reader import Reader
from eddyline.model.datatypes import DataType


def read_type(reader: Reader, what: str) -> DataType:
    """The type that comes next; `what` says whose it is, for messages."""
    position = reader.position
    word = reader.word(what)
    sizes: list[int] = []
    if reader.take("("):
        while not sizes or reader.take(","):
            text = reader.number("a number")
            sizes.append(int(text) if text.isdigit() else -1)
        reader.expect(")")
    return data_type(word, tuple(sizes), position)
