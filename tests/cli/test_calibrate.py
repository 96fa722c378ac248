"""`eddyline lab calibrate`: what it prints, and what it keeps for the planner."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eddyline.cli.__main__ import main
from eddyline.plan.tree.budget import SHIPPED, SHIPPED_INDEX, costs_path, index_costs, keep_costs, unit_costs


def test_measures_prints_and_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["lab", "calibrate", "--repeats", "1", "--dry-run"]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert dry["kept"] is None and not list(tmp_path.iterdir())
    assert set(dry["costs"]) == {"insert", "delete", "join", "probe", "link", "arrive"}
    assert all(0 <= cost < 1e-4 for cost in dry["costs"].values())
    assert set(dry["index"]) == {"hash", "run", "visit"} and all(0 <= cost < 1e-5 for cost in dry["index"].values())
    assert unit_costs() == SHIPPED and index_costs() == SHIPPED_INDEX
    assert main(["lab", "calibrate", "--repeats", "1"]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert kept["kept"] == str(tmp_path / "eddyline" / "costs.json")
    assert unit_costs().arrive == kept["costs"]["arrive"] > 0
    assert index_costs().visit == kept["index"]["visit"] > 0


def test_a_file_without_costs_of_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that an earlier version kept stay good."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keep_costs(replace(SHIPPED, arrive=1e-7), SHIPPED_INDEX)
    path = costs_path()
    document = json.loads(path.read_text())
    del document["index"]
    path.write_text(json.dumps(document))
    assert unit_costs().arrive == 1e-7 and index_costs() == SHIPPED_INDEX
