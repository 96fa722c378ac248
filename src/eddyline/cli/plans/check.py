"""`eddyline check job.sql`: parse, bind, verify.

Answer   Prints warnings, then what the job declares; an error names the first statement that cannot be carried out.
State    None.
Limits   Nothing runs. Of the files that the job names only those of workflows are read.
"""

from __future__ import annotations

import argparse

from eddyline.cli.jobs import read_job
from eddyline.language import bind_script
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.plan.prepare import check, notices
from eddyline.runtime.front.workflows import workflow_rules


def run(args: argparse.Namespace) -> int:
    job = bind_script(read_job(args.job), workflows=workflow_rules)
    sources: dict[str, Stream | Table] = {**job.catalog.streams, **job.catalog.tables}
    for query in (*job.queries, *(request.query for request in job.explains)):
        check(query, sources)
    for query in job.queries:
        for warning in notices(query, sources):
            print(f"warning: {warning}")
    queries = sum(type(query) is BoundQuery for query in job.queries)
    found = {"stream": len(job.streams), "table": len(job.tables), "query": queries, "sink": len(job.sinks)}
    # These are left out where there are none.
    further = {"template": len(job.catalog.templates), "constraint": sum(len(c.rules) for c in job.constraints)}
    found |= {name: count for name, count in further.items() if count}
    print(f"{args.job}: " + ", ".join(_counted(count, name) for name, count in found.items()) + "; no problem found")
    return 0


def _counted(count: int, name: str) -> str:
    plural = "queries" if name == "query" else f"{name}s"
    return f"{count} {name if count == 1 else plural}"
