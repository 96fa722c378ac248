"""How combinations are made that were not made when their newest row came.

Answer   `gather` gives the combinations of some rows of one input with everything that is live in the others, each with
         the stamp, time and death that it would have had. Combinations that no window holds together any more are left
         out.
State    None: it reads the inputs of the node that it works for, and in front of them, perhaps, one whose rows need
         combinations.
Limits   Indexes only, never a scan. The rows of the input in front are witnesses: they give keys, and neither lineage
         nor conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from eddyline.model.window import FOREVER
from eddyline.operators.join.ageless import AgelessJoin, aged
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.counters import Counters
from eddyline.operators.join.inputs import Input
from eddyline.operators.join.join_slice import RowsSeen
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.probing.steps import ProbeSteps
from eddyline.state.columns import Ints

_NEVER = np.iinfo(np.int64).max


class Gathering:
    """Works for `node`; with a `witness`, that input's rows are the origin and are left out of what is made."""

    def __init__(self, node: JoinNode, witness: Input | None, orders: tuple[tuple[int, ...], ...]) -> None:
        equalities = node.equalities
        if witness is not None:
            # One row, the witness, is tested for all rows with its keys: they decide, whatever their texts.
            outside = frozenset(witness.references)
            equalities = tuple(replace(e, exact=True) if {e.left, e.right} & outside else e for e in equalities)
        self.node = node
        self.witness = witness
        self.orders = orders
        self.inputs = [*([] if witness is None else [witness]), *node.inputs]
        self.equalities = equalities
        self.counters = Counters()
        self.verification = node.verification
        self._steps = ProbeSteps(self.inputs, equalities, node.residuals, node.bases)

    def gather(
        self,
        origin: int,
        rows: Combinations,
        low: int,
        rows_seen: RowsSeen,
        bars: dict[int, int] | None = None,
        sift: Callable[[Combinations], Combinations] | None = None,
    ) -> list[Combinations]:
        """
        Args:
            low: no combination is wanted that is dead by then.
            bars: per input, the first id that is not met: new rows of earlier inputs have met those of later ones
            already. sift: takes out what is not demanded.
        """
        join = AgelessJoin(self._steps, self.verification, self.counters, self.node.pairs_at_once, low, bars or {})
        found = join.combinations(origin, self.orders[origin], rows, sift)
        real = (self.with_real_age(made, low, rows_seen) for made in found)
        return [made for made in real if len(made)]

    def witnesses(self, ids: Ints) -> Combinations:
        assert self.witness is not None
        dead = np.full(len(ids), FOREVER)
        return Combinations(
            self.witness.expand(ids), np.full(len(ids), _NEVER), np.zeros(len(ids), np.int64), dead, None
        )

    def with_real_age(self, made: Combinations, low: int, rows_seen: RowsSeen) -> Combinations:
        """With the age that the combination really has, if its rows were ever in their windows together."""
        made = aged({r: made.ids[r] for r in self.node.references}, self.node.bases, made)
        assert made.dead is not None
        together = made.dead >= np.maximum(made.clock, low)
        if not together.all():
            made = made.take(together)
        return self.verification.wanted(self.verification.in_windows(made, self.node.references, rows_seen))
