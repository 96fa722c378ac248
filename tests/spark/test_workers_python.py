"""The Python of Spark's workers is looked at before Spark starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.errors import SettingProblem
from eddyline.runtime.spark.job.guest import check_interpreter


def interpreter(folder: Path, script: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("exit 3", "it ended with exit code 3"),
        ("echo \"ModuleNotFoundError: No module named 'eddyline'\" >&2; exit 1", "No module named 'eddyline'"),
        ("echo 2.7", "is Python 2.7, this program runs on"),
    ],
)
def test_an_interpreter_that_does_not_fit_is_named(tmp_path: Path, script: str, detail: str) -> None:
    with pytest.raises(SettingProblem, match="the Python of Spark's workers") as found:
        check_interpreter(interpreter(tmp_path, script))
    assert detail in found.value.detail and "PYSPARK_PYTHON" in found.value.hint


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingProblem, match="the Python of Spark's workers") as found:
        check_interpreter(str(tmp_path / "nothing"))
    assert "nothing" in found.value.detail


def test_the_interpreter_of_this_program_fits() -> None:
    check_interpreter(sys.executable)


def test_a_session_looks_at_it_first(tmp_path: Path) -> None:
    """A session of Spark as its own JVM would be, but for the JVM: `Session(spark=…)` ends before it is asked."""
    program = """
import sys
from pyspark.sql import SparkSession
from eddyline import Session, UserError

class Context:
    master, pythonExec = "local[2]", sys.argv[1]
    def getConf(self):
        return {}

class Spark(SparkSession):
    version, sparkContext, _jsparkSession = "4.1.0", Context(), None
    def __init__(self):
        pass

try:
    Session(spark=Spark())
except UserError as problem:
    print(problem)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, interpreter(tmp_path, "exit 3")], capture_output=True, text=True, timeout=480
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("the Python of Spark's workers is not the one of this program\n")
