"""`eddyline constraints order.bpmn`: the constraints that every complete run of a workflow keeps.

Answer   Prints one constraint per line; with `--on` the CREATE CONSTRAINTS statement, ready to paste into a job file.
State    None.
Limits   BPMN 2.0 XML or a JSON tree; what the reader does not know is refused by id and line.
Reading  docs/operators/patterns.md
"""

from __future__ import annotations

import argparse

from eddyline.language.render import render_rule
from eddyline.runtime.front.workflows import workflow_rules


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "constraints", help="print the constraints of a workflow", description=__doc__.splitlines()[0]
    )
    parser.add_argument("workflow", help="BPMN 2.0 file, or a JSON tree of sequence, choice, parallel and loop")
    parser.add_argument("--process", metavar="NAME", help="id or name of the process, where the file has several")
    parser.add_argument(
        "--types", choices=("name", "id"), default="name", help="what types of events are called (default: %(default)s)"
    )
    parser.add_argument(
        "--on", metavar="BOOK", help="for example 'orders TYPE type PARTITION BY trace_id': print a whole statement"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options = {"types": args.types} | ({} if args.process is None else {"process": args.process})
    rules = [render_rule(rule) for rule in workflow_rules(args.workflow, options)]
    if args.on is None:
        print("\n".join(rules))
    else:
        print(f"CREATE CONSTRAINTS workflow ON {args.on} (\n  " + ",\n  ".join(rules) + "\n);")
    return 0
