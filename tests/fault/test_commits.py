"""A kill right after a commit, with every kind of state in it: joins, groups, outer joins, rankings, patterns, templates, promises."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.fault.forked import Runs
from tests.fault.strike import Plan, operations
from tests.runtime.test_many_epochs import JOB, rows

ROWS = 90
COMMAND = ("run", "job.sql", "--once", "--out", "results", "--checkpoint", "state", "--quiet")
STREAMS = {"a": ("id", "k", "v", "type", "money", "done", "note", "ts"), "asks": ("id", "k", "ts")}


def life(folder: Path) -> Path:
    """A folder with the job and its files."""
    folder.mkdir()
    text = re.sub(r"(CREATE (?:STREAM|REQUESTS) (\w+) \(.*WITH \()", r"\1format = 'json', path = '\2.json', ", JOB)
    text = text.replace("SET checkpoint_seconds = 0.5", "SET checkpoint_seconds = 0; SET epoch_rows = 30")
    (folder / "job.sql").write_text(text)
    for place, name in enumerate(("a", "b", "asks")):
        found = [row for number in range(ROWS) for row in rows(number)[place]]
        lines = [json.dumps(dict(zip(STREAMS.get(name, STREAMS["a"]), (*row[:-1], _time(row[-1])), strict=True))) for row in found]
        (folder / f"{name}.json").write_text("\n".join(lines) + "\n")
    return folder


def _time(micros: object) -> str:
    return f"1970-01-01T00:00:{int(str(micros)) / 1e6:09.6f}"


def plan(folder: Path, *sites: str) -> Plan:
    """Kill at one of these sites, where it is first reached."""
    marks = folder.parent / f"marks {len(list(folder.parent.iterdir()))}"
    marks.mkdir()
    return Plan((str(folder / "state"), str(folder / "results")), str(folder.parent / "log"), sites=sites, marks=str(marks))


def results(folder: Path) -> dict[str, list[str]]:
    out = folder / "results"
    paths = [path for path in (*out.iterdir(), *(out / "_dead_letter").glob("*")) if path.is_dir() and path.name != "_dead_letter"]
    return {path.name: sorted(map(str, parquet.read_table(path).to_pylist())) for path in paths if any(path.glob("*.parquet"))}


@pytest.mark.fault
def test_a_kill_right_after_every_commit(tmp_path: Path) -> None:
    """Each start makes one commit, whose header has its name when the process dies; the last start makes what is left."""
    whole, killed = life(tmp_path / "whole"), life(tmp_path / "killed")
    runs = Runs(life(tmp_path / "warm"))
    try:
        code, said = runs.run(whole, *COMMAND, plan=plan(whole))
        assert code == 0, said
        expected = results(whole)
        assert len(expected) >= 14 and all(expected.values()), [name for name, found in expected.items() if not found]
        done = operations(tmp_path / "log")
        commits = [o.number for o in done if o.kind == "rename" and o.path.endswith("checkpoint.json") and o.number < len(done)]
        assert len(commits) >= 6
        after = {done[number].site for number in commits}
        for _ in commits:
            code, said = runs.run(killed, *COMMAND, plan=plan(killed, *after))
            assert code == -signal.SIGKILL, said
        # A start that has read everything commits the end again: one without a kill comes to its own end.
        code, said = runs.run(killed, *COMMAND)
        assert code == 0 and results(killed) == expected, said
        kills = len(commits)
        print(f"{kills} kills, {sum(map(len, expected.values()))} results of {len(expected)} outputs")
    finally:
        runs.close()
