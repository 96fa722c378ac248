"""Whose checkpoint it is: one process, one engine, one format."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.errors import CheckpointProblem
from eddyline.runtime.recovery import snapshot
from eddyline.runtime.recovery.checkpoint_identity import claim
from eddyline.runtime.sharded.job import ledger
from eddyline.runtime.sharded.storage import heads

HOLDER = """
import sys, time
from eddyline.runtime.recovery import snapshot
from eddyline.runtime.recovery.checkpoint_identity import claim
from eddyline.runtime.sharded.job import ledger
from eddyline.runtime.sharded.storage import heads
held = claim(sys.argv[1], "embedded", 2)
print("held", flush=True)
time.sleep(600)
"""


def test_a_second_process_is_refused_and_a_killed_one_is_no_hindrance(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "ck")], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    with pytest.raises(CheckpointProblem) as found:
        claim(str(tmp_path / "ck"), "embedded", 2)
    assert f"process {process.pid} on" in found.value.detail and found.value.exit_code == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    claim(str(tmp_path / "ck"), "embedded", 2).release()


def test_two_claims_in_one_process_are_two(tmp_path: Path) -> None:
    first = claim(str(tmp_path), "embedded", 2)
    with pytest.raises(CheckpointProblem, match="in use"):
        claim(str(tmp_path), "embedded", 2)
    first.release()
    claim(str(tmp_path), "embedded", 2).release()


def test_the_other_engine_and_other_formats_are_refused(tmp_path: Path) -> None:
    claim(str(tmp_path), "spark", 4).release()
    with pytest.raises(CheckpointProblem) as found:
        claim(str(tmp_path), "embedded", 2)
    assert "engine spark" in found.value.message and "--overwrite" not in str(found.value)
    with pytest.raises(CheckpointProblem, match="format 4") as found:
        claim(str(tmp_path), "spark", 5)
    assert "the version that wrote it" in found.value.hint
    claim(str(tmp_path), "spark", 4).release()


@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_a_checkpoint_of_the_release_before_is_refused_with_that_release(tmp_path: Path, engine: str) -> None:
    assert snapshot.FORMAT == heads.FORMAT == ledger.FORMAT == 8
    claim(str(tmp_path), engine, 5).release()
    with pytest.raises(CheckpointProblem, match="format 5") as found:
        claim(str(tmp_path), engine, 8)
    assert "eddyline 0.2.0" in found.value.hint and "reads format 8" in found.value.detail


def test_checkpoints_of_earlier_versions_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "checkpoint.json").write_text("{}")
    with pytest.raises(CheckpointProblem, match="format"):
        claim(str(tmp_path / "old"), "embedded", 2)
    with pytest.raises(CheckpointProblem, match="engine embedded"):
        claim(str(tmp_path / "old"), "spark", 2)
    os.makedirs(tmp_path / "sparks" / "offsets")
    with pytest.raises(CheckpointProblem, match="engine spark"):
        claim(str(tmp_path / "sparks"), "embedded", 2)


def test_a_job_that_has_begun_knows_its_folders(tmp_path: Path) -> None:
    held = claim(str(tmp_path / "ck"), "embedded", 2)
    out, other = str(tmp_path / "out"), str(tmp_path / "other")
    assert not held.has_begun([out])
    held.begin([out])
    assert held.has_begun([out]) and not held.has_begun([out, other]) and not held.has_begun([other])
    held.release()


def test_a_damaged_identity_is_named(tmp_path: Path) -> None:
    claim(str(tmp_path), "embedded", 2).release()
    path = tmp_path / "eddyline.json"
    path.write_bytes(path.read_bytes().replace(b"embedded", b"embeddad"))
    with pytest.raises(CheckpointProblem, match="damaged"):
        claim(str(tmp_path), "embedded", 2)
