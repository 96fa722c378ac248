"""`eddyline plan graph.json`: find a join tree within a CPU and a memory budget, without running anything.

Answer   Prints one JSON object: outcome (mjoin | bjtree | jtree | none), tree, cpu, memory, bound, seconds. Where
         nothing fits, tree is null, cpu and memory are those of the tree that exceeds the budgets least, and bound is
         the budget it exceeds more; that is an answer too, so the exit code is 0.
State    None.
Limits   Costs are the model's (docs/design/0002-cost-model.md), not measurements. `--plot` needs matplotlib.
Reading  docs/design/0002-cost-model.md#the-planning-tool
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from eddyline.errors import PlanProblem
from eddyline.plan.tree.budget import unit_costs
from eddyline.plan.tree.cost import UnitCosts
from eddyline.plan.tree.join_graph import JoinGraph
from eddyline.plan.tree.jtree.choice import Choice
from eddyline.plan.tree.jtree.search import METHODS, search


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Declare the command; `run` carries it out."""
    parser = subparsers.add_parser(
        "plan",
        help="find a join tree that fits a CPU and a memory budget",
        description="Find a join tree for a join graph, within budgets. Prints JSON.",
    )
    parser.add_argument(
        "graph",
        type=Path,
        help="JSON file with streams, joins and, optionally, tables and costs; - reads standard input",
    )
    parser.add_argument(
        "--cpu", type=float, metavar="X", help="CPU seconds per second; without it as little CPU as possible"
    )
    parser.add_argument("--memory", type=float, metavar="Y", help="rows of state; without it as many as it takes")
    parser.add_argument("--search", choices=METHODS, default="two-layer", help="how to look (default: %(default)s)")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw CPU and memory of the candidates and the budgets"
    )
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out `eddyline plan`."""
    document = _read(args.graph)
    graph = JoinGraph.from_document(document)
    costs = UnitCosts.from_document(document["costs"]) if document.get("costs") else unit_costs()
    choice = search(graph, costs, args.cpu, args.memory, args.search)
    if args.plot is not None:
        from eddyline.cli.plans.plan_chart import draw

        draw(args.plot, graph, costs, choice, args.cpu, args.memory)
    print(json.dumps(answer(choice)))
    return 0


def answer(choice: Choice) -> dict[str, object]:
    """The choice in the form that the command prints."""
    return {
        "outcome": choice.outcome,
        "tree": None if choice.tree is None else str(choice.tree),
        "cpu": choice.cpu,
        "memory": choice.memory,
        "bound": choice.bound,
        "seconds": choice.seconds,
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise PlanProblem(f"{path} cannot be read", detail=str(problem)) from problem
    try:
        document = json.loads(text)
    except json.JSONDecodeError as problem:
        raise PlanProblem(f"{path} is not JSON", detail=str(problem)) from problem
    if not isinstance(document, dict):
        raise PlanProblem(
            f"{path} holds no JSON object",
            hint='{"streams": {"a": {"rate": 20, "window": 5.0}, …}, "joins": [["a", "b", 0.05], …]}',
        )
    return document
