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


def run(args: argparse.Namespace) -> int:
    options = {"types": args.types} | ({} if args.process is None else {"process": args.process})
    rules = [render_rule(rule) for rule in workflow_rules(args.workflow, options)]
    if args.on is None:
        print("\n".join(rules))
    else:
        print(f"CREATE CONSTRAINTS workflow ON {args.on} (\n  " + ",\n  ".join(rules) + "\n);")
    return 0
