"""A wall clock that is set back an hour while a job follows: idle streams, checkpoints, files and tables keep their
pace."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session

JOB = """
SET checkpoint_seconds = 0.1; SET output_seconds = 0.1;
CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', idle = '0.3 seconds');
CREATE TABLE names (k BIGINT, name STRING) WITH (format = 'parquet', path = '{folder}/names.parquet', refresh = '0.1 seconds');
CREATE QUERY pairs AS SELECT a.k AS k FROM a [RANGE 1 HOUR] a LEFT JOIN b [RANGE 1 SECOND] b ON a.k = b.k AND b.k > 5;
CREATE QUERY named AS SELECT a.k AS k, n.name AS name FROM a, names n WHERE a.k = n.k;
CREATE QUERY both AS SELECT a.k AS k FROM a [RANGE 1 SECOND] a, b [RANGE 1 HOUR] b WHERE a.k = b.k;
"""


def until(found: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_wall_clock_that_is_set_back_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(pa.table({"k": [1], "name": ["one"]}), tmp_path / "names.parquet")
    session = Session(checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out"), follow=True)
    session.execute(JOB.format(folder=tmp_path))
    session.push("a", [(1, 1_000_000)])
    session.push("b", [(1, 1_000_000)])
    session.start()
    header = tmp_path / "state" / "checkpoint.json"
    until(header.exists, "no checkpoint")
    before, clock, exact = header.stat().st_mtime_ns, time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: clock() - 3_600)
    monkeypatch.setattr(time, "time_ns", lambda: exact() - 3_600 * 10**9)
    parquet.write_table(pa.table({"k": [1], "name": ["uno"]}), tmp_path / ".names")
    (tmp_path / ".names").rename(tmp_path / "names.parquet")
    rows = lambda query: sum(
        parquet.read_metadata(path).num_rows for path in (tmp_path / "out" / query).glob("*.parquet")
    )
    until(lambda: session.stats()["tables"]["names"]["read"] > 1, "the table is not read again")
    session.push("a", [(1, 2_000_000)])
    session.push("a", [(1, 9_000_000)])
    # The stream b says nothing more: it is left out, and what the join owes up to the newest row of a becomes a file.
    until(lambda: rows("both") == 2, "the silent stream holds the query back, or no file is closed")
    until(lambda: rows("named") >= 2, "no file is closed")
    until(lambda: header.stat().st_mtime_ns != before, "no further checkpoint")
    session.stop()
    # The newest row waits until the run ends.
    assert [row["name"] for row in parquet.read_table(tmp_path / "out" / "named").to_pylist()] == ["one", "uno"]
