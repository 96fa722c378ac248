"""The eddy: probe orders drawn by lottery, anew for every batch.

Answer   For new rows of an input, the order in which the other inputs of an mjoin are probed. An input holds tickets: it is
         credited with the rows that it consumes and charged with those that it produces, both once per query that it serves.
         What it passes on per row consumed says how likely it is drawn next: the fewer, the sooner.

             batch ─► draw among inputs that are joined to what is covered ─► draw … ─► probe, count ─► credit, charge, decay

State    Per node, origin and input: rows consumed and produced of late; older batches count half as much with each new one.
Limits   A binary join has one order. Every input behind one that lets rows pass is observed in every batch, so that nothing has
         to be tried out for the sake of learning. Draws come from one seed: the same run draws the same lots.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from eddyline.operators.join.policy import JoinPolicy

if TYPE_CHECKING:
    from eddyline.operators.join.node import JoinNode

#: How sharply the lottery tells inputs apart: one that passes on half as much is drawn so many powers of two more often.
_SHARPNESS = 8
#: A batch of so many rows halves what was seen before it; smaller ones less.
_WHOLE_BATCH = 256
#: An input that has not been observed is taken to pass on one row per row, with this weight.
_PRIOR = 1.0


@dataclass(slots=True)
class Tickets:
    """What one input did for new rows of another, lately."""

    consumed: float = 0.0
    produced: float = 0.0

    @property
    def passed_on(self) -> float:
        """Rows produced per row consumed."""
        return (self.produced + _PRIOR) / (self.consumed + _PRIOR)

    @property
    def weight(self) -> float:
        return self.passed_on**-_SHARPNESS

    def decay(self, factor: float) -> None:
        self.consumed *= factor
        self.produced *= factor


class LotteryRoute(JoinPolicy):
    draws_orders = True

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)
        self._tickets: dict[tuple[str, int], dict[int, Tickets]] = {}
        #: Rows of the batch that is being observed, per node and origin: the first probe sees them all.
        self._rows: dict[tuple[str, int], int] = {}

    def tickets(self, node: JoinNode, origin: int) -> dict[int, Tickets]:
        """What is known of the other inputs, for new rows of input `origin`."""
        key = (node.name, origin)
        if key not in self._tickets:
            self._tickets[key] = {number: Tickets() for number in range(len(node.inputs)) if number != origin}
        return self._tickets[key]

    def route(self, node: JoinNode, origin: int) -> tuple[int, ...]:
        planned = node.orders[origin]
        if len(planned) < 2:
            return planned
        held = self.tickets(node, origin)
        batch = self._rows.pop((node.name, origin), 0)
        if not batch and not any(ticket.consumed for ticket in held.values()):
            return planned
        for ticket in held.values():
            ticket.decay(0.5 ** min(1.0, batch / _WHOLE_BATCH))
        covered = frozenset(node.inputs[origin].references)
        rest = list(planned)
        order: list[int] = []
        while rest:
            joined = [n for n in rest if _is_joined(node, covered, n)] or rest
            drawn = self._draw(held, joined)
            order.append(drawn)
            rest.remove(drawn)
            covered |= frozenset(node.inputs[drawn].references)
        return tuple(order)

    def _draw(self, held: dict[int, Tickets], candidates: list[int]) -> int:
        if len(candidates) == 1:
            return candidates[0]
        return self._random.choices(candidates, [held[n].weight for n in candidates])[0]

    def observed(self, node: JoinNode, origin: int, step: int, probed: int, produced: int) -> None:
        if len(node.inputs) < 3:
            return
        served = max(len(node.bases[node.references[0]].port.members), 1)
        ticket = self.tickets(node, origin)[step]
        ticket.consumed += probed * served
        ticket.produced += produced * served
        key = (node.name, origin)
        self._rows[key] = self._rows.get(key, 0) + probed


def _is_joined(node: JoinNode, covered: frozenset[int], number: int) -> bool:
    """Whether an equality leads from what is covered to an input: anything else is a cross product."""
    added = frozenset(node.inputs[number].references)
    return any(equality.sides(covered, added) is not None for equality in node.equalities)
