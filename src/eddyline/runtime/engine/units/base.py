"""What a unit does that keeps no rows of its own and has nothing to run while nothing comes in.

Answer   `UnitBase` answers the questions of the protocol for such units; a unit with state has its own answers.
"""

from __future__ import annotations

from eddyline.runtime.engine.unit import Moment


class UnitBase:
    def purge(self, now: int) -> None:
        """No row is kept here: stores keep what ports ask for."""

    def rest(self, moment: Moment) -> None:
        """Nothing waits for a pause."""

    def held(self) -> tuple[int, int]:
        return 0, 0
