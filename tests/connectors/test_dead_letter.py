"""Dead letters: one schema per stream, whatever kind the rows are."""

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.connectors.formats.conform import bad_row
from eddyline.connectors.results.dead_letter import DeadLetters
from eddyline.model.datatypes import BIGINT, DOUBLE, TIMESTAMP
from eddyline.model.schema import Column, Schema, Stream

SCHEMA = Schema((Column("k", BIGINT), Column("v", DOUBLE), Column("ts", TIMESTAMP)))
STREAM = Stream("bids", SCHEMA, "ts")


def late(key):
    times = pa.array([datetime(2024, 1, 1)], pa.timestamp("us"))
    return pa.table({"k": [key], "v": [0.5], "ts": times, "_reason": ["late: below the horizon"]})


def letters(folder):
    return [row for f in sorted((folder / "bids").iterdir()) for row in pq.read_table(f).to_pylist()]


def test_late_and_bad_rows_lie_together_as_text(tmp_path):
    dead = DeadLetters(str(tmp_path))
    dead.write(0, STREAM, late(7))
    dead.write(0, STREAM, bad_row(SCHEMA, "a.csv line 3: broken", "x,y"))
    dead.write(1, STREAM, late(8).drop_columns(["v"]))
    dead.close()
    assert letters(tmp_path) == [
        {"k": "7", "v": "0.5", "ts": "2024-01-01 00:00:00.000000", "_reason": "late: below the horizon"},
        {"k": "x,y", "v": None, "ts": None, "_reason": "bad: a.csv line 3: broken"},
        {"k": "8", "v": None, "ts": "2024-01-01 00:00:00.000000", "_reason": "late: below the horizon"},
    ]


def test_a_stream_without_dead_letters_has_no_folder(tmp_path):
    dead = DeadLetters(str(tmp_path / "_dead_letter"))
    dead.write(0, STREAM, late(1).slice(1))
    dead.flush(0)
    dead.truncate_after(0)
    dead.close()
    assert not (tmp_path / "_dead_letter").exists()


def test_a_resumed_run_takes_back_what_came_after_the_checkpoint(tmp_path):
    dead = DeadLetters(str(tmp_path))
    for epoch in range(3):
        dead.write(epoch, STREAM, late(epoch))
        dead.flush(epoch)
    resumed = DeadLetters(str(tmp_path))
    resumed.truncate_after(0)
    assert [r["k"] for r in letters(tmp_path)] == ["0"]
    resumed.truncate_after(-1)
    assert not (tmp_path / "bids").exists()
