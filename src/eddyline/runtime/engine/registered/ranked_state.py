"""Ranked rows of one registered query, and their snapshot.

State    The ranked rows, and those that wait for an instant of EMIT EVERY.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any
from uuid import uuid4

from eddyline.operators.aggregate.instant_queue import InstantQueue
from eddyline.operators.ranking.ranked import ArrivingRows, RankedRows, RankSpec
from eddyline.operators.ranking.saved import RankedBlocks
from eddyline.state.blocks import Blocks, Load


class RankedState:
    def __init__(self, name: str, spec: RankSpec) -> None:
        self.ranked = RankedRows(spec)
        self.waiting = InstantQueue(ArrivingRows)
        self._blocks = RankedBlocks(self.ranked)
        #: Begins the names of all blocks.
        self.name = f"ranked-{blake2b(name.encode(), digest_size=5).hexdigest()}-{uuid4().hex[:8]}"

    def moved(self) -> None:
        """The state is another one than at the last snapshot."""
        self.ranked.sweep(self.waiting.parts)

    def snapshot(self) -> tuple[dict[str, Any], Blocks]:
        state, blocks = self._blocks.snapshot(self.name)
        waiting, more = self.waiting.snapshot(f"{self.name}-waiting")
        return {**state, "prefix": self.name, "waiting": waiting}, blocks | more

    def restore(self, state: dict[str, Any], load: Load) -> None:
        self._blocks.restore(state, load)
        self.waiting.restore(state["waiting"], load)
