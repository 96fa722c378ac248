"""`eddyline lab index workload.json --bits B`: share out the address bits of an index, without running anything.

Answer   Prints one JSON object: bits (per attribute), cost (CPU seconds per second), candidates (configurations
         priced), seconds.
State    None.
Limits   Costs are the model's, not measurements. Searches that price every candidate refuse more than 10^8 of them.
Reading  docs/operators/index.md
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from eddyline.errors import PlanProblem
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.rgreedy import HEURISTICS
from eddyline.plan.index_choice.search import METHODS, choose_index
from eddyline.plan.index_choice.workload import Workload
from eddyline.plan.tree.budget import index_costs


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "index",
        help="share out the address bits of an index over its attributes",
        description="Find the index configuration that costs a workload least. Prints JSON.",
    )
    parser.add_argument(
        "workload",
        type=Path,
        help="JSON file with attributes, patterns, rates and, optionally, costs; - reads standard input",
    )
    parser.add_argument(
        "--bits", type=int, default=16, metavar="B", help="address bits, 0 to 24 (default: %(default)s)"
    )
    parser.add_argument("--search", choices=METHODS, default="auto", help="how to look (default: %(default)s)")
    parser.add_argument(
        "--heuristic", choices=HEURISTICS, default="owl", help="how rgreedy ranks attributes (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    document = _read(args.workload)
    workload = Workload.from_document(document)
    costs = index_costs() if document.get("costs") is None else IndexCosts.from_document(document["costs"])
    choice = choose_index(workload, costs, args.bits, args.search, args.heuristic)
    names = [attribute.name for attribute in workload.attributes]
    answer = {
        "bits": dict(zip(names, choice.bits, strict=True)),
        "cost": choice.cost,
        "candidates": choice.candidates,
        "seconds": choice.seconds,
    }
    print(json.dumps(answer))
    return 0


def _read(path: Path) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise PlanProblem(
            f"{path} cannot be read", detail=str(problem), hint="a JSON file, or - for standard input"
        ) from problem
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as problem:
        raise PlanProblem(
            f"{path} is not JSON", detail=str(problem), hint="docs/operators/index.md shows the form"
        ) from problem
    if not isinstance(document, dict):
        raise PlanProblem(
            f"{path} holds no JSON object",
            hint='{"attributes": {"A": {"values": 2048}, …}, "patterns": [{"on": ["A"], "weight": 1}], …}',
        )
    return document
