"""Resuming: what was held back is made when a row comes that can use it.

Answer   `wake` makes and puts out the combinations that new rows of the opposite inputs can use now. `meet` joins new
         rows with everything that is here where combinations came late. `everything` gives all combinations of rows
         that are here.
State    Joins without regard to age, one per condition, made when they are first needed.
Limits   (1) A condition turns true only by a row whose keys are new to the opposite store, and then all its pairs are
         gathered. (2) What is gathered late is compared with what the store holds already. So nothing is lost or
         repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from eddyline.operators.join.combination import Combinations, concatenate
from eddyline.operators.join.counters import Counters
from eddyline.operators.join.demand.conditions import Conditions
from eddyline.operators.join.demand.edge import Edge
from eddyline.operators.join.demand.gathering import Gathering
from eddyline.operators.join.demand.holding import HoldingBack
from eddyline.operators.join.demand.mns import DemandCondition, alive_ids
from eddyline.operators.join.demand.novelty import Novelty
from eddyline.operators.join.demand.stored import not_stored
from eddyline.operators.join.demand.waking import can_wake_pairs, woken_pairs
from eddyline.operators.join.inputs import Input, NodeInput
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import Fresh, NodeOutput
from eddyline.operators.join.probing.steps import followed_order


@dataclass(slots=True)
class Resuming:
    node: JoinNode
    kept: NodeInput
    edge: Edge
    conditions: Conditions
    holding: HoldingBack
    _waking: dict[DemandCondition, Gathering] = field(default_factory=dict)
    _meeting: Gathering | None = None

    def meet(
        self, new: Fresh, novelty: Novelty, admit: Callable[[int, Combinations], Combinations] | None
    ) -> list[Combinations]:
        """New rows, among them combinations older than this slice, with everything that is here: each pair once.

        Args:
            admit: leaves out rows of an input that are not demanded; None: everything is made.
        """
        meeting = self._gathering()
        bars: dict[int, int] = {}
        pieces: list[Combinations] = []
        for origin, rows in enumerate(new):
            if rows is not None and len(rows):
                sift = None
                if admit is not None:
                    rows = admit(origin, rows)
                    sift = self._sift_of(origin)
                pieces += meeting.gather(origin, rows, novelty.low, novelty.join_slice.rows_seen, bars, sift)
            start, stop = novelty.range_of(self.node.inputs[origin])
            if stop > start:
                bars[origin] = start
        self._charge(meeting.counters, meeting.counters.partials)
        return pieces

    def _sift_of(self, origin: int) -> Callable[[Combinations], Combinations]:
        return lambda made: self.holding.sift(origin, made)

    def wake(self, novelty: Novelty, last: int, output: NodeOutput) -> None:
        """Make what new rows of the opposite inputs can use. `last`: the latest time before this slice."""
        conditions = self.conditions
        was_empty = False
        for one in conditions.unlinked:
            start, stop = novelty.range_of(one)
            was_empty = was_empty or (stop > start and start <= one.store.first)
        if was_empty and not conditions.nothing_opposite():
            self._resume(self.everything(novelty), (), output)
        for condition in conditions.used:
            start, stop = novelty.range_of(condition.opposite)
            if stop <= start or conditions.nothing_opposite():
                continue
            condition.prepare()
            self.edge.examined += stop - start
            opposite = condition.novel(start, stop, last)
            if not len(opposite):
                continue
            if condition not in self._waking:
                self._waking[condition] = Gathering(
                    self.node, condition.opposite, (order_from(self.node, condition.opposite),)
                )
            waking, rows_seen = self._waking[condition], novelty.join_slice.rows_seen
            waking.counters = Counters()
            known = [condition]
            if can_wake_pairs(self.node, condition):
                third = max((c for c in conditions.used if c is not condition), key=lambda c: c.rate, default=None)
                made, tested = woken_pairs(waking, opposite, novelty.low, rows_seen, third)
                found = [made] if len(made) else []
                known += [] if tested is None else [tested]
            else:
                found = waking.gather(0, waking.witnesses(opposite), novelty.low, rows_seen)
            self._charge(waking.counters, 0)
            self.edge.woken += waking.counters.visited
            self._resume(found, known, output)

    def _resume(self, found: list[Combinations], known: Collection[DemandCondition], output: NodeOutput) -> None:
        rows = self.joined(found)
        chosen = self.conditions.demanded(rows, lambda c: c in known)
        rows = not_stored(self.kept, rows if chosen is None else rows.take(chosen))
        self.edge.resumptions += len(rows)
        self.node.counters.partials += len(rows)
        self.node.counters.rows_out += len(rows)
        output.add(rows)
        self.holding.resumed(rows)

    def everything(self, novelty: Novelty) -> list[Combinations]:
        """All combinations of rows that are here."""
        meeting = self._gathering()
        origin = next(n for n in range(len(self.node.inputs)) if not self.node.is_static(n))
        one = self.node.inputs[origin]
        ids = alive_ids(one, self.node.bases)
        rows = Combinations(one.expand(ids), ids, ids, one.deaths(ids), one.lineage(ids))
        found = meeting.gather(origin, rows, novelty.low, novelty.join_slice.rows_seen)
        self._charge(meeting.counters, 0)
        return found

    def _gathering(self) -> Gathering:
        if self._meeting is None:
            self._meeting = Gathering(self.node, None, self.node.orders)
        self._meeting.counters = Counters()
        return self._meeting

    def joined(self, found: list[Combinations]) -> Combinations:
        """Pieces as one, which may be empty."""
        if not found:
            none = np.empty(0, np.int64)
            return Combinations(dict.fromkeys(self.kept.references, none), none, none, none, None)
        return concatenate(found)

    def _charge(self, counters: Counters, partials: int) -> None:
        mine = self.node.counters
        mine.probes += counters.probes
        mine.visited += counters.visited
        mine.partials += partials
        mine.rows_out += partials


def order_from(node: JoinNode, opposite: Input) -> tuple[int, ...]:
    """In which order rows of an opposite input probe the inputs of a node, which are numbered from 1."""
    return followed_order(0, [opposite, *node.inputs], node.equalities)
