"""The embedded engine killed at random moments: the union of results equals an uninterrupted run, row for row."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.cli.__main__ import main
from eddyline.runtime.recovery.snapshot import FORMAT
from tests import forks

STREAMS = """
CREATE STREAM a (k BIGINT, s STRING, ts TIMESTAMP) WITH (format='parquet', path='a', time='ts', lateness='2 seconds');
CREATE STREAM b (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (format='parquet', path='b', time='ts');
SET epoch_rows = 150;
SET checkpoint_seconds = 0;
"""
QUERIES = """
CREATE QUERY pairs AS SELECT a.k, a.s, b.v FROM a [RANGE 20 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k;
CREATE QUERY counted AS SELECT a.k, b.v FROM a [ROWS 30], b [RANGE 5 SECONDS] WHERE a.k = b.k AND b.v > 0.2;
CREATE QUERY triples WITH (plan = '((x y) z)') AS
  SELECT x.k, y.v, z.s FROM a [RANGE 9 SECONDS] x, b [RANGE 9 SECONDS] y, a [RANGE 4 SECONDS] z WHERE x.k = y.k AND y.k = z.k;
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(11)
    for name, seed in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        for part in range(4):
            ts = np.sort(rng.integers(0, 400_000_000, 900)) + part * 400_000_000
            if name == "a":
                ts = ts - rng.integers(0, 2_500_000, 900)
            columns = {"k": rng.integers(0, 40, 900), "ts": pa.array(ts, pa.timestamp("us"))}
            columns |= (
                {"s": [f"text {i}" for i in rng.integers(0, 9, 900)]} if name == "a" else {"v": rng.uniform(0, 1, 900)}
            )
            parquet.write_table(pa.table(columns), tmp_path / name / f"{part}-{seed}.parquet")
    (tmp_path / "job.sql").write_text(STREAMS + QUERIES)
    return tmp_path


def everything(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    found = {}
    for query in sorted(p for p in folder.iterdir() if p.is_dir()):
        for at in [query] if query.name != "_dead_letter" else sorted(query.iterdir()):
            found[at.name] = sorted(tuple(row.values()) for row in parquet.read_table(at).to_pylist())
    return found


@pytest.mark.fault
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_killed_and_resumed(work: Path, seed: int) -> None:
    assert main(["run", "job.sql", "--once", "--out", "expected", "--quiet"]) == 0
    rng = random.Random(seed)
    command = [
        sys.executable,
        "-m",
        "eddyline.cli",
        "run",
        "job.sql",
        "--once",
        "--out",
        "results",
        "--checkpoint",
        "ck",
        "--quiet",
    ]
    kills = 0
    while True:
        process = forks.Command(command, cwd=work)
        deadline = time.monotonic() + 240
        saved = _stamp(work)
        # Wait until it has begun to save, so that every life makes progress, then strike at a random moment.
        while process.poll() is None and _stamp(work) == saved and time.monotonic() < deadline:
            time.sleep(0.005)
        if process.poll() is None and kills < 5:
            time.sleep(rng.uniform(0, 0.15))
            process.kill()
            kills += 1
        if process.wait(timeout=240) == 0:
            break
    assert kills >= 2, "the job ended before it could be killed"
    assert everything(work / "results") == everything(work / "expected")


def _stamp(work: Path) -> float:
    path = work / "ck/checkpoint.json"
    return path.stat().st_mtime if path.exists() else 0.0


def test_a_later_run_continues_where_the_first_ended(work: Path) -> None:
    later = [(work / name / f"9-{name}.parquet", name) for name in ("a", "b")]
    assert main(["run", "job.sql", "--once", "--out", "results", "--checkpoint", "ck", "--quiet"]) == 0
    before = everything(work / "results")
    for path, name in later:
        columns: dict[str, object] = {"k": [1, 2], "ts": pa.array([1_600_000_000, 1_601_000_000], pa.timestamp("us"))}
        columns |= {"s": ["x", "y"]} if name == "a" else {"v": [0.5, 0.6]}
        parquet.write_table(pa.table(columns), path)
    assert main(["run", "job.sql", "--once", "--out", "results", "--checkpoint", "ck", "--quiet"]) == 0
    after = everything(work / "results")
    assert len(after["pairs"]) > len(before["pairs"]) and set(before["pairs"]) <= set(after["pairs"])
    assert main(["run", "job.sql", "--once", "--out", "whole", "--quiet"]) == 0
    assert everything(work / "whole")["pairs"] == after["pairs"]


def test_a_changed_query_is_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--quiet"]) == 0
    (work / "job.sql").write_text(STREAMS + QUERIES.replace("b.v > 0.2", "b.v > 0.3"))
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--quiet"]) == 2
    assert "counted" in capsys.readouterr().err


def test_a_changed_stream_is_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--quiet"]) == 0
    (work / "job.sql").write_text((STREAMS + QUERIES).replace("lateness='2 seconds'", "lateness='3 seconds'"))
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--quiet"]) == 2
    assert "stream a is not the one" in capsys.readouterr().err


def test_queries_may_come_and_go_between_runs(work: Path) -> None:
    """A new query starts at the newest row there is; one that is missing is dropped; the others go on."""
    whole = sorted((work / "a").iterdir())[-1:] + sorted((work / "b").iterdir())[-1:]
    kept = [(path, path.read_bytes()) for path in whole]
    for path, _ in kept:
        path.unlink()
    first, second, third = QUERIES.strip().split(";\n")
    (work / "job.sql").write_text(STREAMS + first + ";" + second + ";")
    assert main(["run", "job.sql", "--once", "--out", "results", "--checkpoint", "ck", "--quiet"]) == 0
    before = everything(work / "results")
    for path, content in kept:
        path.write_bytes(content)
    (work / "job.sql").write_text(STREAMS + first + ";" + third)
    assert main(["run", "job.sql", "--once", "--out", "results", "--checkpoint", "ck", "--quiet"]) == 0
    after = everything(work / "results")
    assert after["counted"] == before["counted"]
    (work / "job.sql").write_text(STREAMS + QUERIES)
    assert main(["run", "job.sql", "--once", "--out", "expected", "--quiet"]) == 0
    expected = everything(work / "expected")
    # The end of the first run moved the frontier past its newest row: rows of the later files that lie before it are
    # late.
    late = {row[2] for row in after.get("a", [])} - {row[2] for row in expected.get("a", [])}
    assert set(after["pairs"]) <= set(expected["pairs"])
    assert len(late) < 10 and len(expected["pairs"]) - len(after["pairs"]) <= 5 * len(late)
    assert after["triples"] and set(after["triples"]) < set(expected["triples"])


def test_a_changed_header_is_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--quiet"]) == 0
    header = work / "ck/checkpoint.json"
    changed = header.read_text().replace(f'"format": {FORMAT}', '"format": 99')
    assert changed != header.read_text()
    header.write_text(changed)
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "checkpoint.json is damaged" in said and "it held positions" in said and "hint:" in said
