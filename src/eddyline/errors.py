"""Every error that eddyline raises on purpose.

Answer   An error has a message (what is wrong), a detail (what was found) and a hint (what to do); errors about SQL also
         have a position (line and column, from 1). `located` gives a position to errors that have none.
Limits   Any other exception is a fault of the engine: the command line shows it with exit code 1.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a SQL text; both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class EddylineError(Exception):
    """The base class of all errors; it is not raised itself."""

    exit_code = 1

    def __init__(self, message: str, *, detail: str = "", hint: str = "", position: Position | None = None):
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position

    def __str__(self) -> str:
        lines = [self.message if self.position is None else f"{self.message} (at {self.position})"]
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Spark sends errors from its workers to the driver: keyword arguments have to be pickled too.
        return _rebuild, (type(self), self.message, self.detail, self.hint, self.position)


class EddylineWarning(UserWarning):
    """What a program should know and need not end for: rows that became dead letters, results that nothing takes."""


def _rebuild(
    kind: type[EddylineError], message: str, detail: str, hint: str, position: Position | None
) -> EddylineError:
    return kind(message, detail=detail, hint=hint, position=position)


@contextmanager
def located(position: Position | None) -> Iterator[None]:
    """Within, an error without a position gets this one."""
    try:
        yield
    except EddylineError as problem:
        problem.position = problem.position or position
        raise


class UserError(EddylineError):
    """Something the user wrote, named or passed is wrong; nothing has been changed."""

    exit_code = 2


class SyntaxProblem(UserError):
    """The text is not a statement of the language."""


class Unsupported(UserError):
    """SQL has it, and this language has not."""


class BindingProblem(UserError):
    """A name or a type does not fit: unknown column, ambiguous name, wrong argument."""


class SettingProblem(UserError):
    """An unknown SET name or a value it does not take."""


class SourceProblem(UserError):
    """A source cannot be opened, or not in the declared form."""


class DataProblem(UserError):
    """Rows that stop the job: `SET on_late = 'error'`, `SET on_bad = 'error'`."""


class PlanProblem(UserError):
    """A plan that cannot be: an unknown alias in a tree, no plan within the budgets."""


class CheckpointProblem(UserError):
    """A checkpoint that does not fit the job, or cannot be read."""


class StateProblem(UserError):
    """State that cannot be kept where it should be: a disk is full or cannot be written."""


def unwritable(problem: OSError) -> StateProblem:
    """The error of a job for a failure that the operating system reports of a file, a disk or a connection."""
    if isinstance(problem, ConnectionError):
        return StateProblem(
            "the connection to another process of the job is lost",
            detail=problem.strerror or str(problem),
            hint="with --checkpoint the same command continues",
        )
    named = str(problem.filename) if problem.filename else "a file"
    return StateProblem(
        f"{named} cannot be used",
        detail=problem.strerror or str(problem),
        hint="check space and permissions; with --checkpoint the same command continues afterwards",
    )


class Fault(EddylineError):
    """A broken invariant of the engine, which the message names."""


def as_fault(problem: Exception, where: str) -> Fault:
    """Any other exception, with the place where it was raised."""
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    place = f"{where}; {frame.name}, line {frame.lineno} of {frame.filename.rsplit('/', 1)[-1]}"
    hint = "this is a fault of the engine; please report it"
    return Fault(f"{type(problem).__name__}: {problem}", detail=place, hint=hint)
