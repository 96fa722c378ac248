"""`eddyline calibrate`: what it prints, and what it keeps for the planner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eddyline.cli.__main__ import main
from eddyline.plan.budget import SHIPPED, unit_costs


def test_measures_prints_and_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["calibrate", "--repeats", "1", "--dry-run"]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert dry["kept"] is None and not list(tmp_path.iterdir())
    assert set(dry["costs"]) == {"insert", "delete", "join", "probe", "link", "arrive"}
    assert all(0 <= cost < 1e-4 for cost in dry["costs"].values())
    assert unit_costs() == SHIPPED
    assert main(["calibrate", "--repeats", "1"]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert kept["kept"] == str(tmp_path / "eddyline" / "costs.json")
    assert unit_costs().arrive == kept["costs"]["arrive"] > 0
