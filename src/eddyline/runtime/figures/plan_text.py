"""How a query over streams is answered, as text: the tree that runs in the query's own aliases, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping

from eddyline.model.joining import Tree
from eddyline.plan.explain import explain
from eddyline.plan.lower import Lowered
from eddyline.plan.tree.jtree.tree import JTree


def plan_text(lowered: Lowered, tree: Tree, more: Mapping[str, str] | None) -> str:
    """The plan of a query whose group runs a tree; `more` are further lines by their label."""
    return explain(lowered, _tree(tree, lowered.aliases), more)


def _tree(tree: Tree, aliases: tuple[str, ...]) -> JTree:
    if isinstance(tree, int):
        return JTree.leaf(aliases[tree])
    return JTree.node(_tree(branch, aliases) for branch in tree)
