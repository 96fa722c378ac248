"""Functions of users: their declarations, and how calls of them are typed.

Answer   `OwnFunction` has a name, typed arguments, a typed result, and the place of its code. `call` is a typed call of
         it, whose canonical name is the function's `key`, which no function of the engine has.
State    None. `operators/expressions/own_functions.py` holds the code, in the processes that run it.
Limits   Code is at a place (`module:attribute`), or a program passes it: then only this process has it, and those to
         which Spark's serializer sends it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass

from eddyline.errors import BindingProblem
from eddyline.model.datatypes import INTERVAL, NULL, STRING, DataType
from eddyline.model.expressions.coercion import common_type, convert
from eddyline.model.expressions.expression import OWN, Call, Expression, Literal

#: The forms in which a function may take its arguments.
ARRAYS = ("arrow", "numpy")


@dataclass(frozen=True)
class OwnFunction:
    name: str
    #: (name, type) of each argument.
    arguments: tuple[tuple[str, DataType], ...]
    result: DataType
    #: `module:attribute`; empty: a program hands the code over.
    target: str = ""
    #: Arrays of Arrow, which have nulls; or of NumPy, which never see a row with a null.
    arrays: str = "arrow"
    #: An exception stops the job; otherwise it makes a NULL that is counted.
    strict: bool = False

    @property
    def key(self) -> str:
        """The canonical name of its calls; functions that may compute other values have other ones."""
        types = ",".join(str(kind) for _, kind in self.arguments)
        return f"{self.name}{OWN}{self.target}|{types}|{self.result}|{self.arrays}{'|strict' if self.strict else ''}"

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(f'{name} {kind}' for name, kind in self.arguments)})"

    def call(self, args: tuple[Expression, ...]) -> Call:
        """The typed call, with casts made explicit."""
        if len(args) != len(self.arguments):
            count = f"{len(args)} argument{'' if len(args) == 1 else 's'}"
            raise BindingProblem(f"{self.name} does not take {count}", hint=f"write {self.signature}")
        fitted = tuple(self._fit(a, kind) for a, (_, kind) in zip(args, self.arguments, strict=True))
        return Call(self.key, fitted, self.result)

    def _fit(self, arg: Expression, kind: DataType) -> Expression:
        fits = arg.type in (kind, NULL) or (INTERVAL not in (arg.type, kind) and common_type(arg.type, kind) == kind)
        if not fits and not (isinstance(arg, Literal) and arg.type == STRING):
            raise BindingProblem(
                f"{self.name} does not take {arg.type}", hint=f"write {self.signature}; CAST changes types"
            )
        return convert(arg, kind)


def calls(part: object, key: str) -> bool:
    """Whether a query, or anything in it, calls the function of that key."""
    if isinstance(part, Call) and part.function == key:
        return True
    if isinstance(part, tuple):
        return any(calls(one, key) for one in part)
    return is_dataclass(part) and any(calls(getattr(part, field.name), key) for field in fields(part))
