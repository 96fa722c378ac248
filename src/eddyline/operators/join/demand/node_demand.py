"""Just-in-time joins: a producer makes only what its consumers can use now.

Answer   The store of a producer holds at least every combination that, with rows that are here now, may be part of a
         result. What is missing is made when a row comes that can use it, with the age that it would have had.

             new rows ─► admit ─► probe ─► sift ─► store          suspended: nothing is made, nothing is remembered
             a row with keys new to its store ─► gather ─► not stored yet? ─► sift ─► store          resumed

State    None that could disagree with the stores: a row or pair is suspended because a condition does not hold of it.
         Counts of what was held back, and for `auto` whether the edge holds anything back at all.
Limits   Conditions compare keys with what is stored, not ages: they let more pass than is needed, never less.

| file | responsibility |
| --- | --- |
| `conditions.py` | which combinations are demanded |
| `holding.py` | leave out new rows and pairs that are not |
| `resuming.py` | make them when they are |
| `weighing.py` | with `auto`: whether that is worth it |

Reading  docs/operators/demand.md
"""

from __future__ import annotations

from typing import Any

from eddyline.model.window import FOREVER
from eddyline.operators.join.combination import Combinations, concatenate
from eddyline.operators.join.demand.admission import Admission
from eddyline.operators.join.demand.conditions import Conditions
from eddyline.operators.join.demand.edge import Edge
from eddyline.operators.join.demand.holding import HoldingBack
from eddyline.operators.join.demand.novelty import Novelty
from eddyline.operators.join.demand.partners import PartnerZones
from eddyline.operators.join.demand.resuming import Resuming
from eddyline.operators.join.demand.stored import by_rows, not_stored
from eddyline.operators.join.demand.weighing import Weighing
from eddyline.operators.join.inputs import Input, NodeInput
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import Fresh, NodeOutput
from eddyline.operators.join.probing.modes import Modes, Probe
from eddyline.tuning import DemandTuning


class NodeDemand:
    """The demand for the combinations of one inner node: `begin` before the node probes, `finish` after it."""

    def __init__(
        self,
        node: JoinNode,
        kept: NodeInput,
        siblings: tuple[Input, ...],
        targets: tuple[Input, ...],
        mode: str,
        tuning: DemandTuning,
        admission: Admission | None = None,
        zones: PartnerZones | None = None,
    ) -> None:
        self.node = node
        self.kept = kept
        #: What the node's own inputs say of its new rows.
        self.admission = admission
        # In auto mode an edge starts by producing every combination; it begins to hold rows back after its first
        # sample.
        self.edge = Edge(mode == "auto", bool(targets) and mode != "auto", tuning)
        self.conditions = Conditions(node, targets, mode == "bloom", zones)
        self.holding = HoldingBack(node, self.edge, self.conditions)
        self.resuming = Resuming(node, kept, self.edge, self.conditions, self.holding)
        self.weighing = Weighing(node, siblings, self.edge, self.conditions, tuning)
        #: The latest time of the slices before this one.
        self.last = -FOREVER
        # Of one slice: whether it is sampled, how many new rows it has, whether pairs are held back, and whether the
        # store lacks something. `_meeting` has the new rows that meet everything, because combinations of their inputs
        # came late.
        self._is_sampled = False
        self._rows = 0
        self._is_listening = False
        self._is_incomplete = False
        self._meeting: Fresh | None = None
        self._is_trying = False

    @property
    def checks(self) -> int:
        """Conditions tested, and rows touched in order to make later what was held back."""
        return self.edge.woken + self.conditions.checked

    @property
    def listens_to(self) -> list[tuple[int, ...]]:
        return self.conditions.targets() if self.edge.listens else []

    def as_json(self) -> dict[str, Any]:
        return {**self.edge.as_json(), "checks": self.checks}

    # -- before the node probes

    def begin(self, new: Fresh, novelty: Novelty) -> Fresh:
        """The new rows that the node probes with."""
        if self._is_trying:
            return new
        edge, kept = self.edge, self.kept
        aged = any(id(one) in novelty.aged for one in self.node.inputs)
        self._is_sampled = edge.is_sample_due() and not aged
        self._rows = sum(len(part) for part in new if part is not None)
        self._is_incomplete = self._is_sampled and edge.listens and self._tries(new, novelty)
        self._is_listening = edge.listens
        self._meeting = None
        if self._is_listening or aged:
            kept.need_index(by_rows(kept))
        if self._is_listening and self.conditions.nothing_opposite():
            edge.suspensions += self._rows
            return [None] * len(new)
        if aged:
            self._meeting = new
            return [None] * len(new)
        return [
            None if rows is None or not len(rows) else self._admitted(origin, rows) for origin, rows in enumerate(new)
        ]

    def _tries(self, new: Fresh, novelty: Novelty) -> bool:
        """What is held back cannot be looked at: a few rows are tried out instead."""
        self._is_trying = True
        made, factor = self.weighing.tried(new, novelty.join_slice)
        self._is_trying = False
        whole = self.resuming.joined(made)
        return self.weighing.weigh(whole, len(whole) * factor, self._rows, novelty)

    def _admitted(self, origin: int, rows: Combinations) -> Combinations:
        if self.admission is not None:
            rows = self.admission.admit(origin, rows)
        return self.holding.admit(origin, rows) if self._is_listening else rows

    # -- while it probes

    def mode(self, probe: Probe) -> Modes | None:
        if self._is_trying or not self._is_listening or not probe.is_last:
            return None
        return Modes(
            found=self.holding.probe(probe) if probe.takes_pairs else None,
            sift=lambda made: self.holding.sift(probe.origin, made),
        )

    # -- after it

    def finish(self, made: list[Combinations], output: NodeOutput, novelty: Novelty) -> None:
        """Put out what is demanded of what the node made, and what was held back and is demanded now."""
        edge, kept = self.edge, self.kept
        if self._meeting is not None:
            made = self.resuming.meet(self._meeting, novelty, self._admitted if self._is_listening else None)
        if made:
            whole = concatenate(made)
            if self._is_sampled and not self._is_listening:
                self.weighing.weigh(whole, len(whole), self._rows, novelty)
                whole = self.holding.sifted(whole) if edge.listens else whole
            output.add(not_stored(kept, whole) if self._meeting is not None else whole)
        if self._is_listening:
            edge.busy += not self.conditions.nothing_opposite()
            self.resuming.wake(novelty, self.last, output)
            self._is_incomplete = (
                edge.gives_up(self.conditions.checked, len(self.conditions.used)) or self._is_incomplete
            )
            self.holding.count()
        if self._is_incomplete:
            kept.need_index(by_rows(kept))
            output.add(not_stored(kept, self.resuming.joined(self.resuming.everything(novelty))))
        self.last = max(self.last, novelty.high)
        self._meeting = None
        if output.parts:
            novelty.added[id(kept)] = (kept.store.end - sum(len(part) for part in output.parts), kept.store.end)
            if any(bool((part.stamp < novelty.first).any()) for part in output.parts):
                novelty.aged.add(id(kept))
