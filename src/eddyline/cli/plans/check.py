"""`eddyline check job.sql`: parse, bind, verify; nothing runs and no file is read but the job's."""

from __future__ import annotations

import argparse

from eddyline.cli.jobs import read_job
from eddyline.language import bind_script
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.plan.prepare import check, notices
from eddyline.runtime.front.workflows import workflow_rules


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("check", help="parse, bind and verify a job file; nothing runs")
    parser.add_argument("job", help="job file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    job = bind_script(read_job(args.job), workflows=workflow_rules)
    sources: dict[str, Stream | Table] = {**job.catalog.streams, **job.catalog.tables}
    for query in (*job.queries, *(request.query for request in job.explains)):
        check(query, sources)
    for query in job.queries:
        for warning in notices(query, sources):
            print(f"warning: {warning}")
    counts: tuple[tuple[int, str], ...] = (
        (len(job.streams), "stream"),
        (len(job.tables), "table"),
        (sum(type(query) is BoundQuery for query in job.queries), "query"),
        (len(job.sinks), "sink"),
    )
    if job.catalog.templates:
        counts = (*counts, (len(job.catalog.templates), "template"))
    if job.constraints:
        counts = (*counts, (sum(len(c.rules) for c in job.constraints), "constraint"))
    print(f"{args.job}: " + ", ".join(_counted(number, what) for number, what in counts) + "; no problem found")
    return 0


def _counted(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    return f"{number} queries" if what == "query" else f"{number} {what}s"
