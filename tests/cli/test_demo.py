"""`eddyline demo`: data, a run, results and state, with nothing to prepare. Its engine on Spark is that of `eddyline
run`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.cli.__main__ import main

ROOT = Path(__file__).parents[2]


def test_a_first_look(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # what an earlier demo left is no hindrance
        assert main(["demo", "--engine", "embedded", "--seconds", "130", "--rate", "100"]) == 0
        said = capsys.readouterr().out
        figures = json.loads((tmp_path / "demo" / "stats.json").read_text())
        assert figures["results"]["per_minute"] == 2 and all(figures["results"].values())
        assert (
            "eddyline run demo/job.sql --engine embedded --once --out demo/results --checkpoint demo/checkpoint" in said
        )
        assert all(f"{name}: {count:,} results" in said for name, count in figures["results"].items())
        assert "embedded checkpoint, format 8" in said and "more rows" in said
        # Rows stored for the join without windows: flat with punctuations, ever more without.
        lines = {line.split()[1]: line for line in said.splitlines() if line.startswith(("│ on ", "│ off "))}
        flat, growing = (
            [int(cell.replace(",", "")) for cell in re.findall(r"[0-9,]+", lines[name])] for name in ("on", "off")
        )
        assert max(flat[2:]) <= 1.5 * min(flat[2:]) and growing[-1] > 1.8 * growing[2] > 1.5 * flat[-1]
        assert set(figures["results"]) <= {path.name for path in (tmp_path / "demo" / "results").iterdir()}


@pytest.mark.long
@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_make_setup_compiles_what_the_demo_needs(engine: str, tmp_path: Path) -> None:
    cache = tmp_path / "kernels"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "SPARK_LOCAL_IP": "127.0.0.1"}
    venv = Path(sys.executable).parent.parent
    subprocess.run(["make", "kernels", f"VENV={venv}"], cwd=ROOT, env=environment, check=True)
    compiled = {path.name for path in cache.rglob("*.nbc")}
    assert compiled
    subprocess.run(
        [sys.executable, "-m", "eddyline", "demo", "--engine", engine], cwd=tmp_path, env=environment, check=True
    )
    assert {path.name for path in cache.rglob("*.nbc")} == compiled
