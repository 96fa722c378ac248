"""Options of the commands that plan, and of those that check.

Answer   Each function adds the parser of the command of its name to `commands`. A command is loaded when it runs.
State    None.
Limits   Nothing of the engine is imported here: help shows these options without it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from eddyline.cli.loading import command

#: The methods of the search for a join tree, as `plan/tree/jtree` has them.
SEARCHES = ("two-layer", "finder", "mjoin", "bjtree")


def explain(commands: argparse._SubParsersAction) -> None:
    add = command(commands, "plans.explain", "show how each query of a job would be answered")
    add("job", help="job file")
    add("--rules", action="store_true", help="show what each rewrite rule changed")
    add("--shards", type=int, metavar="N", help="show how rows find N shards on Spark (default: what the job sets)")


def check(commands: argparse._SubParsersAction) -> None:
    add = command(commands, "plans.check", "parse, bind and verify a job file; nothing runs")
    add("job", help="job file")


def constraints(commands: argparse._SubParsersAction) -> None:
    add = command(
        commands,
        "plans.constraints",
        "print the constraints of a workflow",
        description="`eddyline constraints order.bpmn`: the constraints that every complete run of a workflow keeps.",
    )
    add("workflow", help="BPMN 2.0 file, or a JSON tree of sequence, choice, parallel and loop")
    add("--process", metavar="NAME", help="id or name of the process, where the file has several")
    add(
        "--types", choices=("name", "id"), default="name", help="what types of events are called (default: %(default)s)"
    )
    add("--on", metavar="BOOK", help="for example 'orders TYPE type PARTITION BY trace_id': print a whole statement")


def plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add = command(
        commands,
        "plans.plan",
        "find a join tree that fits a CPU and a memory budget",
        description="Find a join tree for a join graph, within budgets. Prints JSON.",
    )
    add(
        "graph",
        type=Path,
        help="JSON file with streams, joins and, optionally, tables and costs; - reads standard input",
    )
    add("--cpu", type=float, metavar="X", help="CPU seconds per second; without it the tree that takes the least")
    add("--memory", type=float, metavar="Y", help="rows of state; without it as many as the tree needs")
    add("--search", choices=SEARCHES, default="two-layer", help="method of the search (default: %(default)s)")
    add("--plot", type=Path, metavar="FILE", help="draw CPU and memory of the candidates and the budgets")
