"""Text that is not UTF-8, in columns that say it is text.

Answer   `with_valid_text` gives a table in which such columns are bytes: `conform` then finds the values that are no
         text, and makes their rows bad. Most columns are text indeed, and stay as they are.
Limits   Parquet files, pushed tables and frames of Spark may hold such columns; what Arrow's csv and json readers give
         is text.
"""

from __future__ import annotations

import pyarrow as pa


def with_valid_text(rows: pa.Table) -> pa.Table:
    """The same rows; a column with a value that is no text has bytes."""
    for place, field in enumerate(rows.schema):
        kind = _as_bytes(field.type)
        if kind != field.type and not _is_valid(rows.column(place)):
            rows = rows.set_column(place, field.name, _plain(rows.column(place)).cast(kind))
    return rows


def _is_valid(values: pa.ChunkedArray) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


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
