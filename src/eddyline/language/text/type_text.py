"""Types as statements write them.

Answer   `read_type` reads the type that comes next, as it stands after a column and after RETURNS: `DECIMAL(10, 2)`,
         `STRUCT(a BIGINT, b STRING[])`, `ARRAY(BIGINT)`, `BIGINT[]`.
Limits   Which plain types there are is said in `datatypes.py`.
"""

from __future__ import annotations

from eddyline.errors import SyntaxProblem
from eddyline.language.text.datatypes import data_type
from eddyline.language.text.reader import StatementReader
from eddyline.model.datatypes import DataType, array, struct

#: The most types within each other; data that is deeper is not read either.
_DEEPEST = 64


def read_type(reader: StatementReader, what: str, depth: int = 0) -> DataType:
    """The type that comes next; `what` names it in messages, such as "the type of the column"."""
    if depth > _DEEPEST:
        raise SyntaxProblem("this type is nested too deeply", position=reader.position)
    found = _plain(reader, what, depth)
    while reader.take("["):
        reader.expect("]", hint="an ARRAY has any length: BIGINT[]")
        found = array(found)
    return found


def _plain(reader: StatementReader, what: str, depth: int) -> DataType:
    position = reader.position
    if reader.at("STRUCT", "("):
        reader.take("STRUCT", "(")
        return _struct(reader, depth)
    if reader.at("ARRAY", "("):
        reader.take("ARRAY", "(")
        element = read_type(reader, "the type of the elements", depth + 1)
        reader.expect(")")
        return array(element)
    if word := reader.at_any("MAP", "LIST"):
        data_type(word, (), position)
    word = reader.word(what)
    sizes: list[int] = []
    if reader.take("("):
        while not sizes or reader.take(","):
            text = reader.number("a number")
            sizes.append(int(text) if text.isdigit() else -1)
        reader.expect(")")
    return data_type(word, tuple(sizes), position)


def _struct(reader: StatementReader, depth: int) -> DataType:
    parts: dict[str, DataType] = {}
    while not parts or reader.take(","):
        position = reader.position
        name = reader.word("the name of a field")
        if name.lower() in (known.lower() for known in parts):
            raise SyntaxProblem(
                f"field {name} is declared twice", hint="give each field a name of its own", position=position
            )
        parts[name] = read_type(reader, "the type of the field", depth + 1)
    reader.expect(")")
    return struct(parts.items())
