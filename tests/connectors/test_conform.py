"""Rows as declared, and the reasons of those that are not."""

from datetime import datetime

import pyarrow as pa
import pytest

from eddyline.connectors.formats.conform import EARLIEST, LATEST, conform, wanted_columns
from eddyline.model.datatypes import BIGINT, DOUBLE, STRING, TIMESTAMP
from eddyline.model.schema import Column, Schema, Stream

SCHEMA = Schema((Column("k", BIGINT), Column("v", DOUBLE), Column("ts", TIMESTAMP)))
STREAM = Stream("s", SCHEMA, "ts")
NOON = datetime(2024, 1, 1, 12)


def table(k=(1, 2), v=(0.5, float("nan")), ts=(NOON, NOON)):
    return pa.table({"k": list(k), "v": list(v), "ts": pa.array(list(ts), pa.timestamp("us"))})


def test_matching_rows_are_not_copied():
    rows = table()
    assert conform(rows, STREAM, "f", 0).rows is rows
    assert conform(rows, STREAM, "f", 0).bad is None


def test_columns_are_put_in_order_and_others_ignored():
    chunk = conform(table().select(["ts", "v", "k"]).append_column("extra", pa.array(["a", "b"])), STREAM, "f", 0)
    assert chunk.rows.column_names == ["k", "v", "ts"]
    assert chunk.bad is None


def test_names_match_whatever_their_case():
    assert conform(table().rename_columns(["K", "v", "TS"]), STREAM, "f", 0).rows["k"].to_pylist() == [1, 2]


def test_a_value_that_does_not_fit_makes_its_row_bad_and_keeps_all_as_text():
    raw = pa.table({"k": ["1", "two", "3"], "v": [1, 2, 3], "ts": pa.array([NOON] * 3, pa.timestamp("ms"))})
    chunk = conform(raw, STREAM, "part.parquet", 100)
    assert chunk.rows.to_pylist() == [{"k": 1, "v": 1.0, "ts": NOON}, {"k": 3, "v": 3.0, "ts": NOON}]
    assert chunk.bad.to_pylist() == [
        {
            "k": "two",
            "v": "2",
            "ts": "2024-01-01 12:00:00.000",
            "_reason": "bad: part.parquet row 102: column k is declared as BIGINT and holds 'two'",
        }
    ]


def test_null_times_are_bad_and_other_nulls_are_not():
    chunk = conform(table(k=(None, 2), ts=(NOON, None)), STREAM, "f", 0)
    assert chunk.rows["k"].to_pylist() == [None]
    assert chunk.bad["_reason"].to_pylist() == ["bad: f row 2: the event time ts is null"]


@pytest.mark.parametrize("micros", [EARLIEST - 1, LATEST + 1, -(2**62), 2**62])
def test_times_outside_the_calendar_are_bad(micros):
    times = pa.array([EARLIEST, micros, LATEST], pa.timestamp("us"))
    chunk = conform(pa.table({"k": [1, 2, 3], "v": [1.0] * 3, "ts": times}), STREAM, "f", 0)
    assert chunk.rows["k"].to_pylist() == [1, 3]
    reason = chunk.bad["_reason"][0].as_py()
    assert reason.startswith("bad: f row 2: the event time ts is outside the years 1 to 9999") and str(micros) in reason


def test_a_missing_column_makes_every_row_bad():
    chunk = conform(table().drop_columns(["v"]), STREAM, "f", 0)
    assert chunk.rows.num_rows == 0 and chunk.rows.schema == SCHEMA.arrow
    assert chunk.bad["_reason"].to_pylist() == ["bad: f row 1: missing column v", "bad: f row 2: missing column v"]
    assert chunk.bad["k"].to_pylist() == ["1", "2"]


def test_of_two_things_wrong_the_first_is_told_and_the_row_counts_once():
    raw = pa.table({"k": ["x"], "v": ["y"], "ts": pa.array([None], pa.timestamp("us"))})
    chunk = conform(raw, STREAM, "f", 0)
    assert chunk.bad.num_rows == 1
    assert "column k" in chunk.bad["_reason"][0].as_py()


def test_a_table_without_rows_has_no_bad_ones():
    chunk = conform(pa.table({"k": pa.array([], pa.string())}), STREAM, "f", 0)
    assert chunk.rows.num_rows == 0 and chunk.rows.schema == SCHEMA.arrow and chunk.bad is None


def test_a_schema_alone_has_no_time_to_check():
    assert conform(table(ts=(None, NOON)), SCHEMA, "f", 0).bad is None


def test_needed_columns_come_with_time_and_sequence():
    schema = Schema((*SCHEMA.columns, Column("n", BIGINT), Column("note", STRING)))
    assert wanted_columns(Stream("s", schema, "ts", sequence="n"), {"V"}) == {"v", "ts", "n"}
    assert wanted_columns(STREAM, {"k", "v"}) is None
    assert wanted_columns(STREAM, None) is None
