"""A join group: one join tree that serves every query with the same join signature.

Answer   `step` gives all complete combinations whose newest row is among an epoch's new rows, with one bit per member query.
State    Ports into the streams' stores, a tree of nodes, and a store for every inner node: those are derived, and `plant`
         rebuilds them from the streams' stores whenever the tree changes or a snapshot is opened.
Limits   A tree is a reference position or a tuple of trees; tuples of three and more are mjoin nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from eddyline.errors import Fault
from eddyline.model.expression import Expression, columns_of
from eddyline.model.joining import Equality, Seat, Tree, leaves
from eddyline.operators.evaluate import Issues
from eddyline.operators.join.combination import MOST_REFERENCES, POSITION_BITS, Combinations, concatenate
from eddyline.operators.join.demand.admission import Admission
from eddyline.operators.join.demand.control import targets_of
from eddyline.operators.join.demand.moment import Moment
from eddyline.operators.join.demand.node_demand import NodeDemand
from eddyline.operators.join.inputs import Input, NodeInput, StreamInput
from eddyline.operators.join.node import Counters, JoinNode, RowsSeen
from eddyline.operators.join.policy import JoinPolicy
from eddyline.operators.join.port import Membership, Port
from eddyline.operators.join.routing.lottery import LotteryRoute
from eddyline.operators.join.sharing.expansion import MANY, Expansion
from eddyline.operators.join.sharing.shared_probes import Ask, SharedProbes
from eddyline.operators.stream import StreamState
from eddyline.state.renumbering import Renumbering


@dataclass(frozen=True)
class JoinConfig:
    """What the planner writes down for a group: printable, comparable, without state."""

    name: str
    seats: tuple[Seat, ...]
    equalities: tuple[Equality, ...]
    residuals: tuple[Expression, ...]
    tree: Tree
    loop: bool = False
    #: Just-in-time: what is not made while nobody can use it, and how that is found out.
    jit: str = "off"
    jit_control: str = "auto"
    #: Probe orders by node (its references) and origin input; what is missing is found by following equalities.
    orders: tuple[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], ...] = ()
    #: Draw probe orders by lottery, from this seed; None: the orders above.
    lottery_seed: int | None = None

    def __post_init__(self) -> None:
        if len(self.seats) > MOST_REFERENCES:
            raise Fault(f"a join of {len(self.seats)} references", detail=f"at most {MOST_REFERENCES} fit a stamp")
        if sorted(leaves(self.tree)) != list(range(len(self.seats))):
            raise Fault(f"the tree {self.tree} does not hold every reference once")

    def build(self, streams: Mapping[str, StreamState], issues: Issues) -> JoinGroup:
        return JoinGroup(self, streams, issues, None if self.lottery_seed is None else LotteryRoute(self.lottery_seed))


class JoinGroup:
    def __init__(self, config: JoinConfig, streams: Mapping[str, StreamState], issues: Issues, policy: JoinPolicy | None = None) -> None:
        self.config = config
        self.issues = issues
        self.policy = policy or JoinPolicy()
        self._probes: SharedProbes | None = None
        self.counters: dict[str, Counters] = {}
        self.bases: dict[int, StreamInput] = {}
        moving = sum(not seat.is_table for seat in config.seats)
        for position, seat in enumerate(config.seats):
            stream = streams[seat.source]
            # With one stream only (and tables) nobody ever comes back for its rows.
            port = Port(config.name, position, seat.alias, seat.source, probed=moving > 1 or seat.is_table, route=seat.route)
            port.required = tuple(key.mark for key in seat.keys)
            for key in seat.keys:
                for _, column in columns_of(key.expression):
                    stream.need_column(column)
                stream.need_key(key)
            stream.ports.append(port)
            self.bases[position] = StreamInput(stream, port)
        by_alias = {seat.alias: seat.source for seat in config.seats}
        for condition in (*config.residuals, *(e.condition for e in config.equalities if not e.exact)):
            for alias, column in columns_of(condition):
                streams[by_alias[alias]].need_column(column)
        self.nodes: list[tuple[JoinNode, NodeInput | None]] = []
        #: Per place in `nodes`, the demand for what the node makes; empty: everything is made.
        self.demands: dict[int, NodeDemand] = {}
        #: Per place of a node with three inputs or more, what they say of each other's new rows.
        self.admissions: dict[int, Admission] = {}
        #: What the edges of earlier trees have counted, in one sum however many trees there were.
        self.earlier_edges: list[dict[str, Any]] = []
        self.plant(config.tree)

    # -- members

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(self.bases[0].port.members)

    def free_slot(self) -> int:
        taken = set(self.members)
        return next(slot for slot in range(len(taken) + 1) if slot not in taken)

    def join(self, memberships: Sequence[Membership]) -> None:
        """A query joins, with one membership per position; rows that are here already do not exist for it."""
        for position, member in enumerate(memberships):
            base = self.bases[position]
            base.port.join(member, base.store)
        self._enrol()
        if any(base.store.live for base in self.bases.values()):
            self.plant(self.tree)
            self.rebuild()

    def leave(self, slot: int) -> None:
        """A query leaves; its bit is cleared everywhere, so that the slot can be given to another."""
        spans = [base.port.span for base in self.bases.values()]
        for base in self.bases.values():
            base.port.leave(slot, base.store)
        for kept in self.intermediates():
            kept.clear_bit(slot)
        self._enrol()
        if self.members and spans != [base.port.span for base in self.bases.values()]:
            # Combinations were stored with the windows of the query that has gone: they would live too long for the others.
            self.plant(self.tree)
            self.rebuild()

    def close(self) -> None:
        """The last member has gone: the ports leave their streams."""
        for base in self.bases.values():
            base.stream.ports.remove(base.port)
        if self._probes is not None:
            self._probes.enrol(self, {})

    def share_probes(self, probes: SharedProbes) -> None:
        """Make first probes together with other groups."""
        self._probes = probes
        self._enrol()

    def _enrol(self) -> None:
        """Say what the nodes' first probes ask for; a drawn order is not known beforehand."""
        if self._probes is None:
            return
        asks: dict[Ask, tuple[StreamInput, StreamInput]] = {}
        for node, kept in self.nodes if type(self.policy) is JoinPolicy else ():
            node.shared = self._probes
            for origin, one in enumerate(node.inputs):
                if not isinstance(one, StreamInput) or one.stream.is_table:
                    continue
                steps = node.steps(origin, node.orders[origin])
                if kept is None and len(steps) == 1 and len(self.members) >= MANY:
                    # The last probe for many queries looks at lineage as it goes: it has no use for bare pairs.
                    continue
                ask, partner = node.ask(origin, steps[0]), node.inputs[steps[0].input]
                if ask is not None and isinstance(partner, StreamInput):
                    asks[ask] = (one, partner)
        self._probes.enrol(self, asks)

    # -- the tree

    def plant(self, tree: Tree) -> None:
        """Make this the tree; intermediate stores are filled from the streams' stores."""
        self.tree = tree
        self.earlier_edges = folded_edges([*self.earlier_edges, *self.edges().values()])
        self.nodes = []
        self.demands, self.admissions = {}, {}
        if isinstance(tree, int):
            self.root: JoinNode | StreamInput = self.bases[tree]
            return
        root = self._grow(tree, is_root=True)
        assert isinstance(root, JoinNode)
        self.root = root
        self._enrol()
        if self.config.jit != "off":
            for number, (node, _) in enumerate(self.nodes):
                if len(node.inputs) > 2:
                    node.demand = self.admissions[number] = Admission(node, self.config.jit)
            for number, targets in targets_of(self.nodes, self.bases, self.config.jit_control).items():
                node, kept = self.nodes[number]
                assert kept is not None
                siblings = next(
                    tuple(one for one in parent.inputs if one is not kept)
                    for parent, _ in self.nodes
                    if any(one is kept for one in parent.inputs)
                )
                self.demands[number] = NodeDemand(node, kept, siblings, targets, self.config.jit, _follow, self.admissions.get(number))

    def _grow(self, tree: Tree, is_root: bool) -> Input | JoinNode:
        if isinstance(tree, int):
            return self.bases[tree]
        inputs: list[Input] = []
        for branch in tree:
            grown = self._grow(branch, is_root=False)
            assert not isinstance(grown, JoinNode)
            inputs.append(grown)
        references = tuple(sorted(r for i in inputs for r in i.references))
        name = self.name_of(references)
        orders = dict(self.config.orders).get(references) or tuple(_follow(n, inputs, self.config.equalities) for n in range(len(inputs)))
        counters = self.counters.setdefault(name, Counters())
        node = JoinNode(
            name, inputs, self.config.equalities, self.config.residuals, self.bases, orders, self.config.loop, len(self.config.seats),
            counters, self.policy, self.issues,
        )  # fmt: skip
        if is_root:
            self.nodes.append((node, None))
            return node
        kept = NodeInput(name, references, self.bases)
        self.nodes.append((node, kept))
        return kept

    def name_of(self, references: tuple[int, ...]) -> str:
        return self.config.name + ":" + "".join(f"{self.config.seats[r].alias} " for r in references).strip().replace(" ", "⋈")

    def rebuild(self) -> None:
        """Fill the intermediate stores from the rows that are live now."""
        partials = {name: counters.partials for name, counters in self.counters.items()}
        for node, kept in self.nodes:
            if kept is not None:
                for made in node.everything():
                    kept.add(made)
        for name, before in partials.items():
            # Work done again is not work of the query.
            self.counters[name].partials = before

    # -- an epoch

    def step(self, fresh: Mapping[str, tuple[int, int]], rows_seen: RowsSeen, into: Expansion | None = None) -> list[Combinations]:
        """Complete combinations of this epoch, in pieces, each in the order of its origins; what `into` takes is not among them."""
        if isinstance(self.root, StreamInput):
            start, stop = fresh.get(self.root.port.source, (0, 0))
            rows = self.root.fresh(start, stop)
            return [rows] if len(rows) else []
        made: dict[int, Combinations | None] = {}
        results: list[Combinations] = []
        moment = self._moment(fresh) if self.demands else None
        for number, (node, kept) in enumerate(self.nodes):
            began = perf_counter()
            new = [self._fresh(one, fresh, made) for one in node.inputs]
            if moment is not None and kept is not None:
                made[id(kept)] = self.demands[number].produce(new, moment, rows_seen)
                node.counters.seconds += perf_counter() - began
                continue
            if moment is not None:
                new = [moment.new_among(one, rows) for one, rows in zip(node.inputs, new, strict=True)]
            pieces = list(node.produce(new, rows_seen, kept is not None, into if kept is None else None))
            if kept is None:
                results = pieces
            elif pieces:
                whole = concatenate(pieces)
                kept.add(whole)
                made[id(kept)] = whole
            node.counters.seconds += perf_counter() - began
        return results

    def _moment(self, fresh: Mapping[str, tuple[int, int]]) -> Moment | None:
        """What is new for this group; None: nothing."""
        ranges, times, first = {}, [], []
        for base in self.bases.values():
            start, stop = fresh.get(base.port.source, (0, 0))
            if stop > start and not base.stream.is_table:
                ranges[base.port.source] = (start, stop)
                ends = np.array([start, stop - 1])
                times += base.store.at("ts", ends).tolist()
                first.append(int(base.store.at("seq", ends)[0]) << POSITION_BITS)
        return Moment(ranges, min(times), max(times), min(first)) if ranges else None

    def _fresh(self, one: Input, fresh: Mapping[str, tuple[int, int]], made: Mapping[int, Combinations | None]) -> Combinations | None:
        if isinstance(one, NodeInput):
            return made.get(id(one))
        assert isinstance(one, StreamInput)
        if one.stream.is_table or one.port.source not in fresh:
            return None
        return one.fresh(*fresh[one.port.source])

    def purge(self, frontier: int) -> None:
        for _, kept in self.nodes:
            if kept is not None:
                kept.purge(frontier)

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids: intermediate stores and held-back rows follow."""
        for kept in self.intermediates():
            kept.renumber(old_to_new)
        for demand in self.demands.values():
            demand.renumber(old_to_new)

    def edges(self) -> dict[str, dict[str, Any]]:
        """Per edge by which consumers and producers tell each other what is not wanted: its state and counts."""
        found = {one.node.name: one.as_json() for one in self.demands.values()}
        return found | {f"{one.node.name} admission": one.as_json() for one in self.admissions.values()}

    def intermediates(self) -> Iterator[NodeInput]:
        for _, kept in self.nodes:
            if kept is not None:
                yield kept


def folded_edges(edges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The counts of many edges as those of one; none of none.

    >>> edge = {"suspensions": 1, "resumptions": 2, "marks": 3, "checks": 4, "partials_avoided": {"estimate": 5}}
    >>> folded_edges([edge, edge])
    [{'suspensions': 2, 'resumptions': 4, 'marks': 6, 'checks': 8, 'partials_avoided': {'estimate': 10}}]
    """
    if not edges:
        return []
    whole: dict[str, Any] = {name: sum(edge[name] for edge in edges) for name in ("suspensions", "resumptions", "marks", "checks")}
    return [whole | {"partials_avoided": {"estimate": sum(edge["partials_avoided"]["estimate"] for edge in edges)}}]


def _follow(origin: int, inputs: list[Input], equalities: tuple[Equality, ...]) -> tuple[int, ...]:
    """Probe what is joined by the most equalities first; cross products come last."""
    covered = frozenset(inputs[origin].references)
    rest = [n for n in range(len(inputs)) if n != origin]
    order = []
    while rest:
        links = [sum(e.sides(covered, frozenset(inputs[n].references)) is not None for e in equalities) for n in rest]
        best = rest[links.index(max(links))]
        order.append(best)
        rest.remove(best)
        covered |= frozenset(inputs[best].references)
    return tuple(order)
