"""Functions of one's own on their way to Spark's workers.

Answer   `Shipped` travels with what tasks are given, by Spark's own serializer. Where it arrives, its functions are
         known: those with a place (`module:attribute`) are imported when they are first computed, the code of others
         travels along.
State    None.
Limits   It never lies in a folder of the job. Workers must be able to import what has a place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eddyline.model.expressions.own_function import OwnFunction

Functions = tuple[tuple[OwnFunction, Callable[..., Any] | None], ...]


class Shipped:
    def __init__(self, functions: Functions = ()) -> None:
        self.functions = functions

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.functions,)


def _arrived(functions: Functions) -> Shipped:
    """Called where the functions are unpacked."""
    if functions:
        # Processes in which Spark plans have no use for what this loads, unless the job has functions.
        from eddyline.operators.expressions.own_functions import register

        for own, code in functions:
            register(own, code)
    return Shipped(functions)
