"""Named failures of a real job in real processes, and a runner that survives them.

Answer   `Victim` starts `tests.fault.victim` in a session of its own, waits for micro-batches, and kills what a
         scenario names: the driver with everything under it, one Python worker, one executor. `until_done` starts it
         again until the job says that it is done.
Limits   Linux: processes are found in /proc.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass
class Victim:
    config: dict[str, Any]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    #: How often it was started.
    starts: int = 0

    def start(self) -> None:
        path = self.folder / "config.json"
        path.write_text(json.dumps(self.config))
        self.starts += 1
        # The code beside these tests, whatever is installed.
        ours = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        environment = os.environ | ours | self.environment
        # With its own session, so that all its processes can be found and none of ours is hit.
        with open(self.output, "wb") as out, open(self.folder / "errors", "ab") as errors:
            command = [sys.executable, "-m", "tests.fault.victim", str(path)]
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=out, stderr=errors, env=environment, start_new_session=True
            )

    @property
    def output(self) -> Path:
        return self.folder / f"output-{self.starts}"

    def lines(self) -> list[str]:
        return self.output.read_text().splitlines() if self.output.exists() else []

    @property
    def batches(self) -> int:
        return sum(line.startswith("batch") for line in self.lines())

    @property
    def is_done(self) -> bool:
        return "done" in self.lines()

    def wait(self, condition: Callable[[], bool], seconds: float = 240.0) -> None:
        """Until the condition holds or the process has ended."""
        assert self.process is not None
        # Looks, not seconds of the clock: a machine that sleeps for a while wakes both of us.
        for _ in range(int(seconds / 0.01)):
            if self.process.poll() is not None or condition():
                return
            time.sleep(0.01)
        raise AssertionError(f"the job does not get on: {self.lines()}\n{self.errors()}")

    def errors(self) -> str:
        path = self.folder / "errors"
        return path.read_text()[-4000:] if path.exists() else ""

    def processes(self, *words: str) -> list[int]:
        """The processes of its session whose command line has all of the words."""
        assert self.process is not None
        return session_processes(self.process.pid, *words)

    def kill_all(self) -> None:
        """Everything at once, as when the machine's power goes."""
        assert self.process is not None
        end_session(self.process)


def session_processes(session: int, *words: str) -> list[int]:
    """The processes of a session whose command line has all of the words."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                # State, parent, group, session follow the name, which ends with the last parenthesis.
                of = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[3])
                command = Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace")
            except (OSError, ValueError, IndexError):
                continue
            if of == session and all(word in command for word in words):
                found.append(int(entry))
    return found


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started with a session of its own, and everything that it started."""
    while pids := session_processes(process.pid):
        for pid in pids:
            _kill(pid)
        process.poll()
        time.sleep(0.02)
    process.wait()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_driver(victim: Victim, random: Random) -> None:
    """The Python driver; its JVM follows by itself, and is waited for: two drivers must not share a checkpoint."""
    assert victim.process is not None
    _kill(victim.process.pid)
    victim.process.wait()
    limit = time.monotonic() + 240
    while victim.processes() and time.monotonic() < limit:
        time.sleep(0.05)
    victim.kill_all()


def kill_everything(victim: Victim, random: Random) -> None:
    victim.kill_all()


def kill_worker(victim: Victim, random: Random) -> None:
    """One forked Python worker of an executor; the task that it served is run again."""
    forks = victim.processes("eddyline.runtime.spark.daemon")
    workers = [pid for pid in forks if _parent(pid) in forks]
    if workers:
        _kill(random.choice(workers))


def kill_executor(victim: Victim, random: Random) -> None:
    """One executor JVM; the master starts another."""
    executors = victim.processes("java", "CoarseGrainedExecutorBackend")
    if executors:
        _kill(random.choice(executors))


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


#: name -> what happens, and whether the process has to be started again.
SCENARIOS: dict[str, Callable[[Victim, Random], None]] = {
    "driver": kill_driver,
    "everything": kill_everything,
    "worker": kill_worker,
    "executor": kill_executor,
}


def until_done(victim: Victim, scenario: str, random: Random, times: int) -> int:
    """Run the victim to its end through `times` failures at random moments; returns how many there were."""
    # A busy machine may keep Spark from starting in time.
    most_starts = 2 * times + 10
    strike = SCENARIOS[scenario]
    struck = 0
    while not victim.is_done:
        assert victim.starts < most_starts, victim.errors()
        victim.start()
        while struck < times and victim.process is not None and victim.process.poll() is None and not victim.is_done:
            after = victim.batches + random.randint(1, 2)
            victim.wait(lambda: victim.batches >= after or victim.is_done)  # noqa: B023
            if victim.is_done or victim.process.poll() is not None:
                break
            time.sleep(random.random() * 0.4)
            strike(victim, random)
            struck += 1
        assert victim.process is not None
        victim.wait(lambda: False)
    victim.kill_all()
    return struck
