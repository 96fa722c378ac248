"""A signal while an epoch is deep inside a kernel or a sort: the process ends within two seconds, and the same command
completes the results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests import forks
from tests.pace import crowding, slowness

pytestmark = pytest.mark.fault

#: Seconds for a whole run: where kernels have not been compiled yet, it does that first.
PATIENCE = 240.0
#: Seconds within which a signal is obeyed.
PROMISED = 2.0
#: Says when the call of the function WHERE, the one with the number CALLS, begins; it takes HOLD seconds more.
HOOK = """
import os, sys, time

left = [int(os.environ["CALLS"])]

def hook(frame, event, _):
    if event == "call" and frame.f_code.co_qualname == os.environ["WHERE"]:
        left[0] -= 1
        if left[0] == 0:
            sys.setprofile(None)
            print("there", file=sys.stderr, flush=True)
            time.sleep(float(os.environ["HOLD"]))

if "WHERE" in os.environ:
    sys.setprofile(hook)
"""
ROWS = {"pattern": 450, "join": 13_000, "sort": 3_000_000}
STREAM = (
    "CREATE STREAM {name} (k BIGINT, v BIGINT, kind STRING, ts TIMESTAMP) "
    "WITH (format = 'parquet', path = '{name}', time = 'ts'{more});"
)
#: Few results, of very many pairs, triples and rows: they are told by arithmetic.
JOBS = {
    "pattern": STREAM.format(name="a", more="") + "CREATE QUERY q AS EVENT SEQ(T x, T y, T z) FROM a TYPE kind "
    "WHERE (x.v + y.v + z.v) % 200003 = 7 RETURN x.v AS a, y.v AS b, z.v AS c;",
    "join": STREAM.format(name="a", more="")
    + STREAM.format(name="b", more="")
    + "CREATE QUERY q AS SELECT a.v AS a, b.v AS b FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k AND (a.v + b.v) % 1000003 = 7;",
    "sort": STREAM.format(name="a", more=", lateness = '1 day', sequence = 'v'")
    + "CREATE QUERY q AS SELECT v AS a FROM a [RANGE 1 MICROSECOND] WHERE v % 100003 = 7;",
}
FUNCTIONS = {"pattern": "TraceBook.take", "join": "JoinGroup.step", "sort": "in_time_order"}


def write(folder: Path, name: str) -> None:
    rows, draw = ROWS[name], np.random.default_rng(3)
    for stream in ("a", "b") if name == "join" else ("a",):
        (folder / stream).mkdir()
        stamps = np.arange(rows) * 1_000
        table = {
            "k": np.ones(rows, np.int64),
            "v": draw.integers(0, 10**6, rows),
            "kind": pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["T"]).cast(pa.string()),
            "ts": pa.array(draw.permutation(stamps // 8) if name == "sort" else stamps, pa.timestamp("us")),
        }
        parquet.write_table(pa.table(table), folder / stream / "0.parquet")
    (folder / "job.sql").write_text(f"SET epoch_rows = 10000000; {JOBS[name]}")


def expected(folder: Path, name: str) -> list[tuple[int, ...]]:
    a = parquet.read_table(folder / "a").column("v").to_numpy()
    if name == "sort":
        return sorted((int(v),) for v in a[a % 100_003 == 7])
    if name == "join":
        b = Counter(parquet.read_table(folder / "b").column("v").to_pylist())
        # A sum is below 2,000,003.
        return sorted((v, total - v) for total in (7, 1_000_010) for v in a.tolist() for _ in range(b[total - v]))
    found = []
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            last = j + 1 + np.flatnonzero((a[i] + a[j] + a[j + 1 :]) % 200_003 == 7)
            found += [(int(a[i]), int(a[j]), int(a[k])) for k in last]
    return sorted(found)


def command(folder: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "eddyline",
        "run",
        str(folder / "job.sql"),
        "--out",
        str(folder / "out"),
        "--quiet",
        *more,
    ]


def struck(
    folder: Path, line: list[str], where: str, calls: int = 1, hold: float = 0.0, after: float = 0.0
) -> tuple[int, str]:
    """The exit code and last words of a run that gets SIGTERM in a function, and ends in time."""
    (folder / "sitecustomize.py").write_text(HOOK)
    environment = dict(os.environ, WHERE=where, CALLS=str(calls), HOLD=str(hold))
    environment["PYTHONPATH"] = f"{folder}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    process = forks.Command(line, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        # Warnings come first.
        words = ""
        while (line_of := process.stderr.readline()) != "there\n":
            words += line_of
            assert line_of, words
        time.sleep(after)
        assert process.poll() is None, "the work is too small"
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        _, said = process.communicate(timeout=PATIENCE)
        seconds = time.monotonic() - began
        assert seconds <= PROMISED * slowness() * crowding(), (seconds, said)
        return process.returncode, said
    finally:
        process.kill()


@pytest.mark.parametrize("name", JOBS)
def test_a_signal_deep_in_an_epoch_is_obeyed_and_loses_nothing(name: str, tmp_path: Path) -> None:
    write(tmp_path, name)
    line = command(tmp_path, "--once", "--checkpoint", str(tmp_path / "state"))
    code, said = struck(tmp_path, line, FUNCTIONS[name], after=0.3)
    assert "Traceback" not in said
    assert code in (0, -signal.SIGTERM)
    # A fast machine may be done with the sort before a second has passed.
    assert name == "sort" or f"is given up: the next run on the checkpoint {tmp_path / 'state'} repeats it" in said
    assert forks.run(line, cwd=tmp_path, timeout=PATIENCE).returncode == 0
    table = parquet.read_table(tmp_path / "out" / "q").drop_columns(["_ts"])
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == expected(tmp_path, name) != []


def small(folder: Path) -> None:
    (folder / "a").mkdir()
    for number in range(3):
        rows = {"k": [number * 10, number * 10 + 1], "ts": pa.array([number * 2, number * 2 + 1], pa.timestamp("us"))}
        parquet.write_table(pa.table(rows), folder / "a" / f"{number}.parquet")
    (folder / "job.sql").write_text(
        "SET epoch_rows = 2; CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'a', time = 'ts');"
        "CREATE QUERY q AS SELECT k FROM a;"
    )


def results(folder: Path) -> list[int]:
    return parquet.read_table(folder / "out" / "q").column("k").to_pylist()


def test_without_a_checkpoint_results_of_earlier_epochs_are_published(tmp_path: Path) -> None:
    small(tmp_path)
    code, said = struck(tmp_path, command(tmp_path), "Pipeline.step", calls=3, hold=3600.0)
    assert code == -signal.SIGTERM
    assert "results of the 2 epochs before it are published, and without a checkpoint the next run begins anew" in said
    # Frontiers hold the newest rows back.
    assert results(tmp_path) == [0, 1, 10]


def test_a_checkpoint_that_takes_long_is_given_up(tmp_path: Path) -> None:
    small(tmp_path)
    state = ("--checkpoint", str(tmp_path / "state"))
    (tmp_path / "job.sql").write_text("SET checkpoint_seconds = 0;" + (tmp_path / "job.sql").read_text())
    code, said = struck(tmp_path, command(tmp_path, *state), "Checkpoint.save", hold=3600.0)
    assert code == -signal.SIGTERM and "what follows the epoch at hand takes too long and is given up" in said
    assert forks.run(command(tmp_path, "--once", *state), cwd=tmp_path, timeout=PATIENCE).returncode == 0
    assert results(tmp_path) == [0, 1, 10, 11, 20, 21]
