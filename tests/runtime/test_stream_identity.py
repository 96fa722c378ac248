"""A checkpoint goes on only over the same streams: path, format and time column included, however the path is
written."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from eddyline.cli.__main__ import main

JOB = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP, seen TIMESTAMP) WITH (format='{format}', path='{path}', time='{time}'{more});
CREATE QUERY q AS SELECT k FROM s;
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder, first in (("old", 1), ("new", 100)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.csv").write_text(f"k,ts,seen\n{first},2024-01-01 10:00:00,2024-01-01 11:00:00\n")
    assert run() == 0
    return tmp_path


def run(path: str = "old", kind: str = "csv", time: str = "ts", more: str = "") -> int:
    Path("job.sql").write_text(JOB.format(path=path, format=kind, time=time, more=more))
    return main(["run", "job.sql", "--once", "--out", "results", "--checkpoint", "ck", "--quiet"])


def keys() -> list[int]:
    return sorted(parquet.read_table("results/q").column("k").to_pylist())


def test_another_folder_with_files_of_the_same_names_is_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("new") == 2
    said = capsys.readouterr().err
    assert (
        "stream s is not the one in the checkpoint" in said and str(work / "old") in said and str(work / "new") in said
    )
    assert "symbolic link" in said
    assert run() == 0 and keys() == [1]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kind": "jsonl"}, "format: csv"),
        ({"time": "seen"}, "time column: ts"),
        ({"more": ", time_unit='ms'"}, "unit of integers as times: us"),
    ],
)
def test_another_format_or_time_column_is_refused(
    work: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], word: str
) -> None:
    assert run(**change) == 2
    assert word in capsys.readouterr().err


def test_the_same_folder_written_otherwise_is_the_same(work: Path) -> None:
    (work / "link").symlink_to("old")
    (work / "old" / "2.csv").write_text("k,ts,seen\n2,2024-01-01 10:00:01,2024-01-01 11:00:00\n")
    for path in ("old/", "./old", str(work / "old"), f"{work}//old/", "link", "new/../old"):
        assert run(path) == 0
        assert keys() == [1, 2]


def test_a_folder_that_was_moved_goes_on_behind_a_link(work: Path) -> None:
    os.rename("old", "moved")
    assert run("moved") == 2
    (work / "old").symlink_to("moved")
    (work / "moved" / "2.csv").write_text("k,ts,seen\n2,2024-01-01 10:00:01,2024-01-01 11:00:00\n")
    assert run("old") == 0
    assert keys() == [1, 2]
