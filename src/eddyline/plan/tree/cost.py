"""The price of a join tree: CPU seconds per second of event time, and the state it holds.

Answer   `CostModel(graph, costs).price(tree)` for any tree over any number of inputs; `probe_orders` for a node. On the
         three-stream example of the qualified-plans paper it equals equations 1 to 7.
State    A memo per model: rows per set of inputs, work per node. A model belongs to one search.
Limits   Linear in the number of rows made: no caches, no batching effects. Selectivities are independent.
Reading  docs/design/0002-cost-model.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

from eddyline.errors import PlanProblem
from eddyline.plan.tree.join_graph import LEAST_ROWS, JoinGraph, members
from eddyline.plan.tree.jtree.tree import JTree

if TYPE_CHECKING:
    # Loaded with the first node of four inputs and more: the nodes of most queries are priced without arrays.
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

#: A tree as masks: for every join node the masks of its children. The root is the mask of all inputs.
Shape = dict[int, tuple[int, ...]]

#: A set that large is out of every budget; the cap keeps differences of prices finite.
MOST_ROWS = 1e290


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Seconds per operation.

    `insert` and `delete`: to store a combination or row and to remove it; `join`: to make a combination; `probe`: to
    find the partners of a row; `link`: each index of a row beyond the first; `arrive`: to take in a row of a stream.
    The defaults are those of the paper's Table 3, where the last three are 0; `eddyline lab calibrate` measures those
    of this machine.
    """

    insert: float = 2e-7
    delete: float = 2e-7
    join: float = 2.2e-6
    probe: float = 0.0
    link: float = 0.0
    arrive: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isfinite(value) or value < 0:
                raise PlanProblem(f"unit cost {field.name} is {value}", hint="seconds per operation, 0 or more")

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> UnitCosts:
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(document) - known)
        if unknown:
            raise PlanProblem(
                f"there is no unit cost {', '.join(unknown)}", hint=f"unit costs are {', '.join(sorted(known))}"
            )
        try:
            return cls(**{name: float(value) for name, value in document.items()})
        except (TypeError, ValueError) as problem:
            raise PlanProblem("a unit cost is not a number", detail=str(problem)) from problem

    @property
    def keep(self) -> float:
        """What a stored row costs over its life."""
        return self.insert + self.delete


@dataclass(frozen=True, slots=True)
class Price:
    cpu: float
    memory: float


class CostModel:
    """Prices of sets, nodes and trees of one join graph."""

    def __init__(self, graph: JoinGraph, costs: UnitCosts):
        self.graph = graph
        self.costs = costs
        self.count = len(graph.inputs)
        self.everything = graph.everything
        self._rows = [max(item.rows, LEAST_ROWS) for item in graph.inputs]
        #: New rows per second for each row held: one over the window's length for a RANGE window.
        self._turnover = [item.rate / rows for item, rows in zip(graph.inputs, self._rows, strict=True)]
        self._selectivities = graph.selectivity_rows
        #: Per input the mask of those that it is joined to.
        self._joined = [sum(1 << other for other, part in enumerate(row) if part != 1.0) for row in self._selectivities]
        self._rows_memo: dict[int, float] = {0: 1.0}
        self._turnover_memo: dict[int, float] = {0: 0.0}
        self._work_memo: dict[tuple[int, ...], float] = {}
        by_bytes = graph.unit == "bytes"
        self._leaf_weight = [item.row_bytes if by_bytes else 1.0 for item in graph.inputs]
        self._component_weight = [item.component_bytes for item in graph.inputs] if by_bytes else None
        #: State of the streams themselves: no tree holds less.
        weights = zip(graph.inputs, self._leaf_weight, strict=True)
        self.least_memory = sum(item.rows * weight for item, weight in weights)
        rates = sum(item.rate for item in graph.inputs)
        #: Taking in and storing every new row, and probing once with it: the same for every tree.
        self.leaf_cpu = rates * (self.costs.keep + self.costs.arrive)
        if self.count > 1:
            self.leaf_cpu += rates * self.costs.probe

    # -- sets of inputs ------------------------------------------------------------------------------------------------

    def rows(self, mask: int) -> float:
        """How many combinations of these inputs are alive at a time."""
        known = self._rows_memo.get(mask)
        if known is None:
            low = mask & -mask
            rest = mask ^ low
            row = self._selectivities[low.bit_length() - 1]
            known = self.rows(rest) * self._rows[low.bit_length() - 1]
            for other in members(rest):
                known *= row[other]
            known = min(known, MOST_ROWS)
            self._rows_memo[mask] = known
        return known

    def turnover(self, mask: int) -> float:
        known = self._turnover_memo.get(mask)
        if known is None:
            low = mask & -mask
            known = self._turnover[low.bit_length() - 1] + self.turnover(mask ^ low)
            self._turnover_memo[mask] = known
        return known

    def rate(self, mask: int) -> float:
        """How many combinations of these inputs are born per second."""
        return self.rows(mask) * self.turnover(mask)

    def memory(self, mask: int) -> float:
        """State of an intermediate store, in the graph's unit."""
        if self._component_weight is None:
            return self.rows(mask)
        return self.rows(mask) * sum(self._component_weight[place] for place in members(mask))

    def stored_cpu(self, mask: int) -> float:
        """What an intermediate store costs beyond the making of its rows: keeping them, and probing once with each."""
        return self.rate(mask) * (self.costs.keep + self.costs.probe)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _logarithms(self) -> tuple[Floats, Floats]:
        """Of the rows of each input, and of the selectivities between them."""
        import numpy as np

        return np.log(np.array(self._rows)), np.log(self.graph.selectivities)

    def arrays(self, nodes: Sequence[Sequence[int]]) -> tuple[Floats, Floats, Floats]:
        """For nodes of equal arity: logarithms of rows and of cross selectivities, and turnovers, of their children."""
        import numpy as np

        log_rows, log_selectivities = self._logarithms
        member = (np.array(nodes, dtype=np.int64)[:, :, None] >> np.arange(self.count) & 1).astype(np.float64)
        reach = member @ log_selectivities
        inside = np.einsum("nki,nki->nk", reach, member) / 2
        return member @ log_rows + inside, reach @ member.transpose(0, 2, 1), member @ np.array(self._turnover)

    def node_works(self, nodes: Sequence[Sequence[int]], width: int = 1) -> Floats:
        """`node_work` of many nodes of equal arity at once; above the exact arity with a narrow beam."""
        import numpy as np

        from eddyline.plan.tree.jtree.mjoin import LARGEST_EXPONENT, chain_sums

        if not nodes:
            return np.zeros(0)
        log_rows, log_cross, turnover = self.arrays(nodes)
        sums = chain_sums(log_rows, log_cross, width)
        whole = [0] * len(nodes)
        for place, node in enumerate(nodes):
            for child in node:
                whole[place] |= child
        results = np.array([self.rate(mask) for mask in whole])
        work: Floats = self.costs.join * results + (self.costs.join + self.costs.probe) * (turnover * sums).sum(axis=1)
        if self.costs.link and log_rows.shape[1] > 2:
            partners = (log_cross != 0.0).sum(axis=2) - (np.diagonal(log_cross, axis1=1, axis2=2) != 0.0)
            rates = np.exp(np.minimum(log_rows, LARGEST_EXPONENT)) * turnover
            work += self.costs.link * (rates * np.maximum(partners - 1, 0)).sum(axis=1)
        return work

    def node_work(self, children: Sequence[int]) -> float:
        """CPU of one node: making its results and the partial results on the way, with the best probe orders known."""
        key = tuple(sorted(children))
        known = self._work_memo.get(key)
        if known is None:
            known = self._work_of(key)
            self._work_memo[key] = known
        return known

    def _work_of(self, children: tuple[int, ...]) -> float:
        whole = 0
        for child in children:
            whole |= child
        work = self.costs.join * self.rate(whole)
        if len(children) == 3:
            # The commonest mjoin by far: the only partial result of an origin is the smaller of two pairs.
            one, two, three = children
            partial = 0.0
            for child, other, third in ((one, two, three), (two, one, three), (three, one, two)):
                partial += self.turnover(child) * min(self.rows(child | other), self.rows(child | third))
            return work + (self.costs.join + self.costs.probe) * partial + self.links(children)
        if len(children) > 3:
            from eddyline.plan.tree.jtree.mjoin import chains

            log_rows, log_cross, turnover = self.arrays([children])
            sums, _ = chains(log_rows[0], log_cross[0])
            work += (self.costs.join + self.costs.probe) * float(turnover[0] @ sums) + self.links(children)
        return work

    def joined(self, mask: int) -> int:
        """The inputs that these are joined to."""
        found = 0
        for place in members(mask):
            found |= self._joined[place]
        return found

    def links(self, children: Sequence[int]) -> float:
        """CPU of further indexes: a child of an mjoin has one for each other child that it is joined to."""
        if not self.costs.link or len(children) < 3:
            return 0.0
        cpu = 0.0
        for child in children:
            near = self.joined(child)
            partners = sum(1 for other in children if other != child and near & other)
            cpu += self.costs.link * self.rate(child) * max(partners - 1, 0)
        return cpu

    def orders(self, children: Sequence[int]) -> list[tuple[int, ...]]:
        """For each child as origin: the positions of the others in the order in which they are probed."""
        if len(children) == 1:
            return [()]
        from eddyline.plan.tree.jtree.mjoin import chains

        log_rows, log_cross, _ = self.arrays([children])
        return chains(log_rows[0], log_cross[0])[1]

    # -- trees ---------------------------------------------------------------------------------------------------------

    def price_shape(self, shape: Shape) -> Price:
        cpu, memory = self.leaf_cpu, self.least_memory
        for mask, children in shape.items():
            cpu += self.node_work(children)
            if mask != self.everything:
                cpu += self.stored_cpu(mask)
                memory += self.memory(mask)
        return Price(cpu, memory)

    def price(self, tree: JTree) -> Price:
        """CPU and memory of a whole tree; its leaves must be the graph's inputs."""
        tree.check(self.graph.aliases)
        return self.price_shape(self.shape(tree))

    @property
    def least_cpu(self) -> float:
        """A true lower bound: every tree stores the streams and makes the results; only partial results may be
        saved."""
        return self.leaf_cpu + (self.costs.join * self.rate(self.everything) if self.count > 1 else 0.0)

    def shape(self, tree: JTree) -> Shape:
        found: Shape = {}

        def visit(node: JTree) -> int:
            if node.is_leaf:
                return self.graph.mask(node.leaves)
            children = tuple(visit(child) for child in node.children)
            found[sum(children)] = children
            return sum(children)

        visit(tree)
        return found

    def tree(self, shape: Shape) -> JTree:
        """The tree of a shape, children in the order of their first inputs."""

        def build(mask: int) -> JTree:
            if not mask & (mask - 1):
                return JTree.leaf(self.graph.inputs[mask.bit_length() - 1].alias)
            return JTree.node(build(child) for child in sorted(shape[mask], key=lambda child: child & -child))

        return build(self.everything)


def probe_orders(graph: JoinGraph, node: JTree) -> tuple[tuple[int, ...], ...]:
    """For each child of a join node as origin, the positions of the other children in probing order.

    >>> from eddyline.plan.tree.join_graph import JoinInput
    >>> inputs = [JoinInput.over_time(alias, 20, 5) for alias in "abc"]
    >>> probe_orders(JoinGraph.of(inputs, [("a", "b", 0.05), ("b", "c", 0.5)]), JTree.parse("(a b c)"))
    ((1, 2), (0, 2), (1, 0))
    """
    model = CostModel(graph, UnitCosts())
    return tuple(model.orders([graph.mask(child.leaves) for child in node.children]))
