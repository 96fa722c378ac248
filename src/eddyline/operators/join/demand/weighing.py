"""Whether an edge holds rows back, with `jit = 'auto'`: what that would save, seen on a few rows.

Answer   `tried` gives what a few new rows make if nothing is held back. `weigh` decides from such a sample which
         conditions to use.
State    None: the edge has the counts, the conditions know which of them are in use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.counters import Counters
from eddyline.operators.join.demand.conditions import Conditions
from eddyline.operators.join.demand.edge import Edge, EdgeSample, spread
from eddyline.operators.join.demand.mns import DemandCondition, alive_components
from eddyline.operators.join.demand.novelty import Novelty
from eddyline.operators.join.demand.resuming import order_from
from eddyline.operators.join.demand.waking import can_wake_pairs
from eddyline.operators.join.inputs import Input
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import Fresh
from eddyline.operators.stream.keys import combined
from eddyline.tuning import DemandTuning


@dataclass(frozen=True, slots=True)
class Weighing:
    node: JoinNode
    #: What the combinations are joined with next.
    siblings: tuple[Input, ...]
    edge: Edge
    conditions: Conditions
    tuning: DemandTuning

    def tried(self, new: Fresh, join_slice: JoinSlice) -> tuple[list[Combinations], float]:
        """What is made of a few new rows if nothing is held back, and by which factor all new rows are more. To be
        called while the policy
        holds nothing back."""
        node = self.node
        mine, node.counters = node.counters, Counters()
        few: Fresh = [None if rows is None else rows.take(spread(len(rows), self.tuning.sample)) for rows in new]
        made = list(node.produce(few, join_slice, True))
        node.counters = mine
        tried = sum(len(part) for part in few if part is not None)
        return made, sum(len(part) for part in new if part is not None) / max(tried, 1)

    def weigh(self, made: Combinations, expected: float, rows: int, novelty: Novelty) -> bool:
        """Decide which conditions to use; whether the store now lacks something."""
        edge, conditions = self.edge, self.conditions
        before = set(conditions.used)
        edge.scans(sum(one.store.live for one in self.siblings) if self.node.loop else 0)
        empty = (
            [-1]
            if conditions.nothing_unlinked()
            else [n for n, c in enumerate(conditions.all) if not c.opposite.store.live]
        )
        if edge.sees_little(len(made), expected, bool(empty)):
            return False
        new = [stop - start for start, stop in (novelty.range_of(c.opposite) for c in conditions.all)]
        worthy = [
            n for n, c in enumerate(conditions.all) if (edge.listens and c in before) or edge.may_save(expected, new[n])
        ]
        if not worthy and not empty and not edge.listens:
            edge.put_off()
            return False
        made = made.take(spread(len(made), self.tuning.sample))
        refusals = np.zeros((len(conditions.all), len(made)), np.bool_)
        waking = [(0, 0.0)] * len(conditions.all)
        for number in worthy:
            refusals[number] = ~conditions.all[number].sampled(made.ids)
            waking[number] = self._waking_cost(conditions.all[number], novelty)
        sample = EdgeSample(rows, expected, refusals, waking, empty, self.tuning)
        listened = edge.listens
        chosen = edge.weigh(sample, [n for n, c in enumerate(conditions.all) if c in before])
        conditions.used = [conditions.all[number] for number in chosen]
        held_something = bool(edge.suspensions or edge.marks)
        return listened and held_something and (not edge.listens or not before <= set(conditions.used))

    def _waking_cost(self, condition: DemandCondition, novelty: Novelty) -> tuple[int, float]:
        """How many new rows the opposite input has, and how many rows they would touch if their keys were new."""
        node = self.node
        start, stop = novelty.range_of(condition.opposite)
        if stop <= start:
            return 0, 0.0
        one = node.inputs[order_from(node, condition.opposite)[0] - 1]
        links = [link for link in condition.links if link[0] in one.references]
        rows = condition.opposite.expand(start + spread(stop - start, self.tuning.sample))
        keys = combined([node.bases[there].store.at(key, rows[there]) for _, _, there, key in links])
        held = alive_components(one, node.bases)
        stored = np.sort(combined([node.bases[r].store.at(key, held[r]) for r, key, _, _ in links]))
        touched = np.searchsorted(stored, keys, side="right") - np.searchsorted(stored, keys)
        slow = 1 if can_wake_pairs(node, condition) else self.tuning.step_by_step
        return stop - start, float((1.0 + touched.mean()) * (stop - start)) * slow
