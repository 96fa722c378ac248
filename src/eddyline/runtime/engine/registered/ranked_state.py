"""Ranked rows of one registered query, and their snapshot.

State    The ranked rows, and those that wait for an instant of EMIT EVERY; the latter are written whole.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any
from uuid import uuid4

from eddyline.operators.aggregate.saved import waiting_blocks
from eddyline.operators.ranking.ranked import ArrivingRows, RankedRows, RankSpec
from eddyline.operators.ranking.saved import WAITING, RankedBlocks, waiting_rows
from eddyline.state.blocks import Blocks, Load


class RankedState:
    def __init__(self, name: str, spec: RankSpec) -> None:
        self.ranked = RankedRows(spec)
        self.waiting: list[ArrivingRows] = []
        self._blocks = RankedBlocks(self.ranked)
        #: Begins the names of all blocks.
        self.name = f"ranked-{blake2b(name.encode(), digest_size=5).hexdigest()}-{uuid4().hex[:8]}"
        self._version = 0

    def moved(self) -> None:
        """The state is another one than at the last snapshot."""
        self.ranked.sweep(self.waiting)
        self._version += 1

    def snapshot(self) -> tuple[dict[str, Any], Blocks]:
        state, blocks = self._blocks.snapshot(self.name)
        waiting, more = waiting_blocks(f"{self.name}-v{self._version}-waiting", self.waiting, WAITING)
        return {**state, "prefix": self.name, "waiting": waiting}, blocks | more

    def restore(self, state: dict[str, Any], load: Load) -> None:
        self._blocks.restore(state, load)
        self.waiting = waiting_rows(state["waiting"], load)
