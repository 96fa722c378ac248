from __future__ import annotations

import math
from datetime import date, datetime

import pyarrow as pa
import pytest

from eddyline.errors import DataProblem
from eddyline.model.datatypes import INT
from eddyline.testing.streams import DrawnNote, stream


def test_a_stream_is_a_table_one_can_read():
    bids = stream("""
        t | item | price
        1 |    7 |   3.0
        2 |    7 |   4.0
        ! t <= 2              -- punctuation
        5 |    7 |   9.0
        ! fail                -- the source dies here, once
        6 |    8 |   1.0
    """)
    assert bids.table.schema == pa.schema([("t", pa.timestamp("us")), ("item", pa.int64()), ("price", pa.float64())])
    assert bids.table["t"].cast(pa.int64()).to_pylist() == [1_000_000, 2_000_000, 5_000_000, 6_000_000]
    assert bids.notes == (DrawnNote(2, "t <= 2"), DrawnNote(3, "fail"))
    assert [e.num_rows for e in bids.epochs()] == [4]


def test_types_are_found_or_given():
    s = stream(
        """
        n | word | ts                  | real | day        | yes   | small
        1 | a    | 2024-01-01 00:00:01 | nan  | 2024-02-29 | true  | 3
          | 7    | 0.000001            | 1    | null       | false | 4
        """,
        time="ts",
        types={"small": INT},
    )
    assert s.columns_sql == "n BIGINT, word STRING, ts TIMESTAMP, real DOUBLE, day DATE, yes BOOLEAN, small INT"
    first, second = s.rows
    assert math.isnan(first.pop("real"))
    assert first == {
        "n": 1,
        "word": "a",
        "ts": datetime(2024, 1, 1, 0, 0, 1),
        "day": date(2024, 2, 29),
        "yes": True,
        "small": 3,
    }
    assert second == {
        "n": None,
        "word": "7",
        "ts": datetime(1970, 1, 1, 0, 0, 0, 1),
        "real": 1.0,
        "day": None,
        "yes": False,
        "small": 4,
    }


def test_lines_of_dashes_end_epochs():
    s = stream("""
        t | k
        1 | -2
        ---
        ---
        2 | 5
        3 | 6
    """)
    assert [e["k"].to_pylist() for e in s.epochs()] == [[-2], [], [5, 6]]


def test_a_ragged_row_is_refused():
    with pytest.raises(DataProblem, match="3 cells, the header 2"):
        stream("t | k\n1 | 2 | 3")


def test_a_stream_needs_a_header():
    with pytest.raises(DataProblem, match="header"):
        stream("  -- nothing")
