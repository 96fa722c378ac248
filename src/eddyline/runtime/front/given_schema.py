"""A stream that is declared from Python, and its columns.

Answer   `declared` makes the stream that a call declares; `columns_of` reads an Arrow schema, or a mapping from names to types.
Limits   An Arrow type without a type of the language is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from eddyline.errors import BindingProblem
from eddyline.language import parse_span
from eddyline.language.catalog import Catalog
from eddyline.model.datatypes import TIMESTAMP, from_arrow
from eddyline.model.schema import Column, Schema, Stream
from eddyline.model.schema import time_unit as unit_of
from eddyline.runtime.front.runner import Runner


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


def declared(
    runner: Runner,
    catalog: Catalog,
    name: str,
    schema: object,
    time: str,
    spans: tuple[str, str | None, str | None],
    sequence: str | None = None,
    time_unit: str | None = None,
) -> tuple[Stream, object]:
    """The stream that a call declares, and what it is read from; None: its rows are pushed."""
    known = runner.schema_of(name, schema)
    found = _stream(name, known, schema, time, spans, sequence, catalog.next_position, time_unit)
    return found, None if known is None else schema


def _stream(
    name: str,
    known: Schema | None,
    schema: object,
    time: str,
    spans: tuple[str, str | None, str | None],
    sequence: str | None,
    position: int,
    unit: str | None = None,
) -> Stream:
    """The stream of a call. `known` is the schema of its source; None: its rows are pushed. `spans` are lateness, idle
    time and `most_ahead`; `unit` is that of integers as times, also of an event-time column of integers."""
    lateness, idle, ahead = spans
    found = known or Schema(columns_of(name, schema))
    if unit is not None:
        columns = tuple(
            replace(column, type=TIMESTAMP)
            if column.name.lower() == time.lower() and column.type.is_integer
            else column
            for column in found.columns
        )
        found = Schema(columns, unit_of(unit))
    return Stream(
        name=name,
        schema=found,
        time=time,
        lateness=parse_span(lateness),
        idle=None if idle is None else parse_span(idle),
        most_ahead=None if ahead is None else parse_span(ahead),
        sequence=sequence,
        position=position,
        options={"format": "memory" if known is None else "given"},
    )
