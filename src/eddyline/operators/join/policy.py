"""What a policy may decide about a join, and when its methods are called.

Answer   A node polls policies: it calls their methods at fixed points of a slice. Every method has a default
         that decides nothing, so a policy is a small class that overrides the methods it needs. A policy never changes
         an answer.

             new rows ─► admit ─► route ─► (mode ─► probe, verify ─► observed)* ─► put_out ─► stored or handed on

         The group calls `slice_ended`, `epoch_ended`, `changed` and `renumber`.
Limits   A method sees whole batches, never a single row. Policies do not know each other. Neither a node nor a group
         polls a policy that `is_idle`, nor calls a method that a policy does not override.
Reading  docs/add-a-policy.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from eddyline.model.joining import joined_text
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.inputs import NodeInput
from eddyline.settings import Settings
from eddyline.state.columns import Ints
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
#: A stream's name to how many of its rows came before this epoch, and the event times of those released in it.
Came = Callable[[str], tuple[int, Ints]]


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
    #: Per input that the policy watches, the references of that input.
    listens_to: list[tuple[int, ...]]
    figures: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {**self.figures, "listens_to": [joined_text(one) for one in self.listens_to]}


@dataclass(frozen=True)
class PolicyFigures:
    """What policies of a group have done so far."""

    edges: Sequence[WatchedEdge] = ()
    #: Counts of the edges of trees that the group no longer has.
    earlier_edges: Sequence[Mapping[str, Any]] = ()
    #: Counts by their names. A report shows those that have a line in `FURTHER` of `runtime/figures/figures.py`. Of two
    #: policies of a group that give one name, the later one overwrites the count of the earlier one.
    counts: Mapping[str, int] = field(default_factory=dict)


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

    #: Components whose triggers can change while queries run (`model/triggers.py`), with what gives each another trigger.
    triggers: Mapping[str, Callable[[str], None]] = MappingProxyType({})

    @property
    def is_idle(self) -> bool:
        """Whether the policy has nothing to decide in the group as it is now. Nodes do not poll it then, and the group
        does not call `slice_ended` and `epoch_ended`. When the answer changes, the policy calls `group.poll`."""
        return False

    # -- a slice

    def admit(self, node: JoinNode, fresh: Fresh, join_slice: JoinSlice) -> Fresh:
        """The new rows, per input of the node, that are worth probing now."""
        return fresh

    def route(self, node: JoinNode, origin: int, rows: Combinations) -> Iterable[tuple[Combinations, Order]] | None:
        """New rows of input `origin` in groups, each with its probe order, which may be another one for every batch;
        None: the policy leaves this to others."""
        return None

    def mode(self, node: JoinNode, probe: Probe) -> Modes | None:
        """How a stretch of rows is processed against stretches of a store: skip, pass or evaluate; None: evaluate all
        of it."""
        return None

    def observed(self, node: JoinNode, origin: int, step: int, probed: int, produced: int) -> None:
        """What one probe step did: `step` is the input or condition, `probed` and `produced` count rows."""

    def put_out(
        self, node: JoinNode, made: list[Combinations], output: NodeOutput, join_slice: JoinSlice
    ) -> list[Combinations]:
        """What the node puts out of the combinations that it has made in this slice. A policy may leave some of them out
        and add what it left out earlier; what it gives to `output.add` is put out before the call returns."""
        return made

    # -- the life of a group

    def changed(self, group: JoinGroup, is_replanted: bool) -> None:
        """A query has joined or left the group; or the group `is_replanted`: it has another tree, with new nodes. A
        group without members has come to its end."""

    def slice_ended(self, group: JoinGroup, frontier: int) -> None:
        """No row to come is older than the frontier: the policy forgets what it no longer needs."""

    def epoch_ended(self, group: JoinGroup, frontier: int, came: Came, is_closing: bool, is_resting: bool) -> None:
        """All rows below the frontier have been joined, and the queries have taken their combinations.

        Args:
            came: Of the streams of the group, what came in the epoch.
            is_closing: A bounded run is at its end.
            is_resting: Nothing came in: the policy may do what waits for that.
        """

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a store have new ids: the ids that the policy holds follow."""

    def schedule(self, group: JoinGroup, settings: Settings) -> Schedule | None:
        """How to work the group off in portions, by the settings of its newest query; None: the policy has no way."""
        return None

    def figures(self) -> PolicyFigures:
        """What the policy has done so far, for reports."""
        return PolicyFigures()


def overriding(policies: Sequence[JoinPolicy], point: str) -> tuple[JoinPolicy, ...]:
    """The policies that override a method."""
    return tuple(policy for policy in policies if getattr(type(policy), point) is not getattr(JoinPolicy, point))
