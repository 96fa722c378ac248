"""What a policy may decide about a join, and when a node asks it.

Answer   A node has a tuple of policies and asks them at fixed points of an epoch. Every point has a default that
         decides nothing, so a policy is a small class that overrides the points it needs. A policy never changes an
         answer.

             new rows ─► admit ─► route ─► (mode ─► probe, verify ─► observed)* ─► tell ─► stored or handed on      …
             purge

Limits   A point sees whole batches, never a single row. A point that no policy of a node overrides costs nothing.
Reading  docs/add-a-policy.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eddyline.model.joining import joined_text
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.inputs import NodeInput
from eddyline.settings import Settings
from eddyline.state.renumbering import Renumbering

if TYPE_CHECKING:
    from eddyline.operators.join.group import JoinGroup
    from eddyline.operators.join.join_slice import JoinSlice
    from eddyline.operators.join.node import JoinNode
    from eddyline.operators.join.probing.modes import Modes, Probe

#: New rows per input of a node; None: the input has none.
Fresh = list[Combinations | None]
#: Positions of the other inputs in the order in which they are probed. Numbers from `len(node.inputs)` on are
#: conditions of the node; an order without any tests each condition as soon as its columns are there.
Order = tuple[int, ...]


@dataclass(frozen=True)
class Portion:
    """Complete results of some new rows for some members of a group, in total order."""

    slots: tuple[int, ...]
    rows: Combinations
    #: The portions of the largest windows: together they are everything that the slice makes.
    last: bool


class Schedule:
    """Works a group off in portions, which are handed out before the slice is done."""

    def run(self, join_slice: JoinSlice, now: Callable[[], float], worked: Callable[[], None]) -> Iterator[Portion]:
        """`now` is the clock by which costs are measured; `worked` is called after every piece of probing."""
        raise NotImplementedError

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a store have new ids."""


@dataclass(frozen=True)
class WatchedEdge:
    """An edge between nodes that a policy watches, with its figures."""

    #: What the policy does there: "demand" holds back what a node makes, "admission" what enters it.
    kind: str
    #: Of the node below the edge.
    references: tuple[int, ...]
    #: Per input that the policy looks at, the references of that input.
    listens_to: list[tuple[int, ...]]
    figures: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {**self.figures, "listens_to": [joined_text(one) for one in self.listens_to]}


@dataclass(slots=True)
class NodeOutput:
    """What a node puts out in one slice. `add` stores combinations where the node has a store, and hands them on to the
    node above."""

    kept: NodeInput | None
    parts: list[Combinations] = field(default_factory=list)

    def add(self, rows: Combinations) -> None:
        if len(rows):
            if self.kept is not None:
                self.kept.add(rows)
            self.parts.append(rows)


class JoinPolicy:
    """Decides nothing. One object serves all nodes of a group."""

    #: Whether `route` may give another order for every batch.
    draws_orders = False

    # -- an epoch

    def admit(self, node: JoinNode, fresh: Fresh, join_slice: JoinSlice) -> Fresh:
        """The new rows, per input of the node, that are worth probing now."""
        return fresh

    def route(self, node: JoinNode, origin: int, rows: Combinations) -> Iterable[tuple[Combinations, Order]] | None:
        """New rows of input `origin` in groups, each with its probe order; None: the policy leaves this to others."""
        return None

    def mode(self, node: JoinNode, probe: Probe) -> Modes | None:
        """How a stretch of rows is processed against stretches of a store: skip, pass or evaluate; None: evaluate all
        of it."""
        return None

    def observed(self, node: JoinNode, origin: int, step: int, probed: int, produced: int) -> None:
        """What one probe step did: `step` is the input or condition, `probed` and `produced` count rows."""

    def tell(
        self, node: JoinNode, made: list[Combinations], output: NodeOutput, join_slice: JoinSlice
    ) -> list[Combinations]:
        """What the node has made in this slice: a policy may leave some of it out and add what it left out earlier.
        What is returned is put
        out after the call; `output.add` puts combinations out at once."""
        return made

    def purge(self, group: JoinGroup, frontier: int) -> None:
        """No row to come is older than the frontier: the policy forgets what it no longer needs."""

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a store have new ids: the ids that the policy holds follow."""

    # -- a group

    def planted(self, group: JoinGroup) -> None:
        """The group has another tree, with new nodes."""

    def enrolled(self, group: JoinGroup) -> None:
        """A query has joined or left the group, or the group has another tree."""

    def closed(self, group: JoinGroup) -> None:
        """The last query has left the group."""

    def schedule(self, group: JoinGroup, settings: Settings) -> Schedule | None:
        """How to work the group off in portions, by the settings of its newest query; None: the policy has no way."""
        return None

    # -- figures

    def edges(self) -> list[WatchedEdge]:
        """The edges between nodes that the policy watches."""
        return []

    def earlier_edges(self) -> list[dict[str, Any]]:
        """The same of trees that the group no longer has."""
        return []


def overriding(policies: Sequence[JoinPolicy], point: str) -> tuple[JoinPolicy, ...]:
    """The policies that have something to say at a point."""
    return tuple(policy for policy in policies if getattr(type(policy), point) is not getattr(JoinPolicy, point))
