"""Bytecode in a zip: Python imports it, and what was in the zip stays as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from tests.zipped import with_bytecode


def test_modules_are_imported_from_bytecode(tmp_path: Path) -> None:
    path = tmp_path / "made.zip"
    with ZipFile(path, "w") as made:
        made.writestr("house/__init__.py", "")
        made.writestr("house/room.py", "WORD = 'in'\n")
        made.writestr("house/tests/test_room.py", "")
        before = {info.filename: (info.header_offset, info.CRC) for info in made.infolist()}
    assert with_bytecode(path) and not with_bytecode(path)
    with ZipFile(path) as made:
        after = {info.filename: (info.header_offset, info.CRC) for info in made.infolist()}
    assert before.items() <= after.items() and after.keys() - before.keys() == {"house/__init__.pyc", "house/room.pyc"}
    said = subprocess.run(
        [sys.executable, "-c", "from house import room; print(room.__file__, room.WORD)"],
        env={"PYTHONPATH": str(path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.split() == [str(path / "house" / "room.pyc"), "in"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["made.zip"]
