"""Columns that statements name outside of expressions.

Answer   `column_of` finds a column of a schema by its name. `marker_column` finds the column that the option
         `punctuation` or `herald` of a stream names. `no_option` is the error of an option that a statement does not have.
Limits   `scope.py` resolves names in expressions.
"""

from __future__ import annotations

from collections.abc import Iterable

from eddyline.errors import BindingProblem, Position
from eddyline.language.syntax import WithOption
from eddyline.model.datatypes import DataType
from eddyline.model.schema import Column, Schema


def column_of(stream: str, schema: Schema, name: str, position: Position | None = None, hint: str = "") -> Column:
    """The column of a stream's schema that has this name; the case of letters does not matter."""
    column = schema.find(name)
    if column is None:
        detail = f"columns are {', '.join(schema.names)}"
        raise BindingProblem(f"stream {stream} has no column {name}", detail=detail, hint=hint, position=position)
    return column


def no_option(what: str, option: WithOption, known: Iterable[str]) -> BindingProblem:
    """The problem of an option in WITH that `what` (such as "a sink has") does not have."""
    hint = f"options are {', '.join(known)}"
    return BindingProblem(f"{what} no option {option.name}", hint=hint, position=option.position)


def marker_column(
    option: str,
    types: Iterable[DataType],
    meaning: str,
    stream: str,
    schema: Schema,
    taken: Iterable[str | None],
    name: str,
    position: Position | None,
) -> str:
    """The column that an option such as `herald` names.

    Args:
        option: The option, as messages show it.
        types: The types that the column may have.
        meaning: What the values of the column say, for the message about another type.
        stream: The stream that is declared.
        schema: Its columns.
        taken: The columns that other options name.
        name: The column that the option names.
        position: Where the option stands.
    """
    column = column_of(stream, schema, name, position, f"{option} = '…' names one of its columns")
    if column.type not in types:
        raise BindingProblem(
            f"the {option} column {column.name} of stream {stream} is {column.type}", hint=meaning, position=position
        )
    if any(other is not None and other.lower() == name.lower() for other in taken):
        hint = f"a {option} column is nothing else"
        raise BindingProblem(f"column {name} of stream {stream} has two uses", hint=hint, position=position)
    return column.name
