"""The spool gives back what was saved, or nothing."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.runtime.sharded.storage.spool import Spool, Stamp, hold, remove_dead, spool_folder

BLOB = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def _base(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDDYLINE_SPOOL", str(tmp_path))


def saved(tmp_path: Path) -> tuple[Spool, Stamp]:
    spool, stamp = Spool(str(tmp_path / "job" / "s")), Stamp.of(BLOB, "t1")
    spool.save("bids-0-10", stamp, BLOB)
    return spool, stamp


def test_a_segment_comes_back_as_it_was(tmp_path: Path) -> None:
    spool, stamp = saved(tmp_path)
    found = spool.load("bids-0-10", stamp)
    assert found is not None and bytes(found) == BLOB


def test_a_segment_of_another_epoch_is_not_there(tmp_path: Path) -> None:
    spool, _ = saved(tmp_path)
    assert spool.load("bids-0-10", Stamp.of(BLOB, "t2")) is None


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:100] + b"\xff" + b[101:], lambda b: b""])
def test_a_damaged_segment_is_not_there(tmp_path: Path, damage) -> None:
    spool, stamp = saved(tmp_path)
    (file,) = (tmp_path / "job" / "s").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert spool.load("bids-0-10", stamp) is None


def test_only_what_is_live_is_kept(tmp_path: Path) -> None:
    spool, stamp = saved(tmp_path)
    spool.save("bids-10-20", stamp, BLOB)
    (tmp_path / "job" / "s" / "leftover.part").write_bytes(b"x")
    spool.keep([("bids-10-20", stamp)])
    assert [f.name for f in (tmp_path / "job" / "s").iterdir()] == ["bids-10-20.t1.arrow"]


def test_a_full_disk_is_counted_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    spool = Spool(str(tmp_path / "file" / "0"))
    spool.save("bids-0-10", Stamp.of(BLOB, "t1"), BLOB)
    assert spool.failures == 1
    assert spool.load("bids-0-10", Stamp.of(BLOB, "t1")) is None


def test_checkpoints_have_folders_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDDYLINE_SPOOL", str(tmp_path))
    assert spool_folder("a") != spool_folder("b")
    assert spool_folder("a").startswith(str(tmp_path))


# -- whose it is


def below(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Path:
    """The folder of a job below the temporary folder."""
    monkeypatch.delenv("EDDYLINE_SPOOL")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return Path(spool_folder("ck"))


def test_folders_and_files_are_for_their_owner_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = below(monkeypatch, tmp_path)
    assert folder.parent == tmp_path / f"eddyline-{os.getuid()}"
    # An earlier version left it open.
    folder.parent.mkdir(mode=0o755)
    spool, stamp = Spool(str(folder / "0")), Stamp.of(BLOB, "t1")
    spool.save("x", stamp, BLOB)
    assert spool.load("x", stamp) is not None
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, folder / "0")] == [0o700] * 3
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*.arrow")] == [0o600]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_symbolic_link_is_not_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, level: int) -> None:
    folder = below(monkeypatch, tmp_path)
    path = [folder.parent, folder, folder / "0"][level]
    (tmp_path / "elsewhere").mkdir()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.symlink_to(tmp_path / "elsewhere")
    spool, stamp = Spool(str(folder / "0")), Stamp.of(BLOB, "t1")
    spool.save("x", stamp, BLOB)
    assert spool.failures == 1 and spool.load("x", stamp) is None
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_segment_that_is_a_link_is_not_there(tmp_path: Path) -> None:
    spool, stamp = saved(tmp_path)
    (file,) = (tmp_path / "job" / "s").iterdir()
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    assert spool.load("bids-0-10", stamp) is None


def test_a_folder_of_another_user_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = Path(spool_folder("ck"))
    folder.mkdir(parents=True)
    here = os.getuid()
    monkeypatch.setattr("os.getuid", lambda: here + 1)
    spool, stamp = Spool(str(folder / "0")), Stamp.of(BLOB, "t1")
    spool.save("x", stamp, BLOB)
    assert spool.failures == 1 and not list(folder.iterdir())


def test_folders_of_dead_jobs_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    """A real process holds one of them, and is killed."""
    program = """
import time
from eddyline.runtime.sharded.storage.spool import Spool, Stamp, hold, remove_dead, spool_folder
Spool(spool_folder("other") + "/0").save("x", Stamp.of(b"abc", "t"), b"abc")
print("held", flush=True)
time.sleep(600)
"""
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        assert hold(spool_folder("mine"))
        (tmp_path / "no folder of ours").mkdir()
        remove_dead(str(tmp_path))
        assert Path(spool_folder("mine")).exists() and Path(spool_folder("other")).exists()
    finally:
        other.kill()
        other.wait()
        assert other.stdout is not None
        other.stdout.close()
    remove_dead(str(tmp_path))
    assert Path(spool_folder("mine")).exists() and not Path(spool_folder("other")).exists()
    assert (tmp_path / "no folder of ours").exists()
