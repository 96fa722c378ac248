"""How many rows and runs the access paths have read: exact counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Visits:
    rows: int = 0
    runs: int = 0
