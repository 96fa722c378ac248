"""The two-layer search: cheap trees that are extreme in one resource first, then trees between them.

Answer   A qualified tree, or None. First layer: the mjoin (no tree holds less state) and binary trees with little CPU
         or little state. Second layer: state selection from the mjoin, state removal from the binary trees, and, where
         both fail, the finder's programme over a bounded family of stores (`beam.py`).
State    None; `Candidates` keeps every tree that was priced.
Limits   Polynomial. "None" is proven where a lower bound is broken and, with few inputs, where the beam leaves nothing
         out; otherwise it means that nothing was found. A binary tree above the CPU budget proves nothing: keeping
         stores can cost more than making their rows again.
Reading  Algorithm 2 of the qualified-plans paper; docs/design/0002-cost-model.md#searching
"""

from __future__ import annotations

from eddyline.plan.tree.jtree.beam import beam, effort_for
from eddyline.plan.tree.jtree.bjtree import best_bjtree
from eddyline.plan.tree.jtree.candidates import Budgets, Candidate, Candidates
from eddyline.plan.tree.jtree.state_removal import state_removal
from eddyline.plan.tree.jtree.state_selection import state_selection

#: Up to this number of inputs a second, wider beam looks for the tree that exceeds the budgets least.
SECOND_LOOK = 10


def two_layer(candidates: Candidates) -> Candidate | None:
    """Algorithm 2 with true bounds. Without a CPU budget the tree with the least CPU that fits the memory."""
    model, budgets = candidates.model, candidates.budgets
    mjoin = candidates.add_mjoin()
    if model.count <= 2:
        return mjoin if candidates.fits(mjoin) else None
    by_cpu, by_memory = best_bjtree(model, "cpu"), best_bjtree(model, "memory")
    binary = [candidates.add(by_cpu), candidates.add(by_memory)]
    if budgets.cpu is None:
        return _least_cpu(candidates)
    for candidate in (mjoin, *binary):
        if candidates.fits(candidate):
            return candidate
    if model.least_memory > budgets.memory_limit or model.least_cpu > budgets.cpu_limit:
        return None
    found = state_selection(candidates) or state_removal(candidates, by_cpu) or state_removal(candidates, by_memory)
    if found is not None:
        return found
    qualified = beam(candidates, effort_for(model.count))
    return qualified[0] if qualified else None


def _least_cpu(candidates: Candidates) -> Candidate | None:
    """The cheapest tree within memory, after all parts of both layers."""
    if candidates.model.least_memory > candidates.budgets.memory_limit:
        return None
    state_selection(candidates, least=True)
    for start in (best_bjtree(candidates.model, "cpu"), best_bjtree(candidates.model, "memory")):
        state_removal(candidates, start)
    beam(candidates, effort_for(candidates.model.count))
    best = candidates.ranked()[0]
    return best if candidates.fits(best) else None


def look_for_least_excess(candidates: Candidates) -> None:
    """Where nothing qualifies: add trees that exceed the budgets less than those seen so far."""
    budgets = candidates.budgets
    if candidates.model.count > SECOND_LOOK:
        return
    excess = budgets.excess(candidates.ranked()[0].price)
    wider = Candidates(candidates.model, stretched(budgets, excess), dict(candidates.seen))
    for candidate in beam(wider, effort_for(candidates.model.count)):
        candidates.add(candidate.shape)


def stretched(budgets: Budgets, factor: float) -> Budgets:
    """Both budgets multiplied by the factor."""
    return Budgets(
        None if budgets.cpu is None else budgets.cpu * factor,
        None if budgets.memory is None else budgets.memory * factor,
    )
