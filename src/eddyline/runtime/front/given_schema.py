"""A stream that is declared from Python, and its columns.

Answer   `given_stream` makes the stream; `columns_of` reads an Arrow schema, or a mapping from names to types.
Limits   An Arrow type without a type of the language is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from eddyline.errors import BindingProblem
from eddyline.language import parse_span
from eddyline.model.datatypes import from_arrow
from eddyline.model.schema import Column, Schema, Stream


def columns_of(stream: str, schema: object) -> tuple[Column, ...]:
    """The columns that `schema` lists for the stream of this name."""
    if isinstance(schema, Mapping):
        return tuple(Column(name, kind) for name, kind in schema.items())
    if isinstance(schema, pa.Schema):
        columns = []
        for field in schema:
            kind = from_arrow(field.type)
            if kind is None:
                raise BindingProblem(
                    f"column {field.name} of stream {stream} has the type {field.type}",
                    hint="cast it before it is pushed",
                )
            columns.append(Column(field.name, kind))
        return tuple(columns)
    raise BindingProblem(
        f"stream {stream} needs a schema",
        detail=f"{type(schema).__name__} is none",
        hint="an Arrow schema, or a mapping from names to types",
    )


def given_stream(
    name: str,
    known: Schema | None,
    schema: object,
    time: str,
    spans: tuple[str, str | None, str | None],
    sequence: str | None,
    position: int,
) -> Stream:
    """The stream of a call. `known` is the schema of its source; None: its rows are pushed. `spans` are lateness, idle
    time and `most_ahead`."""
    lateness, idle, ahead = spans
    return Stream(
        name=name,
        schema=known or Schema(columns_of(name, schema)),
        time=time,
        lateness=parse_span(lateness),
        idle=None if idle is None else parse_span(idle),
        most_ahead=None if ahead is None else parse_span(ahead),
        sequence=sequence,
        position=position,
        options={"format": "memory" if known is None else "given"},
    )
