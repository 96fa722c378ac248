"""What a policy may decide about a join, and when it is asked.

Answer   A node asks its policies at fixed points of an epoch. Every point has a default that decides nothing, so a policy
         is a small class that overrides the points it cares for. A policy never changes an answer.

             epoch ─► admit ─► groups ─► route ─► (probe, verify)* ─► store or hand on ─► tell ─► purge

Limits   `admit` and `tell` see whole batches; nobody is asked per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from eddyline.operators.join.combination import Combinations

if TYPE_CHECKING:
    from eddyline.operators.join.node import JoinNode


class JoinPolicy:
    """Decides nothing: the reference for all policies."""

    #: Whether `route` may give another order for every batch.
    draws_orders = False

    def admit(self, node: JoinNode, origin: int, rows: Combinations) -> Combinations:
        """Which new rows of input `origin` are worth probing now."""
        return rows

    def groups(self, node: JoinNode, origin: int, rows: Combinations) -> Iterator[Combinations]:
        """New rows of input `origin` in groups that are routed together, one after the other."""
        yield rows

    def route(self, node: JoinNode, origin: int) -> tuple[int, ...]:
        """In which order the other inputs are probed for new rows of input `origin`. Numbers from `len(node.inputs)` on are the
        node's conditions; where there are none among them, each is tested as soon as it can be."""
        return node.orders[origin]

    def observed(self, node: JoinNode, origin: int, step: int, probed: int, produced: int) -> None:
        """What one probe step did; for policies that learn."""

    def purge(self, node: JoinNode, frontier: int) -> None:
        """The frontier has moved: what may be forgotten."""
