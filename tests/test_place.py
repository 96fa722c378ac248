"""The name and the place of the checkout mean nothing: a copy of the tree called `eddyline`, on a machine without Java.

The folder above it is called `src`; the one above that has a blank, an umlaut and more than 200 characters in its name,
and is reached by a link. The copy has an environment of its own, into which the package is installed as `make setup`
does; other packages are those of this environment, and compiled kernels those of this checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.spark.material import write_files

ROOT = Path(__file__).resolve().parents[1]
STATE = "tests/fault/test_signalled.py::test_a_signal_in_each_state[pipeline.Pipeline.step]"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy, by way of a link."""
    base = tmp_path_factory.mktemp("place")
    folder = base / f"a b ü {'x' * 200}" / "src"
    top = folder / "eddyline"
    for name in ("src", "tests", "docs", "Makefile", "pyproject.toml", "requirements.lock", "README.md", "LICENSE"):
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, top / name, ignore=None if name == "src" else shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, top / name)
    venv.create(top / ".venv", symlinks=True)
    packages = subprocess.check_output(
        [top / ".venv/bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    Path(packages.strip(), "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (base / "link").symlink_to(folder.parent)
    (base / "bin").mkdir()
    # Everything that PATH has, without Java.
    for entry in (
        one for part in os.environ["PATH"].split(os.pathsep) if os.path.isdir(part) for one in os.scandir(part)
    ):
        if not entry.name.startswith("java") and not os.path.lexists(base / "bin" / entry.name):
            os.symlink(entry.path, base / "bin" / entry.name)
    place = base / "link" / "src" / "eddyline"
    run(
        place,
        ".venv/bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--editable",
        ".",
    )
    assert str(top) in run(place, ".venv/bin/python", "-c", "import eddyline; print(eddyline.__file__)")
    return place


def run(place: Path, *command: str) -> str:
    names = (
        "JAVA_HOME",
        "SPARK_HOME",
        "SPARK_SUBMIT_OPTS",
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "MAKEFLAGS",
        "MAKELEVEL",
    )
    left = {name: value for name, value in os.environ.items() if name not in names and not name.startswith("PYTEST")}
    environment = left | {"PATH": str(place.parents[2] / "bin")}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_strikes_are_carried_out(place: Path) -> None:
    run(place, ".venv/bin/python", "-m", "pytest", "-n", "0", "tests/fault/test_strike.py", STATE)


JOB = """
SET shards = 2;
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='a', time='ts');
CREATE QUERY pairs AS SELECT x.v AS first, y.v AS second FROM a [RANGE 1 SECOND] x, a [RANGE 1 SECOND] y WHERE x.k = y.k AND x.v < y.v;
"""


@pytest.mark.long
@pytest.mark.spark
def test_a_job_runs_on_the_java_of_the_wheel(place: Path) -> None:
    """With the variables that the Makefile sets: Spark's launcher reads the path of the archive of classes from one of
    them."""
    write_files(place / "a", ["0.parquet"], 100)
    (place / "job.sql").write_text(JOB)
    (place / ".venv/spark-classes.jsa").touch()
    task = "job:;@$(VENV)/bin/eddyline run job.sql --once --engine spark --master 'local[2]' --out out"
    run(place, "make", "--no-print-directory", "--eval", task, "job")
    rows = parquet.read_table(place / "a").to_pylist()
    within = [
        (x, y)
        for x in rows
        for y in rows
        if x["k"] == y["k"] and x["v"] < y["v"] and abs(x["ts"] - y["ts"]) <= timedelta(seconds=1)
    ]
    found = parquet.read_table(place / "out" / "pairs").to_pylist()
    assert sorted((row["first"], row["second"]) for row in found) == sorted((x["v"], y["v"]) for x, y in within) != []
