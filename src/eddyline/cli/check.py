"""`eddyline check job.sql`: parse, bind, verify; nothing runs and no file is read but the job's."""

from __future__ import annotations

import argparse

from eddyline.cli.jobs import read_job
from eddyline.language import bind_script
from eddyline.plan.lower import lower
from eddyline.plan.rewrite import rewrite
from eddyline.plan.tree_choice import choose_tree
from eddyline.plan.verify import verify, warnings_of


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("check", help="parse, bind and verify a job file; nothing runs")
    parser.add_argument("job", help="job file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    job = bind_script(read_job(args.job))
    for query in (*job.queries, *(request.query for request in job.explains)):
        verify(query)
        rewritten, _ = rewrite(query)
        choose_tree(lower(rewritten), {**job.catalog.streams, **job.catalog.tables})
    for query in job.queries:
        for warning in warnings_of(query):
            print(f"warning: {warning}")
    counts = ((len(job.streams), "stream"), (len(job.tables), "table"), (len(job.queries), "query"), (len(job.sinks), "sink"))
    print(f"{args.job}: " + ", ".join(_counted(number, what) for number, what in counts) + "; no problem found")
    return 0


def _counted(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    return f"{number} queries" if what == "query" else f"{number} {what}s"
