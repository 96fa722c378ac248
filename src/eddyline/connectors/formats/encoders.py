"""Tables as files: parquet, csv, JSON lines.

Answer   `encode(table, path)` writes one complete file; reading it back with the same declared types gives the same
         rows. `opened(path, schema)` writes one table after the other.
Limits   JSON has no NaN and no infinities: they are written as the text "NaN", "Infinity", "-Infinity", which a DOUBLE
         column reads back. Times are ISO text in UTC, without a zone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq


class Encoding(Protocol):
    """A file that is being written."""

    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Encoder:
    suffix: str
    opened: Callable[[str, pa.Schema], Encoding]
    #: Whether a file of this form holds no rows.
    is_empty: Callable[[str], bool]
    #: The `_ts` of the last row of a file that has rows, in microseconds.
    last_time: Callable[[str], int]

    def encode(self, table: pa.Table, path: str) -> None:
        encoding = self.opened(path, table.schema)
        try:
            encoding.write(table)
        finally:
            encoding.close()


class _Parquet:
    """Each table begins a row group of its own."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        # Results are written once and rarely repeat values: dictionaries cost more than they save (measured: 5x slower
        # for doubles). `_ts` never decreases, so differences take a few bits. Readers skip files by it, so it alone has
        # its least and greatest value noted: for all columns that cost a quarter of the time.
        timed = "_ts" in schema.names
        deltas = {"_ts": "DELTA_BINARY_PACKED"} if timed else None
        noted = ["_ts"] if timed else True
        self._writer = pq.ParquetWriter(
            path, schema, compression="snappy", use_dictionary=False, column_encoding=deltas, write_statistics=noted
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, 1 << 20)

    def close(self) -> None:
        self._writer.close()


def _is_empty_parquet(path: str) -> bool:
    """Whether a file has a schema and no rows; a power cut may have left one that is neither."""
    try:
        return int(pq.read_metadata(path).num_rows) == 0
    except pa.ArrowInvalid:
        return False


def _last_time_parquet(path: str) -> int:
    with pq.ParquetFile(path) as opened:
        return _last(opened.read_row_group(opened.num_row_groups - 1, columns=["_ts"]).column("_ts"))


class _Csv:
    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._nested = [place for place, column in enumerate(schema) if pa.types.is_nested(column.type)]
        flat = [pa.field(f.name, pa.string()) if place in self._nested else f for place, f in enumerate(schema)]
        self._writer = pyarrow.csv.CSVWriter(path, pa.schema(flat))

    def write(self, table: pa.Table) -> None:
        for place in self._nested:
            texts = pa.chunked_array([_json_values(chunk) for chunk in table.column(place).chunks], pa.string())
            table = table.set_column(place, table.column_names[place], texts)
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


def _is_empty_csv(path: str) -> bool:
    with open(path, "rb") as opened:
        return opened.read().count(b"\n") <= 1


def _last_time_csv(path: str) -> int:
    options = pyarrow.csv.ConvertOptions(include_columns=["_ts"], column_types={"_ts": pa.timestamp("us")})
    return _last(pyarrow.csv.read_csv(path, convert_options=options).column("_ts"))


def _last(column: pa.ChunkedArray) -> int:
    return int(column.cast(pa.timestamp("us")).cast(pa.int64())[len(column) - 1].as_py())


class _JsonLines:
    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._file = open(path, "wb")  # noqa: SIM115

    def write(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=65_536):
            self._file.write(json_lines(batch))

    def close(self) -> None:
        self._file.close()


def _is_empty_json_lines(path: str) -> bool:
    with open(path, "rb") as opened:
        return opened.read(1) == b""


def _last_time_json_lines(path: str) -> int:
    with open(path, "rb") as opened:
        line = opened.read().splitlines()[-1]
    return int(pa.scalar(json.loads(line)["_ts"]).cast(pa.timestamp("us")).cast(pa.int64()).as_py())


def json_lines(batch: pa.RecordBatch) -> memoryview:
    """One JSON object per row, built column by column.

    >>> bytes(json_lines(pa.record_batch({"a": [1, None], "b": ["x", 'say "hi"']}))).decode().splitlines()
    ['{"a":1,"b":"x"}', '{"a":null,"b":"say \\\\"hi\\\\""}']
    """
    lines = json_rows(batch, "}\n")
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(lines.buffers()[2])[int(offsets[0]) : int(offsets[-1])] if len(lines) else memoryview(b"")


def json_rows(batch: pa.RecordBatch, end: str = "}") -> pa.Array:
    """Each row as the text of a JSON object.

    >>> json_rows(pa.record_batch({"a": [1, None]})).to_pylist()
    ['{"a":1}', '{"a":null}']
    """
    parts: list[object] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        key = ("{" if not parts else ",") + json.dumps(name, ensure_ascii=False) + ":"
        parts += [key, pc.fill_null(_json_values(column), "null")]
    return pc.binary_join_element_wise(*parts, end, "")


def _json_values(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_struct(kind):
        fields = [pc.struct_field(column, [place]) for place in range(kind.num_fields)]
        rows = (
            json_rows(pa.record_batch(fields, [field.name for field in kind]))
            if fields
            else pa.repeat("{}", len(column))
        )
        return pc.if_else(pc.is_valid(column), rows, pa.scalar(None, pa.string()))
    if pa.types.is_list(kind):
        offsets = column.offsets.to_numpy()
        first, end = int(offsets[0]), int(offsets[-1])
        texts = pc.fill_null(_json_values(column.values.slice(first, end - first)), "null")
        lists = pa.ListArray.from_arrays(pa.array(offsets - first, pa.int32()), texts)
        whole = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
        return pc.if_else(pc.is_valid(column), whole, pa.scalar(None, pa.string()))
    if pa.types.is_string(kind):
        return _quoted(_escaped(column))
    if pa.types.is_floating(kind):
        text = pc.cast(column, pa.string())
        finite = pc.is_finite(column)
        if pc.all(finite).as_py() is not False:
            return text
        named = pc.if_else(pc.is_nan(column), "NaN", pc.if_else(pc.greater(column, 0), "Infinity", "-Infinity"))
        return pc.if_else(finite, text, _quoted(named))
    text = pc.cast(column, pa.string())
    return (
        text if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind) else _quoted(text)
    )


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(text: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(text, r'[\x00-\x1f"\\]')).as_py():
        return text
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if pc.any(pc.match_substring_regex(text, r"[\x00-\x1f]")).as_py():
        for code in range(32):
            text = pc.replace_substring(text, chr(code), json.dumps(chr(code))[1:-1])
    return text


ENCODERS = {
    "parquet": Encoder(".parquet", _Parquet, _is_empty_parquet, _last_time_parquet),
    "csv": Encoder(".csv", _Csv, _is_empty_csv, _last_time_csv),
    "jsonl": Encoder(".jsonl", _JsonLines, _is_empty_json_lines, _last_time_json_lines),
}
