"""Admission to a join of three and more inputs: a new row without a partner in one of them is not worth a single
partial result.

Answer   `admit` gives the new rows of one input without those that some other input, not the one that is probed first,
         holds no partner for. Nothing has to be resumed: a row that comes later probes the stores, which hold the row.

             new rows ─► a partner in c? ─► a partner in d? ─► probe b, then c, then d

State    Counts. With `auto`, which conditions refuse enough rows to be tested at all; the others are tried now and then, on a
         sample.
Limits   Reads keys and windows of all queries together: a row is left out only when none of them can use it.
Reading  docs/operators/demand.md
"""

from __future__ import annotations

from typing import Any

from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.demand.edge import Edge
from eddyline.operators.join.demand.mns import DemandCondition, links_between
from eddyline.operators.join.demand.partners import PartnerZones
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.node import JoinNode
from eddyline.tuning import DemandTuning


class Admission:
    def __init__(self, node: JoinNode, mode: str, tuning: DemandTuning, zones: PartnerZones | None = None) -> None:
        self.node = node
        self.edge = Edge(mode == "auto", True, tuning, useful=tuning.useful_admission, samples=1)
        self._last = len(node.inputs)
        self.conditions: list[list[DemandCondition]] = [[] for _ in node.inputs]
        for origin, one in enumerate(node.inputs):
            if isinstance(one, StreamInput) and one.stream.is_table:
                continue
            for number in node.orders[origin][1:]:
                links = links_between(node.equalities, one.references, node.inputs[number])
                if links:
                    zones_and_counters = None if zones is None else (zones, node.counters)
                    self.conditions[origin].append(
                        DemandCondition(node.inputs[number], links, node.bases, mode == "bloom", zones_and_counters)
                    )

    @property
    def checks(self) -> int:
        return sum(condition.checked for conditions in self.conditions for condition in conditions)

    @property
    def listens_to(self) -> list[tuple[int, ...]]:
        """The references that conditions in use read, one by one."""
        return sorted({(r,) for c in self.edge.used_early for r in c.opposite.references})

    def as_json(self) -> dict[str, Any]:
        state = "listening" if self.listens_to else "making everything"
        return {**self.edge.as_json(), "state": state, "checks": self.checks}

    def admit(self, origin: int, rows: Combinations) -> Combinations:
        if origin <= self._last:
            self.edge.next_epoch()
        self._last = origin
        # Results per admitted row so far: the estimate for refused rows.
        self.edge.produced = self.node.counters.partials
        chosen = self.edge.admitted_by([(condition, condition) for condition in self.conditions[origin]], rows)
        return rows if chosen is None else rows.take(chosen)
