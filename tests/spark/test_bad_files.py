"""Files that are no files, go, grow or are not finished: on Spark as embedded, dead letters and never a crash."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import CheckpointProblem
from eddyline.runtime.sharded.ingest.file_log import FileLog, take_warnings
from eddyline.runtime.spark.job.failure import readable
from eddyline.tuning import InputTuning
from tests.spark.material import rows, stream, write_files
from tests.spark.running import run_script
from tests.spark.test_sources import batch, made_layout, offsets, read, reader, taken

JOB = """
CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'jsonl', path = '{path}', lateness = '1 hour');
CREATE QUERY q AS SELECT k, v FROM s;
"""


def log_of(tmp_path: Path, tuning: InputTuning | None = None) -> FileLog:
    return FileLog(stream("a", 0, tmp_path), str(tmp_path / "ck"), tuning)


def spoiled(folder: Path) -> None:
    """Good lines among everything that can be wrong with a file."""
    folder.mkdir()
    good = json.dumps({"k": "good", "v": 1, "ts": "2024-01-01 00:00:00"}) + "\n"
    deep = '{"k": ' + "[" * 2000 + "]" * 2000 + ', "v": 1, "ts": "2024-01-01 00:00:00"}\n'
    huge = good.replace("1,", "9" * 5000 + ",")
    (folder / "1.jsonl").write_text(good + deep + good + huge + good.replace("good", "x" * 2_000_000))
    (folder / "2.jsonl").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "3.jsonl")
    (folder / "4.jsonl").write_bytes(good.encode() + b'{"k": "\xff", "v": 1, "ts": "2024-01-01 00:00:00"}\n')
    (folder / "loop").symlink_to(folder)
    (folder / "up").symlink_to(folder.parent)


@pytest.mark.spark
def test_both_engines_make_the_same_rows_and_dead_letters_of_spoiled_files(spark, tmp_path: Path) -> None:
    spoiled(tmp_path / "data")
    text = JOB.format(path=tmp_path / "data")
    session = Session()
    session.execute(text.split(";")[0])
    query = session.query("q", "SELECT k, v FROM s")
    session.run(final=False)
    running, results = run_script(spark, text, tmp_path / "ck")
    letters = [reason for table in running.delivery.kept_dead["s"] for reason in table.column("_reason").to_pylist()]
    expected = query.table().column("k").to_pylist()
    assert [len(k) for k in expected] == [4, 4, 2_000_000, 4]
    assert results["q"].column("k").to_pylist() == expected
    assert sorted(letters) == sorted(session.dead_letters("s").column("_reason").to_pylist())
    assert len(letters) == 5


def test_a_file_that_goes_between_listing_and_reading_is_a_dead_letter(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "2.parquet", "3.parquet"], 10)
    (tmp_path / "b").mkdir()
    of = reader(tmp_path)
    start, end = offsets(of)
    (tmp_path / "a" / "2.parquet").unlink()
    packets = read(made_layout(tmp_path), batch(tmp_path, start, end))
    assert sum(packet.rows for packet in packets) == 2 * 20
    assert sum(packet.bad is not None for packet in packets) == 1


def test_a_file_that_is_still_in_the_writing_is_tried_again_and_keeps_its_place(tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["1.parquet", "3.parquet"], 10)
    (tmp_path / "b").mkdir()
    parquet.write_table(rows(100, 10), tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    half = tmp_path / "a" / "2.parquet"
    half.write_bytes(whole[: len(whole) // 2])
    of = reader(tmp_path, once=False)
    first = offsets(of)[-1]
    assert first["files"]["a"] == 1
    half.write_bytes(whole)
    second = offsets(of, first)[-1]
    assert taken(batch(tmp_path, first, second)) == [("a", "2.parquet", False), ("a", "3.parquet", False)]


def test_a_broken_file_that_no_longer_changes_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    broken = tmp_path / "a" / "1.parquet"
    broken.write_bytes(b"PAR1")
    of = reader(tmp_path, once=False)
    assert offsets(of)[-1]["files"]["a"] == 0
    before = time.time() - 5
    os.utime(broken, (before, before))
    assert offsets(of)[-1]["files"]["a"] == 1


def test_a_file_that_grows_is_warned_of_once_in_the_driver(tmp_path: Path, caplog) -> None:
    watchful = InputTuning(watch_seconds=0.0)
    write_files(tmp_path / "a", ["1.parquet"], 10)
    log = log_of(tmp_path, watchful)
    log.append_new()
    with open(tmp_path / "a" / "1.parquet", "ab") as file:
        file.write(b"more")
    again = log_of(tmp_path, watchful)  # also after a restart
    for _ in range(3):
        again.append_new()
    with caplog.at_level(logging.WARNING):
        take_warnings(str(tmp_path / "ck"))
        take_warnings(str(tmp_path / "ck"))
    assert [record.getMessage().split(" changed")[0] for record in caplog.records] == ["stream a: 1.parquet"]
    assert again.total == 1


def test_the_log_keeps_ranges_of_what_no_batch_reads_again(tmp_path: Path) -> None:
    # On a busy machine a look may take so long that the next ones rest.
    hasty = InputTuning(log_bytes=2_000, long_listing=float("inf"))
    (tmp_path / "a").mkdir()
    log = log_of(tmp_path, hasty)
    for number in range(300):
        (tmp_path / "a" / f"{number:04d}.parquet").write_bytes(b"")
        log.append_new()
        log.forget(log.total - 1)
    assert log.total == 300 and len(log.names()) == 1
    again = log_of(tmp_path, hasty)
    again.append_new()
    assert again.total == 300
    (tmp_path / "a" / "0042b.parquet").write_bytes(b"")
    again.append_new()
    assert again.names()[-1] == "0042b.parquet" and log_of(tmp_path).total == 301


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "missing"])
def test_a_damaged_log_is_named(tmp_path: Path, damage: str) -> None:
    write_files(tmp_path / "a", ["1.parquet"], 10)
    (tmp_path / "b").mkdir()
    end = offsets(reader(tmp_path))[-1]
    path = tmp_path / "ck" / "eddyline" / "files" / "a.log"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        middle = len(content) // 2
        bit = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes({"bit": bit, "cut": content[:-5], "empty": b""}[damage])
    with pytest.raises((CheckpointProblem, RuntimeError)) as problem:
        offsets(reader(tmp_path), end)
    # What the source of a worker raises goes through the JVM and is read again on the driver.
    said = readable(problem.value)
    assert isinstance(said, CheckpointProblem) and said.hint
    assert ("damaged" if damage == "bit" else "shorter than the checkpoint says") in str(said)
