"""Where other systems are installed: an environment of its own for each, apart from the project's.

Answer   `interpreter(peer)` is the Python of a peer's environment; `absent(peer)` says why there is none, or nothing.
State    `$EDDYLINE_PEERS`, or `data/peers` of the project, which git ignores. A whole environment has a file `ready`,
         one that could not be made has a file `failed` with the reason.
Limits   The pinned packages of each peer are in `<peer>.txt` beside this file; `make bench-peers-setup` installs them.
"""

from __future__ import annotations

import os
from pathlib import Path

#: What each peer is, for messages.
PEERS = {
    "flink": "Apache Flink with PyFlink and a Java runtime",
    "bytewax": "bytewax",
    "pathway": "Pathway",
}
_ROOT = Path(__file__).resolve().parents[3]


def folder(peer: str) -> Path:
    return Path(os.environ.get("EDDYLINE_PEERS") or _ROOT / "data" / "peers").resolve() / peer


def pins(peer: str) -> Path:
    return Path(__file__).with_name(f"{peer}.txt")


def interpreter(peer: str) -> Path:
    return folder(peer) / "bin" / "python"


def absent(peer: str) -> str:
    """Why a peer cannot run here; empty when it can."""
    place = folder(peer)
    if (place / "ready").is_file():
        known = (place / "ready").read_text()
        return (
            ""
            if known == pins(peer).read_text()
            else "its pinned versions changed since it was installed: make bench-peers-setup"
        )
    if (place / "failed").is_file():
        return f"it could not be installed: {(place / 'failed').read_text().strip()}"
    return "not installed: make bench-peers-setup"


def version(peer: str) -> str:
    """The pinned version of the peer itself: the first line of its list."""
    return pins(peer).read_text().split("\n", 1)[0].partition("==")[2].strip()
