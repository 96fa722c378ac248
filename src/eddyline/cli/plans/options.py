"""Options of the commands that plan, and of those that check.

Answer   Each function adds the parser of the command of its name to `commands`. A command is loaded when it runs.
State    None.
Limits   Nothing of the engine is imported here: help shows these options without it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from eddyline.cli.loading import when_run

#: The methods of the search for a join tree, as `plan/tree/jtree` has them.
SEARCHES = ("two-layer", "finder", "mjoin", "bjtree")


def explain(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("explain", help="show how each query of a job would be answered")
    parser.add_argument("job", help="job file")
    parser.add_argument("--rules", action="store_true", help="show what each rewrite rule changed")
    parser.add_argument(
        "--shards", type=int, metavar="N", help="show how rows find N shards on Spark (default: what the job sets)"
    )
    parser.set_defaults(run=when_run("plans.explain"))


def check(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("check", help="parse, bind and verify a job file; nothing runs")
    parser.add_argument("job", help="job file")
    parser.set_defaults(run=when_run("plans.check"))


def constraints(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "constraints",
        help="print the constraints of a workflow",
        description="`eddyline constraints order.bpmn`: the constraints that every complete run of a workflow keeps.",
    )
    parser.add_argument("workflow", help="BPMN 2.0 file, or a JSON tree of sequence, choice, parallel and loop")
    parser.add_argument("--process", metavar="NAME", help="id or name of the process, where the file has several")
    parser.add_argument(
        "--types", choices=("name", "id"), default="name", help="what types of events are called (default: %(default)s)"
    )
    parser.add_argument(
        "--on", metavar="BOOK", help="for example 'orders TYPE type PARTITION BY trace_id': print a whole statement"
    )
    parser.set_defaults(run=when_run("plans.constraints"))


def plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
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
        "--cpu", type=float, metavar="X", help="CPU seconds per second; without it the tree that takes the least"
    )
    parser.add_argument("--memory", type=float, metavar="Y", help="rows of state; without it as many as the tree needs")
    parser.add_argument(
        "--search", choices=SEARCHES, default="two-layer", help="method of the search (default: %(default)s)"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw CPU and memory of the candidates and the budgets"
    )
    parser.set_defaults(run=when_run("plans.plan"))
