"""`eddyline explain job.sql [--rules]`: how each query would be answered."""

from __future__ import annotations

import argparse

from eddyline.cli.jobs import read_job
from eddyline.language import bind_script
from eddyline.plan.lower import lower
from eddyline.plan.prepare import explained
from eddyline.plan.rewrite import rewrite


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("explain", help="show how each query of a job would be answered")
    parser.add_argument("job", help="job file")
    parser.add_argument("--rules", action="store_true", help="show what each rewrite rule changed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    job = bind_script(read_job(args.job))
    known = {query.name for query in job.queries}
    # EXPLAIN SELECT … in the job asks about a query that has no name of its own.
    for query in (*job.queries, *(request.query for request in job.explains if request.query.name not in known)):
        rewritten, traces = rewrite(query)
        if args.rules:
            for trace in traces:
                if trace.changed:
                    print(trace)
        lowered = lower(rewritten)
        print(explained(lowered, {**job.catalog.streams, **job.catalog.tables}), end="\n\n")
    return 0
