"""The state of ranked rows in snapshots.

Answer   `RankedBlocks.snapshot` names the blocks of interned bytes, of partitions, and of live rows with their numbers in
         the answer: what has not changed since the last snapshot is not written again. `restore` brings fresh
         `RankedRows` to exactly that state.
State    Which interned bytes were written. The rest is with the partitions and the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.operators.aggregate import tables
from eddyline.operators.ranking.ranked import RankedRows
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints


class RankedBlocks:
    def __init__(self, ranked: RankedRows) -> None:
        self.ranked = ranked
        self.texts = tables.TextBlocks(ranked.encoder)

    def snapshot(self, name: str) -> tuple[dict[str, Any], Blocks]:
        """`name` begins the names of blocks; no other state has it."""
        ranked = self.ranked
        texts, blocks = self.texts.snapshot(f"{name}-bytes")
        partitions, more = ranked.partitions.snapshot(f"{name}-partitions", self._of_partitions)
        rows, most = ranked.rows.snapshot(f"{name}-rows", self._of_rows)
        return {"bytes": texts, "partitions": partitions, "rows": rows}, blocks | more | most

    def _of_partitions(self, codes: Ints) -> tables.Arrays:
        buckets = self.ranked.buckets
        return {} if buckets is None else {"open": buckets.open[codes] if len(codes) else codes > 0}

    def _of_rows(self, slots: Ints) -> tables.Arrays:
        number, owner = self.ranked.number, self.ranked.owner
        return {"number": number[slots], "owner": owner[slots]} if len(slots) else {"number": slots, "owner": slots}

    def restore(self, state: Mapping[str, Any], load: Load) -> None:
        ranked = self.ranked
        self.texts.restore(state["bytes"], load)
        codes, arrays = ranked.partitions.load(state["partitions"], load)
        if ranked.buckets is not None:
            opened = codes[arrays["open"].astype(np.bool_)]
            ranked.buckets.enter(opened, ranked.partitions.keys, opened)
        slots, arrays = ranked.rows.load(state["rows"], load)
        ranked.enter(slots)
        ranked.number[slots], ranked.owner[slots] = arrays["number"], arrays["owner"]
