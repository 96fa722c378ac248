"""Settings that change between kills: real processes, killed after some of their checkpoints, each started under other
settings."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pyarrow.parquet as parquet
import pytest

from tests import forks
from tests.property.changed_settings import NAMES, QUERIES, answers, differing, job_text, random_epochs
from tests.property.test_changed_settings import random_settings
from tests.seeds import cases, first_seed

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.long]
FIRST = first_seed(2_330_000)


def job(folder: Path, queries: tuple[str, ...], settings: dict[str, object]) -> None:
    text = job_text(queries, {**settings, "epoch_rows": 40, "checkpoint_seconds": 0}, str(folder))
    for name in ("a", "b", "c", "items", "bids", "e", "asks"):
        # Streams read files here.
        before, after = text.split(f" {name} (", 1)
        after = after.replace("format='memory'", f"format='parquet', path='{folder}/{name}'", 1)
        text = f"{before} {name} ({after}"
    (folder / "job.sql").write_text(text)


def started(folder: Path, place: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "eddyline", "run", "job.sql", "--once", "--quiet"]
    where = ["--checkpoint", f"{place}/state", "--out", f"{place}/out"]
    return forks.Command([*command, *where], cwd=folder, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", range(cases(2)))
def test_processes_that_are_killed_and_start_under_other_settings(tmp_path: Path, number: int) -> None:
    rng = Random(FIRST + number)
    parquet.write_table(NAMES, tmp_path / "names.parquet")
    for at, rows in enumerate(random_epochs(rng, 400, 8)):
        for name, table in rows.items():
            (tmp_path / name).mkdir(exist_ok=True)
            parquet.write_table(table, tmp_path / name / f"{at}.parquet")
    queries = ("table_of", *sorted(rng.sample([name for name in QUERIES if name != "table_of"], 12)))
    job(tmp_path, queries, {})
    straight = started(tmp_path, "straight")
    said = straight.communicate(timeout=300)[1]
    assert straight.returncode == 0, said
    header, kills = tmp_path / "lives" / "state" / "checkpoint.json", 0
    for life in range(8):
        job(tmp_path, queries, random_settings(rng))
        running, left = started(tmp_path, "lives"), rng.randint(1, 3) if life < 7 else 1 << 30
        seen = header.stat().st_mtime_ns if header.exists() else 0
        while running.poll() is None and left:
            time.sleep(0.002)
            now = header.stat().st_mtime_ns if header.exists() else 0
            left, seen = left - (now != seen), now
        kills += running.poll() is None
        running.kill()
        said = running.communicate()[1]
        assert running.returncode in (0, -9), said
        if running.returncode == 0:
            break
    found = {
        place: answers(
            {
                name: [parquet.read_table(p) for p in sorted((tmp_path / place / "out" / name).glob("*.parquet"))]
                for name in queries
            }
        )
        for place in ("straight", "lives")
    }
    assert kills
    assert not differing(found["lives"], found["straight"]), f"seed {FIRST + number}"
    assert sum(map(len, found["straight"].values())) > 50
