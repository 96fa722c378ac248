"""From a bound query to its lowered form, through the rules: what every driver and command does first."""

from __future__ import annotations

from eddyline.model.query import BoundQuery
from eddyline.plan.jtree.tree import JTree
from eddyline.plan.lower import Lowered, lower
from eddyline.plan.rewrite import rewrite
from eddyline.plan.tree_choice import choose_tree


def prepare(query: BoundQuery) -> Lowered:
    rewritten, _ = rewrite(query)
    return lower(rewritten)


def prepare_tree(query: BoundQuery) -> tuple[Lowered, JTree]:
    """The lowered query and the tree it would start with; raises where the plan setting does not fit the query."""
    lowered = prepare(query)
    return lowered, choose_tree(lowered)
