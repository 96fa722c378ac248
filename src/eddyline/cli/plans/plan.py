"""`eddyline plan graph.json`: find a join tree within a CPU and a memory budget.

Answer   Prints one JSON object: outcome (mjoin | bjtree | jtree | none), tree, cpu, memory, bound, seconds. Nothing runs.
         If no tree fits, tree is null, cpu and memory are those of the tree that exceeds the budgets least, and bound
         is the budget that it exceeds more. The exit code is 0 then, too.
State    None.
Limits   Costs are the model's (docs/design/0002-cost-model.md), not measurements. `--plot` needs matplotlib.
Reading  docs/design/0002-cost-model.md#the-planning-tool
"""

from __future__ import annotations

import argparse
import json

from eddyline.cli.jobs import read_document
from eddyline.plan.tree.budget import unit_costs
from eddyline.plan.tree.cost import UnitCosts
from eddyline.plan.tree.join_graph import JoinGraph
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.jtree.choice import Choice
from eddyline.plan.tree.jtree.search import search

_EXAMPLE = '{"streams": {"a": {"rate": 20, "window": 5.0}, …}, "joins": [["a", "b", 0.05], …]}'


def run(args: argparse.Namespace) -> int:
    document = read_document(args.graph, "docs/design/0002-cost-model.md", _EXAMPLE)
    graph = JoinGraph.from_document(document)
    costs = UnitCosts.from_document(document["costs"]) if document.get("costs") else unit_costs()
    choice = search(graph, costs, args.cpu, args.memory, args.search)
    if args.plot is not None:
        from eddyline.cli.plans.plan_chart import draw

        draw(args.plot, graph, costs, choice, Budgets(args.cpu, args.memory))
    print(json.dumps(answer(choice)))
    return 0


def answer(choice: Choice) -> dict[str, object]:
    """The choice in the form that the command prints."""
    figures = {name: getattr(choice, name) for name in ("cpu", "memory", "bound", "seconds")}
    return {"outcome": choice.outcome, "tree": None if choice.tree is None else str(choice.tree), **figures}
