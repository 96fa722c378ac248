"""Functions of one's own, from declarations to code.

Answer   `provide` finds the code of a function that CREATE FUNCTION has declared; `hand_over` declares one whose code a
         program has.
State    None: the declaration is in the catalog, the code is in `operators/expressions/own_functions.py`, in the
         processes that run it.
Limits   Code is imported by a name that a job file or a program gives. The text of a catalog that lies in a folder is
         bound and never provided, so that nothing that it names is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import uuid4

import pyarrow as pa

from eddyline.errors import BindingProblem, UserError
from eddyline.language import Job
from eddyline.language.own_functions import declared
from eddyline.language.parse import reader_of
from eddyline.language.text.type_text import read_type
from eddyline.model.datatypes import DataType, from_arrow
from eddyline.model.expressions.own_function import ARRAYS, OwnFunction

#: A type of a column, one of Arrow, or its name.
Kind: TypeAlias = Any


def provide(own: OwnFunction, begun: bool) -> None:
    """Let this process compute a declared function; its code is imported now, so that a mistake is found before the job
    runs."""
    from eddyline.operators.expressions.own_functions import (
        code_of,
        register,
    )  # a job without such functions has no use for it

    _refuse_late(begun)
    if not own.target:
        raise UserError(
            f"function {own.name} has no code",
            hint="AS 'module:attribute' says where it is, or session.function hands it over",
        )
    register(own)
    code_of(own)


def hand_over(
    job: Job,
    begun: bool,
    name: str,
    code: Callable[..., Any],
    arguments: Mapping[str, Kind] | Sequence[Kind],
    result: Kind,
    arrays: str,
) -> None:
    """Declare a function whose code a program has."""
    from eddyline.operators.expressions.own_functions import register

    _refuse_late(begun)
    if not callable(code):
        raise BindingProblem(
            f"function {name} cannot be called",
            detail=f"it is of type {type(code).__name__}",
            hint="hand over a function",
        )
    if arrays not in ARRAYS:
        raise BindingProblem(f"arrays does not take {arrays!r}", hint=" | ".join(ARRAYS))
    pairs = (
        arguments.items()
        if isinstance(arguments, Mapping)
        else ((f"x{place}", kind) for place, kind in enumerate(arguments, 1))
    )
    types = [(argument, _type(kind, name)) for argument, kind in pairs]
    target = _place(code) or f"#{uuid4().hex}"
    own = declared(name, types, _type(result, name), target, arrays, job.settings, job.catalog)
    job.catalog.add(own)
    register(own, code)


def codes(functions: Iterable[OwnFunction]) -> tuple[tuple[OwnFunction, Callable[..., Any] | None], ...]:
    """Each function with its code, where that has no place from which another process could import it."""
    from eddyline.operators.expressions.own_functions import code_of

    return tuple((own, code_of(own) if own.target.startswith("#") else None) for own in functions)


def _refuse_late(begun: bool) -> None:
    if begun:
        raise UserError("functions cannot be added to a running job", hint="CREATE FUNCTION before push, start or run")


def _place(code: Callable[..., Any]) -> str:
    """`module:attribute`, if other processes find the same code there."""
    module, attribute = getattr(code, "__module__", None), getattr(code, "__qualname__", "")
    if not isinstance(module, str) or module == "__main__":
        return ""
    found: Any = sys.modules.get(module)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    return f"{module}:{attribute}" if found is code else ""


def _type(kind: Kind, name: str) -> DataType:
    if isinstance(kind, str):
        return read_type(reader_of(kind), "a type")
    found = from_arrow(kind) if isinstance(kind, pa.DataType) else kind
    if not isinstance(found, DataType):
        raise BindingProblem(
            f"function {name} cannot take or return {kind}", hint="types are those of columns, such as BIGINT"
        )
    return found
