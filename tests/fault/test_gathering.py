"""Gathered results through kills: at every file operation of a job, with the setting changed between runs, each result
is written once."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.fault.forked import Runs
from tests.fault.strike import Plan, operations
from tests.seeds import first_seed

QUERIES = 4
FILES = 5


def world(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for number in range(FILES):
        ts = pa.array([(number * 10 + i) * 1_000_000 for i in range(10)], pa.timestamp("us"))
        parquet.write_table(
            pa.table({"k": pa.array([number * 10 + i for i in range(10)], pa.int64()), "ts": ts}),
            tmp_path / "s" / f"{number}.parquet",
        )
    for files in ("auto", "each"):
        queries = "".join(f"CREATE QUERY q{i} AS SELECT k FROM s WHERE k % {QUERIES} = {i};" for i in range(QUERIES))
        stream = f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{tmp_path}/s', time='ts');"
        every = f"CREATE SINK every FOR ALL WITH (format='jsonl', path='{tmp_path}/out/every');"
        settings = (
            f"SET epoch_rows = 7; SET checkpoint_seconds = 0; SET output_files = '{files}'; SET output_seconds = 0.02;"
        )
        (tmp_path / f"{files}.sql").write_text(stream + settings + queries + every)


def killed(runs: Runs, tmp_path: Path, at: int, files: str) -> bool:
    """Run the job in a process of its own that is killed at an operation; whether it was."""
    log = tmp_path / "log"
    log.unlink(missing_ok=True)
    plan = Plan((str(tmp_path / "ck"), str(tmp_path / "out")), str(log), at)
    arguments = [
        "run",
        f"{files}.sql",
        "--once",
        "--quiet",
        "--out",
        str(tmp_path / "out"),
        "--checkpoint",
        str(tmp_path / "ck"),
    ]
    code, said = runs.run(tmp_path, *arguments, plan=plan)
    assert code in (0, -signal.SIGKILL), said
    return code != 0


def check(tmp_path: Path) -> None:
    numbers = list(range(10 * FILES))
    for i in range(QUERIES):
        found = [
            k
            for path in sorted((tmp_path / f"out/q{i}").glob("*.parquet"))
            for k in parquet.read_table(path).column("k").to_pylist()
        ]
        assert found == [k for k in numbers if k % QUERIES == i]
    lines = [
        json.loads(line)
        for path in sorted((tmp_path / "out/every").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    assert sorted(line["k"] for line in lines) == numbers
    assert not list((tmp_path / "ck/pending").glob("*"))
    assert not list((tmp_path / "out").rglob(".*.tmp"))


@pytest.mark.parametrize("share", [60, pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(7200)])])
def test_killed_at_every_file_operation(tmp_path: Path, runs: Runs, share: int) -> None:
    """One operation of `share`; after each kill the job begins anew, with either setting, until it ends by itself."""
    draw = Random(first_seed())
    (tmp_path / "whole").mkdir()
    world(tmp_path / "whole")
    assert not killed(runs, tmp_path / "whole", 0, "auto")
    check(tmp_path / "whole")
    count = len(operations(tmp_path / "whole" / "log"))
    assert any("journal" in one.asked for one in operations(tmp_path / "whole" / "log"))
    for at in range(1 + draw.randrange(share), count + 1, share):
        place = tmp_path / str(at)
        place.mkdir()
        world(place)
        if killed(runs, place, at, "auto"):
            # A second kill at a random place, then to the end.
            killed(runs, place, draw.randrange(1, count), draw.choice(["auto", "each"]))
        assert not killed(runs, place, 0, draw.choice(["auto", "each"]))
        check(place)
        shutil.rmtree(place)
        if at % 50 == 0:
            print(f"killed at {at} of {count} operations", flush=True)


def test_files_are_few(tmp_path: Path, runs: Runs) -> None:
    """With a checkpoint after every epoch: one file per query with 'auto', one per query and epoch with 'each'."""
    counts = {}
    for files in ("auto", "each"):
        place = tmp_path / files
        place.mkdir()
        world(place)
        job = place / f"{files}.sql"
        job.write_text(job.read_text().replace("output_seconds = 0.02", "output_seconds = 100"))
        assert not killed(runs, place, 0, files)
        check(place)
        counts[files] = len(list((place / "out").rglob("q*/*.parquet")))
    assert counts["auto"] == QUERIES
    assert counts["each"] > 5 * QUERIES
