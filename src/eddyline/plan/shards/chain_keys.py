"""Expressions as keys of chains of queries: how they are written over other columns, and which are refused.

Answer   `outputs_of` and `kept_references` give the columns over which a key of a derived stream may be written;
         `moved_key` and `changed_key` write it over others. `check_key` raises `Misfit` for a key that places rows badly,
         `refuse_whole` for a query that has to see all rows of a derived stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eddyline.model.expressions.expression import Call, ColumnRef, Expression, columns_of, refs_of, rename_refs, walk
from eddyline.model.expressions.monotone import trend_of
from eddyline.model.query import BoundQuery
from eddyline.model.schema import ROW
from eddyline.model.template import BoundRequests, BoundTemplate
from eddyline.model.window import Rows


class Misfit(Exception):
    """Why queries over derived streams run in one shard."""


def refuse_whole(part: BoundQuery, knows_rows: str) -> None:
    """Raise for a query that has to see all rows of a derived stream; `knows_rows` is the reason why it needs the
    numbers of rows, empty if it does not."""
    if isinstance(part, BoundTemplate | BoundRequests):
        raise Misfit(f"{part.name} answers requests from rows of a derived stream")
    if knows_rows:
        raise Misfit(f"{part.name} {knows_rows}")
    if part.settings.propagate != "off" or (part.feeds is not None and part.feeds.receives_punctuations):
        raise Misfit(f"{part.name} passes punctuations on, which hold for all shards")
    for reference in part.streams:
        if reference.derived and isinstance(reference.window, Rows):
            raise Misfit(f"{part.name} counts all rows of {reference.source}")


def outputs_of(part: BoundQuery) -> dict[str, Expression]:
    """The columns of the stream that a query makes, over its references. Of a pattern those that all events of a match
    share."""
    assert part.feeds is not None
    found = {name: o.expression for name, o in zip(part.feeds.schema.names, part.outputs, strict=False)}
    if part.pattern is None:
        return found
    alias, shared = part.references[0].alias, {key.column for key in part.pattern.keys}
    found = {name: e for name, e in found.items() if {column for _, column in columns_of(e)} <= shared}
    return {name: rename_refs(e, dict.fromkeys(refs_of(e), alias)) for name, e in found.items()}


def kept_references(part: BoundQuery) -> list[str] | None:
    """The references whose columns every result has; None: all."""
    if part.keeping is None or part.keeping.kind != "outer":
        return None
    return sorted(part.keeping.aliases) if len(part.keeping.aliases) == 1 else []


def check_key(part: BoundQuery, key: Expression) -> None:
    if any(isinstance(e, ColumnRef) and (e.column == ROW or e.column.endswith(f".{ROW}")) for e in walk(key)):
        raise Misfit(f"{part.name} knows rows by their numbers")
    if is_bucket(key):
        raise Misfit(f"{part.name} tells rows apart by time alone, and rows of one moment would be in one shard")


def is_bucket(key: Expression) -> bool:
    return isinstance(key, Call) and trend_of(key) is not None


def is_inexact(column: ColumnRef) -> bool:
    """Whether equal values may differ: 0.0 and -0.0 have other texts and other reciprocals."""
    return column.type.name == "DOUBLE"


def moved_key(key: Expression, old: str, new: str) -> Expression:
    return rename_refs(key, {old: new})


def changed_key(key: Expression, change: Callable[[ColumnRef], Expression | None]) -> Expression | None:
    """The key with other expressions in place of its columns; None: `change` has none for a column."""
    if isinstance(key, ColumnRef):
        return change(key)
    if not isinstance(key, Call):
        return key
    args = [arg for one in key.args if (arg := changed_key(one, change)) is not None]
    return replace(key, args=tuple(args)) if len(args) == len(key.args) else None
