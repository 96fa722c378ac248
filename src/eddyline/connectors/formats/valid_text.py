"""Text that is not UTF-8, in columns that say it is text.

Answer   `with_valid_text` gives a table in which such columns are bytes: `conform` then finds the values that are no
         text, and makes their rows bad. Most columns are text indeed, and stay as they are. Columns of views and of runs,
         of which Arrow cannot take rows, become plain ones. `written_out` gives a column whose values Arrow keeps once, in
         a dictionary or by runs, with every value at its row.
Limits   Parquet files, pushed tables and frames of Spark may hold such columns; what Arrow's csv and json readers give
         is text.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def with_valid_text(rows: pa.Table) -> pa.Table:
    """The same rows; a column with a value that is no text has bytes, and none has views or runs."""
    for place, field in enumerate(rows.schema):
        inner = field.type.value_type if is_folded(field.type) else field.type
        if _kept(inner) != inner or pa.types.is_run_end_encoded(field.type):
            rows = rows.set_column(place, field.name, written_out(rows.column(place)).cast(_kept(inner)))
    for place, field in enumerate(rows.schema):
        kind = _as_bytes(field.type)
        if kind != field.type and not _is_valid(rows.column(place)):
            rows = rows.set_column(place, field.name, written_out(rows.column(place)).cast(kind))
    return rows


def _is_valid(values: pa.ChunkedArray) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def is_folded(kind: pa.DataType) -> bool:
    """Whether `written_out` has something to do."""
    return bool(pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind))


def written_out(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values, without a dictionary or runs."""
    kind = values.type
    if pa.types.is_run_end_encoded(kind):
        return pa.chunked_array([pc.run_end_decode(chunk) for chunk in values.chunks], kind.value_type)
    if not pa.types.is_dictionary(kind):
        return values
    known = pa.string() if pa.types.is_string_view(kind.value_type) else kind.value_type
    # Arrow cannot take rows of views, which are the texts of polars.
    return pa.chunked_array([chunk.dictionary.cast(known).take(chunk.indices) for chunk in values.chunks], known)


def _kept(kind: pa.DataType) -> pa.DataType:
    """The type without views, of which Arrow cannot take rows. Frames of polars have views."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(_kept(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_kept(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_kept(kind.value_type), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_kept(field.type)) for field in kind])
    return kind


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """The type with bytes in place of text."""
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind):
        return _as_bytes(kind.value_type) if _as_bytes(kind.value_type) != kind.value_type else kind
    if pa.types.is_list(kind):
        return pa.list_(_as_bytes(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_as_bytes(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _as_bytes(field.type)) for field in kind])
    return kind
