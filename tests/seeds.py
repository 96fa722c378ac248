"""Where random cases begin, and how many there are.

Answer   `first_seed(apart)` is the first seed of a suite: the seed of the run plus a distance that keeps suites apart.
         `cases(whole, soak)` is the number of cases of a suite. A run has a quarter of `whole`; a soak has `soak`
         cases, or else `whole`. `some(of)` are so many of a fixed list.
State    The seed of the run is `EDDYLINE_SEED`. Without this variable the commit gives it: each commit has other cases,
         and the same commit has the same ones. Outside of git it is 0. `tests/conftest.py` prints it.
         `EDDYLINE_SOAK=1` makes a run a soak, as `make soak` does. `EDDYLINE_SHARE=1` runs whole suites, and 10 runs
         ten times as much.
Limits   One seed and one share for all suites.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
#: The share of its cases that a suite runs, unless EDDYLINE_SHARE says another one.
SHARE = 0.25


@cache
def commit() -> str:
    """The commit that this folder stands on; empty outside of git."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def seed_of(name: str) -> int:
    """The seed that a commit gives: 28 bits, so that a sum with any distance fits 32; 0 without a commit."""
    return int(name[:7] or "0", 16)


def first_seed(apart: int = 0) -> int:
    given = os.environ.get("EDDYLINE_SEED")
    return (seed_of(commit()) if given is None else int(given)) + apart


def is_soak() -> bool:
    return bool(os.environ.get("EDDYLINE_SOAK"))


def share() -> float:
    return float(os.environ.get("EDDYLINE_SHARE", "1" if is_soak() else str(SHARE)))


def cases(whole: int, soak: int | None = None) -> int:
    """How many of its `whole` cases a suite runs now; at least one."""
    return max(1, math.ceil((whole if soak is None or not is_soak() else soak) * share()))


def some(of: Iterable[T]) -> list[T]:
    """The part of a fixed list of cases that a suite runs now, drawn by the seed of the run, in the order of the list."""
    listed = list(of)
    chosen = random.Random(first_seed()).sample(range(len(listed)), min(cases(len(listed)), len(listed)))
    return [listed[at] for at in sorted(chosen)]


def is_whole() -> bool:
    """Whether there are enough cases for a count over all of them: in a part of them what is rare may be missing."""
    return share() >= 1


def repeated_by() -> str:
    """The variables that repeat the random cases of this run."""
    names = ("EDDYLINE_SOAK", "EDDYLINE_SHARE")
    return " ".join(
        [f"EDDYLINE_SEED={first_seed()}", *(f"{name}={os.environ[name]}" for name in names if os.environ.get(name))]
    )
