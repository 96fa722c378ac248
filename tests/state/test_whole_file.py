"""Files that are there whole or not at all: the order in which a disk is told of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eddyline.state.whole_file import append_line, make_folder, remove_leftovers, remove_others, write_whole


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to files, in order: the call, and the name of what it is done to."""
    noted: list[str] = []

    def name_of(file: Any) -> str:
        return os.path.basename(os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else str(file))

    def noting(call: str) -> Callable[..., Any]:
        real = getattr(os, call)

        def noted_call(file: Any, *more: Any, **named: Any) -> Any:
            noted.append(f"{call} {name_of(file)}")
            return real(file, *more, **named)

        return noted_call

    for call in ("write", "fsync", "replace"):
        monkeypatch.setattr(os, call, noting(call))
    return noted


def test_content_is_on_the_disk_before_its_name_and_the_name_before_the_call_ends(
    tmp_path: Path, done: list[str]
) -> None:
    write_whole(str(tmp_path / "header"), "new")
    assert done == ["write .header.tmp", "fsync .header.tmp", "replace .header.tmp", f"fsync {tmp_path.name}"]
    assert (tmp_path / "header").read_text() == "new"


def test_many_files_of_a_folder_may_be_made_sure_of_at_once(tmp_path: Path, done: list[str]) -> None:
    write_whole(str(tmp_path / "block"), b"rows", synced=False)
    assert done == ["write .block.tmp", "fsync .block.tmp", "replace .block.tmp"]


def test_a_disk_that_fails_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(str(tmp_path / "header"), "old")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="header"):
        write_whole(str(tmp_path / "header"), "new")
    assert [path.name for path in tmp_path.iterdir()] == ["header"]
    assert (tmp_path / "header").read_text() == "old"


def test_a_line_that_is_appended_is_on_the_disk(tmp_path: Path, done: list[str]) -> None:
    log = tmp_path / "names.log"
    log.write_bytes(b"first\n")
    append_line(str(log), b"second\n")
    assert log.read_bytes() == b"first\nsecond\n"
    assert done == ["write names.log", "fsync names.log"]
    with pytest.raises(FileNotFoundError, match=r"missing\.log"):
        append_line(str(tmp_path / "missing.log"), b"third\n")
    assert not (tmp_path / "missing.log").exists()


def test_a_new_folder_is_made_sure_of(tmp_path: Path, done: list[str]) -> None:
    make_folder(str(tmp_path / "state"))
    assert done == [f"fsync {tmp_path.name}"]
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_leftovers_and_files_that_are_not_kept_go(tmp_path: Path) -> None:
    for name in (".half.tmp", "kept", "old"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    remove_leftovers(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "kept", "old"]
    remove_others(str(tmp_path), {"kept"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "kept"]
