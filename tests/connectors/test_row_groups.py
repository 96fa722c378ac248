"""What statistics say of row groups, and which row groups a running job reads."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.connectors.formats.row_groups import GroupFacts
from eddyline.model.datatypes import BIGINT, DOUBLE, STRING, TIMESTAMP
from eddyline.model.schema import Column, Schema
from eddyline.operators.sharing.predicates import Box
from eddyline.operators.sharing.skipping import Skipping, Stretch
from eddyline.operators.sharing.value_sets import KEYS, ValueSet
from eddyline.settings import Settings
from eddyline.tuning import InputTuning, Tuning

START = 1_700_000_000_000_000


def stretch(path: Path, table: pa.Table, *columns: Column) -> Stretch | None:
    """The first row group of a file, for a filter that no row satisfies."""
    parquet.write_table(table, path)
    opened = parquet.ParquetFile(path)
    schema = Schema((*columns, Column("ts", TIMESTAMP)))
    nothing = Box({column.name: ValueSet(()) for column in columns}, {c.name: c.type for c in columns})
    return GroupFacts(opened.metadata, opened.schema_arrow, schema).skipped(0, Skipping("ts", lambda: [[nothing]]))


def test_event_times_are_those_of_rows_that_are_read(tmp_path: Path) -> None:
    """Also before 1970, and finer than a microsecond."""
    times = pa.array([-1_500, -2_999, 1_999], pa.timestamp("ns"))
    found = stretch(tmp_path / "a.parquet", pa.table({"k": [1, 2, 3], "ts": times}), Column("k", BIGINT))
    assert found is not None and (found.rows, found.least, found.greatest) == (3, -2, 1)
    assert found.values == {"k": ValueSet(((1, 4),))}


def test_the_greatest_double_is_unknown_and_nulls_are_values(tmp_path: Path) -> None:
    times = pa.array([1, 2, 3], pa.timestamp("us"))
    table = pa.table({"x": [1.0, math.nan, None], "t": pa.array([None] * 3, pa.string()), "ts": times})
    found = stretch(tmp_path / "a.parquet", table, Column("x", DOUBLE), Column("t", STRING))
    assert found is not None and found.values["t"] == ValueSet((), True)
    assert found.values["x"].null and found.values["x"].spans[0][1] == KEYS.top


@pytest.mark.parametrize(
    "table",
    [
        {"k": ["1", "2"], "ts": pa.array([1, 2], pa.timestamp("us"))},
        {"ts": pa.array([1, 2], pa.timestamp("us"))},
        {"k": [1, 2], "ts": pa.array([1, None], pa.timestamp("us"))},
        {"k": [1, 2], "ts": pa.array([1, 2], pa.int64())},
        {"k": [1, 2], "ts": pa.array([1, 2], pa.timestamp("ms"))},
        {"k": pa.array([1, 2], pa.uint64()), "ts": pa.array([1, 2], pa.timestamp("us"))},
        {"k": [1, 2], "ts": pa.array([-(2**60), 2], pa.timestamp("us"))},
    ],
    ids=["texts", "missing", "null time", "integer time", "milliseconds", "unsigned", "year"],
)
def test_a_row_group_that_may_have_bad_rows_is_read(tmp_path: Path, table: dict[str, object]) -> None:
    assert stretch(tmp_path / "a.parquet", pa.table(table), Column("k", BIGINT)) is None


def written(path: Path, seconds: range, key: int, last: float | None = None) -> None:
    path.parent.mkdir(exist_ok=True)
    times = [START + second * 1_000_000 for second in seconds]
    times[-1] = times[-1] if last is None else START + round(last * 1e6)
    table = {"k": [key] * len(times), "v": list(seconds), "ts": pa.array(times, pa.timestamp("us"))}
    parquet.write_table(pa.table(table), path, row_group_size=5)


#: Row groups of any size are looked at.
ANY_GROUP = Settings(tuning=Tuning(input=InputTuning(least_looked_at=0)))


def session(folder: Path, *queries: str, **options: object) -> Session:
    options.setdefault("settings", ANY_GROUP)
    made = Session(**options)
    made.execute("SET epoch_rows = 10")
    made.execute(
        f"CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{folder}', time = 'ts')"
    )
    for number, text in enumerate(queries):
        made.execute(f"CREATE QUERY q{number} AS {text}")
    return made


def test_a_late_row_is_found_in_a_row_group_that_nothing_can_use(tmp_path: Path) -> None:
    written(tmp_path / "s/1.parquet", range(20), 1)
    written(tmp_path / "s/2.parquet", range(20, 25), 2, last=3)
    with session(tmp_path / "s", "SELECT v FROM s WHERE k = 1") as made:
        made.run()
        assert made.stats()["late"] == {"s": 1} and made.stats()["rows_in"] == {"s": 25}
        assert made.stats()["row_groups"]["s"] == {"a query can use rows": 4, "rows may be late": 1}
        line = "row groups of s: 0 skipped, 4 read (a query can use rows), 1 read (rows may be late)"
        assert line in made.analysis("q0").splitlines()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT v FROM s WHERE v + k < 0", "a query can use rows"),
        (
            "SELECT count(*) AS n FROM s WHERE k = 9 EMIT EVERY 1 SECOND",
            "an aggregate without GROUP BY begins with the first row of the stream",
        ),
        ("SELECT a.v FROM s [ROWS 3] a, s [NOW] b WHERE a.k = 9 AND b.k = 9", "a ROWS window counts all rows"),
        (
            "SELECT a.v FROM s [RANGE 1 SECOND] a LEFT JOIN s [RANGE 1 SECOND] b ON a.k = b.k AND a.k = 9 AND b.k = 9",
            "an outer join, or EXISTS, keeps rows without a partner",
        ),
    ],
)
def test_queries_that_need_every_row(tmp_path: Path, query: str, reason: str) -> None:
    written(tmp_path / "s/1.parquet", range(20), 1)
    with session(tmp_path / "s", query) as made:
        made.run()
        assert made.stats()["row_groups"]["s"] == {reason: 4}


def test_small_row_groups_are_not_looked_at(tmp_path: Path) -> None:
    written(tmp_path / "s/1.parquet", range(20), 1)
    with session(tmp_path / "s", "SELECT v FROM s WHERE k = 9", settings=Settings()) as made:
        made.run()
        assert made.stats()["row_groups"]["s"] == {"a row group has few rows": 4}


def test_row_groups_are_compared_with_a_bounded_number_of_queries(tmp_path: Path) -> None:
    written(tmp_path / "s/1.parquet", range(20), 1)
    asked = ["SELECT v FROM s WHERE k = 9", "SELECT v FROM s WHERE k = 8"]
    for most, found in ((2, {"skipped": 4}), (1, {"more than 1 queries read the stream": 4})):
        settings = Settings(tuning=Tuning(input=InputTuning(most_readers=most, least_looked_at=0)))
        with session(tmp_path / "s", *asked, settings=settings) as made:
            made.run()
            assert made.stats()["row_groups"]["s"] == found


def test_a_new_query_reads_what_was_skipped_and_not_yet_taken(tmp_path: Path) -> None:
    """Rows of one stream that were passed over wait for another stream: a query that comes meanwhile gets them."""
    written(tmp_path / "s/1.parquet", range(60), 1)
    written(tmp_path / "r/1.parquet", range(60), 2)
    with session(tmp_path / "s", "SELECT v FROM s WHERE k = 9") as made:
        made.execute(
            f"CREATE STREAM r (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{tmp_path / 'r'}', "
            "time = 'ts'); CREATE QUERY other AS SELECT v FROM r"
        )
        made.step()
        reader = made.driver.readers["s"]
        assert any(piece.skipped is not None for piece in reader.pieces) or reader.buffered == 0
        made.execute("CREATE QUERY late AS SELECT v FROM s WHERE k = 1")
        started = made.pipeline.queries["late"].start
        made.run()
        found = made.stats()["results"]["late"]
        assert found == sum(START + second * 1_000_000 > started for second in range(60)) > 0


def test_checkpoints_between_skipped_row_groups(tmp_path: Path) -> None:
    """A job that ends after any epoch and goes on answers the same, and counts each row once."""
    for number in range(4):
        written(tmp_path / f"s/{number}.parquet", range(number * 20, number * 20 + 20), number % 2)
    asked = "SELECT v FROM s WHERE k = 1"
    for epochs in range(1, 9):
        places = {"checkpoint": str(tmp_path / f"ck{epochs}"), "out": str(tmp_path / f"out{epochs}")}
        first = session(tmp_path / "s", asked, **places)
        for _ in range(epochs):
            first.step()
        first.stop()
        with session(tmp_path / "s", asked, **places) as second:
            second.run()
            assert second.stats()["rows_in"] == {"s": 80}
            assert second.stats()["results"] == {"q0": 40}
