"""Just-in-time joins as a policy of a group: demand for what inner nodes make, admission to nodes of three inputs or
more.

Answer   *admit* leaves out new rows none of whose combinations could be used, *mode* leaves out pairs, *put_out* makes
         what was held back and is demanded now.
State    Per inner node its demand, per node of three inputs or more its admission; counts of the edges of earlier
         trees.
Limits   `jit = 'off'` makes no such policy.
Reading  docs/operators/demand.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.demand.admission import Admission
from eddyline.operators.join.demand.control import targets_of
from eddyline.operators.join.demand.node_demand import NodeDemand
from eddyline.operators.join.demand.novelty import Novelty
from eddyline.operators.join.demand.partners import PartnerZones
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import Fresh, JoinPolicy, NodeOutput, PolicyFigures, WatchedEdge
from eddyline.operators.join.probing.modes import Modes, Probe
from eddyline.settings import Settings
from eddyline.state.renumbering import Renumbering

if TYPE_CHECKING:
    from eddyline.operators.join.group import JoinConfig, JoinGroup


def demand(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    return Demand(config.settings) if config.settings.jit != "off" else None


class Demand(JoinPolicy):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: The zones that conditions read before they search for rows; None: none.
        self.zones = PartnerZones.of(settings)
        self.demands: dict[JoinNode, NodeDemand] = {}
        self.admissions: dict[JoinNode, Admission] = {}
        #: What the edges of earlier trees have counted, in one sum however many trees there were.
        self._earlier: list[dict[str, Any]] = []
        #: Of the slice at hand, for groups with inner nodes; None: it has no new row for them.
        self._novelty: Novelty | None = None
        self._join_slice: JoinSlice | None = None

    @property
    def is_idle(self) -> bool:
        """A join of two streams has no inner node, and nothing to hold back."""
        return not self.demands and not self.admissions

    def changed(self, group: JoinGroup, is_replanted: bool) -> None:
        if not is_replanted:
            return
        mode, tuning = self.settings.jit, self.settings.tuning.demand
        self._earlier = folded_edges([*self._earlier, *(edge.figures for edge in self.figures().edges)])
        self.demands, self.admissions = {}, {}
        for node, _ in group.nodes:
            if len(node.inputs) > 2:
                self.admissions[node] = Admission(node, mode, tuning, self.zones)
        for number, targets in targets_of(group.nodes, group.bases, self.settings.jit_control).items():
            node, kept = group.nodes[number]
            assert kept is not None
            siblings = next(
                tuple(one for one in parent.inputs if one is not kept)
                for parent, _ in group.nodes
                if any(one is kept for one in parent.inputs)
            )
            self.demands[node] = NodeDemand(
                node, kept, siblings, targets, mode, tuning, self.admissions.get(node), self.zones
            )

    def _new(self, node: JoinNode, join_slice: JoinSlice) -> Novelty | None:
        if self._join_slice is not join_slice:
            self._join_slice = join_slice
            self._novelty = Novelty.of(join_slice, node.bases.values()) if self.demands else None
        return self._novelty

    def admit(self, node: JoinNode, fresh: Fresh, join_slice: JoinSlice) -> Fresh:
        novelty = self._new(node, join_slice)
        if novelty is not None and node in self.demands:
            return self.demands[node].begin(fresh, novelty)
        if novelty is not None:
            fresh = [novelty.new_among(one, rows) for one, rows in zip(node.inputs, fresh, strict=True)]
        if node in self.admissions:
            admission = self.admissions[node]
            fresh = [
                None if rows is None or not len(rows) else admission.admit(origin, rows)
                for origin, rows in enumerate(fresh)
            ]
        return fresh

    def mode(self, node: JoinNode, probe: Probe) -> Modes | None:
        return self.demands[node].mode(probe) if node in self.demands and self._novelty is not None else None

    def put_out(
        self, node: JoinNode, made: list[Combinations], output: NodeOutput, join_slice: JoinSlice
    ) -> list[Combinations]:
        novelty = self._new(node, join_slice)
        if novelty is None or node not in self.demands:
            return made
        self.demands[node].finish(made, output, novelty)
        return []

    def slice_ended(self, group: JoinGroup, frontier: int) -> None:
        if self.zones is not None:
            self.zones.next_epoch()

    def renumber(self, old_to_new: Renumbering) -> None:
        for one in self.demands.values():
            one.holding.renumber(old_to_new)

    def figures(self) -> PolicyFigures:
        kinds: dict[str, Iterable[NodeDemand | Admission]] = {
            "demand": self.demands.values(),
            "admission": self.admissions.values(),
        }
        edges = [
            WatchedEdge(kind, one.node.references, one.listens_to, one.as_json())
            for kind, watched in kinds.items()
            for one in watched
        ]
        return PolicyFigures(edges, self._earlier)


def folded_edges(edges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The counts of many edges as those of one; none of none.

    >>> edge = {"suspensions": 1, "resumptions": 2, "marks": 3, "checks": 4, "partials_avoided": {"estimate": 5}}
    >>> folded_edges([edge, edge])
    [{'suspensions': 2, 'resumptions': 4, 'marks': 6, 'checks': 8, 'partials_avoided': {'estimate': 10}}]
    """
    if not edges:
        return []
    whole: dict[str, Any] = {
        name: sum(edge[name] for edge in edges) for name in ("suspensions", "resumptions", "marks", "checks")
    }
    return [whole | {"partials_avoided": {"estimate": sum(edge["partials_avoided"]["estimate"] for edge in edges)}}]
