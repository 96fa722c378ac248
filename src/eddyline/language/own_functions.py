"""CREATE FUNCTION: read, and checked.

Answer   `read_function` reads what stands behind CREATE FUNCTION name; `bind_function` makes the model's `OwnFunction`
         of it; `declared` makes one of what a program says.
Limits   Nothing is imported here: where the code is found stays a text until a job is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from eddyline.errors import BindingProblem, Position, SyntaxProblem
from eddyline.language.binding.columns import no_option
from eddyline.language.catalog import Catalog
from eddyline.language.syntax import ColumnDefinition, CreateFunction, WithOption
from eddyline.language.text.reader import StatementReader
from eddyline.language.text.type_text import read_type
from eddyline.model.datatypes import DataType
from eddyline.model.expressions.functions import AGGREGATES, ALIASES, FUNCTIONS
from eddyline.model.expressions.own_function import ARRAYS, OwnFunction
from eddyline.settings import Settings

FORM = "CREATE FUNCTION name(x BIGINT, …) RETURNS DOUBLE AS 'module:attribute'"


def read_function(
    reader: StatementReader,
    name: str,
    start: Position,
    columns: Callable[[StatementReader], tuple[ColumnDefinition, ...]],
    options: Callable[[StatementReader], tuple[WithOption, ...]],
) -> CreateFunction:
    if reader.at("(", ")"):
        raise SyntaxProblem(
            f"function {name} has no argument", hint="a function takes at least one column", position=reader.position
        )
    arguments = columns(reader)
    reader.expect("RETURNS", hint=FORM)
    result = read_type(reader, "the type of the result")
    target = ""
    if reader.take("AS"):
        if reader.next.kind != "string":
            reader.fail("expected 'module:attribute'", hint=FORM)
        target = str(reader.value())
    return CreateFunction(name, arguments, result, target, options(reader), start)


def bind_function(statement: CreateFunction, settings: Settings, catalog: Catalog) -> OwnFunction:
    """The function that a statement declares; it is not yet in the catalog."""
    arrays = "arrow"
    for option in statement.options:
        if option.name != "arrays":
            raise no_option("a function has", option, ("arrays",))
        if option.value not in ARRAYS:
            raise BindingProblem(
                f"arrays does not take {option.value!r}", hint=f"{' | '.join(ARRAYS)}", position=option.position
            )
        arrays = str(option.value)
    if statement.target and not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", statement.target):
        raise BindingProblem(
            f"{statement.target!r} names no function",
            hint="'module:attribute', such as 'prices.tax:gross'",
            position=statement.position,
        )
    arguments = [(a.name, a.type) for a in statement.arguments]
    return declared(
        statement.name, arguments, statement.result, statement.target, arrays, settings, catalog, statement.position
    )


def declared(
    name: str,
    arguments: Sequence[tuple[str, DataType]],
    result: DataType,
    target: str,
    arrays: str,
    settings: Settings,
    catalog: Catalog,
    position: Position | None = None,
) -> OwnFunction:
    """The function, checked; the setting on_bad holds as it is now."""
    catalog.check_free("function", name, position)
    if not name.isidentifier():
        raise BindingProblem(
            f"{name!r} cannot name a function",
            hint="letters, digits and _ make a name that can be called",
            position=position,
        )
    if name.lower() in FUNCTIONS or name.lower() in ALIASES or name.lower() in AGGREGATES or name.lower() in _WINDOWS:
        raise BindingProblem(
            f"there is a function {name} already",
            hint="choose a name that the language does not have",
            position=position,
        )
    if not arguments:
        raise BindingProblem(
            f"function {name} has no argument", hint="a function takes at least one column", position=position
        )
    seen: set[str] = set()
    for argument, _ in arguments:
        if argument.lower() in seen:
            raise BindingProblem(
                f"argument {argument} of function {name} is declared twice",
                hint="give each argument a name of its own",
                position=position,
            )
        seen.add(argument.lower())
    return OwnFunction(name, tuple(arguments), result, target, arrays, settings.on_bad == "error")


#: Names that stand for windows where a function could stand.
_WINDOWS = frozenset(("tumble", "hop", "cumulate", "session"))
