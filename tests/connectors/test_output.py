"""Folders of result files: names, completeness, what a checkpoint keeps."""

import errno
import os
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from eddyline.connectors.files.files import open_source
from eddyline.connectors.formats.encoders import ENCODERS
from eddyline.connectors.results.output import FileSink
from eddyline.connectors.results.results_folder import prepare_output
from eddyline.connectors.results.sinks import ParquetSink
from eddyline.errors import UserError
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, decimal
from eddyline.model.schema import Column, Schema, Stream
from eddyline.tuning import OutputTuning

SCHEMA = pa.schema([("k", pa.int64()), ("_ts", pa.timestamp("us"))])


def results(first, count):
    return pa.table(
        {"k": range(first, first + count), "_ts": pa.array(range(first, first + count), pa.timestamp("us"))},
        schema=SCHEMA,
    )


def names(folder):
    return sorted(os.listdir(folder))


def keys(folder):
    return [k for name in names(folder) for k in pq.read_table(os.path.join(folder, name))["k"].to_pylist()]


def csv_sink(folder):
    return FileSink(folder, ENCODERS["csv"])


def jsonl_sink(folder):
    return FileSink(folder, ENCODERS["jsonl"])


def opened(folder, tuning=None):
    sink = ParquetSink(str(folder), tuning=tuning)
    sink.open(SCHEMA)
    return sink


def test_a_file_that_is_not_whole_gets_no_name(tmp_path):
    """The thread has the renaming in its queue already when the disk is full."""

    def on_a_full_disk(path, schema):
        with open(path, "wb") as file:
            file.write(b"PAR1")
        raise OSError(errno.ENOSPC, "no space left on device")

    sink = FileSink(str(tmp_path / "q"), replace(ENCODERS["parquet"], opened=on_a_full_disk))
    sink.open(SCHEMA)
    sink.write(1, results(0, 3))
    with pytest.raises(UserError, match="results cannot be written"):
        sink.flush(1)
        sink.check_writes(wait=True)
    sink._writer.wait()
    assert not [name for name in names(tmp_path / "q") if not name.startswith(".")]
    (tmp_path / "q" / "000000000001-0000.parquet").touch()  # as a power cut may leave it
    opened(tmp_path / "q")


def test_files_are_named_by_epoch_and_in_order(tmp_path):
    sink = opened(tmp_path / "q")
    sink.write(1, results(0, 3))
    sink.write(2, results(3, 3))
    sink.flush(2)
    sink.write(5, results(6, 3))
    sink.close()
    assert names(tmp_path / "q") == ["000000000002-0000.parquet", "000000000005-0000.parquet"]
    assert keys(tmp_path / "q") == list(range(9))
    assert pq.read_schema(tmp_path / "q" / "000000000002-0000.parquet").field("_ts").type == pa.timestamp("us")


def test_large_results_become_several_parts_of_one_epoch(tmp_path):
    sink = opened(tmp_path, OutputTuning(file_rows=10))
    for i in range(5):
        sink.write(0, results(i * 6, 6))
    sink.close()
    assert names(tmp_path) == [f"000000000000-000{i}.parquet" for i in range(3)]
    assert keys(tmp_path) == list(range(30))


def test_much_collected_by_all_sinks_makes_smaller_files(tmp_path):
    sink = opened(tmp_path, OutputTuning(collected_bytes=1))
    sink.write(0, results(0, 2))
    sink.write(1, results(2, 2))
    sink.close()
    assert len(names(tmp_path)) == 2 and keys(tmp_path) == [0, 1, 2, 3]


def test_no_results_leave_one_file_with_the_schema(tmp_path):
    sink = opened(tmp_path)
    sink.write(0, results(0, 0))
    sink.flush(0)
    sink.close()
    assert names(tmp_path) == ["000000000000-0000.parquet"]
    table = pq.read_table(tmp_path / "000000000000-0000.parquet")
    assert table.num_rows == 0 and table.schema.equals(SCHEMA)


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_resumed_run_with_results_replaces_the_file_without(tmp_path, epoch):
    opened(tmp_path).close()
    sink = opened(tmp_path)
    sink.write(epoch, results(0, 2))
    sink.close()
    assert len(names(tmp_path)) == 1 and keys(tmp_path) == [0, 1]


def test_truncation_removes_later_epochs_and_only_those(tmp_path):
    sink = opened(tmp_path)
    for epoch in range(4):
        sink.write(epoch, results(epoch * 2, 2))
        sink.flush(epoch)
    sink.write(4, results(8, 2))  # neither flushed nor closed: the process dies here
    (tmp_path / ".000000000004-0000.parquet.tmp").write_bytes(b"half")
    resumed = ParquetSink(str(tmp_path))
    resumed.truncate_after(1)
    resumed.open(SCHEMA)
    resumed.write(2, results(100, 1))
    resumed.close()
    assert keys(tmp_path) == [0, 1, 2, 3, 100]
    assert not [n for n in names(tmp_path) if n.startswith(".")]


def test_a_second_sink_on_one_epoch_does_not_replace_the_first_ones_files(tmp_path):
    for first in (0, 5):
        sink = opened(tmp_path)
        sink.write(7, results(first, 2))
        sink.close()
    assert keys(tmp_path) == [0, 1, 5, 6]


def test_what_goes_wrong_in_the_writing_thread_is_told(tmp_path):
    sink = opened(tmp_path / "q")
    os.rmdir(tmp_path / "q")
    sink.write(0, results(0, 2))
    with pytest.raises(UserError, match="results cannot be written") as told:
        sink.flush(0)
    assert told.value.hint


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be made"):
        opened(tmp_path / "file" / "q")


ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int64()),
        "d": pa.array([0.1, float("nan"), float("-inf")]),
        "s": ['say "hi"\\', "tab\tnew", None],
        "b": [True, None, False],
        "m": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(8, 2)),
        "day": pa.array([datetime(2024, 2, 29), None, datetime(1, 1, 1)]).cast(pa.date32()),
        "ts": pa.array(
            [datetime(2024, 1, 1, 0, 0, 0, 1), datetime(1960, 1, 1), datetime(9999, 1, 1)], pa.timestamp("us")
        ),
    }
)
DECLARED = Schema(
    tuple(
        Column(n, t)
        for n, t in [
            ("i", BIGINT),
            ("d", DOUBLE),
            ("s", STRING),
            ("b", BOOLEAN),
            ("m", decimal(8, 2)),
            ("day", DATE),
            ("ts", TIMESTAMP),
        ]
    )
)


@pytest.mark.parametrize(("make", "kind"), [(ParquetSink, "parquet"), (csv_sink, "csv"), (jsonl_sink, "jsonl")])
def test_what_a_sink_writes_a_source_reads_back(tmp_path, make, kind):
    sink = make(str(tmp_path))
    sink.open(ROWS.schema)
    sink.write(0, ROWS)
    sink.write(0, ROWS.slice(1))
    sink.close()
    assert names(tmp_path) == [f"000000000000-0000.{kind}"]
    chunk = open_source(Stream("s", DECLARED, "ts", options={"format": kind, "path": str(tmp_path)})).read(100)
    assert chunk.bad is None
    assert str(chunk.rows.to_pylist()) == str(pa.concat_tables([ROWS, ROWS.slice(1)]).to_pylist())


@pytest.mark.parametrize(("make", "content"), [(csv_sink, '"k","_ts"\n'), (jsonl_sink, "")])
def test_text_without_results_is_one_file_and_later_results_replace_it(tmp_path, make, content):
    sink = make(str(tmp_path))
    sink.open(SCHEMA)
    sink.close()
    (name,) = names(tmp_path)
    assert (tmp_path / name).read_text() == content
    sink.open(SCHEMA)
    sink.write(9, results(0, 1))
    sink.close()
    assert len(names(tmp_path)) == 1


def test_an_output_folder_in_use_is_refused_continued_or_replaced(tmp_path):
    folder = tmp_path / "results"
    prepare_output(str(folder), overwrite=False, has_checkpoint=False)
    (folder / "q").mkdir()
    (folder / "q" / "old.parquet").write_text("x")
    with pytest.raises(UserError, match="is not empty") as refused:
        prepare_output(str(folder), overwrite=False, has_checkpoint=False)
    assert "--overwrite" in refused.value.hint and refused.value.exit_code == 2
    prepare_output(str(folder), overwrite=False, has_checkpoint=True)
    assert (folder / "q" / "old.parquet").exists()
    prepare_output(str(folder), overwrite=True, has_checkpoint=False)
    assert names(folder) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is a file"):
        prepare_output(str(tmp_path / "file"), overwrite=True, has_checkpoint=False)
