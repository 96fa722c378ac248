"""What a program pushes, as tables with the declared columns.

Answer   `as_tables` takes whatever holds rows: frames, tables, batches and readers of Arrow, mappings from names to
         columns, rows of Python, one row. Columns and fields are found by their names, in any order and in any case; a
         declared one that is missing is null. `conform` gives the values their declared types.
Limits   A name that is not declared is refused: it is a typing mistake. Rows without names have a value for each
         declared column. A reader, an iterator and a lazy frame are read to their end when they are pushed.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from eddyline.connectors.formats.parquet import first_line
from eddyline.connectors.formats.python_values import column_of, field_of, fields_of, spellings
from eddyline.errors import DataProblem
from eddyline.model.datatypes import DataType
from eddyline.model.schema import Schema

if TYPE_CHECKING:
    import pandas


class ArrowStream(Protocol):
    """Frames of polars and pandas, relations of DuckDB, tables and readers of Arrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """Batches of Arrow."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class LazyFrame(Protocol):
    """A lazy frame of polars."""

    def collect(self) -> ArrowStream: ...


class DataclassObject(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


#: One row: values by name, values in the declared order, or an object of a dataclass.
Row = Mapping[str, object] | Sequence[object] | DataclassObject
#: What holds rows.
Rows: TypeAlias = (
    "ArrowStream | ArrowArray | LazyFrame | pandas.DataFrame | Mapping[str, Sequence[object]] | Iterable[Row] | Row"
)

#: Rows of Python that become one table: bounds the Python objects of a generator.
_CHUNK = 65_536
_NOTHING = object()
_FORMS = (
    "a frame of pandas or polars, a relation of DuckDB, a table, batch or reader of Arrow, anything else with "
    "__arrow_c_stream__, a mapping from names to columns, an iterable of tuples, mappings or dataclass objects, or one "
    "such row"
)


def as_tables(rows: object, schema: Schema) -> list[pa.Table]:
    """The rows, in order, with the declared columns and any types.

    >>> from eddyline.model.datatypes import BIGINT
    >>> from eddyline.model.schema import Column
    >>> schema = Schema((Column("a", BIGINT), Column("b", BIGINT)))
    >>> [table.to_pylist() for table in as_tables({"B": [1, 2]}, schema)]
    [[{'a': None, 'b': 1}, {'a': None, 'b': 2}]]
    """
    columns = _columns_of(rows)
    if columns is not None:
        found = _matched(columns, schema)
        return [found] if found.num_rows else []
    listed = iter([rows]) if _is_row(rows) else _iterated(rows)
    tables = []
    while chunk := list(islice(listed, _CHUNK)):
        tables.append(_of_rows(chunk, schema))
    return tables


# -- columns


def _columns_of(rows: object) -> dict[str, Any] | pa.Table | None:
    """Something that holds columns; None: it holds rows."""
    if isinstance(rows, pa.Table):
        return rows
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(rows, pandas.DataFrame):
        return _of_pandas(rows)
    if type(rows).__module__.partition(".")[0] == "polars" and hasattr(rows, "collect"):
        rows = rows.collect()
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        try:
            return pa.table(rows)
        except (pa.ArrowInvalid, TypeError, ValueError) as problem:
            raise _refused(rows, first_line(problem)) from problem
    if isinstance(rows, np.ndarray) and rows.dtype.names:
        return {name: rows[name] for name in rows.dtype.names}
    if isinstance(rows, Mapping) and all(_is_column(value) for value in rows.values()):
        return dict(rows)
    return None


def _of_pandas(frame: pandas.DataFrame) -> dict[str, Any]:
    """The columns of a frame, and the levels of its index that have names."""
    levels = {name: frame.index.get_level_values(name) for name in frame.index.names if name is not None}
    if not frame.columns.is_unique:
        twice = str(frame.columns[frame.columns.duplicated()][0])
        raise DataProblem(f"the frame has two columns {twice}", hint="rename one of them")
    return {**levels, **{name: frame[name] for name in frame.columns}}


def _is_column(value: object) -> bool:
    """Whether a value of a mapping is a column. No row has an event time that is one."""
    if isinstance(value, list | tuple | range | pa.Array | pa.ChunkedArray):
        return True
    return hasattr(value, "__array__") and getattr(value, "ndim", 1) == 1


def _matched(columns: dict[str, Any] | pa.Table, schema: Schema) -> pa.Table:
    names = columns.column_names if isinstance(columns, pa.Table) else list(columns)
    if isinstance(columns, pa.Table) and names == list(schema.names):
        return columns
    found = _found(names, schema)
    twice = next((name for name, several in found.items() if len(several) > 1), None)
    if twice is not None:
        raise DataProblem(
            f"column {twice} comes more than once",
            detail=f"as {' and '.join(map(str, found[twice]))}",
            hint="names match whatever their case",
        )
    if isinstance(columns, pa.Table):
        given = {name: columns.column(several[0]) for name, several in found.items()}
        count = columns.num_rows
    else:
        given = {
            column.name: _column(columns[found[column.name][0]], column.type, schema.time_unit)
            for column in schema.columns
            if column.name in found
        }
        count = max(map(len, given.values()), default=0)
    short = next((name for name, values in given.items() if len(values) != count), None)
    if short is not None:
        raise DataProblem(
            f"column {short} has {len(given[short]):,} values, another one has {count:,}",
            hint="every column has one value per row; a row of Python is a mapping from names to single values",
        )
    arrays = [given.get(name, pa.nulls(count)) for name in schema.names]
    return pa.Table.from_arrays(arrays, names=schema.names)


def _column(values: Any, kind: DataType, unit: str | None) -> Any:
    """One column of a mapping or a frame of pandas."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, list | tuple | range):
        return column_of(values, kind, unit)
    if getattr(getattr(values, "dtype", None), "kind", None) == "O":
        # pandas marks a value that is not there by NaN or by an object of its own.
        missing = getattr(values, "isna", None)
        if missing is None:
            return column_of(list(values), kind, unit)
        gone = np.asarray(missing())
        return column_of(
            [None if lost else value for value, lost in zip(values, gone.tolist(), strict=True)], kind, unit
        )
    try:
        return pa.array(values, from_pandas=not isinstance(values, np.ndarray))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, UnicodeError):
        return column_of(list(values), kind, unit)


def _found(names: Iterable[object], schema: Schema) -> dict[str, list[Any]]:
    found, unknown = spellings(names, schema.names)
    if unknown:
        listed = ", ".join(sorted(map(str, unknown)))
        raise DataProblem(
            f"pushed rows have unknown columns: {listed}",
            detail=f"columns are {', '.join(schema.names)}",
            hint="rename or leave out what the stream does not declare",
        )
    return found


# -- rows


def _is_row(rows: object) -> bool:
    """Whether something is one row, and not several."""
    if isinstance(rows, Mapping) or hasattr(rows, "_fields") or _is_object(rows):
        return not isinstance(rows, type)
    return isinstance(rows, tuple) and any(not _may_be_row(value) for value in rows)


def _is_object(row: object) -> bool:
    return dataclasses.is_dataclass(row) and not isinstance(row, type)


def _may_be_row(row: object) -> bool:
    return (
        isinstance(row, Mapping | list | tuple | np.void)
        or (isinstance(row, np.ndarray) and row.ndim == 1)
        or _is_object(row)
        or (isinstance(row, Sequence) and not isinstance(row, str | bytes | bytearray | memoryview))
    )


def _iterated(rows: object) -> Iterator[object]:
    if isinstance(rows, str | bytes | bytearray | memoryview | type) or not isinstance(rows, Iterable):
        raise _refused(rows)
    listed = iter(rows)
    first = next(listed, _NOTHING)
    if first is _NOTHING:
        return listed
    if not _may_be_row(first):
        raise _refused(rows, f"what it gives is of type {type(first).__name__}, which is no row")
    return chain([first], listed)


def _refused(rows: object, detail: str = "") -> DataProblem:
    kind = type(rows)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return DataProblem(f"rows cannot be taken from an object of type {name}", detail=detail, hint=f"push {_FORMS}")


def _of_rows(rows: list[Any], schema: Schema) -> pa.Table:
    """Rows of Python as a table."""
    named = {kind: _reader(kind) for kind in set(map(type, rows))}
    if all(read is not None for read in named.values()):
        columns = _of_mappings([named[type(row)](row) for row in rows], schema)
    elif all(read is None for read in named.values()):
        columns = _of_tuples(rows, schema)
    else:
        # Rows of both kinds: those without names get the declared ones.
        wide = [row for row in rows if named[type(row)] is None]
        plain = iter(zip(*_of_tuples(wide, schema), strict=True))
        mapped = [
            dict(zip(schema.names, next(plain), strict=True)) if (read := named[type(row)]) is None else read(row)
            for row in rows
        ]
        columns = _of_mappings(mapped, schema)
    arrays = [
        column_of(values, column.type, schema.time_unit) for values, column in zip(columns, schema.columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=schema.names)


def _reader(kind: type) -> Any:
    """Gives a row of this class as a mapping; None: its values have no names."""
    if issubclass(kind, Mapping):
        return lambda row: row
    if dataclasses.is_dataclass(kind):
        return fields_of
    names = getattr(kind, "_fields", None)
    if names is not None and issubclass(kind, tuple):
        return lambda row: dict(zip(row._fields, row, strict=True))
    if issubclass(kind, tuple) and hasattr(kind, "asDict"):
        return lambda row: row.asDict()
    if issubclass(kind, np.void):
        return lambda row: dict(zip(row.dtype.names, row.tolist(), strict=True))
    return None


def _of_mappings(rows: list[Mapping[Any, object]], schema: Schema) -> list[Sequence[object]]:
    found = _found({name: None for row in rows for name in row}, schema)
    columns: list[Sequence[object]] = []
    for name in schema.names:
        several = found.get(name, [name])
        if len(several) == 1:
            columns.append([row.get(several[0]) for row in rows])
        else:
            columns.append([field_of(row, name) for row in rows])
    return columns


def _of_tuples(rows: list[Any], schema: Schema) -> list[Sequence[object]]:
    width = len(schema.names)
    for row in rows:
        if not _may_be_row(row):
            raise DataProblem(f"a pushed row is an object of type {type(row).__name__}", hint=f"push {_FORMS}")
        if len(row) != width:
            raise DataProblem(
                "a pushed row has the wrong number of values",
                detail=f"it has {len(row)} values, and there are {width} columns",
                hint=f"columns are {', '.join(schema.names)}",
            )
    return list(zip(*rows, strict=True))
