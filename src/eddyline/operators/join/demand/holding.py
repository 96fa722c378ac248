"""Holding back: new rows and pairs that no combination could be used of are not made.

Answer   `admit` leaves out new rows, `probe` and `sift` leave out pairs, by the conditions in use.
State    Ids of the rows that were held back, for the count of them; the condition that the last probe has tested
         already.
Limits   Nothing is remembered in order to be made later: `resuming.py` finds it in the stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.demand.conditions import Conditions
from eddyline.operators.join.demand.edge import Edge
from eddyline.operators.join.demand.mns import DemandCondition, wanted_pairs
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.probing.modes import Pairs, Probe
from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering


@dataclass(slots=True)
class HoldingBack:
    node: JoinNode
    edge: Edge
    conditions: Conditions
    _probed_with: DemandCondition | None = None
    #: Per input of streams, the ids of rows that were held back and are still stored.
    _rows: dict[int, Ints] = field(default_factory=dict)

    def admit(self, origin: int, rows: Combinations) -> Combinations:
        """New rows of one input without those that no combination could be used of: suspended before the first one is
        made."""
        chosen = self.edge.admitted_by(self.conditions.early_of(origin), rows)
        if chosen is None:
            return rows
        one = self.node.inputs[origin]
        if isinstance(one, StreamInput):
            back = np.delete(rows.ids[one.port.position], chosen)
            self._rows[origin] = np.concatenate([self._rows.get(origin, back[:0]), back])
        return rows.take(chosen)

    def probe(self, probe: Probe) -> Pairs | None:
        """The pairs that the condition which refuses the most lets pass, tested while probing; None where that cannot
        be done."""
        self._probed_with = None
        node, step = self.node, probe.step
        partner = node.inputs[step.input]
        if len(node.inputs) > 2 or node.loop or step.index is None or not isinstance(partner, StreamInput):
            return None
        condition = self.conditions.sharpest
        if condition is None or condition.bloomed:
            return None
        condition.prepare()
        found = wanted_pairs(condition, partner, node.inputs[probe.origin].references, step.index, probe)
        if found is None:
            return None
        left, right, visited, refused = found
        self._probed_with = condition
        condition.checked += len(left) + refused
        condition.rejected += refused
        self.edge.marks += refused
        return Pairs(left, right, len(probe.rows), visited)

    def sift(self, origin: int, made: Combinations) -> Combinations:
        """Combinations of new rows of an input without those that are not demanded."""
        references = frozenset(self.node.inputs[origin].references)
        early = self.edge.used_early
        return self.sifted(made, lambda c: c is self._probed_with or (c in early and c.references <= references))

    def sifted(self, made: Combinations, known: Callable[[DemandCondition], bool] = lambda _: False) -> Combinations:
        """Combinations that every condition but those `known` to hold lets pass."""
        chosen = self.conditions.demanded(made, known)
        if chosen is None:
            self.edge.produced += len(made)
            return made
        self.edge.produced += len(chosen)
        self.edge.marks += len(made) - len(chosen)
        return made.take(chosen)

    # -- what is held back

    def resumed(self, rows: Combinations) -> None:
        """Combinations have been made late: their rows are not held back any more."""
        for origin, back in self._rows.items():
            one = self.node.inputs[origin]
            assert isinstance(one, StreamInput)
            if len(rows) and len(back):
                self._rows[origin] = back[~np.isin(back, rows.ids[one.port.position])]

    def count(self) -> None:
        """Note how many rows are held back now."""
        total = 0
        for origin, back in self._rows.items():
            self._rows[origin] = back = back[self.node.inputs[origin].store.holds(back)]
            total += len(back)
        self.edge.suspended_peak = max(self.edge.suspended_peak, total)

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids: the rows that are held back follow."""
        for origin, back in self._rows.items():
            if self.node.inputs[origin].store is old_to_new.store:
                self._rows[origin] = old_to_new.kept(back)
