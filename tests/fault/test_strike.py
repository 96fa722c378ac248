"""The strikes themselves: counted across processes, and carried out at the operation that they name."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fault.strike import Plan, operations

pytestmark = pytest.mark.fault

JOB = """
import os, sys
from pathlib import Path
folder = sys.argv[1]
os.makedirs(folder + "/x")
with open(folder + "/a", "w") as file:
    file.write("0123456789")
os.rename(folder + "/a", folder + "/b")
file = os.open(folder + "/c", os.O_WRONLY | os.O_CREAT)
os.write(file, b"0123456789")
os.fsync(file)
Path(folder + "/b").unlink()
open(sys.argv[2], "w").close()
"""
KINDS = ["mkdir", "open", "write", "rename", "open", "write", "fsync", "remove"]


def run(tmp_path: Path, at: int, how: str) -> tuple[int, Path]:
    folder = tmp_path / f"{how}-{at}"
    folder.mkdir()
    plan = Plan((str(folder),), str(tmp_path / f"{how}-{at}.log"), at, how)
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(folder), str(tmp_path / "elsewhere")],
        env=plan.environment(),
        stderr=subprocess.PIPE,
    )
    return done.returncode, folder


def test_every_operation_is_counted_and_can_be_struck(tmp_path: Path) -> None:
    assert run(tmp_path, 0, "kill")[0] == 0
    assert [found.kind for found in operations(tmp_path / "kill-0.log")] == KINDS
    for at in range(1, len(KINDS) + 1):
        code, folder = run(tmp_path, at, "kill")
        assert code == -signal.SIGKILL and len(operations(tmp_path / f"kill-{at}.log")) == at
        assert (folder / "x").exists() == (at > 1) and (folder / "b").exists() == (4 < at <= 8)


def test_a_write_is_torn(tmp_path: Path) -> None:
    for at, name in ((3, "a"), (6, "c")):
        code, folder = run(tmp_path, at, "torn")
        assert code == -signal.SIGKILL and (folder / name).read_text() == "01234"


def test_the_disk_is_full_from_there_on(tmp_path: Path) -> None:
    code, folder = run(tmp_path, 5, "full")
    assert code == 1 and (folder / "b").exists() and not (folder / "c").exists()


def test_processes_count_together(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    plan = Plan((str(tmp_path / "f"),), str(tmp_path / "log"))
    for number in range(3):
        program = f"import os; os.mkdir('{tmp_path}/f/{number}')"
        subprocess.run([sys.executable, "-c", program], env=plan.environment(), check=True)
    assert [(found.number, Path(found.path).name) for found in operations(tmp_path / "log")] == [
        (1, "0"),
        (2, "1"),
        (3, "2"),
    ]


def test_a_site_names_functions_of_the_package(tmp_path: Path) -> None:
    """And of nothing else, whatever the folder of the checkout is called (`tests/test_place.py` runs this in a folder
    with that name)."""
    (tmp_path / "ü").mkdir()
    plan = Plan((str(tmp_path / "ü"),), str(tmp_path / "log"))
    program = "import sys; from eddyline.state.whole_file import write_whole; write_whole(sys.argv[1], b'whole')"
    for name in ("a", "ß" * 90):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / "ü" / name)], env=plan.environment(), check=True)
    found = operations(tmp_path / "log")
    assert [one.number for one in found] == list(range(1, len(found) + 1)) and {"open", "write", "fsync", "rename"} <= {
        one.kind for one in found
    }
    assert all(function.startswith("whole_file.") for one in found for function in one.asked.split(" < ")), found
