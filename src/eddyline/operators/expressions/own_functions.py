"""Functions that a user has written, computed on whole columns.

Answer   `register` gives this process the code of an `OwnFunction`; `make_call` is the kernel of a call. The code gets
         arrays of Arrow, or of NumPy, and returns an array of the same length. If it raises for a batch, it is called
         again with halves of the batch, down to single rows. A row for which it raises has NULL and is counted under
         the function's name, or stops the job.
State    The registered functions, by key. Code with the name of a module is imported when it is first needed.
Limits   The code gets only rows that CASE, COALESCE or an earlier conjunct lets through, and in NumPy form only rows
         without nulls; the other rows have NULL. It must be deterministic, and each row's result must depend on that
         row alone.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.errors import DataProblem, UserError
from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Call
from eddyline.model.expressions.own_function import OwnFunction
from eddyline.operators.expressions.vectors import Frame, Kernel, Mask, Vector, both, from_arrow, to_arrow, validity

Code = Callable[..., Any]

_KNOWN: dict[str, OwnFunction] = {}
_CODE: dict[str, Code] = {}


def register(own: OwnFunction, code: Code | None = None) -> None:
    """From now on calls of the function can be computed in this process; without `code` it is imported from its
    place."""
    _KNOWN[own.key] = own
    if code is not None:
        _CODE[own.key] = code


def code_of(own: OwnFunction) -> Code:
    """What computes the function, imported if it was not yet."""
    if own.key not in _CODE:
        _CODE[own.key] = _imported(own)
    return _CODE[own.key]


def _imported(own: OwnFunction) -> Code:
    module, _, attribute = own.target.partition(":")
    if own.target.startswith("#") or not attribute:
        raise UserError(
            f"function {own.name} has no code here", hint="session.function hands it over, and again after a restart"
        )
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except Exception as problem:  # a module may raise anything while it is imported
        raise UserError(
            f"function {own.name} cannot be loaded from {own.target}",
            detail=f"{type(problem).__name__}: {problem}",
            hint="modules are found in the current folder and on PYTHONPATH",
        ) from problem
    if not callable(found):
        raise UserError(
            f"function {own.name} cannot be loaded from {own.target}", detail=f"it is of type {type(found).__name__}"
        )
    code: Code = found
    return code


def make_call(call: Call) -> Kernel:
    """The kernel of a call of a function of one's own."""
    own = _KNOWN.get(call.function)
    if own is None:
        name = call.function.partition("@")[0]
        raise UserError(
            f"function {name} is not known here", hint="CREATE FUNCTION or session.function comes before its queries"
        )
    code = code_of(own)

    def apply(frame: Frame, *args: Vector) -> Vector:
        columns = [to_arrow(a, kind, frame.rows) for a, (_, kind) in zip(args, own.arguments, strict=True)]
        computed = _computed_rows(frame, columns if own.arrays == "numpy" else ())
        places = None if computed is None else np.flatnonzero(computed)
        if places is not None:
            columns = [column.take(pa.array(places)) for column in columns]
        found, failed = _tried(own, code, columns, frame.rows if places is None else len(places))
        if failed and frame.issues is not None:
            frame.issues.add(own.name, failed)
        if places is not None:
            spread = np.full(frame.rows, -1, np.int64)
            spread[places] = np.arange(len(places))
            found = found.take(pa.array(spread, mask=spread < 0))
        return from_arrow(found, own.result)

    return apply


def _computed_rows(frame: Frame, columns: Sequence[pa.Array]) -> Mask | None:
    """The rows that the code gets; None: all."""
    chosen: Mask | None = None if frame.active is None else np.broadcast_to(frame.active, frame.rows)
    for column in columns:
        chosen = both(chosen, validity(Vector(column)))
    return None if chosen is not None and chosen.all() else chosen


def _tried(own: OwnFunction, code: Code, columns: list[pa.Array], rows: int) -> tuple[pa.Array, int]:
    """The results of the rows, and how many of them have none because the code raised."""
    kind = own.result.arrow
    pieces: list[pa.Array] = []
    failed = 0
    waiting = [(0, rows)] if rows else []
    while waiting:
        first, length = waiting.pop()
        try:
            pieces.append(_computed(own, code, [column.slice(first, length) for column in columns], length))
        except Exception as problem:  # the code is not ours: it may raise anything
            if length > 1:
                half = length // 2
                waiting += [(first + half, length - half), (first, half)]
                continue
            if own.strict:
                raise DataProblem(
                    f"function {own.name} failed",
                    detail=f"{type(problem).__name__}: {problem}; its arguments were {_shown(columns, first)}",
                    hint="mend it, or SET on_bad = 'dead-letter' before the function is created",
                ) from problem
            failed += 1
            pieces.append(pa.nulls(1, kind))
    return (pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces) if pieces else pa.nulls(0, kind)), failed


def _computed(own: OwnFunction, code: Code, columns: list[pa.Array], rows: int) -> pa.Array:
    given = [column.to_numpy(zero_copy_only=False) for column in columns] if own.arrays == "numpy" else columns
    found = _as_arrow(code(*given), own.result)
    if len(found) != rows:
        raise ValueError(f"it returned {len(found)} values for {rows} rows")
    return found


def _as_arrow(found: Any, kind: DataType) -> pa.Array:
    """What the code returned, as an array of the declared type; a value that does not fit raises."""
    if isinstance(found, np.ndarray):
        found = pa.array(found, kind.arrow if found.dtype == np.object_ else None)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if not isinstance(found, pa.Array):
        raise TypeError(f"it returned {type(found).__name__}, not an array of Arrow or NumPy")
    return found if found.type == kind.arrow else found.cast(kind.arrow)


def _shown(columns: list[pa.Array], place: int) -> str:
    return ", ".join(repr(column[place].as_py())[:80] for column in columns)
