"""A join group: one join tree that serves every query with the same join signature.

Answer   `step` makes all complete combinations whose newest row is among an epoch's new rows, with one bit per member
         query.
State    Ports into the streams' stores, a tree of nodes, and a store for every inner node. `plant` and `rebuild` make
         these stores from the streams' stores when the tree changes or a snapshot is opened.
Limits   A tree is a reference position or a tuple of trees; tuples of three and more are mjoin nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

from eddyline.errors import Fault
from eddyline.model.expressions.differences import Differences
from eddyline.model.expressions.expression import Expression, columns_of
from eddyline.model.joining import Equality, Seat, Tree, joined_text, leaves
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.combination import MOST_REFERENCES, Combinations, concatenate
from eddyline.operators.join.counters import Counters
from eddyline.operators.join.inputs import Input, NodeInput, StreamInput
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.pieces import Strand, sorted_by_age
from eddyline.operators.join.policy import Came, Fresh, JoinPolicy, NodeOutput, PolicyFigures, Schedule, overriding
from eddyline.operators.join.port import Membership, Port
from eddyline.operators.join.probing.steps import followed_order
from eddyline.operators.stream.reading import timeline_name
from eddyline.operators.stream.stream import StreamState
from eddyline.operators.worth import Worth
from eddyline.settings import Settings
from eddyline.state.renumbering import Renumbering


@dataclass(frozen=True)
class JoinConfig:
    """What the planner writes down for a group: printable, comparable, without state."""

    name: str
    seats: tuple[Seat, ...]
    equalities: tuple[Equality, ...]
    residuals: tuple[Expression, ...]
    tree: Tree
    #: Probe orders by node (its references) and origin input; what is missing is found by following equalities.
    orders: tuple[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], ...] = ()
    #: Those of the query that the group was made for: which policies it has, and how it probes.
    settings: Settings = field(default_factory=Settings)
    #: The conditions as differences between columns; None: nothing is known about whole stretches of rows.
    differences: Differences | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.seats) > MOST_REFERENCES:
            raise Fault(f"a join of {len(self.seats)} references", detail=f"at most {MOST_REFERENCES} fit a stamp")
        if sorted(leaves(self.tree)) != list(range(len(self.seats))):
            raise Fault(f"the tree {self.tree} does not hold every reference once")


P = TypeVar("P", bound=JoinPolicy)


class JoinGroup:
    def __init__(
        self,
        config: JoinConfig,
        streams: Mapping[str, StreamState],
        issues: Issues,
        policies: tuple[JoinPolicy, ...] = (),
    ) -> None:
        self.config = config
        self.issues = issues
        self.policies = policies
        #: Per node, named by its references; nodes of earlier trees keep theirs.
        self.counters: dict[tuple[int, ...], Counters] = {}
        self.bases: dict[int, StreamInput] = {}
        #: Whether a query of the group reads rows that are in no combination.
        self.watched = False
        moving = sum(not seat.is_table for seat in config.seats)
        timeline = timeline_name(seat.source for seat in config.seats if not seat.is_table)
        for position, seat in enumerate(config.seats):
            stream = streams[seat.source]
            # With one stream only (and tables) no later row meets its rows.
            port = Port(
                config.name,
                position,
                seat.source,
                probed=moving > 1 or seat.is_table,
                reader=stream.reader(timeline),
                route=seat.route,
                tuning=config.settings.tuning.sharing,
                uses_zones=config.settings.heralds != "off",
                worth=Worth(config.settings.tuning.zones, config.settings.heralds == "auto"),
                required=tuple(key.name for key in seat.keys),
            )
            for key in seat.keys:
                for _, column in columns_of(key.expression):
                    stream.need_column(column)
                stream.need_key(key)
            stream.ports.append(port)
            self.bases[position] = StreamInput(stream, port)
        for condition in (*config.residuals, *(e.condition for e in config.equalities if not e.exact)):
            for reference, column in columns_of(condition):
                assert isinstance(reference, int)
                streams[config.seats[reference].source].need_column(column)
        self.nodes: list[tuple[JoinNode, NodeInput | None]] = []
        self.poll()
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
        self._changed(is_replanted=False)
        if any(base.store.live for base in self.bases.values()):
            self.plant(self.tree)
            self.rebuild()

    def leave(self, slot: int) -> None:
        """A query leaves; its bit is cleared everywhere, so that the slot can be given to another."""
        spans = [base.port.span for base in self.bases.values()]
        for base in self.bases.values():
            base.port.leave(slot, base.store)
        for kept in self.intermediates:
            kept.clear_bit(slot)
        self._changed(is_replanted=False)
        if self.members and spans != [base.port.span for base in self.bases.values()]:
            # Combinations were stored with the windows of the query that has gone: they would live too long for the
            # others.
            self.plant(self.tree)
            self.rebuild()

    def close(self) -> None:
        """The last member has gone: the ports leave their streams."""
        for base in self.bases.values():
            base.stream.leave(base.port)

    def policy(self, kind: type[P]) -> P | None:
        """The policy of a kind; None: the group has none."""
        return next((policy for policy in self.policies if isinstance(policy, kind)), None)

    def _changed(self, is_replanted: bool) -> None:
        for policy in self.policies:
            policy.changed(self, is_replanted)
        self.poll()

    def poll(self) -> None:
        """Poll the policies that are not idle from here on, here and in the nodes."""
        busy = [policy for policy in self.policies if not policy.is_idle]
        self._ending_slices, self._ending_epochs = (overriding(busy, at) for at in ("slice_ended", "epoch_ended"))
        for node, _ in self.nodes:
            node.poll(busy)

    # -- the tree

    def plant(self, tree: Tree) -> None:
        """Make this the tree; intermediate stores are filled from the streams' stores."""
        self.tree = tree
        self.nodes = []
        #: The stores of the inner nodes.
        self.intermediates: list[NodeInput] = []
        if isinstance(tree, int):
            self.root: JoinNode | StreamInput = self.bases[tree]
            return
        root = self._grow(tree, is_root=True)
        assert isinstance(root, JoinNode)
        self.root = root
        self._changed(is_replanted=True)

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
        orders = dict(self.config.orders).get(references) or tuple(
            followed_order(n, inputs, self.config.equalities) for n in range(len(inputs))
        )
        counters = self.counters.setdefault(references, Counters())
        node = JoinNode(
            name, inputs, self.config.equalities, self.config.residuals, self.bases, orders, self.config.settings.probe == "loop",
            len(self.config.seats), counters, self.policies, self.issues, self.config.settings.tuning,
        )  # fmt: skip
        if is_root:
            self.nodes.append((node, None))
            return node
        kept = NodeInput(name, references, self.bases)
        self.intermediates.append(kept)
        self.nodes.append((node, kept))
        return kept

    def name_of(self, references: tuple[int, ...]) -> str:
        """The name of a node or store in figures and checkpoints."""
        return f"{self.config.name}:{joined_text(references)}"

    def input_name(self, position: int) -> str:
        """The name of a reference in figures."""
        return f"input {self.name_of((position,))}"

    def rebuild(self) -> None:
        """Fill the intermediate stores from the rows that are live now."""
        for node, kept in self.nodes:
            if kept is not None:
                for made in node.everything():
                    kept.add(made)

    # -- an epoch

    def step(self, join_slice: JoinSlice) -> list[Strand]:
        """Complete combinations of a slice: one strand per input of the root that has new rows, in the order of newest
        rows. A strand makes its next part when the caller takes it; what a policy has taken is not among them."""
        if isinstance(self.root, StreamInput):
            rows = self.root.fresh(*join_slice.range_of(self.root.port.source))
            return [iter([rows])] if len(rows) else []
        made: dict[int, Combinations] = {}
        for node, kept in self.nodes:
            began = perf_counter()
            new: Fresh = []
            for one in node.inputs:
                if isinstance(one, NodeInput):
                    new.append(made.get(id(one)))
                    continue
                assert isinstance(one, StreamInput)
                stretch = None if one.stream.is_table else join_slice.fresh.get(one.port.source)
                new.append(None if stretch is None else one.fresh(*stretch))
            if kept is None:
                strands = node.strands([rows and sorted_by_age(rows) for rows in new], join_slice, False)
            else:
                output = NodeOutput(kept)
                node.pass_on(list(node.produce(new, join_slice, True)), output, join_slice)
                if output.parts:
                    made[id(kept)] = concatenate(output.parts)
            node.counters.seconds += perf_counter() - began
        return [_put_out(self.root, strand, join_slice) for strand in strands]

    def schedule(self, settings: Settings) -> Schedule | None:
        """How to work the group off in portions: the first `schedule` of a policy that is not None."""
        found = (policy.schedule(self, settings) for policy in self.policies)
        return next((schedule for schedule in found if schedule is not None), None)

    def purge(self, frontier: int) -> None:
        for kept in self.intermediates:
            kept.purge(frontier)
        for policy in self._ending_slices:
            policy.slice_ended(self, frontier)

    def epoch_ended(self, frontier: int, came: Came, is_closing: bool = False, is_resting: bool = False) -> None:
        """An epoch has ended, or nothing comes in."""
        for policy in self._ending_epochs:
            policy.epoch_ended(self, frontier, came, is_closing, is_resting)

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids: intermediate stores and policies follow."""
        for kept in self.intermediates:
            kept.renumber(old_to_new)
        for policy in self.policies:
            policy.renumber(old_to_new)

    def figures(self) -> PolicyFigures:
        """What the policies have done so far."""
        found = [policy.figures() for policy in self.policies]
        return PolicyFigures(
            [edge for one in found for edge in one.edges],
            [edge for one in found for edge in one.earlier_edges],
            {name: count for one in found for name, count in one.counts.items()},
        )


def _put_out(root: JoinNode, strand: Strand, join_slice: JoinSlice) -> Strand:
    """A strand as far as policies let it go, in the order of newest rows; the time that it takes is counted."""
    while True:
        began = perf_counter()
        output = NodeOutput(None)
        made = list(strand) if root.parts_rows else [part for part in (next(strand, None),) if part is not None]
        if made:
            root.pass_on(made, output, join_slice)
        root.counters.seconds += perf_counter() - began
        if not made:
            return
        yield from [sorted_by_age(concatenate(output.parts))] if root.parts_rows and output.parts else output.parts
