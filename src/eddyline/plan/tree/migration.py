"""From the running plan to a better one: whether to move, to which tree, and why.

Answer   `decide(seen, running)` compares the running tree with the best one under the observed statistics. It gives a
         `Migration` if the running tree breaks a budget that another keeps, or costs clearly more CPU (1.5 times). Equal
         statistics give equal decisions, so the driver can decide for all shards and send the record to each.
State    None. `runtime/planning/` counts equal decisions and knows when the last move was.
Limits   A migration changes work and memory, never answers. A record names references by position, which is the same
         in every shard.
Reading  docs/design/0003-replanning.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eddyline.model.joining import Tree
from eddyline.model.window import Window
from eddyline.plan.lower import Lowered
from eddyline.plan.tree.budget import amount_text
from eddyline.plan.tree.cost import CostModel, Price, UnitCosts
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.jtree.tree import JTree
from eddyline.plan.tree.statistics import GroupStatistics, Sources, graph_of
from eddyline.plan.tree.tree_choice import Orders, TreeChoice, aliases_of, choose, positions_of


@dataclass(frozen=True)
class Running:
    """The running tree of a group, and what it was chosen for; only the tree and its orders change while it runs."""

    lowered: Lowered
    tree: Tree
    orders: Orders
    sources: Sources
    costs: UnitCosts
    windows: tuple[Window | None, ...]
    left: Budgets


@dataclass(frozen=True)
class Migration:
    """A move to another tree. `before` and `after` are predicted CPU seconds per second."""

    tree: Tree
    orders: Orders
    reason: str
    before: float
    after: float
    #: Whether the running plan breaks a budget: such a move need not be decided twice.
    urgent: bool = False

    def to_document(self) -> dict[str, Any]:
        """As JSON values: the control record."""
        return {
            **plan_document(self.tree, self.orders),
            "reason": self.reason,
            "before": self.before,
            "after": self.after,
            "urgent": self.urgent,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Migration:
        tree, orders = plan_from(document)
        return cls(tree, orders, document["reason"], document["before"], document["after"], document["urgent"])


def assess(seen: GroupStatistics, running: Running) -> tuple[Price, TreeChoice]:
    """The price of the running tree and the best tree for one shard, both under the observed statistics."""
    shards = seen.shards
    left = Budgets(*(None if budget is None else budget / shards for budget in (running.left.cpu, running.left.memory)))
    best = choose(running.lowered, running.sources, seen=seen, windows=running.windows, left=left, costs=running.costs)
    graph = graph_of(running.lowered, running.sources, seen, running.windows, best.on_disk)
    model = CostModel(graph, running.costs)
    now = running_price(model, aliases_of(running.tree, running.lowered.aliases), running.orders, running.lowered)
    return now, best


def decide(seen: GroupStatistics, running: Running) -> Migration | None:
    """The move that is worth making now, if any."""
    return judge(*assess(seen, running), running, seen.shards)


def judge(now: Price, best: TreeChoice, running: Running, shards: int = 1) -> Migration | None:
    """The move that follows from an assessment, if any."""
    tree = positions_of(best.tree, running.lowered)
    if tree == running.tree and best.orders == running.orders:
        return None
    tuning = running.lowered.query.settings.tuning.planning
    broken = best.left.broken(now)
    name = str(best.tree)

    def move(reason: str, urgent: bool = False) -> Migration:
        return Migration(tree, best.orders, reason, now.cpu * shards, best.price.cpu * shards, urgent)

    if broken is not None:
        used, limit = (now.cpu, best.left.cpu) if broken == "cpu" else (now.memory, best.left.memory)
        assert limit is not None
        reason = f"the plan would use {amount_text(broken, used)} where {amount_text(broken, limit)} are left"
        if best.bound is None:
            return move(f"{reason}; {name} fits", urgent=True)
        if best.left.excess(now) > tuning.clearly_nearer * best.left.excess(best.price):
            return move(f"{reason}; no tree fits, {name} comes nearest")
        return None
    if best.bound is None and now.cpu > tuning.clearly_worse * best.price.cpu:
        return move(f"{name} costs {best.price.cpu:.3g} CPU seconds per second where the plan costs {now.cpu:.3g}")
    return None


def passed_over(now: Price, best: TreeChoice, running: Running) -> str | None:
    """The reason why `judge` gives no move to the best tree; None: it runs already."""
    if positions_of(best.tree, running.lowered) == running.tree:
        return None
    if best.bound is not None:
        return f"{best.tree} breaks the {best.bound} budget too, and comes no nearer to it"
    costs = f"{best.tree} costs {best.price.cpu:.3g} CPU seconds per second, the plan {now.cpu:.3g}"
    factor = running.lowered.query.settings.tuning.planning.clearly_worse
    return f"{costs}: less than {factor:g} times as much"


def running_price(model: CostModel, tree: JTree, orders: Orders, lowered: Lowered) -> Price:
    """The price of a tree with its running probe orders, which need not be the best ones any more."""
    price = model.price(tree)
    cpu = price.cpu
    known = dict(orders)
    for node in tree.nodes:
        positions = tuple(sorted(lowered.aliases.index(alias) for alias in node.leaves))
        if len(node.children) < 3 or positions not in known:
            continue
        children = [model.graph.mask(child.leaves) for child in node.children]
        partial = 0.0
        for origin, order in enumerate(known[positions]):
            met = children[origin]
            for step in order[:-1]:
                met |= children[step]
                partial += model.turnover(children[origin]) * model.rows(met)
        costs = model.costs
        work = costs.join * model.rate(sum(children)) + (costs.join + costs.probe) * partial + model.links(children)
        cpu += work - model.node_work(children)
    return Price(cpu, price.memory)


def plan_document(tree: Tree, orders: Orders) -> dict[str, Any]:
    """A tree and its probe orders as JSON values."""
    return {
        "tree": _listed(tree),
        "orders": [[list(node), [list(order) for order in orders]] for node, orders in orders],
    }


def plan_from(document: Mapping[str, Any]) -> tuple[Tree, Orders]:
    orders = tuple((tuple(node), tuple(tuple(order) for order in orders)) for node, orders in document["orders"])
    return _tupled(document["tree"]), orders


def _listed(tree: Tree) -> Any:
    return tree if isinstance(tree, int) else [_listed(branch) for branch in tree]


def _tupled(tree: Any) -> Tree:
    return tree if isinstance(tree, int) else tuple(_tupled(branch) for branch in tree)
