"""A kill right after a commit, with every kind of state in it: joins, groups, outer joins, rankings, patterns,
templates, promises."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.fault.forked import Runs
from tests.fault.scenarios import ROOT, end_session
from tests.fault.strike import Plan, operations
from tests.runtime.test_many_epochs import JOB, rows
from tests.seeds import first_seed, is_whole

ROWS = 90
COMMAND = ("run", "job.sql", "--once", "--out", "results", "--checkpoint", "state", "--quiet")
STREAMS = {"a": ("id", "k", "v", "type", "money", "done", "note", "ts"), "asks": ("id", "k", "ts")}


def life(folder: Path, files: int = 1) -> Path:
    """A folder with the job and its files; on Spark a micro-batch reads one of each stream."""
    folder.mkdir()
    declared = r"\1format = 'json', path = '\2', files_per_batch = 1, "
    text = re.sub(r"(CREATE (?:STREAM|REQUESTS) (\w+) \(.*WITH \()", declared, JOB)
    text = text.replace("SET checkpoint_seconds = 0.5", "SET checkpoint_seconds = 0; SET epoch_rows = 30")
    (folder / "job.sql").write_text(text)
    for place, name in enumerate(("a", "b", "asks")):
        found = [row for number in range(ROWS) for row in rows(number)[place]]
        lines = [
            json.dumps(dict(zip(STREAMS.get(name, STREAMS["a"]), (*row[:-1], _time(row[-1])), strict=True)))
            for row in found
        ]
        (folder / name).mkdir()
        for number in range(files):
            part = lines[len(lines) * number // files : len(lines) * (number + 1) // files]
            (folder / name / f"{number}.json").write_text("\n".join(part) + "\n")
    return folder


def _time(micros: object) -> str:
    return f"1970-01-01T00:00:{int(str(micros)) / 1e6:09.6f}"


def plan(folder: Path, *sites: str) -> Plan:
    """Kill at one of these sites, where it is first reached."""
    marks = folder.parent / f"marks {len(list(folder.parent.iterdir()))}"
    marks.mkdir()
    return Plan(
        (str(folder / "state"), str(folder / "results")), str(folder.parent / "log"), sites=sites, marks=str(marks)
    )


def results(folder: Path) -> dict[str, list[str]]:
    out = folder / "results"
    paths = [
        path
        for path in (*out.iterdir(), *(out / "_dead_letter").glob("*"))
        if path.is_dir() and path.name != "_dead_letter"
    ]
    return {
        path.name: sorted(map(str, parquet.read_table(path).to_pylist()))
        for path in paths
        if any(path.glob("*.parquet"))
    }


#: A final run is compared with a final run; the commit chooses one of the two, a soak runs both.
WAYS = ((), ("--final",))


@pytest.mark.fault
@pytest.mark.parametrize("more", WAYS if is_whole() else [WAYS[first_seed() % 2]], ids=" ".join)
def test_a_kill_right_after_every_commit(more: tuple[str, ...], tmp_path: Path) -> None:
    """Each start makes one commit, whose header has its name when the process dies; the last start makes what is
    left, or says that the job has ended."""
    whole, killed = life(tmp_path / "whole"), life(tmp_path / "killed")
    runs = Runs(life(tmp_path / "warm"))
    try:
        code, said = runs.run(whole, *COMMAND, *more, plan=plan(whole))
        assert code == 0, said
        expected = results(whole)
        assert len(expected) >= 14 and all(expected.values()), [name for name, found in expected.items() if not found]
        done = operations(tmp_path / "log")
        commits = [
            o.number for o in done if o.kind == "rename" and o.path.endswith("checkpoint.json") and o.number < len(done)
        ]
        assert len(commits) >= 6
        after = {done[number].site for number in commits}
        for _ in commits:
            code, said = runs.run(killed, *COMMAND, *more, plan=plan(killed, *after))
            assert code == -signal.SIGKILL, said
        # A start that has read everything commits the end again: one without a kill comes to its own end.
        code, said = runs.run(killed, *COMMAND, *more)
        assert results(killed) == expected, said
        assert code == (2 if more else 0) and ("has ended" in said) == bool(more), said
        kills = len(commits)
        print(f"{kills} kills, {sum(map(len, expected.values()))} results of {len(expected)} outputs")
    finally:
        runs.close()


@pytest.mark.fault
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_kill_right_after_every_commit_on_spark(tmp_path: Path) -> None:
    """Every process of the job is killed as soon as Spark has written a commit; the last start makes what is left."""
    whole, killed = life(tmp_path / "whole", files=6), life(tmp_path / "killed", files=6)
    assert started(whole).wait(1200) == 0, (whole / "said").read_text()
    expected = results(whole)
    assert len(expected) >= 14 and all(expected.values())
    kills = 0
    while True:
        before = commits(killed)
        process = started(killed)
        while process.poll() is None and commits(killed) == before:
            time.sleep(0.005)
        if process.poll() is not None:
            break
        end_session(process)
        kills += 1
    assert process.returncode == 0 and kills >= 6, (killed / "said").read_text()
    assert results(killed) == expected
    print(f"{kills} kills, {sum(map(len, expected.values()))} results of {len(expected)} outputs")


def started(folder: Path) -> subprocess.Popen[bytes]:
    with open(folder / "said", "wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "eddyline", *COMMAND, "--engine", "spark", "--master", "local[2]"],
            cwd=folder, stdout=said, stderr=said, start_new_session=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip


def commits(folder: Path) -> set[str]:
    found = folder / "state" / "commits"
    return {name for name in os.listdir(found) if name.isdigit()} if found.exists() else set()
