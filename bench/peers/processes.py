"""A system in a process of its own: started, watched, and stopped when it takes too long.

Answer   `run_module` runs `python -m MODULE ARGUMENT RESULT`, where the argument is JSON and the module writes JSON to
         RESULT; `watch` does the same for any command. Both say how much memory the process and its children held at
         most.
Limits   Linux: a run is stopped with its whole process group.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import PeakMemory
from eddyline.runtime.spark.job.java import suitable_java

#: The folder that holds the package `bench`: modules are started from any working directory.
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Watched:
    peak_rss: int
    stopped: bool
    #: The last lines that the process wrote, for error messages.
    said: str


def watch(command: Sequence[str], limit: float, folder: Path, variables: Mapping[str, str] | None = None) -> Watched:
    """Run a command to its end, or stop it after `limit` seconds. A command that fails is an error here."""
    said = folder / "said.txt"
    known = {**environment(), **(variables or {})}
    with said.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=known, cwd=folder, start_new_session=True
        )
        stopped = False
        try:
            with PeakMemory(process.pid, interval=0.25) as memory:
                largest = _wait(process, limit)
                stopped = largest is None
        finally:
            # Also when we are interrupted: the group is a session of its own and would go on without us.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    tail = "\n".join(said.read_text(errors="replace").splitlines()[-40:])
    if process.returncode != 0 and not stopped:
        raise RuntimeError(f"{Path(command[0]).name} ended with {process.returncode}:\n{tail}")
    # The samples count a process with its children; the system also knows a peak between two samples, of one process.
    return Watched(max(memory.peak, largest or 0), stopped, tail)


def _wait(process: subprocess.Popen[bytes], limit: float) -> int | None:
    """The most bytes that the process held, once it has ended; None: it has not within `limit` seconds."""
    ended = os.pidfd_open(process.pid)
    try:
        if not select.select([ended], [], [], limit)[0]:
            return None
    finally:
        os.close(ended)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return 1024 * usage.ru_maxrss


def run_module(module: str, argument: Mapping[str, object], limit: float) -> tuple[dict[str, Any], Watched]:
    """Run a module of ours; the first of the pair is what it reported, empty when it was stopped."""
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as name:
        folder = Path(name)
        report = folder / "report.json"
        watched = watch([sys.executable, "-m", module, json.dumps(argument), str(report)], limit, folder)
        return (json.loads(report.read_text()) if report.exists() else {}), watched


def environment() -> dict[str, str]:
    """Ours, plus what Spark needs: the running interpreter for its workers, the loopback address, a Java runtime."""
    found = dict(os.environ)
    found["PYTHONPATH"] = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    found["PYSPARK_PYTHON"] = found["PYSPARK_DRIVER_PYTHON"] = sys.executable
    found.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    found["JAVA_HOME"] = suitable_java()
    return found
