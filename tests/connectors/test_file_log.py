"""Positions that rest on a log: exact after every save, small, and damage is named."""

import json
import logging
import os

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.connectors.files.file_log import SeenFile, TakenFiles, remove_other_logs
from eddyline.connectors.files.files import open_source
from eddyline.errors import CheckpointProblem
from eddyline.model.datatypes import BIGINT, TIMESTAMP
from eddyline.model.schema import Column, Schema, Stream
from eddyline.state.sealed import sealed
from eddyline.tuning import InputTuning


def taken(folder, tuning=None):
    made = TakenFiles(tuning)
    made.keep_log(str(folder))
    return made


def restored(folder, position):
    made = taken(folder)
    made.restore(json.loads(json.dumps(position)))
    return made


def test_every_saved_position_is_restored_whatever_was_taken_after_it(tmp_path):
    source, positions = taken(tmp_path), []
    for number in range(200):
        source.add(SeenFile(f"f{number * 3}.csv", number, number))
        if number % 7 == 0:
            # Rows read ahead: a position may be older than what was taken last.
            positions.append(source.saved(max(number - 3, 0)))
    for position in positions:
        again = restored(tmp_path, position)
        assert again.count == position["files"]
        assert [n for n in range(600) if f"f{n}.csv" in again] == [n * 3 for n in range(position["files"])]
        assert [seen.size for seen in again.newest] == [*range(position["files"])]


def test_a_position_does_not_grow_with_the_number_of_files_and_its_log_grows_by_what_is_new(tmp_path):
    source = taken(tmp_path)
    for number in range(5000):
        source.add(SeenFile(f"part-{number:06d}.csv", 1, 1))
    first = source.saved(5000)
    size = os.path.getsize(tmp_path / first["log"])
    assert len(json.dumps(first)) < 100 and size < 60_000  # one range, and the thousand that are watched
    source.add(SeenFile("part-005000.csv", 1, 1))
    second = source.saved(5001)
    assert second["log"] == first["log"] and os.path.getsize(tmp_path / first["log"]) - size < 150
    assert source.saved(5001) == second and os.path.getsize(tmp_path / first["log"]) - size < 150


def test_a_log_that_has_grown_is_begun_anew_and_the_old_one_stays_until_it_is_removed(tmp_path):
    source, logs = taken(tmp_path, InputTuning(log_bytes=1000)), []
    for number in range(3000):
        source.add(SeenFile(f"{number:06d}", 1, 1))
        logs.append(source.saved(number + 1)["log"])
    assert 1 < len(set(logs)) < 30
    assert set(os.listdir(tmp_path)) == set(logs)
    remove_other_logs(str(tmp_path), {logs[-1]})
    assert os.listdir(tmp_path) == [logs[-1]]
    assert restored(tmp_path, {"files": 3000, "log": logs[-1]}).count == 3000


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "missing", "foreign", "foreign, whole"])
def test_damage_is_named(tmp_path, damage):
    source = taken(tmp_path)
    for number in range(10):
        source.add(SeenFile(f"{number}", 1, 1))
        position = source.saved(number + 1)
    path = tmp_path / position["log"]
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        middle = len(content) // 2
        bit = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        foreign = {"foreign": b'{"a": 1}\n', "foreign, whole": sealed({"format": 99}) + b"\n"}
        path.write_bytes(({"bit": bit, "cut": content[:-5], "empty": b""} | foreign)[damage])
    with pytest.raises(CheckpointProblem, match="missing" if damage == "missing" else "damaged") as problem:
        restored(tmp_path, position)
    assert "names of files" in problem.value.detail and problem.value.hint


def test_a_torn_line_beyond_the_position_is_not_read(tmp_path):
    source = taken(tmp_path)
    source.add(SeenFile("1", 1, 1))
    position = source.saved(1)
    with open(tmp_path / position["log"], "ab") as log:
        log.write(b'{"crc32": "0000')
    assert "1" in restored(tmp_path, position)


def test_a_position_of_an_earlier_version_is_read(tmp_path):
    again = restored(tmp_path, {"done": ["a.csv", "b.csv"], "file": None, "row": 0})
    assert "a.csv" in again and "c.csv" not in again and again.saved(2)["files"] == 2


# -- the source


def stream(path, **options):
    return Stream(
        "s", Schema((Column("k", BIGINT), Column("ts", TIMESTAMP))), "ts", options={"path": str(path), **options}
    )


def write(path, *keys):
    parquet.write_table(pa.table({"k": keys, "ts": pa.array(range(len(keys)), pa.timestamp("us"))}), path)


def keys(source):
    chunk = source.read(1000)
    return [] if chunk is None else chunk.rows.column("k").to_pylist()


def test_a_file_that_arrives_inside_the_order_of_names_is_read_after_a_restart(tmp_path):
    data, logs = tmp_path / "data", str(tmp_path / "files")
    data.mkdir()
    for number in (1, 2, 4):
        write(data / f"{number}.parquet", number)
    source = open_source(stream(data))
    source.keep_log(logs)
    assert keys(source) == [1, 2, 4]
    position = source.saved(source.position())
    write(data / "3.parquet", 3)
    later = open_source(stream(data))
    later.keep_log(logs)
    later.seek(position)
    assert keys(later) == [3]


def test_a_file_that_changes_after_it_was_read_is_warned_of_once_and_never_read_again(tmp_path, caplog):
    (tmp_path / "1.csv").write_text("k,ts\n1,2024-01-01\n")
    source = open_source(
        stream(tmp_path, format="csv"), follow=True, tuning=InputTuning(poll_seconds=0.0, watch_seconds=0.0)
    )
    assert keys(source) == [1] and keys(source) == [] and not caplog.records
    with open(tmp_path / "1.csv", "a") as file:
        file.write("2,2024-01-02\n")
    with caplog.at_level(logging.WARNING):
        assert [keys(source) for _ in range(3)] == [[], [], []]
    assert len(caplog.records) == 1 and "stream s: 1.csv changed" in caplog.text
    os.unlink(tmp_path / "1.csv")
    assert keys(source) == [] and len(caplog.records) == 1
    # The name is what counts: written again, it has been read.
    (tmp_path / "1.csv").write_text("k,ts\n7,2024-01-01\n")
    (tmp_path / "2.csv").write_text("k,ts\n8,2024-01-01\n")
    assert keys(source) == [8]


def test_a_change_between_two_runs_is_warned_of(tmp_path, caplog):
    (tmp_path / "1.csv").write_text("k,ts\n1,2024-01-01\n")
    (tmp_path / "2.csv").write_text("k,ts\n2,2024-01-01\n3,2024-01-01\n")
    source = open_source(stream(tmp_path, format="csv"))
    assert source.read(2).rows.num_rows == 2
    position = source.saved(source.position())
    for name in ("1.csv", "2.csv"):
        with open(tmp_path / name, "a") as file:
            file.write("9,2024-01-02\n")
    later = open_source(stream(tmp_path, format="csv"))
    later.seek(position)
    assert [record.getMessage().split(" changed")[0] for record in caplog.records] == [
        "stream s: 1.csv",
        "stream s: 2.csv",
    ]
    # A begun file goes on where it was left.
    assert keys(later) == [3, 9]


def test_pipes_links_into_nothing_and_odd_names_are_dead_letters(tmp_path):
    os.mkfifo(tmp_path / "1.csv")
    (tmp_path / "2.csv").symlink_to(tmp_path / "nowhere")
    (tmp_path / "3.csv").write_text("k,ts\n3,2024-01-01\n")
    with open(os.fsencode(tmp_path) + b"/4\xff.csv", "w") as file:
        file.write("k,ts\n4,2024-01-01\nx,2024-01-01\n")
    chunk = open_source(stream(tmp_path, format="csv")).read(100)
    reasons = chunk.bad.column("_reason").to_pylist()
    assert chunk.rows.column("k").to_pylist()[0] == 3
    assert reasons[0] == "bad: 1.csv cannot be read: it is no regular file" and reasons[1].startswith(
        "bad: 2.csv cannot be read: "
    )
    assert len(reasons) == 3 and reasons[2].startswith("bad: 4\\udcff.csv")


def test_a_file_that_goes_between_finding_and_reading_is_a_dead_letter(tmp_path):
    for number in (1, 2, 3):
        write(tmp_path / f"{number}.parquet", number)
    source = open_source(stream(tmp_path))
    os.unlink(tmp_path / "2.parquet")
    chunk = source.read(100)
    assert chunk.rows.column("k").to_pylist() == [1, 3]
    (reason,) = chunk.bad.column("_reason").to_pylist()
    assert reason.startswith("bad: 2.parquet cannot be read: ")
