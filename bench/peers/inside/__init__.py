"""Programs that run inside the environments of other systems, and the way to start them.

Answer   `run(peer, program, argument, limit)` starts `inside/<program>.py` with the Python of a peer's environment; the
         program gets its argument as JSON and writes JSON. `Absent` says that the peer is not installed, and why.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.peers import environments, processes


class Absent(Exception):
    """A peer cannot run here: the text says why."""


def run(
    peer: str, program: str, argument: Mapping[str, object], limit: float, **variables: str
) -> tuple[dict[str, Any], processes.Watched]:
    """What the program reported, empty when it was stopped, and how it went; `variables` are set in its environment."""
    reason = environments.absent(peer)
    if reason:
        raise Absent(f"{peer}: {reason}")
    file = Path(__file__).with_name(f"{program}.py")
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as name:
        report = Path(name) / "report.json"
        command = [str(environments.interpreter(peer)), str(file), json.dumps(argument), str(report)]
        watched = processes.watch(command, limit, Path(name), {"PYTHONPATH": "", **variables})
        return (json.loads(report.read_text()) if report.exists() else {}), watched
