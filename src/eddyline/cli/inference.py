"""The CREATE statement for files that have no declaration.

Answer   `declaration` reads the first file of a path and gives CREATE STREAM, or CREATE TABLE if no column holds times.
         The ending of the file gives the format. Its schema (parquet) or its first rows (csv, jsonl, json) give columns
         and types. Hive-style folders give further columns.
State    None.
Limits   Types are those of the first megabyte: a value of another type further down is a bad row. Columns of nested types
         and names that begin with `_` are left out; `left_out` has them.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from eddyline.connectors.files.finding import check_path, list_files
from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.formats.json_values import decode, documents, json_text
from eddyline.errors import SourceProblem, UserError
from eddyline.language.syntax import ColumnDefinition, CreateStream, CreateTable, WithOption
from eddyline.model.datatypes import BIGINT, DATE, NULL, STRING, TIMESTAMP, DataType, from_arrow

_ENDINGS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"}
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
#: Usual names of event-time columns; the first one that the file has is taken.
_TIME_NAMES = ("ts", "time", "timestamp", "event_time", "at")
_SAMPLE_BYTES = 1 << 20


@dataclass(frozen=True)
class Declaration:
    statement: CreateStream | CreateTable
    #: Columns of the file that cannot be declared, each with the reason.
    left_out: tuple[str, ...]


def declaration(name: str, path: str, time: str | None = None) -> Declaration:
    """The statement that reads the files of a path. `time` names the event-time column; without it a column is chosen
    by type and name."""
    check_path(path, name)
    files = list_files(path)
    if not files:
        raise SourceProblem(
            f"{path} holds no files", hint="columns are taken from the first file; or write CREATE STREAM yourself"
        )
    kind, ending = _format_of(files[0])
    columns: list[ColumnDefinition] = []
    left_out = []
    for field in _schema(files[0], kind, ending):
        found = STRING if kind != "parquet" and pa.types.is_time(field.type) else from_arrow(field.type)
        if field.name.startswith("_") or found is None:
            left_out.append(f"{field.name} ({'the name is reserved' if field.name.startswith('_') else field.type})")
        else:
            columns.append(ColumnDefinition(field.name, STRING if found == NULL else found))
    known = {column.name.lower() for column in columns}
    columns += [ColumnDefinition(n, _folder_type(v)) for n, v in files[0].partitions.items() if n.lower() not in known]
    options = [WithOption("format", kind), WithOption("path", path)]
    if ending == ".tsv":
        options.append(WithOption("delimiter", "tab"))
    time = time or _time_of(columns)
    if time is None:
        return Declaration(CreateTable(name, tuple(columns), tuple(options)), tuple(left_out))
    return Declaration(CreateStream(name, tuple(columns), (*options, WithOption("time", time))), tuple(left_out))


def stem(path: str) -> str:
    """A name for the stream of a path: its last part without endings, in letters, digits and `_`."""
    last = os.path.basename(os.path.normpath(path))
    plain = re.sub(r"\W+", "_", last.partition(".")[0]).strip("_")
    if not plain:
        raise UserError(f"{path} gives no name for a stream", hint=".open name path")
    return plain


def _format_of(file: DataFile) -> tuple[str, str]:
    base, ending = os.path.splitext(file.path.lower())
    if ending in _COMPRESSED:
        ending = os.path.splitext(base)[1]
    if ending not in _ENDINGS:
        raise SourceProblem(
            f"the name of {file.name} does not show its format",
            hint=f"endings are {', '.join(_ENDINGS)}, with or without {', '.join(_COMPRESSED)}; or write CREATE STREAM yourself",
        )
    return _ENDINGS[ending], ending


def _schema(file: DataFile, kind: str, ending: str) -> pa.Schema:
    try:
        if kind == "parquet":
            return pyarrow.parquet.read_schema(file.path)
        sample = _first_rows(file.path)
        if kind == "csv":
            parsing = pyarrow.csv.ParseOptions(delimiter="\t" if ending == ".tsv" else ",")
            return pyarrow.csv.read_csv(pa.py_buffer(sample), parse_options=parsing).schema
        rows = pyarrow.json.read_json(pa.py_buffer(_objects(sample)))
        return pa.schema([(n, _text_or_time(rows.column(n))) for n in rows.column_names])
    except (pa.ArrowInvalid, OSError, ValueError) as problem:
        hint = "write CREATE STREAM with its columns yourself"
        raise SourceProblem(
            f"the columns of {file.name} cannot be inferred", detail=str(problem), hint=hint
        ) from problem


def _first_rows(path: str) -> bytes:
    """Whole lines from the start of a file, compressed or not."""
    with pa.input_stream(path, compression="detect") as file:
        data = file.read(_SAMPLE_BYTES)
    return bytes(data if len(data) < _SAMPLE_BYTES else data[: data.rfind(b"\n") + 1] or data)


def _objects(sample: bytes) -> bytes:
    """The objects of a sample, one per line. Nothing else reaches Arrow's parser: a value `null` at the beginning ends
    the process."""
    text = sample.decode("utf-8-sig", "replace")
    found = []
    for line in text.split("\n"):
        with contextlib.suppress(ValueError):
            found.append(decode(line))
    if not any(isinstance(value, dict) for value in found):
        found = [one for value in documents(text) for one in (value if isinstance(value, list) else [value])]
    objects = [str(json_text(value)) for value in found if isinstance(value, dict)]
    if not objects:
        raise ValueError("there is no JSON object at its beginning")
    return "\n".join(objects).encode()


def _text_or_time(column: pa.ChunkedArray) -> pa.DataType:
    """JSON has no times: a text column in which every value is one becomes TIMESTAMP."""
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return column.type
    try:
        column.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return column.type
    return pa.timestamp("us")


def _folder_type(value: str | None) -> DataType:
    for kind in (BIGINT, DATE):
        try:
            if value is not None:
                pa.scalar(value).cast(kind.arrow)
                return kind
        except pa.ArrowInvalid:
            continue
    return STRING


def _time_of(columns: list[ColumnDefinition]) -> str | None:
    times = [column.name for column in columns if column.type == TIMESTAMP]
    usual = [name for wanted in _TIME_NAMES for name in times if name.lower() == wanted]
    return next(iter(usual + times), None)
