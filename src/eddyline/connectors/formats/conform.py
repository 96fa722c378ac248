"""Rows as a file has them to rows as the stream declares them; what does not fit becomes a bad row.

Answer   Readable rows with exactly the declared columns and types, and bad rows with every value kept as text and a
         reason that names the place, the column and the value. Where types already match nothing is copied.
Limits   A declared column that a file does not have makes every row of that file bad: filling it with nulls would
         change answers without a word. Columns that are not declared are ignored. Names match as in SQL, whatever their
         case.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.connectors.base import Chunk
from eddyline.connectors.files.listing import DataFile, shown_name
from eddyline.connectors.formats.conversion import Reading, as_text, convert
from eddyline.connectors.formats.unions import is_text
from eddyline.model.schema import Column, Schema, Stream, Table

#: First and last microsecond of the years 1 to 9999.
EARLIEST = -62_135_596_800_000_000
LATEST = 253_402_300_799_999_999

#: Which rows do not fit, and the text that says why (one for all, or one per row).
_Doubt = tuple[np.ndarray, "str | pa.ChunkedArray"]


@lru_cache(maxsize=256)
def target_of(schema: Schema, columns: frozenset[str] | None = None) -> pa.Schema:
    """The Arrow schema of readable rows: the declared columns, or those asked for, in declared order."""
    return pa.schema([(c.name, c.type.arrow) for c in schema.columns if columns is None or c.name in columns])


@lru_cache(maxsize=256)
def bad_schema(schema: Schema) -> pa.Schema:
    """The schema of bad rows: every declared column as text, and `_reason`."""
    return pa.schema([(name, pa.string()) for name in schema.names] + [("_reason", pa.string())])


def wanted_columns(stream: Stream, columns: Iterable[str] | None) -> frozenset[str] | None:
    """The declared spelling of a set of columns, with time and sequence, which are always read."""
    if columns is None:
        return None
    lower = {c.lower() for c in columns} | {stream.time.lower(), (stream.sequence or stream.time).lower()}
    chosen = frozenset(name for name in stream.schema.names if name.lower() in lower)
    return None if len(chosen) == len(stream.schema.names) else chosen


def find_column(names: list[str], wanted: str) -> int:
    """Where a file has a declared column; -1: nowhere."""
    if wanted in names:
        return names.index(wanted)
    lower = [n.lower() for n in names]
    return lower.index(wanted.lower()) if wanted.lower() in lower else -1


def conform(
    table: pa.Table,
    stream: Stream | Table | Schema,
    origin: str,
    first_row: int,
    *,
    columns: frozenset[str] | None = None,
    numbers: np.ndarray | None = None,
    unit: str = "row",
) -> Chunk:
    """Rows of a file in their declared form.

    Args:
        table: rows as read, any types, any further columns.
        stream: what is declared; for a stream, the event time is checked too.
        origin: the name of the file, for reasons.
        first_row: the number of the first row in its file, from 0; reasons count from 1.
        columns: those needed, as `wanted_columns` gives them; None: all.
        numbers: the line of each row where that is not first_row + 1, + 2, …
        unit: "row", or "line" where `numbers` are lines.
    """
    schema = stream if isinstance(stream, Schema) else stream.schema
    time = stream.time if isinstance(stream, Stream) else None
    target = target_of(schema, columns)
    doubts: list[_Doubt] = []
    rows, reading = table, Reading(schema.time_unit)
    if not table.schema.equals(target):
        rows, doubts = _convert_all(table, schema, target, reading)
    if time is not None:
        doubts = doubts + _time_doubts(rows, schema, time)
    if not doubts:
        return Chunk(rows, early=reading.early)
    where = np.arange(first_row + 1, first_row + 1 + table.num_rows) if numbers is None else numbers
    good, bad = _separate(table, rows, doubts, schema, f"{shown_name(origin)} {unit} ", where)
    return Chunk(good, bad, early=reading.early)


def _convert_all(table: pa.Table, schema: Schema, target: pa.Schema, reading: Reading) -> tuple[pa.Table, list[_Doubt]]:
    names, doubts, arrays = table.column_names, [], []
    for name in target.names:
        column = schema.find(name)
        assert column is not None
        index = find_column(names, name)
        if index < 0:
            doubts.append((np.ones(table.num_rows, bool), f"missing column {name}"))
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, column.type.arrow)]))
            continue
        values, fits = convert(table.column(index), column.type, reading)
        arrays.append(values)
        if fits is not None:
            misfit = ~fits.to_numpy()
            if misfit.any():
                doubts.append((misfit, _misfit_text(table.column(index), column)))
    return pa.Table.from_arrays(arrays, schema=target), doubts if table.num_rows else []


def _misfit_text(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    head = f"column {column.name} is declared as {column.type} and holds "
    return pc.binary_join_element_wise(head, _quoted(values), "", null_handling="replace", null_replacement="null")


def _quoted(values: pa.ChunkedArray) -> pa.ChunkedArray:
    text = pc.utf8_slice_codeunits(as_text(values), 0, 200)
    quoted = pc.binary_join_element_wise("'", text, "'", "")
    if pa.types.is_union(values.type):
        return pc.if_else(is_text(values), quoted, text)
    return quoted if pa.types.is_string(values.type) else text


def _time_doubts(rows: pa.Table, schema: Schema, time: str) -> list[_Doubt]:
    column = schema.find(time)
    assert column is not None
    values = rows.column(column.name)
    if len(values) == 0:
        return []
    doubts: list[_Doubt] = []
    if values.null_count:
        doubts.append((pc.is_null(values).to_numpy(), f"the event time {column.name} is null"))
    known = values.drop_null() if values.null_count else values
    # NumPy over the buffers: this runs for every chunk of every stream.
    views = [chunk.view(pa.int64()).to_numpy() for chunk in known.chunks if len(chunk)]
    if any(view.min() < EARLIEST or view.max() > LATEST for view in views):
        micros = values.cast(pa.int64())
        outside = pc.or_(pc.less(micros, EARLIEST), pc.greater(micros, LATEST))
        text = pc.binary_join_element_wise(
            f"the event time {column.name} is outside the years 1 to 9999: ",
            micros.cast(pa.string()),
            " microseconds from 1970",
            "",
            null_handling="replace",
        )
        doubts.append((pc.fill_null(outside, False).to_numpy(), text))
    return doubts


def _separate(
    table: pa.Table, rows: pa.Table, doubts: list[_Doubt], schema: Schema, place: str, where: np.ndarray
) -> tuple[pa.Table, pa.Table]:
    """Good rows apart from bad ones; of several mistakes in a row, the first is reported."""
    dead = np.zeros(table.num_rows, bool)
    reasons = pa.nulls(table.num_rows, pa.string())
    for misfit, text in doubts:
        fresh = misfit & ~dead
        dead |= misfit
        spread = text if isinstance(text, str) else text.combine_chunks()
        reasons = pc.if_else(pa.array(fresh), spread, reasons)
    chosen = pa.array(np.flatnonzero(dead))
    lost = table.take(chosen)
    text_rows = pa.array(where[dead]).cast(pa.string())
    reason = pc.binary_join_element_wise(f"bad: {place}", text_rows, ": ", reasons.take(chosen), "")
    names = table.column_names
    arrays = []
    for name in schema.names:
        index = find_column(names, name)
        arrays.append(as_text(lost.column(index)) if index >= 0 else pa.nulls(len(chosen), pa.string()))
    bad = pa.Table.from_arrays([*arrays, reason], schema=bad_schema(schema))
    return rows.filter(pa.array(~dead)), bad


def with_partitions(rows: pa.Table, file: DataFile, schema: Schema) -> pa.Table:
    """The rows with the declared columns that hive-style folders give; what the file itself has wins."""
    for name, text in file.partitions.items():
        column = schema.find(name)
        if column is None or find_column(rows.column_names, column.name) >= 0:
            continue
        value = pa.scalar(text, pa.string())
        try:
            value = value.cast(column.type.arrow)
        except pa.ArrowInvalid:
            value = pa.scalar(text, pa.string())  # every row of the file is bad, with this text in its reason
        rows = rows.append_column(column.name, pa.repeat(value, rows.num_rows))
    return rows


def bad_row(schema: Schema, reason: str, text: str | None = None) -> pa.Table:
    """One bad row without values of its own: a file that cannot be read, or a line, kept in the first column."""
    values = [text, *([None] * (len(schema.names) - 1)), f"bad: {reason}"]
    return pa.Table.from_arrays([pa.array([v], pa.string()) for v in values], schema=bad_schema(schema))


def with_line_numbers(bad: pa.Table, origin: str, before: int) -> pa.Table:
    """Bad rows of a part of a text file, whose reasons count lines from its first one, with the numbers that the lines
    have in the file.

    Args:
        bad: Bad rows.
        origin: The name of the file.
        before: How many lines of the file are before the part.
    """
    head = f"bad: {shown_name(origin)} line "
    place = bad.schema.get_field_index("_reason")
    reasons = bad.column(place).combine_chunks()
    found = pc.extract_regex(pc.utf8_slice_codeunits(reasons, len(head)), r"(?s)^(?P<line>[0-9]+)(?P<rest>:.*)$")
    numbered = pc.and_(pc.starts_with(reasons, head), pc.is_valid(found))
    lines = pc.add(pc.struct_field(found, "line").cast(pa.int64()), before).cast(pa.string())
    texts = pc.binary_join_element_wise(head, lines, pc.struct_field(found, "rest"), "")
    return bad.set_column(place, bad.schema.field(place), pc.if_else(numbered, texts, reasons))
