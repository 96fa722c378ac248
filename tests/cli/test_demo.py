"""`eddyline demo`: data, a run, results and state, with nothing to prepare. Its engine on Spark is that of `eddyline run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eddyline.cli.__main__ import main


def test_a_first_look(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # what an earlier demo left is no hindrance
        assert main(["demo", "--engine", "embedded", "--seconds", "130", "--rate", "100"]) == 0
        said = capsys.readouterr().out
        figures = json.loads((tmp_path / "demo" / "stats.json").read_text())
        assert figures["results"]["per_minute"] == 2 and all(figures["results"].values())
        assert "eddyline run demo/job.sql --engine embedded --once --out demo/results --checkpoint demo/checkpoint" in said
        assert all(f"{name}: {count:,} results" in said for name, count in figures["results"].items())
        assert "embedded checkpoint, format 3" in said and "more rows" in said
        assert set(figures["results"]) <= {path.name for path in (tmp_path / "demo" / "results").iterdir()}
