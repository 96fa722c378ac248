"""CREATE FUNCTION: read, and checked.

Answer   `read_function` reads what follows CREATE FUNCTION name, `bind_function` makes the model's `OwnFunction` of it,
         and `declared` makes one of what a program declares.
Limits   The code is not imported here: a job imports it when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from eddyline.errors import BindingProblem, SyntaxProblem
from eddyline.language.binding.columns import no_option
from eddyline.language.binding.group_windows import SPELLINGS as GROUP_WINDOWS
from eddyline.language.catalog import Catalog
from eddyline.language.grammar.clauses import read_columns, read_options
from eddyline.language.syntax import CreateFunction
from eddyline.language.text.reader import StatementReader
from eddyline.language.text.type_text import read_type
from eddyline.model.datatypes import DataType
from eddyline.model.expressions.functions import AGGREGATES, ALIASES, FUNCTIONS
from eddyline.model.expressions.own_function import ARRAYS, OwnFunction
from eddyline.settings import Settings

FORM = "CREATE FUNCTION name(x BIGINT, …) RETURNS DOUBLE AS 'module:attribute'"


def read_function(reader: StatementReader, name: str) -> CreateFunction:
    if reader.at("(", ")"):
        raise SyntaxProblem(
            f"function {name} has no argument", hint="a function takes at least one column", position=reader.position
        )
    arguments = read_columns(reader, "function", name)
    reader.expect("RETURNS", hint=FORM)
    result = read_type(reader, "the type of the result")
    target = ""
    if reader.take("AS"):
        if reader.next.kind != "string":
            reader.fail("expected 'module:attribute'", hint=FORM)
        target = str(reader.value())
    return CreateFunction(name, arguments, result, target, read_options(reader))


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
        hint = "'module:attribute', such as 'prices.tax:gross'"
        raise BindingProblem(f"{statement.target!r} names no function", hint=hint)
    arguments = [(a.name, a.type) for a in statement.arguments]
    return declared(statement.name, arguments, statement.result, statement.target, arrays, settings, catalog)


def declared(
    name: str,
    arguments: Sequence[tuple[str, DataType]],
    result: DataType,
    target: str,
    arrays: str,
    settings: Settings,
    catalog: Catalog,
) -> OwnFunction:
    """The function, checked. It keeps the value that the setting `on_bad` has now."""
    catalog.check_free("function", name)
    if not name.isidentifier():
        hint = "letters, digits and _ make a name that can be called"
        raise BindingProblem(f"{name!r} cannot name a function", hint=hint)
    if any(name.lower() in known for known in (FUNCTIONS, ALIASES, AGGREGATES, GROUP_WINDOWS)):
        hint = "choose a name that the language does not have"
        raise BindingProblem(f"there is a function {name} already", hint=hint)
    if not arguments:
        raise BindingProblem(f"function {name} has no argument", hint="a function takes at least one column")
    seen: set[str] = set()
    for argument, _ in arguments:
        if argument.lower() in seen:
            hint = "give each argument a name of its own"
            raise BindingProblem(f"argument {argument} of function {name} is declared twice", hint=hint)
        seen.add(argument.lower())
    return OwnFunction(name, tuple(arguments), result, target, arrays, settings.on_bad == "error")
