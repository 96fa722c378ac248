"""`eddyline check job.sql`: parse, bind, verify; nothing runs and no file is read but the job's."""

from __future__ import annotations

import argparse

from eddyline.cli.jobs import read_job
from eddyline.language import bind_script
from eddyline.plan.lower import lower
from eddyline.plan.tree_choice import choose_tree
from eddyline.plan.verify import warnings_of


def add_parser(commands: argparse._SubParsersAction) -> None:  # type: ignore[type-arg]
    parser = commands.add_parser("check", help="parse, bind and verify a job file; nothing runs")
    parser.add_argument("job", help="job file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    job = bind_script(read_job(args.job))
    for query in job.queries:
        choose_tree(lower(query))
        for warning in warnings_of(query):
            print(f"warning: {warning}")
    counts = ((len(job.streams), "streams"), (len(job.tables), "tables"), (len(job.queries), "queries"), (len(job.sinks), "sinks"))
    print(f"{args.job}: " + ", ".join(f"{n} {what}" for n, what in counts) + "; no problem found")
    return 0
