"""Sources over folders of files: order, positions, projection, following, static tables."""

import os
import time
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.connectors.files.files import open_source, read_table
from eddyline.errors import CheckpointProblem, SourceProblem
from eddyline.model.datatypes import BIGINT, DATE, STRING, TIMESTAMP
from eddyline.model.schema import Column, Schema, Stream, Table
from eddyline.tuning import InputTuning

SCHEMA = Schema((Column("k", BIGINT), Column("s", STRING), Column("ts", TIMESTAMP)))
START = datetime(2024, 1, 1)


def rows(first, count, **changes):
    columns = {
        "k": pa.array(range(first, first + count), pa.int64()),
        "s": pa.array([f"s{i}" for i in range(first, first + count)]),
        "ts": pa.array([START + timedelta(seconds=i) for i in range(first, first + count)], pa.timestamp("us")),
    }
    return pa.table({**columns, **changes})


def stream(path, schema=SCHEMA, **options):
    return Stream("s", schema, "ts", options={"format": "parquet", "path": str(path), **options})


def drain(source, size=7):
    """All rows' keys, and all reasons, in order."""
    keys, reasons = [], []
    while (chunk := source.read(size)) is not None:
        assert len(chunk.rows) + (0 if chunk.bad is None else len(chunk.bad)) <= size
        keys += chunk.rows["k"].to_pylist()
        reasons += [] if chunk.bad is None else chunk.bad["_reason"].to_pylist()
    return keys, reasons


def test_files_in_name_order_then_row_order_in_full_chunks(tmp_path):
    pq.write_table(rows(10, 5), tmp_path / "b.parquet")
    pq.write_table(rows(0, 10), tmp_path / "a.parquet", row_group_size=4)
    pq.write_table(rows(15, 3), tmp_path / "c.parquet")
    source = open_source(stream(tmp_path))
    assert source.bounded and not source.finished
    chunk = source.read(12)
    assert chunk.rows["k"].to_pylist() == list(range(12)) and chunk.bad is None
    assert chunk.rows.schema == SCHEMA.arrow
    assert drain(source) == (list(range(12, 18)), [])
    assert source.finished and source.read(5) is None


@pytest.mark.parametrize("taken", range(20))
def test_a_position_is_exact(tmp_path, taken):
    pq.write_table(rows(0, 10), tmp_path / "a.parquet", row_group_size=4)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 broken")
    pq.write_table(rows(10, 7), tmp_path / "c.parquet")
    whole = open_source(stream(tmp_path))
    expected = drain(whole)
    begun = open_source(stream(tmp_path))
    before = begun.read(taken) if taken else None
    resumed = open_source(stream(tmp_path))
    resumed.seek(begun.saved(begun.position()))
    keys, reasons = drain(resumed)
    assert ([] if before is None else before.rows["k"].to_pylist()) + keys == expected[0]
    assert (0 if before is None or before.bad is None else before.bad.num_rows) + len(reasons) == len(expected[1]) == 1


def test_a_begun_file_that_is_gone_is_told(tmp_path):
    pq.write_table(rows(0, 10), tmp_path / "a.parquet")
    source = open_source(stream(tmp_path))
    source.read(3)
    os.remove(tmp_path / "a.parquet")
    with pytest.raises(CheckpointProblem, match=r"a\.parquet is gone"):
        open_source(stream(tmp_path)).seek(source.saved(source.position()))


def test_a_later_run_reads_only_new_files_wherever_their_names_stand(tmp_path):
    pq.write_table(rows(0, 3), tmp_path / "m.parquet")
    source = open_source(stream(tmp_path))
    drain(source)
    pq.write_table(rows(10, 2), tmp_path / "a.parquet")
    pq.write_table(rows(20, 2), tmp_path / "z.parquet")
    later = open_source(stream(tmp_path))
    later.seek(source.saved(source.position()))
    assert drain(later) == ([10, 11, 20, 21], [])


def test_a_begun_file_is_finished_before_one_that_appeared_earlier_in_name_order(tmp_path):
    pq.write_table(rows(0, 4), tmp_path / "m.parquet")
    source = open_source(stream(tmp_path))
    source.read(2)
    pq.write_table(rows(10, 2), tmp_path / "a.parquet")
    later = open_source(stream(tmp_path))
    later.seek(source.saved(source.position()))
    assert drain(later)[0] == [2, 3, 10, 11]


def test_following_finds_new_files_once(tmp_path):
    source = open_source(stream(tmp_path), follow=True, tuning=InputTuning(poll_seconds=0.0))
    assert not source.bounded and not source.finished and source.read(10) is None
    pq.write_table(rows(5, 2), tmp_path / "m.parquet")
    assert drain(source)[0] == [5, 6]
    pq.write_table(rows(0, 2), tmp_path / "a.parquet")
    assert drain(source)[0] == [0, 1]
    assert source.read(10) is None and not source.finished


def test_following_waits_for_a_file_in_the_writing_and_gives_a_broken_one_up(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    source = open_source(stream(tmp_path), follow=True, tuning=InputTuning(poll_seconds=0.0))
    assert source.read(10) is None
    pq.write_table(rows(0, 2), path)
    assert drain(source) == ([0, 1], [])
    broken = tmp_path / "b.parquet"
    broken.write_bytes(b"PAR1")
    old = time.time() - 60
    os.utime(broken, (old, old))
    keys, reasons = drain(source)
    assert keys == [] and len(reasons) == 1 and reasons[0].startswith("bad: b.parquet cannot be read")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all"])
def test_an_unreadable_file_is_one_bad_row_and_the_run_goes_on(tmp_path, content):
    pq.write_table(rows(0, 3), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(content)
    pq.write_table(rows(3, 3), tmp_path / "c.parquet")
    keys, reasons = drain(open_source(stream(tmp_path)))
    assert keys == list(range(6))
    assert len(reasons) == 1 and reasons[0].startswith("bad: b.parquet cannot be read: ")


def test_a_file_without_rows_is_fine(tmp_path):
    pq.write_table(rows(0, 0), tmp_path / "a.parquet")
    pq.write_table(rows(0, 2), tmp_path / "b.parquet")
    assert drain(open_source(stream(tmp_path))) == ([0, 1], [])


def test_one_file_of_many_without_a_column_has_only_bad_rows(tmp_path):
    pq.write_table(rows(0, 2), tmp_path / "a.parquet")
    pq.write_table(rows(2, 2).drop_columns(["s"]), tmp_path / "b.parquet")
    pq.write_table(rows(4, 2), tmp_path / "c.parquet")
    keys, reasons = drain(open_source(stream(tmp_path)))
    assert keys == [0, 1, 4, 5]
    assert reasons == ["bad: b.parquet row 1: missing column s", "bad: b.parquet row 2: missing column s"]


def test_a_file_with_none_of_the_columns_loses_no_row(tmp_path):
    pq.write_table(pa.table({"other": [1, 2, 3]}), tmp_path / "a.parquet")
    assert len(drain(open_source(stream(tmp_path)))[1]) == 3


def test_null_keys_stay_and_null_times_do_not(tmp_path):
    keys = pa.array([None, 1, 2], pa.int64())
    times = pa.array([START, None, START], pa.timestamp("us"))
    pq.write_table(rows(0, 3, k=keys, ts=times), tmp_path / "a.parquet")
    assert drain(open_source(stream(tmp_path))) == ([None, 2], ["bad: a.parquet row 2: the event time ts is null"])


def test_only_needed_columns_come_with_the_time(tmp_path):
    pq.write_table(rows(0, 3), tmp_path / "a.parquet")
    chunk = open_source(stream(tmp_path), columns={"k"}).read(10)
    assert chunk.rows.column_names == ["k", "ts"]


def test_what_is_bad_does_not_depend_on_the_columns_needed(tmp_path):
    wrong = pa.array([b"fine", b"\xff", b"fine"], pa.binary())
    pq.write_table(rows(0, 3, s=wrong), tmp_path / "a.parquet")
    pq.write_table(rows(3, 2, ts=pa.array([None, START], pa.timestamp("us"))), tmp_path / "b.parquet")
    everything, needed = open_source(stream(tmp_path)).read(10), open_source(stream(tmp_path), columns={"k"}).read(10)
    assert needed.rows["k"].to_pylist() == everything.rows["k"].to_pylist() == [0, 2, 4]
    assert needed.bad.equals(everything.bad)
    assert needed.bad["s"].to_pylist()[1] == "s3"


def test_partition_folders_are_columns_of_the_declared_type(tmp_path):
    schema = Schema((*SCHEMA.columns, Column("day", DATE)))
    for day in ("2024-01-02", "2024-01-01", "soon"):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(rows(int(day[-1]) if day != "soon" else 9, 1), tmp_path / f"day={day}" / "0.parquet")
    chunk = open_source(stream(tmp_path, schema)).read(10)
    assert [str(d) for d in chunk.rows["day"].to_pylist()] == ["2024-01-01", "2024-01-02"]
    assert chunk.bad["_reason"].to_pylist() == [
        "bad: day=soon/0.parquet row 1: column day is declared as DATE and holds 'soon'"
    ]


def test_an_empty_folder_is_finished_at_once(tmp_path):
    source = open_source(stream(tmp_path))
    assert source.finished and source.read(1) is None


def test_finished_reads_nothing_and_is_right_after_a_read(tmp_path):
    pq.write_table(rows(0, 0), tmp_path / "a.parquet")
    source = open_source(stream(tmp_path))
    assert not source.finished and source.position()["files"] == 0
    assert source.read(5) is None
    assert source.finished and source.position()["files"] == 1
    pq.write_table(rows(0, 3), tmp_path / "b.parquet")
    pq.write_table(rows(0, 0), tmp_path / "c.parquet")
    source = open_source(stream(tmp_path))
    assert len(source.read(2).rows) == 2 and not source.finished
    # What follows the last row was read with it: nothing.
    assert len(source.read(1).rows) == 1 and source.finished and source.position()["files"] == 3
    # A source that follows a folder never ends.
    source = open_source(stream(tmp_path), follow=True)
    assert len(source.read(5).rows) == 3 and not source.finished


def test_options_are_checked_before_the_start(tmp_path):
    for options, message in [
        ({"format": "xml"}, "unknown format"),
        ({"format": "csv", "delimiter": "::"}, "delimiter"),
    ]:
        with pytest.raises(SourceProblem, match=message):
            open_source(stream(tmp_path, **options))
    with pytest.raises(SourceProblem, match="header"):
        open_source(stream(tmp_path, format="csv", header="perhaps"))


def test_a_table_is_read_whole_and_refuses_what_it_cannot_read(tmp_path):
    schema = Schema((Column("category", STRING), Column("n", BIGINT)))
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int32()), "category": ["a", None]}), path)
    table = Table("t", schema, {"format": "parquet", "path": str(path)})
    assert read_table(table).to_pylist() == [{"category": "a", "n": 1}, {"category": None, "n": 2}]
    pq.write_table(pa.table({"n": ["1", "x"], "category": ["a", "b"]}), path)
    with pytest.raises(SourceProblem, match="table t cannot be read") as refused:
        read_table(table)
    assert "row 2" in refused.value.detail
    with pytest.raises(SourceProblem, match="does not exist"):
        read_table(Table("t", schema, {"path": str(tmp_path / "none")}))
