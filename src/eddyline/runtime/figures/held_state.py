"""How much a pipeline holds: rows and bytes of all its stores and units, and the most that there were.

Answer   `begin` counts everything as an epoch begins, `count` what has been worked on since.
State    The counts of each store and unit in the epoch at hand.
Limits   The most is noted where a slice has been stored or joined, not while it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eddyline.state.store import Store

if TYPE_CHECKING:
    from eddyline.runtime.engine.unit import Unit


class HeldState:
    def __init__(self) -> None:
        self.rows = self.size = 0
        self.peak_rows = self.peak_bytes = 0
        self._of: dict[int, tuple[int, int]] = {}

    def begin(self, found: Sequence[Store | Unit]) -> None:
        """An epoch begins with these stores and units."""
        self.rows = self.size = 0
        self._of = {}
        self.count(found)

    def count(self, changed: Sequence[Store | Unit], notes_peak: bool = False) -> None:
        """Count some of them again; with `notes_peak`, the most that there were follows."""
        for one in changed:
            rows, size = (one.live, one.nbytes) if isinstance(one, Store) else one.held()
            before = self._of.get(id(one), (0, 0))
            self._of[id(one)] = (rows, size)
            self.rows += rows - before[0]
            self.size += size - before[1]
        if notes_peak:
            self.peak_rows, self.peak_bytes = max(self.peak_rows, self.rows), max(self.peak_bytes, self.size)
