"""`eddyline query add | drop | list`: against a job that runs in another process."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.cli.__main__ import main
from tests import forks

JOB = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (format='parquet', path='s', time='ts');
SET checkpoint_seconds = 0;
CREATE QUERY base AS SELECT k FROM s;
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").mkdir()
    (tmp_path / "job.sql").write_text(JOB)
    (tmp_path / "more.sql").write_text(
        "CREATE QUERY high AS SELECT k FROM s WHERE k > 5; CREATE SINK side FOR high WITH (path='side');"
    )
    return tmp_path


def feed(number: int, *values: tuple[int, int]) -> None:
    table = pa.table(
        {"k": [k for k, _ in values], "ts": pa.array([ts * 1_000_000 for _, ts in values], pa.timestamp("us"))}
    )
    parquet.write_table(table, "s/.hidden")
    os.rename("s/.hidden", f"s/{number}.parquet")


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, int | None, int | None]]:
    capsys.readouterr()
    assert main(["query", "list", "--json", "--job", "ck"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(list(line) == ["query", "state", "start", "stop"] for line in lines)
    return {line["query"]: (line["state"], line["start"], line["stop"]) for line in lines}


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "the job did not get there in time"
        time.sleep(0.05)


def test_a_running_job(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed(0, (1, 1), (7, 2), (8, 3))
    command = [sys.executable, "-m", "eddyline.cli", "run", "job.sql", "--checkpoint", "ck", "--out", "out", "--quiet"]
    process = forks.Command(command, cwd=work)
    try:
        wait(
            lambda: (
                Path("ck/checkpoint.json").exists() and '"newest": 3000000' in Path("ck/checkpoint.json").read_text()
            )
        )
        assert main(["query", "add", "more.sql", "--job", "ck"]) == 0
        wait(lambda: listed(capsys).get("high", ("", 0, 0))[0] == "running")
        assert listed(capsys)["high"] == ("running", 3_000_000, None)
        feed(1, (9, 3), (6, 4), (2, 5))
        wait(lambda: '"newest": 5000000' in Path("ck/checkpoint.json").read_text())
        assert main(["query", "drop", "base", "--job", "ck"]) == 0
        wait(lambda: listed(capsys)["base"][0] == "stopping")
        feed(2, (10, 6), (11, 7))
        wait(lambda: listed(capsys)["base"][0] == "dropped")
        assert listed(capsys)["base"] == ("dropped", None, 5_000_000)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=240) == 0
    assert parquet.read_table("out/base").column("k").to_pylist() == [1, 7, 8, 9, 6, 2]
    assert parquet.read_table("out/high").column("k").to_pylist() == [6, 10]
    assert parquet.read_table("side").column("k").to_pylist() == [6, 10]


def test_what_is_wrong_never_reaches_the_job(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed(0, (1, 1))
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--quiet"]) == 0
    for text, part in (
        ("CREATE QUERY q AS SELEC k FROM s", "SELEC"),
        ("CREATE QUERY q AS SELECT z FROM s", "z"),
        ("CREATE QUERY base AS SELECT k FROM s", "already"),
        (
            "CREATE QUERY q AS SELECT x.k FROM s x, s y; SET plan = '((x z) y)'; CREATE QUERY r AS SELECT x.k FROM s x, s y",
            "z",
        ),
        ("SET seed = 1", "no query"),
    ):
        (work / "bad.sql").write_text(text)
        assert main(["query", "add", "bad.sql", "--job", "ck"]) == 2
        assert part in capsys.readouterr().err
    assert main(["query", "drop", "other", "--job", "ck"]) == 2
    assert main(["query", "add", "more.sql", "--job", "nowhere"]) == 2
    assert "no job" in capsys.readouterr().err
    assert {p.name for p in (work / "ck/control").iterdir()} == {"parts.json", "state.json"}


def test_what_waits_for_the_next_start(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed(0, (6, 1))
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--out", "out", "--quiet"]) == 0
    assert main(["query", "add", "more.sql", "--job", "ck"]) == 0
    assert main(["query", "add", "more.sql", "--job", "ck"]) == 2
    assert main(["query", "drop", "base", "--job", "ck"]) == 0
    assert listed(capsys) == {"base": ("stopping", None, None), "high": ("pending", None, None)}
    feed(1, (7, 2), (8, 3))
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--out", "out", "--quiet"]) == 0
    assert listed(capsys) == {"base": ("dropped", None, 1_000_000), "high": ("running", 1_000_000, None)}
    assert parquet.read_table("out/high").column("k").to_pylist() == [7, 8]
    assert parquet.read_table("out/base").column("k").to_pylist() == [6]


def test_the_list_is_a_table_for_people(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed(0, (1, 1), (7, 2))
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--quiet"]) == 0
    assert main(["query", "add", "more.sql", "--job", "ck"]) == 0
    assert main(["run", "job.sql", "--once", "--checkpoint", "ck", "--quiet"]) == 0
    assert main(["query", "drop", "base", "--job", "ck"]) == 0
    capsys.readouterr()
    assert main(["query", "list", "--job", "ck"]) == 0
    lines = [line.replace("┃", "│").strip("│").split("│") for line in capsys.readouterr().out.splitlines()]
    cells = [[cell.strip() for cell in line] for line in lines if len(line) == 4]
    assert cells == [
        ["query", "state", "start", "stop"],
        ["base", "stopping", "first row", ""],
        ["high", "running", "1970-01-01 00:00:02.000", ""],
    ]
