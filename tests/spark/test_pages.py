"""Pages and examples that start Spark run as they are written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.runtime.spark.job.java import suitable_java
from tests.test_docs import ROOT, SPARK_PAGES, run_page

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", SPARK_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(spark, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`getOrCreate` in a page finds the session of this suite."""
    run_page(str(page.relative_to(ROOT)), page.read_text(), tmp_path, monkeypatch)


@pytest.mark.long
def test_the_example_for_pyspark_users(tmp_path: Path) -> None:
    """In a process of its own: a session that has none of our settings."""
    example = ROOT / "examples" / "spark_frames.py"
    environment = {**os.environ, "JAVA_HOME": suitable_java()}
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["ada 1", "bob 2"]


def test_the_program_of_25_lines_sets_its_own_interpreter(tmp_path: Path) -> None:
    """The shell names an interpreter that does not run; the program names its own."""
    example = ROOT / "examples" / "spark_query.py"
    assert len(example.read_text().splitlines()) <= 25
    environment = {**os.environ, "JAVA_HOME": suitable_java(), "PYSPARK_PYTHON": "/usr/bin/false"}
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    assert [row[:2] for row in rows] == [["item", "price"], ["7", "120.0"], ["8", "150.0"]]
