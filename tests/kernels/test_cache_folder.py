"""A read-only install finds a place for compiled kernels, or works without one."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import eddyline

#: Declares and runs one kernel, and says where Numba keeps it.
USE = """
import numpy as np
from eddyline.kernels.order import ascends
assert ascends(np.arange(5)) and not ascends(np.array([2, 1]))
cache = ascends._cache
print(type(cache).__name__, getattr(cache, "_cache_path", "none"))
"""
_DROP_FROM_BOUNDING_SET, _READ_SEARCH, _OVERRIDE = 24, 2, 1


def without_privileges() -> None:
    """In the child: permissions of files count for root too."""
    if os.geteuid() == 0:
        for capability in (_OVERRIDE, _READ_SEARCH):
            ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)


@pytest.fixture
def installed(tmp_path: Path):
    """A copy of the package, and a home, that cannot be written."""
    site = tmp_path / "site"
    shutil.copytree(Path(eddyline.__file__).parent, site / "eddyline", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "home").mkdir()
    (tmp_path / "temporary").mkdir()
    folders = [tmp_path / "home", *(p for p in [site, *site.rglob("*")] if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield site
    for folder in folders:
        folder.chmod(0o755)


def used(site: Path, **environment: str) -> tuple[str, str]:
    """How and where the cache of a kernel lies in a process of its own."""
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "HOME": str(site.parent / "home")}
    given["TMPDIR"] = str(site.parent / "temporary")
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env=given | environment,
        capture_output=True,
        text=True,
        preexec_fn=without_privileges,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kind, _, place = done.stdout.strip().partition(" ")
    return kind, place


def test_the_copy_is_read_only(installed: Path) -> None:
    done = subprocess.run(
        ["touch", str(installed / "eddyline" / "x")], preexec_fn=without_privileges, capture_output=True, check=False
    )
    assert done.returncode != 0


def test_a_private_folder_below_the_temporary_one(installed: Path) -> None:
    kind, place = used(installed)
    folder = installed.parent / "temporary" / f"eddyline-kernels-{os.getuid()}"
    assert kind == "FunctionCache" and Path(place).parent == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.rglob("*.nbc"))


def test_the_folder_that_the_environment_names_comes_first(installed: Path) -> None:
    named = installed.parent / "named"
    kind, place = used(installed, NUMBA_CACHE_DIR=str(named))
    assert kind == "FunctionCache" and Path(place).parent == named


@pytest.mark.parametrize("planted", ["symlink", "open", "file"])
def test_a_folder_that_others_could_have_filled_is_not_used(installed: Path, planted: str) -> None:
    folder = installed.parent / "temporary" / f"eddyline-kernels-{os.getuid()}"
    if planted == "symlink":
        (installed.parent / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(installed.parent / "elsewhere")
    elif planted == "open":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.touch()
    assert used(installed)[0] == "NullCache"
