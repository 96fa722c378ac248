"""`python -m bench.peers.setup [flink bytewax pathway]`: the environments of the peers.

Answer   Makes a virtual environment per peer and installs its pinned packages there, from the package index that pip is
         configured for. A peer that cannot be installed is named with the reason, and the others are installed
         nevertheless. Exit code 0 when at least one of them is ready, otherwise 1.
State    See `bench/peers/environments`. An environment whose pins have not changed is left as it is.
Limits   Nothing is installed into the environment of the project. Peers need the network, or an index that pip reaches.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence

from bench.peers import environments


def install(peer: str, python: str) -> str:
    """Install one peer; what went wrong, or nothing."""
    place = environments.folder(peer)
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    reason = _run([python, "-m", "venv", str(place)])
    pip = [str(environments.interpreter(peer)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not reason:
        reason = _run([*pip, "--no-deps", "-r", str(environments.pins(peer))])
    place.mkdir(exist_ok=True)
    if reason:
        (place / "failed").write_text(f"{reason}\n")
    else:
        (place / "ready").write_text(environments.pins(peer).read_text())
    return reason


def _run(command: Sequence[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return ""
    said = [line for line in (ran.stderr + ran.stdout).splitlines() if line.strip()]
    return next((line for line in said if "ERROR" in line), said[-1] if said else f"exit code {ran.returncode}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.setup", description="Environments of the peers.")
    parser.add_argument(
        "peers", nargs="*", metavar="PEER", help=f"which ones: {', '.join(environments.PEERS)} (default: all)"
    )
    parser.add_argument("--python", default=sys.executable, help="the Python that the environments are made with")
    options = parser.parse_args(arguments)
    unknown = [peer for peer in options.peers if peer not in environments.PEERS]
    if unknown:
        parser.error(f"unknown peer {unknown[0]}; known: {', '.join(environments.PEERS)}")
    ready = 0
    for peer in options.peers or environments.PEERS:
        if not environments.absent(peer):
            print(f"peers: {peer} {environments.version(peer)} is installed already")
            ready += 1
            continue
        print(f"peers: installing {environments.PEERS[peer]} {environments.version(peer)}", flush=True)
        reason = install(peer, options.python)
        ready += not reason
        print(f"peers: {peer} CANNOT RUN HERE: {reason}" if reason else f"peers: {peer} is ready", flush=True)
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
