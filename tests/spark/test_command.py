"""`eddyline run --engine spark` as a user has it: Ctrl-C, SIGTERM, further runs, figures, and a table that was edited
in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.spark.material import write_files

pytestmark = pytest.mark.spark

JOB = """
SET shards = 2;
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='a', time='ts', files_per_batch=1);
CREATE TABLE names (k BIGINT, name STRING) WITH (format='parquet', path='names.parquet');
CREATE QUERY named AS SELECT a.v, n.name FROM a [RANGE 1 SECOND], names n WHERE a.k = n.k;
CREATE QUERY copied AS SELECT v FROM a;
EXPLAIN named;
"""


def names(folder: Path, name: str) -> None:
    parquet.write_table(pa.table({"k": list(range(50)), "name": [name] * 50}), folder / "names.parquet")


def command(folder: Path, *more: str) -> subprocess.Popen[str]:
    arguments = [
        "run",
        "job.sql",
        "--engine",
        "spark",
        "--master",
        "local[2]",
        "--out",
        "out",
        "--checkpoint",
        "state",
        *more,
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "eddyline.cli", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def rows(folder: Path) -> int:
    return sum(parquet.read_metadata(file).num_rows for file in (folder / "out" / "copied").glob("*.parquet"))


def wait_for(running: subprocess.Popen[str], folder: Path, count: int) -> None:
    limit = time.monotonic() + 240
    while rows(folder) < count:
        assert running.poll() is None and time.monotonic() < limit, running.communicate(timeout=5)[0]
        time.sleep(0.02)


def test_signals_end_after_the_batch_and_the_next_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(JOB)
    names(tmp_path, "then")
    write_files(tmp_path / "a", ["00.parquet"], 500)
    running = command(tmp_path, "--stats", "first.json")
    wait_for(running, tmp_path, 499)
    # As a terminal does it: to every process of the group.
    os.killpg(running.pid, signal.SIGINT)
    said, _ = running.communicate(timeout=240)
    assert running.returncode == 0, said
    assert "attribute {row of a}  share 2" in said and "expected rows per shard" in said
    assert "500 rows in" in said and "named: 499 results" in said
    figures = json.loads((tmp_path / "first.json").read_text())
    assert figures["results"] == {"named": 499, "copied": 499} and figures["rows_in"] == {"a": 500}
    assert set(figures["stages"]) >= {
        "latestOffset",
        "walCommit",
        "queryPlanning",
        "addBatch",
        "commitOffsets",
        "triggerExecution",
    }
    assert len(figures["stages"]["addBatch"]) == figures["epochs"] and "share 2" in figures["plan"]["copied"]
    # The table is the one that the checkpoint has, whatever lies in its file now.
    names(tmp_path, "now")
    write_files(tmp_path / "a", [f"{number:02d}.parquet" for number in range(1, 61)], 50, first=500)
    running = command(tmp_path, "--stats", "second.json")
    wait_for(running, tmp_path, 549)
    # As `kill` and service managers do it: to the program, in the middle of a batch.
    running.terminate()
    said, _ = running.communicate(timeout=240)
    assert running.returncode == 0, said
    figures, left = json.loads((tmp_path / "second.json").read_text()), rows(tmp_path)
    assert 549 <= left < 3499 and figures["results"]["copied"] == left - 499 and figures["rows_in"] == {"a": left - 499}
    again = command(tmp_path, "--once", "--quiet")
    said, _ = again.communicate(timeout=240)
    assert again.returncode == 0 and "warning" not in said, said
    found = parquet.read_table(tmp_path / "out" / "named")
    assert found.column("v").to_pylist() == list(range(3500))
    assert set(found.column("name").to_pylist()) == {"then"}
