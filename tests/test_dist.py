"""The package as users get it: a wheel that is built, installed elsewhere, and runs the example of the front page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, from a copy of what is in the repository: a build leaves files beside its sources."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if name.startswith(("src/", "README", "LICENSE", "pyproject")) and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    _run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(source)])
    (wheel,) = out.glob("*.whl")
    return wheel


def test_the_wheel_says_what_it_is(built: Path) -> None:
    assert built.name.startswith("eddyline-0.2.0-")
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
        (found,) = [name for name in names if name.endswith("METADATA")]
        metadata = Parser().parsestr(archive.read(found).decode())
    for file in ("dashboard/page/index.html", "dashboard/page/main.js", "dashboard/page/vendor/uPlot.js", "py.typed"):
        assert f"eddyline/{file}" in names, file
    assert any(name.endswith("uPlot.LICENSE.txt") for name in names)
    assert not [name for name in names if name.startswith("tests")]
    assert metadata["Keywords"] and metadata["License-Expression"] == "Apache-2.0" and metadata["Requires-Python"]
    assert {"spark", "dashboard", "shell"} <= set(metadata.get_all("Provides-Extra") or [])
    assert len(metadata.get_all("Classifier") or []) >= 5
    links = dict(link.split(", ", 1) for link in metadata.get_all("Project-URL") or [])
    assert links["License"].endswith("LICENSE-2.0") and all(
        address.startswith("https://") for address in links.values()
    )


def installed(built: Path, folder: Path) -> str:
    """The Python of a new environment with the wheel. The packages that it needs are those of this environment; the
    package itself is the wheel's."""
    python = _environment(folder / "venv")
    _run(
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-index",
            str(built),
        ]
    )
    site = _run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    Path(site, "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_an_installed_wheel_runs_the_example(built: Path, tmp_path: Path) -> None:
    python = installed(built, tmp_path)
    _check_example(python, tmp_path)
    assert _run([python, "-m", "eddyline", "version"], cwd=tmp_path) == "eddyline 0.2.0\n"


@pytest.mark.long
@pytest.mark.parametrize("extra", ["", "[spark,dashboard]"])
def test_an_empty_environment_is_enough(built: Path, tmp_path: Path, extra: str) -> None:
    python = _environment(tmp_path / "venv")
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{built}{extra}"])
    _check_example(python, tmp_path)
    if extra:
        job = """CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (format = 'jsonl', path = 'bids', time = 'ts');
                 CREATE QUERY dear AS SELECT item FROM bids WHERE price > 100;"""
        (tmp_path / "bids").mkdir()
        (tmp_path / "bids" / "1.jsonl").write_text('{"item": 7, "price": 120.0, "ts": "2024-01-01 12:00:00"}\n')
        (tmp_path / "job.sql").write_text(job)
        said = _run(
            [python, "-m", "eddyline", "run", "job.sql", "--once", "--engine", "spark", "--out", "out"], cwd=tmp_path
        )
        assert "dear: 1 results" in said


def _environment(folder: Path) -> str:
    venv.create(folder, with_pip=True)
    return str(folder / "bin" / "python")


def _check_example(python: str, folder: Path) -> None:
    """The first query of the front page prints what the page says."""
    page = (ROOT / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", page, re.S)
    assert found is not None
    (folder / "example.py").write_text(found[1])
    assert _run([python, "example.py"], cwd=folder) == found[2]
    assert str(folder) in _run([python, "-c", "import eddyline; print(eddyline.__file__)"], cwd=folder)


def _run(command: Sequence[str], cwd: Path | None = None) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=clean)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
