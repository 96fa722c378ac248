"""Which join tree a query gets: as its `plan` setting says.

Answer   `choose_tree` gives a tree over the aliases of the query; `positions_of` turns it into the positions of the group.
         Static tables may be left out of a tree: each joins the lowest node that holds everything it is joined to.
Limits   `auto` takes one node over all streams: it keeps no intermediate state and is right for any rates.
"""

from __future__ import annotations

from eddyline.errors import PlanProblem
from eddyline.operators.join.group import Tree
from eddyline.plan.jtree.tree import JTree
from eddyline.plan.lower import Lowered


def choose_tree(lowered: Lowered) -> JTree:
    """The tree of a query, over its own aliases.

    Raises:
        PlanProblem: the setting names an alias twice, one that is not in FROM, or leaves out a stream.
    """
    wish = lowered.query.settings.plan
    streams = [lowered.aliases[p] for p in lowered.moving]
    tables = [alias for p, alias in enumerate(lowered.aliases) if lowered.seats[p].is_table]
    if wish.startswith("("):
        tree = _spelled(JTree.parse(wish), [*streams, *tables])
        missing = [alias for alias in streams if alias not in tree.leaves]
        if missing:
            raise PlanProblem(
                f"the plan {wish} leaves out {', '.join(missing)}", hint=f"a tree names every stream once: {', '.join(streams)}"
            )
    elif wish == "bjtree" and len(streams) > 2:
        tree = _left_deep(lowered, streams)
    else:
        tree = JTree.mjoin(streams)
    for table in tables:
        if table not in tree.leaves:
            tree = _with_table(tree, table, _partners(lowered, table))
    return tree


def positions_of(tree: JTree, lowered: Lowered) -> Tree:
    if tree.alias is not None:
        return lowered.aliases.index(tree.alias)
    return tuple(positions_of(child, lowered) for child in tree.children)


def _spelled(tree: JTree, aliases: list[str]) -> JTree:
    """The same tree with aliases as FROM spells them."""
    if tree.alias is None:
        return JTree.node(_spelled(child, aliases) for child in tree.children)
    for alias in aliases:
        if alias.lower() == tree.alias.lower():
            return JTree.leaf(alias)
    raise PlanProblem(f"the plan names {tree.alias}, which is not in FROM", hint=f"references are {', '.join(aliases)}")


def _partners(lowered: Lowered, alias: str) -> frozenset[str]:
    """What an alias is joined to by equalities."""
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
