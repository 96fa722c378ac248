"""`eddyline explain job.sql [--rules] [--shards N]`: the plan of each query, and how its rows find shards on Spark.

Answer   Prints the plans; with `--rules` what each rule of the rewriting changed, with shards the routing of each stream.
State    None.
Limits   Nothing runs: a search for a plan knows the rates that the job declares, no measured ones.
"""

from __future__ import annotations

import argparse

from eddyline.cli.jobs import read_job
from eddyline.errors import UserError
from eddyline.language import bind_script
from eddyline.model.query import BoundQuery
from eddyline.plan.prepare import explanation
from eddyline.plan.rewrite import rewrite
from eddyline.plan.shards.result_order import order_line
from eddyline.plan.shards.shares import books_of, declared_rates, route_all
from eddyline.runtime.front.workflows import workflow_rules


def run(args: argparse.Namespace) -> int:
    job = bind_script(read_job(args.job), workflows=workflow_rules)
    if args.shards is not None and args.shards < 1:
        raise UserError(f"a job cannot have {args.shards} shards", hint="--shards takes 1 or more")
    known = {query.name for query in job.queries}
    # The query of an EXPLAIN SELECT … has a name that no CREATE QUERY gave.
    queries = (*job.queries, *(request.query for request in job.explains if request.query.name not in known))
    shards = args.shards or job.settings.shards
    routing = None
    if shards:
        names, rates, books = [s.name for s in job.streams], declared_rates(job.streams), books_of(job.streams)
        routing = route_all(queries, names, rates, shards, books=books)
    for query in queries:
        if args.rules and query.pattern is None and type(query) is BoundQuery:
            for trace in rewrite(query)[1]:
                if trace.changed:
                    print(trace)
        print(explanation(query, {**job.catalog.streams, **job.catalog.tables}))
        if routing is not None:
            print(routing.routings[query.name].explain())
            if order := order_line(query, routing.routings[query.name], auto=True):
                print(order)
        print()
    return 0
