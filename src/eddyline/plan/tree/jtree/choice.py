"""What a search for a join tree decides.

Answer   `Choice`: the outcome (the shape of the tree, or none), the tree, its price, the budget that fails, the
         runner-up.
State    None: frozen values. Queries that need no search have a `Choice` too, and do not load the searches for it.
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
    """What a search decided. On `none` the tree is None, and the price is that of `nearest`, which exceeds least."""

    #: mjoin | bjtree | jtree | none
    outcome: str
    tree: JTree | None
    cpu: float
    memory: float
    #: The budget that is exceeded more, None when the tree qualifies.
    bound: str | None
    #: The next best tree looked at: qualified, or the one that comes nearest.
    runner_up: PricedTree | None
    #: On none, the tree that exceeds the budgets least; otherwise the chosen one.
    nearest: PricedTree
    #: How far the price is above the failing budget, 0.25 for a quarter; 0 when the tree qualifies.
    excess: float
    seconds: float
    #: Every tree the search priced, for drawings.
    looked_at: tuple[PricedTree, ...] = ()
