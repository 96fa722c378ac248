"""`eddyline lab index workload.json --bits B`: find how many address bits each attribute of an index gets.

Answer   Prints one JSON object: bits (per attribute), cost (CPU seconds per second), candidates (configurations
         priced), seconds. Nothing runs.
State    None.
Limits   Costs are the model's, not measurements. Searches that price every candidate refuse more than 10^8 of them.
Reading  docs/operators/index.md
"""

from __future__ import annotations

import argparse
import json

from eddyline.cli.jobs import read_document
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.search import choose_index
from eddyline.plan.index_choice.workload import Workload
from eddyline.plan.tree.budget import index_costs

_EXAMPLE = '{"attributes": {"A": {"values": 2048}, …}, "patterns": [{"on": ["A"], "weight": 1}], …}'


def run(args: argparse.Namespace) -> int:
    document = read_document(args.workload, "docs/operators/index.md", _EXAMPLE)
    workload = Workload.from_document(document)
    costs = index_costs() if document.get("costs") is None else IndexCosts.from_document(document["costs"])
    choice = choose_index(workload, costs, args.bits, args.search, args.heuristic)
    names = [attribute.name for attribute in workload.attributes]
    figures = {name: getattr(choice, name) for name in ("cost", "candidates", "seconds")}
    print(json.dumps({"bits": dict(zip(names, choice.bits, strict=True)), **figures}))
    return 0
