"""How a query is, or would be, answered on several shards, as text.

Answer   `explained` adds to the plan how rows find shards, who puts results in order, and which files are read whole.
"""

from __future__ import annotations

from eddyline.language import Job
from eddyline.model.query import BoundQuery
from eddyline.plan.prepare import explanation
from eddyline.plan.shards.decided import finished_line
from eddyline.plan.shards.result_order import order_line
from eddyline.plan.shards.routing import Routing
from eddyline.runtime.sharded.front.figures import planned_routing
from eddyline.runtime.sharded.ingest.ranges import reading_line


def routing_of(checkpoint: str, job: Job, query: BoundQuery, usual: int) -> Routing:
    """How rows would find the shards of a query, one of the job's or one that could be."""
    others = [other for other in job.queries if other.name != query.name]
    return planned_routing(checkpoint, job, [*others, query], usual).routings[query.name]


def explained(checkpoint: str, job: Job, query: BoundQuery, usual: int, by_shard: bool) -> str:
    """
    Args:
        checkpoint: The folder.
        job: The job with all of its queries.
        query: One of them, or one that could be.
        usual: Shards, if neither the job nor the checkpoint says it.
        by_shard: What `output_order = 'auto'` means.
    """
    catalog = job.catalog
    plan = explanation(query, {**catalog.streams, **catalog.tables})
    routing = routing_of(checkpoint, job, query, usual)
    times = {stream.name: stream.time for stream in catalog.streams.values()}
    sources = {reference.source for part in (*query.makers, query) for reference in part.references}
    files = [stream for stream in catalog.streams.values() if "path" in stream.options]
    reading = [reading_line(stream, job.settings) for stream in files if stream.name in sources]
    order = order_line(query, routing, auto=by_shard)
    found = (plan, routing.explain(), finished_line(query, routing, times), order, *reading)
    return "\n".join(line for line in found if line)
