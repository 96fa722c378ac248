"""A checkpoint, or a folder of results, that becomes read-only while a job follows its sources, in both engines.

The job ends with one message and exit code 2. Once the folder can be written again, the same command ends with all
results, each once. A read-only mount of the folder is laid over it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests import forks
from tests.needs import mounting
from tests.spark.material import write_files

pytestmark = [pytest.mark.fault, pytest.mark.slow]

JOB = """
SET shards = 2;
SET checkpoint_seconds = 0.2;
SET output_seconds = {seconds};
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='a', time='ts', files_per_batch=1);
CREATE QUERY copied AS SELECT v FROM a;
CREATE QUERY pairs AS SELECT x.v AS first, y.v AS second FROM a [RANGE 1 SECOND] x, a [RANGE 1 SECOND] y WHERE x.k = y.k AND x.v < y.v;
"""
ENGINES = {"embedded": (), "spark": ("--engine", "spark", "--master", "local[2]")}
CASES = [("embedded", place, gathered) for place in ("state", "out") for gathered in (False, True)]
CASES += [
    pytest.param("spark", *case, marks=[pytest.mark.spark, pytest.mark.long])
    for case in (("state", False), ("state", True), ("out", False), ("out", True))
]


def command(folder: Path, engine: str, *more: str) -> subprocess.Popen[str]:
    arguments = ["run", "job.sql", *ENGINES[engine], "--out", "out", "--checkpoint", "state", "--quiet", *more]
    called = [sys.executable, "-m", "eddyline.cli", *arguments]
    start = subprocess.Popen if engine == "spark" else forks.Command
    return start(
        called, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def values(folder: Path) -> list[int]:
    files = sorted((folder / "out" / "copied").glob("*.parquet"))
    return sorted(v for file in files for v in parquet.read_table(file).column("v").to_pylist())


def has_saved(folder: Path) -> bool:
    """Whether rows of the first file are part of the checkpoint."""
    commits = folder / "state/commits"
    return (folder / "state/checkpoint.json").exists() or (
        commits.is_dir() and any(file.name.isdigit() for file in commits.iterdir())
    )


def wait_for(running: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    limit = time.monotonic() + 480
    while not reached():
        assert running.poll() is None and time.monotonic() < limit, running.communicate(timeout=5)[0]
        time.sleep(0.05)


def lay_read_only(folder: Path, aside: Path) -> None:
    """Mount `folder` over itself, read-only from the first instant on.

    A mount becomes read-only only while no file is open for writing behind it, and the job writes all the time. So it
    becomes read-only beside the folder, where no process writes; a mount of that mount is read-only too.
    """
    aside.mkdir()
    subprocess.run(["mount", "--bind", str(folder), str(aside)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(aside)], check=True)
    subprocess.run(["mount", "--bind", str(aside), str(folder)], check=True)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("engine", "place", "gathered"), CASES)
def test_a_folder_becomes_read_only_while_the_job_follows(
    tmp_path: Path, engine: str, place: str, gathered: bool
) -> None:
    mounting(tmp_path)
    (tmp_path / "job.sql").write_text(JOB.format(seconds=4 if gathered else 0))
    write_files(tmp_path / "a", ["0.parquet", "1.parquet"], 100)
    running = command(tmp_path, engine)
    wait_for(running, lambda: has_saved(tmp_path) and (gathered or len(values(tmp_path)) > 100))
    folder = tmp_path / place
    lay_read_only(folder, tmp_path / "aside")
    try:
        write_files(tmp_path / "a", ["2.parquet"], 100, first=200)
        said = running.communicate(timeout=600)[0]
        assert running.returncode == 2, said
        # A report that cannot be written is a warning before the message that ends the job.
        told = "".join(
            line
            for line in said.splitlines(keepends=True)
            if not line.startswith("reports of the job are not written: ")
        )
        assert (
            told.startswith("error:") and told.count("error:") == 1 and "hint:" in told and "Traceback" not in told
        ), said
        assert "Read-only file system" in told and place in told, said
    finally:
        running.kill()
        running.communicate()
        for mounted in (folder, tmp_path / "aside"):
            subprocess.run(["umount", "-l", str(mounted)], check=True)
    write_files(tmp_path / "a", ["3.parquet"], 100, first=300)
    again = command(tmp_path, engine, "--once")
    said = again.communicate(timeout=600)[0]
    assert again.returncode == 0, said
    assert values(tmp_path) == list(range(400))
    pairs = [row for file in (tmp_path / "out/pairs").glob("*.parquet") for row in parquet.read_table(file).to_pylist()]
    assert len({(row["first"], row["second"]) for row in pairs}) == len(pairs) > 0
