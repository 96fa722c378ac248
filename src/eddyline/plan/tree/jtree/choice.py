"""The result of a search for a join tree.

Answer   `Choice`: the outcome (the shape of the tree, or none), the tree, its price, the budget that fails, the
         runner-up.
State    None: frozen values. A query without a search has a `Choice` too; this file loads no search.
"""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.plan.tree.jtree.tree import JTree


@dataclass(frozen=True, slots=True)
class PricedTree:
    """A tree with what it costs."""

    tree: JTree
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The result. If the outcome is `none`, the tree is None and the price is that of `nearest`."""

    #: mjoin | bjtree | jtree | none
    outcome: str
    tree: JTree | None
    cpu: float
    memory: float
    #: The budget that is exceeded more, None when the tree qualifies.
    bound: str | None
    #: The next best tree: qualified, or the one that exceeds the budgets least.
    runner_up: PricedTree | None
    #: The chosen tree; if the outcome is `none`, the one that exceeds the budgets least.
    nearest: PricedTree
    #: How far the price is above the failing budget, 0.25 for a quarter; 0 when the tree qualifies.
    excess: float
    seconds: float
    #: Every tree the search priced, for drawings.
    looked_at: tuple[PricedTree, ...] = ()
