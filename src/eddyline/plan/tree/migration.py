"""From the running plan to a better one: whether to move, where to, and why.

Answer   `decide(seen, running)` compares the tree that runs with the best one for what was seen, and gives a
         `Migration` when the running one breaks a budget that another keeps, or costs clearly more CPU (1.5 times). It
         is a pure function: the same sums give the same decision everywhere, so one place can decide for all shards and
         send the record to each.
State    None. The planner remembers how often the same answer came (hysteresis) and when the last move was.
Limits   The answer of a query never depends on its tree: a migration changes work and memory only. A record names
         references by position, so that it means the same in every shard.
Reading  docs/design/0003-replanning.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eddyline.model.joining import Tree
from eddyline.model.window import Window
from eddyline.plan.lower import Lowered
from eddyline.plan.tree.budget import bytes_text, cores_text
from eddyline.plan.tree.cost import CostModel, Price, UnitCosts
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.jtree.tree import JTree
from eddyline.plan.tree.statistics import GroupStatistics, Sources, graph_of
from eddyline.plan.tree.tree_choice import Orders, TreeChoice, aliases_of, choose, positions_of


@dataclass(frozen=True)
class Running:
    """What a group runs and by which rules it was chosen; everything but the tree is fixed for its life."""

    lowered: Lowered
    tree: Tree
    orders: Orders
    sources: Sources
    costs: UnitCosts
    windows: tuple[Window | None, ...]
    left: Budgets


@dataclass(frozen=True)
class Migration:
    """A move to another tree. `before` and `after` are CPU seconds per second as predicted from what was seen."""

    tree: Tree
    orders: Orders
    reason: str
    before: float
    after: float
    #: Whether the running plan breaks a budget: such a move does not wait for a second opinion.
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
    """The price of what runs and the best tree, both by what was seen, for one shard."""
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
    """What an assessment means: a move, or none."""
    tree = positions_of(best.tree, running.lowered)
    if tree == running.tree and best.orders == running.orders:
        return None
    tuning = running.lowered.query.settings.tuning.planning
    broken = best.left.broken(now)
    name = str(best.tree)

    def move(reason: str, urgent: bool = False) -> Migration:
        return Migration(tree, best.orders, reason, now.cpu * shards, best.price.cpu * shards, urgent)

    if broken is not None:
        used = cores_text(now.cpu) if broken == "cpu" else bytes_text(now.memory)
        limit = best.left.cpu if broken == "cpu" else best.left.memory
        assert limit is not None
        allowed = cores_text(limit) if broken == "cpu" else bytes_text(limit)
        reason = f"the plan would use {used} where {allowed} are left"
        if best.bound is None:
            return move(f"{reason}; {name} fits", urgent=True)
        if best.left.excess(now) > tuning.clearly_nearer * best.left.excess(best.price):
            return move(f"{reason}; no tree fits, {name} comes nearest")
        return None
    if best.bound is None and now.cpu > tuning.clearly_worse * best.price.cpu:
        return move(f"{name} costs {best.price.cpu:.3g} CPU seconds per second where the plan costs {now.cpu:.3g}")
    return None


def passed_over(now: Price, best: TreeChoice, running: Running) -> str | None:
    """Why the best tree is not taken, where `judge` asks for no move; None: it runs already."""
    if positions_of(best.tree, running.lowered) == running.tree:
        return None
    if best.bound is not None:
        return f"{best.tree} breaks the {best.bound} budget too, and comes no nearer to it"
    costs = f"{best.tree} costs {best.price.cpu:.3g} CPU seconds per second, the plan {now.cpu:.3g}"
    factor = running.lowered.query.settings.tuning.planning.clearly_worse
    return f"{costs}: less than {factor:g} times as much"


def running_price(model: CostModel, tree: JTree, orders: Orders, lowered: Lowered) -> Price:
    """The price of a tree with the probe orders that it runs with, which may not be the best ones any more."""
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
        whole = sum(children)
        work = (
            model.costs.join * model.rate(whole)
            + (model.costs.join + model.costs.probe) * partial
            + model.links(children)
        )
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
