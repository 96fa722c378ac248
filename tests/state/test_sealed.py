"""Files that are whole or not there, and files whose damage is named."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from eddyline.errors import CheckpointProblem
from eddyline.state.sealed import read_sealed, sealed, unsealed, write_sealed
from eddyline.state.whole_file import SHARED, make_folder, remove_leftovers, write_whole


def test_a_sealed_value_comes_back(tmp_path: Path) -> None:
    body = {"text": 'a "quoted" \n line', "numbers": [1, 2.5, None], "inside": {"body": "}"}}
    write_sealed(str(tmp_path / "x.json"), body)
    assert read_sealed(str(tmp_path / "x.json"), "a value") == body


def test_any_changed_bit_and_any_cut_is_noticed() -> None:
    whole = sealed({"epoch": 7, "positions": {"a": [1, 2, 3]}})
    for at in range(len(whole)):
        with pytest.raises(ValueError):
            unsealed(whole[:at])
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[at] ^= 1 << bit
            with pytest.raises(ValueError):
                unsealed(bytes(spoiled))


def test_damage_names_the_file_what_it_held_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(sealed([1, 2])[:-3])
    with pytest.raises(CheckpointProblem) as found:
        read_sealed(str(path), "the state of the job")
    assert str(path) in found.value.message and "the state of the job" in found.value.detail and found.value.hint
    with pytest.raises(FileNotFoundError):
        read_sealed(str(tmp_path / "y.json"), "nothing")


def test_permissions_are_the_owners_or_the_umasks(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        make_folder(str(tmp_path / "mine"))
        make_folder(str(tmp_path / "all"), private=False)
        write_whole(str(tmp_path / "mine" / "a"), "x")
        write_whole(str(tmp_path / "all" / "b"), b"x", mode=SHARED)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("mine", "all", "mine/a", "all/b")]
    assert modes == [0o700, 0o755, 0o600, 0o644]


def test_what_an_interrupted_write_leaves_is_replaced_or_removed(tmp_path: Path) -> None:
    (tmp_path / ".a.tmp").write_text("half")
    (tmp_path / ".b.tmp").write_text("half")
    write_whole(str(tmp_path / "a"), "whole")
    assert sorted(os.listdir(tmp_path)) == [".b.tmp", "a"]
    remove_leftovers(str(tmp_path))
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "whole"


def test_a_write_that_fails_names_the_file_and_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match=str(tmp_path / "a")):
        write_whole(str(tmp_path / "a"), "text")
    assert os.listdir(tmp_path) == ["a"]
