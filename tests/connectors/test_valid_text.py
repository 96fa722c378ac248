"""Columns that say that they are text and are not, in parquet files and pushed tables."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.connectors.files.files import open_source
from eddyline.connectors.memory import MemorySource
from eddyline.model.datatypes import BIGINT, STRING, TIMESTAMP, array, struct
from eddyline.model.schema import Column, Schema, Stream

TIMES = pa.array([datetime.datetime(2024, 1, 1)] * 4, pa.timestamp("us"))


def said_to_be_text(values: list[bytes | None], large: bool = False) -> pa.Array:
    found = pa.array(values, pa.large_binary() if large else pa.binary())
    return pa.Array.from_buffers(pa.large_string() if large else pa.string(), len(found), found.buffers())


TEXT = said_to_be_text([b"ok", b"\xff", None, b"\xc3\xa9"])
DICTIONARY = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), said_to_be_text([b"ok", b"\xff"]))
LISTS = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), TEXT)
COLUMNS = {
    "STRING": (STRING, TEXT),
    "large": (STRING, said_to_be_text([b"ok", b"\xff", None, b"x"], large=True)),
    "dictionary": (STRING, DICTIONARY),
    "list": (array(STRING), LISTS),
    "struct": (struct((("a", STRING),)), pa.StructArray.from_arrays([TEXT], ["a"])),
    "number": (BIGINT, said_to_be_text([b"1", b"\xff", None, b"2"])),
    "nested text": (array(BIGINT), said_to_be_text([b"[1]", b"[\xff]", None, b"[]"])),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("pushed", [False, True])
def test_a_value_that_is_no_text_makes_its_row_bad(tmp_path: Path, name: str, pushed: bool) -> None:
    kind, values = COLUMNS[name]
    rows = pa.table({"k": [0, 1, 2, 3], "v": values, "ts": TIMES})
    schema = Schema((Column("k", BIGINT), Column("v", kind), Column("ts", TIMESTAMP)))
    if pushed:
        source = MemorySource(Stream("s", schema, "ts"), [rows])
    else:
        parquet.write_table(rows, tmp_path / "a.parquet")
        source = open_source(Stream("s", schema, "ts", options={"format": "parquet", "path": str(tmp_path)}))
    chunk = source.read(10)
    assert chunk is not None and chunk.bad is not None
    chunk.rows.validate(full=True)
    chunk.bad.validate(full=True)
    if name == "dictionary" and not pushed:
        # Arrow itself refuses to decode such a file.
        assert chunk.bad.column("_reason").to_pylist() == ["bad: a.parquet cannot be read: Invalid UTF8 payload"]
        return
    assert chunk.rows.column("k").to_pylist() == [0, 2, 3] and chunk.bad.column("k").to_pylist() == ["1"]
    assert "column v is declared as" in chunk.bad.column("_reason")[0].as_py()
