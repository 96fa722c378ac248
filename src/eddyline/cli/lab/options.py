"""`eddyline lab TOOL …`: the options of the tools for research, below one name.

Answer   `lab index` finds how many address bits each attribute of an index gets. `lab calibrate` measures the costs of
         operations on this machine. Each function adds the parser of the command of its name to `commands`.
State    None.
Limits   The tools keep their old names (`eddyline index`, `eddyline calibrate`) beside the new ones. Nothing of the
         engine is imported here: help shows these options without it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from eddyline.cli.loading import command

#: The methods of the search and the heuristics of rgreedy, as `plan/index_choice` has them.
SEARCHES = ("auto", "exact", "eprune", "rgreedy", "hybrid", "enumerate")
HEURISTICS = ("owl", "pcl")


def lab(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("lab", help="tools for research: index, calibrate", description="Tools for research.")
    tools = parser.add_subparsers(dest="tool", metavar="TOOL", required=True)
    for tool in (index, calibrate):
        tool(tools)


def index(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add = command(
        commands,
        "lab.index",
        "find how many address bits each attribute of an index gets",
        description="Find the index configuration that costs a workload least. Prints JSON.",
    )
    add(
        "workload",
        type=Path,
        help="JSON file with attributes, patterns, rates and, optionally, costs; - reads standard input",
    )
    add("--bits", type=int, default=16, metavar="B", help="address bits, 0 to 24 (default: %(default)s)")
    add("--search", choices=SEARCHES, default="auto", help="method of the search (default: %(default)s)")
    add("--heuristic", choices=HEURISTICS, default="owl", help="how rgreedy ranks attributes (default: %(default)s)")


def calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add = command(commands, "lab.calibrate", "measure what operations cost on this machine, for the planner")
    text = "runs of each kind; the fastest counts (default: %(default)s)"
    add("--repeats", type=int, default=5, metavar="N", help=text)
    add("--dry-run", action="store_true", help="print what was measured and keep nothing")
