"""The eddy: probes and conditions in an order drawn by lottery, anew for every group of rows.

Answer   For new rows of an input, the order in which the other inputs of an mjoin are probed and its conditions tested.
         Each of them is an operator and holds tickets: it is credited with the rows that it consumes and charged with
         those that it produces, both once per query that it serves. What it passes on per row consumed decides how
         likely it is drawn next: the fewer, the sooner.

             batch ─► rows of equal lineage ─► draw among what can be done next ─► draw …

             ─► probe, test, count ─► credit, charge, decay

State    Per node, origin, kind of lineage and operator: rows consumed and produced of late; older batches count half as
         much with each new one.
Limits   A binary join has one order. The most frequent lineages of an origin's rows are routed apart, all others
         together. Every operator behind one that lets rows pass is observed in every batch, so that nothing has to be
         tried out for the sake of learning. Draws come from one seed: the same run draws the same tickets.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from eddyline.model.expressions.expression import refs_of
from eddyline.operators.join.combination import Combinations, LineageBits
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.policy import JoinPolicy, Order
from eddyline.tuning import LotteryTuning

if TYPE_CHECKING:
    from eddyline.operators.join.group import JoinConfig
    from eddyline.operators.join.node import JoinNode

#: The kind of all rows whose lineage is not among the frequent ones.
_OTHERS = b""


@dataclass(slots=True)
class Tickets:
    """What one operator did for new rows of an input, lately."""

    consumed: float = 0.0
    produced: float = 0.0
    tuning: LotteryTuning = field(default_factory=LotteryTuning)

    @property
    def passed_on(self) -> float:
        """Rows produced per row consumed."""
        return (self.produced + self.tuning.prior) / (self.consumed + self.tuning.prior)

    @property
    def weight(self) -> float:
        return self.passed_on**-self.tuning.sharpness

    def decay(self, factor: float) -> None:
        self.consumed *= factor
        self.produced *= factor


@dataclass(slots=True)
class _Kind:
    """Rows of one lineage: what is known of the operators, how many queries want them, rows observed since the last
    draw."""

    served: int
    tickets: dict[int, Tickets]
    rows: int = 0


@dataclass(slots=True)
class _Origin:
    kinds: dict[bytes, _Kind] = field(default_factory=dict)
    now: bytes = _OTHERS


def lottery_route(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    settings = config.settings
    return LotteryRoute(settings.seed, settings.tuning.lottery) if settings.route == "lottery" else None


class LotteryRoute(JoinPolicy):
    def __init__(self, seed: int = 0, tuning: LotteryTuning | None = None) -> None:
        self.tuning = tuning or LotteryTuning()
        self._random = Random(seed)
        self._origins: dict[tuple[str, int], _Origin] = {}

    # -- rows of equal lineage

    def route(self, node: JoinNode, origin: int, rows: Combinations) -> Iterator[tuple[Combinations, Order]]:
        for group in self._groups(node, origin, rows):
            yield group, self.order(node, origin)

    def _groups(self, node: JoinNode, origin: int, rows: Combinations) -> Iterator[Combinations]:
        here = self._origins.setdefault((node.name, origin), _Origin())
        if rows.lineage is None or len(node.inputs) < 3 or len(rows) < self.tuning.whole_batch:
            here.now = _OTHERS
            yield rows
            return
        rest = np.ones(len(rows), np.bool_)
        for lineage in self._frequent(here, rows.lineage):
            mine = (rows.lineage == np.frombuffer(lineage, np.uint64)).all(axis=1)
            if mine.any():
                rest &= ~mine
                here.now = lineage
                yield rows if mine.all() else rows.take(mine)
        if rest.any():
            here.now = _OTHERS
            yield rows if rest.all() else rows.take(rest)

    def _frequent(self, here: _Origin, lineages: LineageBits) -> list[bytes]:
        """The lineages that are routed apart: those that are frequent now, and as many as there is room for of those
        that were."""
        sample = lineages[:: max(1, len(lineages) // self.tuning.sample)]
        seen = Counter(line.tobytes() for line in sample)
        now = [
            lineage
            for lineage, count in seen.most_common(self.tuning.most_kinds)
            if count >= self.tuning.least_share * len(sample)
        ]
        before = [
            lineage
            for lineage in here.kinds
            if lineage not in now and lineage != _OTHERS and len(lineage) == 8 * lineages.shape[1]
        ]
        kept = [*now, *before][: self.tuning.most_kinds]
        for lineage in [lineage for lineage in here.kinds if lineage != _OTHERS and lineage not in kept]:
            del here.kinds[lineage]
        return kept

    def _kind(self, node: JoinNode, origin: int) -> _Kind:
        here = self._origins.setdefault((node.name, origin), _Origin())
        operators = [number for number in _operators(node) if number != origin]
        # After a change of the tree a node of the same references may have other inputs.
        if here.now not in here.kinds or list(here.kinds[here.now].tickets) != operators:
            members = len(node.bases[node.references[0]].port.members)
            served = int(np.bitwise_count(np.frombuffer(here.now, np.uint64)).sum()) if here.now else members
            here.kinds[here.now] = _Kind(max(served, 1), {number: Tickets(tuning=self.tuning) for number in operators})
        return here.kinds[here.now]

    def tickets(self, node: JoinNode, origin: int) -> dict[int, Tickets]:
        """What is known of the operators, for the rows of input `origin` that are being routed."""
        return self._kind(node, origin).tickets

    # -- the lottery

    def order(self, node: JoinNode, origin: int) -> Order:
        """Draw the order for the rows of input `origin` that are being routed."""
        planned = node.orders[origin]
        if len(planned) < 2:
            return planned
        kind = self._kind(node, origin)
        seen = kind.rows or any(ticket.consumed for ticket in kind.tickets.values())
        for ticket in kind.tickets.values():
            ticket.decay(0.5 ** min(1.0, kind.rows / self.tuning.whole_batch))
        kind.rows = 0
        covered = frozenset(node.inputs[origin].references)
        rest = list(planned)
        conditions = [number for number in _operators(node) if number >= len(node.inputs)]
        order: list[int] = []
        while rest or conditions:
            ready = [number for number in conditions if _is_covered(node, covered, number)]
            if not seen:
                drawn = ready[0] if ready else rest[0]
            else:
                drawn = self._draw(kind.tickets, ready + ([n for n in rest if _is_joined(node, covered, n)] or rest))
            order.append(drawn)
            if drawn < len(node.inputs):
                rest.remove(drawn)
                covered |= frozenset(node.inputs[drawn].references)
            else:
                conditions.remove(drawn)
        return tuple(order)

    def _draw(self, held: dict[int, Tickets], candidates: list[int]) -> int:
        if len(candidates) == 1:
            return candidates[0]
        return self._random.choices(candidates, [held[n].weight for n in candidates])[0]

    def observed(self, node: JoinNode, origin: int, step: int, probed: int, produced: int) -> None:
        if len(node.inputs) < 3:
            return
        kind = self._kind(node, origin)
        ticket = kind.tickets[step]
        ticket.consumed += probed * kind.served
        ticket.produced += produced * kind.served
        kind.rows += probed


def _operators(node: JoinNode) -> range:
    """The inputs, and behind them the conditions that need more than one of them."""
    return range(len(node.inputs) + len(node.residuals))


def _is_joined(node: JoinNode, covered: frozenset[int], number: int) -> bool:
    """Whether an equality leads from what is covered to an input: anything else is a cross product."""
    added = frozenset(node.inputs[number].references)
    return any(equality.sides(covered, added) is not None for equality in node.equalities)


def _is_covered(node: JoinNode, covered: frozenset[int], number: int) -> bool:
    """Whether a condition can be tested."""
    return refs_of(node.residuals[number - len(node.inputs)]) <= covered
