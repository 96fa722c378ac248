"""Helper processes of Spark that are forked: they do what they would do, and end as they would end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from eddyline.runtime.spark.job import helpers
from eddyline.runtime.spark.job.light_home import light_home

#: Says who it is, reads a line, and ends with a code of its own.
MODULE = """
import os, sys
print(os.getpid(), os.getcwd(), os.environ["WORD"], sys.argv[1:], flush=True)
line = sys.stdin.readline()
print("read", line.strip(), file=sys.stderr, flush=True)
sys.exit(int(line) if line.strip() else None)
"""


@pytest.fixture(params=["forked", "nobody answers"])
def script(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "said.py").write_text(MODULE)
    (folder := tmp_path / "a b").mkdir()
    made = helpers.start(folder)
    place, server = helpers._FORKING.popitem()
    until(lambda: made[2].exists())
    if request.param != "forked":
        server.kill()
        server.wait()
    yield made[0]
    # Its input ends.
    os.close(place)
    server.wait(60)


def until(condition) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def begun(script: Path, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [script, "-m", "said", "one", "two words"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "WORD": "x y"},
    )


@pytest.mark.parametrize("code", [0, 3])
def test_a_helper_has_files_arguments_and_variables(script: Path, tmp_path: Path, code: int) -> None:
    asked = begun(script, tmp_path)
    assert asked.stdout is not None
    number, said = asked.stdout.readline().split(" ", 1)
    assert said == f"{tmp_path} x y ['one', 'two words']\n"
    _, problem = asked.communicate(f"{code}\n")
    assert (problem, asked.returncode) == (f"read {code}\n", code)
    until(lambda: not psutil.pid_exists(int(number)))


def test_a_helper_ends_with_whoever_asked(script: Path, tmp_path: Path) -> None:
    asked = begun(script, tmp_path)
    assert asked.stdout is not None
    number = int(asked.stdout.readline().split(" ", 1)[0])
    asked.kill()
    asked.communicate()
    until(lambda: not psutil.pid_exists(number) or psutil.Process(number).status() == psutil.STATUS_ZOMBIE)


def test_a_home_has_all_but_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with light_home() as made:
        home = Path(os.environ["SPARK_HOME"])
        assert made[0] == home and (home / "bin" / "spark-submit").exists() and not (home / "python").exists()
    assert "SPARK_HOME" not in os.environ
    for path in reversed(made):
        path.rmdir() if path == home else path.unlink()
    monkeypatch.setenv("SPARK_HOME", sys.prefix)
    with light_home() as made:
        assert made == [] and os.environ["SPARK_HOME"] == sys.prefix
