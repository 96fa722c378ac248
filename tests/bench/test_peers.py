"""The switch and the runners, on small workloads."""

import json
import signal
import sys
import time

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from bench import workloads
from bench.peers import __main__ as switch
from bench.peers import duckdb_batch, processes, spark_native


def pairs_within(workload):
    """W1's answer by plain comparison of all pairs."""
    left, right = (pq.read_table(workload.path(name)) for name in "ab")
    keys = left["k"].to_numpy()[:, None] == right["k"].to_numpy()
    apart = np.abs(left["ts"].cast("int64").to_numpy()[:, None] - right["ts"].cast("int64").to_numpy())
    return int((keys & (apart <= workload.shape.window_seconds * 1_000_000)).sum())


def test_duckdb_counts_the_pairs_within_the_window(tmp_path):
    workload = workloads.make("W1", files=2, rows=2_000, folder=tmp_path)
    result = duckdb_batch.run(workload)
    assert result.results == pairs_within(workload) > 0
    assert result.rows_in == 4_000
    assert result.seconds > 0
    assert result.peak_rss > 10_000_000


def test_the_switch_writes_one_result_file_per_workload(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDDYLINE_BENCH_DATA", str(tmp_path / "data"))
    arguments = [
        "--runner",
        "duckdb",
        "--workload",
        "W1s",
        "W2",
        "--rows",
        "500",
        "--batches",
        "2",
        "--repeats",
        "1",
        "--results",
        str(tmp_path),
    ]
    assert switch.main(arguments) == 0
    assert "duckdb" in capsys.readouterr().out
    names = sorted(file.name for file in tmp_path.glob("*.json"))
    assert names == ["W1s-500rows-2batches-1x-duckdb.json", "W2-500rows-2batches-1x-duckdb.json"]
    record = json.loads((tmp_path / names[1]).read_text())
    assert record["rows_in"] == 1_500
    assert record["measures"][0]["samples"][0]["details"]["rows_in"] == 1_500


def test_runners_that_disagree_are_noticed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDDYLINE_BENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(switch.RUNNERS, "forgetful", (__name__, {}))
    arguments = [
        "--runner",
        "duckdb",
        "forgetful",
        "--workload",
        "W1",
        "--rows",
        "300",
        "--repeats",
        "1",
        "--results",
        str(tmp_path),
    ]
    assert switch.main(arguments) == 1
    assert "the numbers of results differ" in capsys.readouterr().err


def run(workload, **options):
    """A runner for the test above: it loses one result."""
    whole = duckdb_batch.run(workload, **options)
    return type(whole)(whole.seconds, whole.rows_in, whole.results - 1, whole.peak_rss)


def test_a_run_that_takes_too_long_is_stopped(tmp_path):
    watched = processes.watch([sys.executable, "-c", "import time; time.sleep(60)"], 0.5, tmp_path)
    assert watched.stopped


def called(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return ""


def test_an_interrupted_switch_leaves_no_process_behind(tmp_path):
    environment = {**processes.environment(), "EDDYLINE_BENCH_DATA": str(tmp_path / "data")}
    arguments = ["--runner", "duckdb", "--workload", "W1", "--factor", "4", "--results", str(tmp_path)]
    parent = psutil.Popen([sys.executable, "-m", "bench.peers", *arguments], cwd=tmp_path, env=environment)
    deadline = time.monotonic() + 300
    while not (children := [child for child in parent.children() if "duckdb_batch" in called(child)]):
        assert parent.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    parent.terminate()
    assert parent.wait(240) == 128 + signal.SIGTERM
    # Killed with its parent, it may be gone a moment later, or stay a zombie until its parent waits for it.
    _, alive = psutil.wait_procs(children, timeout=240)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []


def test_a_command_that_fails_says_what_it_said(tmp_path):
    with pytest.raises(RuntimeError, match="no such stream"):
        processes.watch([sys.executable, "-c", "raise SystemExit('no such stream')"], 240, tmp_path)


@pytest.mark.long
@pytest.mark.spark
def test_spark_joins_natively_and_in_cascades(tmp_path):
    for name in ("W1", "W2"):
        workload = workloads.make(name, files=3, rows=3_000, folder=tmp_path)
        result = spark_native.run(workload, variants=("hdfs",), driver_memory="1g", limit=240)
        assert result.results == duckdb_batch.run(workload).results
        assert result.details["variants"]["hdfs"]["late"] == 0
        assert len(result.details["variants"]["hdfs"]["batch_seconds"]) == 3
