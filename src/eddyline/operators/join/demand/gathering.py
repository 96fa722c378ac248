"""A join without regard to age: how combinations are made that were not made when their newest row came.

Answer   `gather` gives the combinations of some rows of one input with everything that is live in the others, each with
         the stamp, time and death that it would have had; those that no window holds together any more are left out.
State    None: it reads the inputs of the node that it works for, and in front of them, perhaps, one whose rows ask.
Limits   Indexes only, never a scan. What asks is a witness: it gives keys, and neither lineage nor conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from eddyline.model.expression import refs_of
from eddyline.model.window import FOREVER
from eddyline.operators.join.combination import Combinations, any_bit
from eddyline.operators.join.inputs import Input, NodeInput, StreamInput
from eddyline.operators.join.node import Counters, JoinNode, RowsSeen, Step
from eddyline.state.columns import Ints

_NEVER = np.iinfo(np.int64).max


class Gathering(JoinNode):
    """Works for `node`; with a `witness`, that input's rows are the origin and are left out of what is made."""

    one_index_per_partner = False

    def __init__(self, node: JoinNode, witness: Input | None, orders: tuple[tuple[int, ...], ...]) -> None:
        own = frozenset(node.bases[r].port.alias for r in node.references)
        equalities = node.equalities
        if witness is not None:
            # The witness stands for all rows with its words: they decide, whatever their texts.
            outside = frozenset(witness.references)
            equalities = tuple(replace(e, exact=True) if {e.left, e.right} & outside else e for e in equalities)
        self.witness = witness
        self.wanted = node.references
        #: Per input, the first id that is not met: new rows of earlier inputs have met those of later ones already.
        self.bars: dict[int, int] = {}
        self.low = -FOREVER
        super().__init__(
            node.name,
            [*([] if witness is None else [witness]), *node.inputs],
            equalities,
            tuple(e for e in node.residuals if refs_of(e) <= own),
            node.bases,
            orders,
            False,
            len(node.bases) + 1,
            Counters(),
            node.policy,
            node.issues,
        )

    def _is_static(self, number: int) -> bool:
        # Probe steps are worked out when they are first asked for: only some origins ever are.
        return True

    def gather(self, origin: int, rows: Combinations, low: int, rows_seen: RowsSeen) -> list[Combinations]:
        """`low`: no combination is wanted that is dead by then."""
        self.low = low
        steps = self.steps(origin, self.orders[origin])
        settled = (self._settled(made, rows_seen) for made in self._extend(rows, origin, steps, 0, None, True))
        return [made for made in settled if len(made)]

    def witnesses(self, ids: Ints) -> Combinations:
        assert self.witness is not None
        dead = np.full(len(ids), FOREVER)
        return Combinations(self.witness.expand(ids), np.full(len(ids), _NEVER), np.zeros(len(ids), np.int64), dead, None)

    def _bounds(self, step: Step, rows: Combinations, rows_seen: RowsSeen | None) -> tuple[Ints, Ints]:
        return np.full(len(rows), _NEVER), self.inputs[step.input].floors(np.full(len(rows), self.low))

    def _probe(self, step: Step, hashes: Ints, limits: Ints, floors: Ints) -> tuple[Ints, Ints, int]:
        left, right, visited = super()._probe(step, hashes, limits, floors)
        if step.input in self.bars:
            met = right < self.bars[step.input]
            left, right = left[met], right[met]
        return left, right, visited

    def _in_windows(self, made: Combinations, added: tuple[int, ...], rows_seen: RowsSeen | None) -> Combinations:
        if rows_seen is not None:
            return super()._in_windows(made, added, rows_seen)
        for reference in added:
            held = self.bases[reference].store.holds(made.ids[reference])
            if not held.all():
                made = made.take(held)
        return made

    def _settled(self, made: Combinations, rows_seen: RowsSeen) -> Combinations:
        """With the age that the combination really has, if its rows were ever in their windows together."""
        made = aged({r: made.ids[r] for r in self.wanted}, self.bases, made)
        assert made.dead is not None
        together = made.dead >= np.maximum(made.clock, self.low)
        if not together.all():
            made = made.take(together)
        made = super()._in_windows(made, self.wanted, rows_seen)
        if made.words is not None and not (wanted := any_bit(made.words)).all():
            made = made.take(wanted)
        return made


def aged(ids: dict[int, Ints], bases: Mapping[int, StreamInput], made: Combinations) -> Combinations:
    """The combination of these rows: stamp and clock of its newest, death of its first to leave."""
    stamps, clocks, deaths = [], [], []
    for reference, rows in ids.items():
        base = bases[reference]
        stamps.append(base.port.stamps(base.store.at("seq", rows)))
        clocks.append(np.full(len(rows), -FOREVER) if base.stream.is_table else base.store.at("ts", rows))
        deaths.append(base.deaths(rows))
    return Combinations(ids, np.max(stamps, axis=0), np.max(clocks, axis=0), np.min(deaths, axis=0), made.words)


__all__ = ["Gathering", "NodeInput", "aged"]
