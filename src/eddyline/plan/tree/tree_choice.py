"""The join tree of a query: the one of its `plan` setting, or the one that the search finds within the budgets.

Answer   `choose` gives a `TreeChoice`: the tree over the aliases of the query, probe orders, the price, the runner-up.
         `choose_tree` gives the tree alone; `positions_of` turns it into the positions of the group.
         `plan = auto` searches when a stream declares a rate or a number of values, the job has a budget, or there are
         observed statistics. Otherwise it takes one node over all streams, which keeps no intermediate state.
Limits   The search is over streams. Static tables may be left out of a tree: each joins the lowest node that holds
         everything it is joined to. Two streams are one node.
Reading  docs/design/0003-replanning.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from eddyline.errors import PlanProblem
from eddyline.model.joining import Tree
from eddyline.model.window import Window
from eddyline.plan.lower import Lowered
from eddyline.plan.tree.budget import refuse, unit_costs
from eddyline.plan.tree.cost import CostModel, Price, UnitCosts, probe_orders
from eddyline.plan.tree.join_graph import JoinGraph
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.jtree.choice import Choice, PricedTree
from eddyline.plan.tree.jtree.tree import JTree
from eddyline.plan.tree.statistics import GroupStatistics, Sources, assumed_rates, graph_of, is_declared

#: Probe orders by node (its references, in order) and origin input: the form of `JoinConfig.orders`.
Orders = tuple[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], ...]


@dataclass(frozen=True)
class TreeChoice:
    """A tree with what it costs; `bound` names the budget that it breaks, if any."""

    tree: JTree
    orders: Orders
    price: Price
    #: Bytes of the store of each source, which several groups may share.
    held: Mapping[str, float]
    left: Budgets
    found: Choice
    assumed: tuple[str, ...] = ()
    #: Whether the price counts on payload being spilled.
    on_disk: bool = False

    @property
    def bound(self) -> str | None:
        return self.found.bound

    @property
    def inner(self) -> float:
        """Bytes of intermediate stores."""
        return max(self.price.memory - sum(self.held.values()), 0.0)


def choose(
    lowered: Lowered,
    sources: Sources | None = None,
    *,
    seen: GroupStatistics | None = None,
    windows: tuple[Window | None, ...] | None = None,
    left: Budgets | None = None,
    costs: UnitCosts | None = None,
    on_disk: bool = False,
) -> TreeChoice:
    """The tree of a query and its price, qualified or not.

    Args:
        lowered: the query.
        sources: the declared streams and tables.
        seen: the observed statistics of its join.
        windows: the largest windows of the queries that share the join.
        left: what the other queries leave of the budgets; None: all of it.
        costs: seconds per operation; None: as kept or shipped.
        on_disk: payload is not counted as memory. If the query may spill and no tree fits, this function tries that.

    Raises:
        PlanProblem: the setting names an alias twice, one that is not in FROM, or leaves out a stream.
    """
    sources, settings = sources or {}, lowered.query.settings
    left = left or Budgets(
        settings.cpu_budget, None if settings.memory_budget is None else float(settings.memory_budget)
    )
    graph = graph_of(lowered, sources, seen, windows, on_disk)
    model = CostModel(graph, costs or unit_costs())
    held = dict.fromkeys((seat.source for seat in lowered.seats), 0.0)
    for seat, one in zip(lowered.seats, graph.inputs, strict=True):
        held[seat.source] += one.rows * one.row_bytes
    known = seen is not None or is_declared(lowered, sources)
    found = _searched(lowered, model, left, known)
    tree = _with_tables(lowered, _unsearched(lowered) if found is None else found.nearest.tree)
    if found is None or tree is not found.nearest.tree:
        found = replace(_as_choice(model, tree, left), runner_up=None if found is None else found.runner_up)
    orders = orders_of(tree, graph, lowered) if known else ()
    assumed = () if seen is not None else assumed_rates(lowered, sources)
    if found.bound == "memory" and settings.over_budget == "spill" and not on_disk:
        return choose(lowered, sources, seen=seen, windows=windows, left=left, costs=costs, on_disk=True)
    return TreeChoice(tree, orders, Price(found.cpu, found.memory), held, left, found, assumed, on_disk)


def choose_tree(lowered: Lowered, sources: Sources | None = None) -> JTree:
    """The tree that a query starts with, over its own aliases.

    Raises:
        PlanProblem: the plan setting does not fit the query, or no tree fits the budgets.
    """
    return qualified(lowered, choose(lowered, sources)).tree


def qualified(lowered: Lowered, choice: TreeChoice) -> TreeChoice:
    """The choice, unless it breaks a budget that must not be broken."""
    settings = lowered.query.settings
    if choice.bound is not None and settings.over_budget != "warn":
        raise refuse(lowered.query.name, settings, choice.found, choice.assumed, choice.on_disk)
    return choice


def positions_of(tree: JTree, lowered: Lowered) -> Tree:
    if tree.alias is not None:
        return lowered.aliases.index(tree.alias)
    return tuple(positions_of(child, lowered) for child in tree.children)


def aliases_of(tree: Tree, aliases: tuple[str, ...]) -> JTree:
    """The reverse of `positions_of`."""
    if isinstance(tree, int):
        return JTree.leaf(aliases[tree])
    return JTree.node(aliases_of(branch, aliases) for branch in tree)


def orders_of(tree: JTree, graph: JoinGraph, lowered: Lowered) -> Orders:
    """The best probe orders of every node with a choice: three inputs or more."""
    return tuple(
        (tuple(sorted(lowered.aliases.index(alias) for alias in node.leaves)), probe_orders(graph, node))
        for node in tree.nodes
        if len(node.children) > 2
    )


def _searched(lowered: Lowered, model: CostModel, left: Budgets, known: bool) -> Choice | None:
    """What the search over the streams finds; None: the setting names a tree, or too little is known."""
    settings = lowered.query.settings
    limited = left.cpu is not None or left.memory is not None
    if settings.plan.startswith("(") or len(lowered.moving) < 3 or not (known or limited):
        return None
    # The search loads NumPy, which most queries need not have to be planned.
    from eddyline.plan.tree.jtree.search import search

    graph, streams = model.graph, {lowered.aliases[p] for p in lowered.moving}
    memory = left.memory
    if memory is not None:
        memory = max(memory - sum(one.rows * one.row_bytes for one in graph.inputs if one.alias not in streams), 0.0)
    alone = JoinGraph(
        tuple(one for one in graph.inputs if one.alias in streams),
        tuple(edge for edge in graph.edges if edge.left in streams and edge.right in streams),
        graph.unit,
    )
    method = settings.plan_search if settings.plan == "auto" else settings.plan
    return search(alone, model.costs, left.cpu, memory, method)


def _as_choice(model: CostModel, tree: JTree, left: Budgets) -> Choice:
    """A tree that was not searched for, in the form of one that was."""
    price = model.price(tree)
    bound = left.broken(price)
    excess = 0.0 if bound is None else max(left.excess(price) - 1.0, 0.0)
    outcome, chosen = (tree.shape, tree) if bound is None else ("none", None)
    nearest = PricedTree(tree, price.cpu, price.memory)
    return Choice(outcome, chosen, price.cpu, price.memory, bound, None, nearest, excess, 0.0)


def _unsearched(lowered: Lowered) -> JTree:
    settings = lowered.query.settings
    streams = [lowered.aliases[p] for p in lowered.moving]
    if settings.plan.startswith("("):
        tree = _spelled(JTree.parse(settings.plan), list(lowered.aliases))
        missing = [alias for alias in streams if alias not in tree.leaves]
        if missing:
            raise PlanProblem(
                f"the plan {settings.plan} leaves out {', '.join(missing)}",
                hint=f"a tree names every stream once: {', '.join(streams)}",
            )
        return tree
    binary = settings.plan == "bjtree" or (settings.plan == "auto" and settings.plan_search == "bjtree")
    return _left_deep(lowered, streams) if binary and len(streams) > 2 else JTree.mjoin(streams)


def _with_tables(lowered: Lowered, tree: JTree) -> JTree:
    for position, alias in enumerate(lowered.aliases):
        if lowered.seats[position].is_table and alias not in tree.leaves:
            tree = _with_table(tree, alias, _partners(lowered, alias))
    return tree


def _spelled(tree: JTree, aliases: list[str]) -> JTree:
    """The same tree with aliases as FROM spells them."""
    if tree.alias is None:
        return JTree.node(_spelled(child, aliases) for child in tree.children)
    found = next((alias for alias in aliases if alias.lower() == str(tree.alias).lower()), None)
    if found is None:
        hint = f"references are {', '.join(aliases)}"
        raise PlanProblem(f"the plan names {tree.alias}, which is not in FROM", hint=hint)
    return JTree.leaf(found)


def _partners(lowered: Lowered, alias: str) -> frozenset[str]:
    """The aliases to which one is joined by equalities."""
    here = lowered.aliases.index(alias)
    pairs = [(e.left, e.right) for e in lowered.equalities]
    return frozenset(lowered.aliases[b if a == here else a] for a, b in pairs if here in (a, b))


def _left_deep(lowered: Lowered, streams: list[str]) -> JTree:
    """Binary joins, each next stream joined to those before it where the query allows."""
    order, rest = [streams[0]], streams[1:]
    while rest:
        best = max(rest, key=lambda alias: len(_partners(lowered, alias) & set(order)))
        order.append(best)
        rest.remove(best)
    tree = JTree.leaf(order[0])
    for alias in order[1:]:
        tree = JTree.node((tree, JTree.leaf(alias)))
    return tree


def _with_table(tree: JTree, table: str, partners: frozenset[str]) -> JTree:
    if tree.is_leaf:
        return JTree.node((tree, JTree.leaf(table)))
    for number, child in enumerate(tree.children):
        if not child.is_leaf and partners and partners <= set(child.leaves):
            changed = list(tree.children)
            changed[number] = _with_table(child, table, partners)
            return JTree.node(changed)
    return JTree.node((*tree.children, JTree.leaf(table)))
