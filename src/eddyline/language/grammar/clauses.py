"""The clauses that several statements have: declared columns, the options of WITH, the list of SELECT.

Answer   `read_columns` reads `(column TYPE, …)`, `read_options` reads `WITH (name = value, …)` where it stands, and
         `read_items` reads the list after SELECT or RETURN.
"""

from __future__ import annotations

from eddyline.errors import SyntaxProblem
from eddyline.language.syntax import ColumnDefinition, Item, Star, WithOption
from eddyline.language.text.reader import StatementReader
from eddyline.language.text.type_text import read_type


def read_columns(reader: StatementReader, kind: str, name: str) -> tuple[ColumnDefinition, ...]:
    """The columns of what CREATE `kind` `name` declares."""
    reader.expect("(", hint=f"CREATE {kind.upper()} {name} (column TYPE, …) WITH (…)")
    columns = reader.listed(_column)
    reader.expect(")")
    return columns


def _column(reader: StatementReader) -> ColumnDefinition:
    start = reader.position
    name = reader.name("the name of a column")
    kind = read_type(reader, "the type of the column")
    if reader.at_any("NOT", "NULL", "PRIMARY", "UNIQUE", "DEFAULT", "REFERENCES", "CHECK"):
        reader.unsupported(f"{reader.next.upper} after a column", "a column has a name and a type")
    return ColumnDefinition(name, kind, position=start)


def read_options(reader: StatementReader) -> tuple[WithOption, ...]:
    """The options of WITH; none where there is no WITH."""
    if not reader.take("WITH"):
        return ()
    reader.expect("(", hint="WITH (name = value, …)")
    options = reader.listed(_option)
    reader.expect(")")
    seen: set[str] = set()
    for option in options:
        if option.name in seen:
            raise SyntaxProblem(f"option {option.name} is given twice", hint="keep one", position=option.position)
        seen.add(option.name)
    return options


def _option(reader: StatementReader) -> WithOption:
    start = reader.position
    name = reader.dotted("the name of an option").lower()
    reader.expect("=", hint="WITH (name = value, …)")
    return WithOption(name, reader.value(), position=start)


def read_items(reader: StatementReader) -> tuple[Item, ...]:
    return reader.listed(_item)


def _item(reader: StatementReader) -> Item:
    start = reader.position
    if reader.take("*"):
        return _bare_star(reader, Star(position=start))
    if reader.at_name() and reader.tokens[reader.index + 1].text == "." and reader.tokens[reader.index + 2].text == "*":
        table = reader.name("an alias")
        reader.expect(".", "*")
        return _bare_star(reader, Star(table, position=start))
    value = reader.expression()
    if reader.take("AS"):
        return Item(value, reader.name("a name after AS"), position=start)
    return Item(value, reader.name("a name") if reader.at_name() else None, position=start)


def _bare_star(reader: StatementReader, star: Star) -> Item:
    if word := reader.at_any("EXCEPT", "EXCLUDE", "REPLACE", "RENAME"):
        reader.unsupported(f"* {word}", "name the columns")
    if reader.at("AS"):
        reader.fail("expected , or FROM", hint="* takes no name")
    return Item(star, position=star.position)
