"""The spool gives back what was saved, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from eddyline.runtime.spark.shard.spool import Spool, Stamp, spool_folder

BLOB = bytes(range(256)) * 40


def saved(tmp_path: Path) -> tuple[Spool, Stamp]:
    spool, stamp = Spool(str(tmp_path / "s")), Stamp.of(BLOB, "t1")
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
    (file,) = (tmp_path / "s").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert spool.load("bids-0-10", stamp) is None


def test_only_what_is_live_is_kept(tmp_path: Path) -> None:
    spool, stamp = saved(tmp_path)
    spool.save("bids-10-20", stamp, BLOB)
    (tmp_path / "s" / "leftover.part").write_bytes(b"x")
    spool.keep([("bids-10-20", stamp)])
    assert [f.name for f in (tmp_path / "s").iterdir()] == ["bids-10-20.t1.arrow"]


def test_a_full_disk_is_counted_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    spool = Spool(str(tmp_path / "file"))
    spool.save("bids-0-10", Stamp.of(BLOB, "t1"), BLOB)
    assert spool.failures == 1
    assert spool.load("bids-0-10", Stamp.of(BLOB, "t1")) is None


def test_checkpoints_have_folders_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDDYLINE_SPOOL", str(tmp_path))
    assert spool_folder("a") != spool_folder("b")
    assert spool_folder("a").startswith(str(tmp_path))
