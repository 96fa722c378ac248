"""Ranked rows of one registered query, and their snapshot.

Answer   `RankedState.snapshot` names the blocks that hold the rows, as aggregates do: rows are sealed and written once,
         the rest anew.
State    The ranked rows, and those that wait for an instant of EMIT EVERY.
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import Any
from uuid import uuid4

from eddyline.operators.aggregate.contributions import ContributionBlock
from eddyline.operators.aggregate.saved import block_table
from eddyline.operators.ranking.ranked import ArrivingRows, RankedRows, RankSpec
from eddyline.operators.ranking.saved import load_block, load_state, save
from eddyline.state.blocks import Blocks, Load, held_blocks


class RankedState:
    def __init__(self, name: str, spec: RankSpec) -> None:
        self.ranked = RankedRows(spec)
        self.waiting: list[ArrivingRows] = []
        self._name = f"ranked-{blake2b(name.encode(), digest_size=5).hexdigest()}-{uuid4().hex[:8]}"
        self._version = 0

    def moved(self) -> None:
        """The state is another one than at the last snapshot."""
        self.ranked.sweep(self.waiting)
        self._version += 1

    def snapshot(self) -> tuple[dict[str, Any], Blocks]:
        prefix = f"{self._name}-v{self._version}"
        blocks = held_blocks(prefix, save(self.ranked, self.waiting))
        sealed = self.ranked.rows.seal(self._name)
        blocks |= {block.name: partial(block_table, self.ranked.rows, block) for block in sealed}
        return {"prefix": prefix, "blocks": [[b.number, b.name, b.rows] for b in sealed]}, blocks

    def restore(self, state: dict[str, Any], load: Load) -> None:
        self.waiting = load_state(self.ranked, lambda part: load(f"{state['prefix']}-{part}"))
        live = load(f"{state['prefix']}-live")
        for number, name, rows in state["blocks"]:
            load_block(self.ranked, ContributionBlock(number, name, rows), load(name), live)
