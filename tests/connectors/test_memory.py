"""Pushed rows: order, forms, positions."""

from datetime import datetime

import pyarrow as pa
import pytest

from eddyline.connectors.memory import MemorySource
from eddyline.errors import CheckpointProblem, DataProblem
from eddyline.model.datatypes import BIGINT, STRING, TIMESTAMP
from eddyline.model.schema import Column, Schema, Stream

STREAM = Stream("s", Schema((Column("k", BIGINT), Column("note", STRING), Column("ts", TIMESTAMP))), "ts")
NOON = datetime(2024, 1, 1, 12)


def rows(*keys):
    return [{"k": k, "note": "n", "ts": NOON} for k in keys]


def test_rows_come_out_in_push_order_in_any_form():
    source = MemorySource(STREAM)
    assert source.read(5) is None and not source.finished
    table = pa.table({"k": [1, 2], "note": ["a", "b"], "ts": pa.array([NOON, NOON], pa.timestamp("us"))})
    source.push(table)
    source.push(table.to_batches()[0])
    source.push(rows(3))
    assert source.push([(4, None, NOON), (5, "x", NOON)]) == 2
    assert source.push([]) == 0 and source.waiting_rows == 7
    assert source.read(4).rows["k"].to_pylist() == [1, 2, 1, 2]
    assert source.read(9).rows["k"].to_pylist() == [3, 4, 5]
    source.end()
    assert source.finished and source.bounded


def test_values_that_do_not_fit_are_bad_rows_with_their_number():
    source = MemorySource(STREAM, [rows(1, "two", 3.5, 4), [{"k": 5}]])
    chunk = source.read(100)
    assert chunk.rows["k"].to_pylist() == [1, 4]
    assert chunk.bad["k"].to_pylist() == ["two", "3.5", "5"]
    assert chunk.bad["_reason"].to_pylist() == [
        "bad: pushed row 2: column k is declared as BIGINT and holds 'two'",
        "bad: pushed row 3: column k is declared as BIGINT and holds 3.5",
        "bad: pushed row 5: the event time ts is null",
    ]


def test_rows_of_another_shape_are_refused_when_pushed():
    source = MemorySource(STREAM)
    with pytest.raises(DataProblem, match="unknown columns: nope"):
        source.push([{"nope": 1}])
    with pytest.raises(DataProblem, match="wrong number of values"):
        source.push([(1, 2)])


def test_a_position_counts_rows_and_skips_what_was_read_before():
    source = MemorySource(STREAM, [rows(1, 2, 3)])
    source.read(2)
    position = source.position()
    again = MemorySource(STREAM, [rows(1), rows(2, 3)])
    again.seek(position)
    assert again.read(10).rows["k"].to_pylist() == [3]
    fresh = MemorySource(STREAM)
    fresh.seek(position)
    fresh.push(rows("x"))
    assert fresh.read(1).bad["_reason"][0].as_py().startswith("bad: pushed row 3:")
    with pytest.raises(CheckpointProblem, match="cannot go back"):
        source.seek({"row": 0})
    source.close()
    assert source.read(1) is None
