"""A supervisor that starts the same command again after every failure: kills at random moments, failures at random
operations, a full disk.

The job always ends with all results, each once. EDDYLINE_KILLS says how many random kills there are; a soak has 500.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fault.embedded_life import COMMAND, Life
from tests.fault.forked import Runs
from tests.seeds import cases, first_seed

pytestmark = pytest.mark.fault

KILLS = int(os.environ.get("EDDYLINE_KILLS") or cases(20, soak=500))
#: A supervisor that comes this far in one life does not get on.
_STARTS = 2_000

Start = Callable[[Life], tuple[int, str]]


def supervised(life: Life, start: Start) -> int:
    """A whole life; returns the number of starts that failed."""
    life.first()
    failures = _until_done(life, start)
    life.change()
    return failures + _until_done(life, start)


def _until_done(life: Life, start: Start) -> int:
    failures = 0
    arrived = False
    while True:
        assert failures < _STARTS
        code, said = start(life)
        if code == 0 and arrived:
            return failures
        if code != 0:
            assert code in (2, -signal.SIGKILL) and "Traceback" not in said, said
            failures += 1
        if not arrived:
            life.arrive()
            arrived = True


class Killer:
    """Kills starts at random moments, soon enough that about every other start comes to a checkpoint before, on
    machines of any speed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.limit = 0.3

    def __call__(self, life: Life) -> tuple[int, str]:
        before = self._saved(life)
        ended = life.run(seconds=self.random.uniform(0.0, self.limit))
        self.limit *= 1.1 if self._saved(life) == before else 0.93
        return ended

    def _saved(self, life: Life) -> int:
        path = life.folder / "state/checkpoint.json"
        return path.stat().st_mtime_ns if path.exists() else 0


@pytest.mark.timeout(7200)
def test_random_kills(tmp_path: Path, runs: Runs, wanted: dict[str, object]) -> None:
    began = time.monotonic()
    killer = Killer(first_seed())
    kills = lives = 0
    while kills < KILLS:
        life = Life(tmp_path / str(lives), runs)
        kills += supervised(life, killer)
        assert life.results() == wanted, f"life {lives}, seed {first_seed()}"
        lives += 1
        print(f"{kills} random kills in {lives} lives, {time.monotonic() - began:.0f} s", flush=True)


def test_failures_of_all_kinds(tmp_path: Path, runs: Runs, wanted: dict[str, object]) -> None:
    random = Random(first_seed() + 1)

    def start(life: Life) -> tuple[int, str]:
        how = random.choice(["kill", "torn", "full", "denied", "full once", "none"])
        return life.run() if how == "none" else life.run(life.plan(random.randrange(1, 200), how))

    failures = lives = 0
    while failures < 3:  # a life may come to its end at its first start
        life = Life(tmp_path / str(lives), runs)
        failures += supervised(life, start)
        assert life.results() == wanted, f"life {lives}, seed {first_seed()}"
        lives += 1


def test_two_processes(tmp_path: Path, runs: Runs) -> None:
    """The second one is refused with the number of the first; once that is killed, the same command continues."""
    life = Life(tmp_path, runs)
    life.first()
    command = [argument for argument in COMMAND if argument != "--once"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    first = subprocess.Popen([sys.executable, "-m", "eddyline", *command], cwd=life.folder, env=environment)
    try:
        limit = time.monotonic() + 240
        while (
            not (life.folder / "state/checkpoint.json").exists() and first.poll() is None and time.monotonic() < limit
        ):
            time.sleep(0.02)
        code, said = life.run()
        assert code == 2 and f"process {first.pid} on" in said and "in use" in said and "hint:" in said, said
    finally:
        first.kill()
        first.wait()
    life.ends_well()


def test_a_disk_that_is_really_full(tmp_path: Path, runs: Runs, wanted: dict[str, object]) -> None:
    """A small file system for checkpoint and results, which the supervisor enlarges a little after every failure.

    Without the right to mount one, operations fail as on a full disk.
    """
    life = Life(tmp_path / "life", runs)
    disk = tmp_path / "disk"
    disk.mkdir()
    life.folder.mkdir()
    pages = 10
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={4 * pages}k", "none", str(disk)], capture_output=True
    ).returncode
    for name in ("state", "results"):
        (disk / name).mkdir()
        (life.folder / name).symlink_to(disk / name)
    said: list[str] = []

    def start(life: Life) -> tuple[int, str]:
        nonlocal pages
        code, words = life.run() if mounted else life.run(life.plan(20 * len(said) + 1, "full"))
        if code:
            said.append(words)
            pages += 12
            if mounted:
                subprocess.run(["mount", "-o", f"remount,size={4 * pages}k", str(disk)], check=True)
        return code, words

    try:
        supervised(life, start)
        assert life.results() == wanted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)
    assert len(said) > 5
    for words in said:
        # A report that cannot be written is a warning before the message that ends the job.
        told = "".join(
            line
            for line in words.splitlines(keepends=True)
            if not line.startswith("reports of the job are not written: ")
        )
        assert (
            told.startswith("error:") and told.count("error:") == 1 and "No space left" in told and "hint:" in told
        ), words


def test_a_disk_that_is_read_only(tmp_path: Path, runs: Runs) -> None:
    """Refused with one message; once it can be written, the same command continues. Without the right to mount,
    permission is denied."""
    life = Life(tmp_path / "life", runs)
    disk = tmp_path / "disk"
    disk.mkdir()
    life.first()
    mounted = not subprocess.run(["mount", "-t", "tmpfs", "none", str(disk)], capture_output=True).returncode
    for name in ("state", "results"):
        (disk / name).mkdir()
        (life.folder / name).symlink_to(disk / name)
    try:
        for _ in range(2):
            if mounted:
                subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            code, said = life.run() if mounted else life.run(life.plan(1, "denied"))
            assert code == 2 and said.count("error:") == 1 and "hint:" in said, said
            assert ("Read-only file system" if mounted else "Permission denied") in said
            if mounted:
                subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
            life.ends_well()
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)
