"""How a query is, or would be, answered on Spark, as text.

Answer   `explained` adds to the plan how rows find shards, who puts results in order, and which files are read whole.
"""

from __future__ import annotations

from typing import Any

from eddyline.language import Job
from eddyline.model.query import BoundQuery
from eddyline.plan.prepare import explanation
from eddyline.plan.shards.decided import finished_line
from eddyline.plan.shards.result_order import order_line
from eddyline.runtime.sharded.ingest.ranges import reading_line
from eddyline.runtime.spark.job.figures import planned_routing


def explained(spark: Any, checkpoint: str, job: Job, query: BoundQuery) -> str:
    catalog = job.catalog
    plan = explanation(query, {**catalog.streams, **catalog.tables})
    others = [other for other in job.queries if other.name != query.name]
    routing = planned_routing(spark, checkpoint, job, [*others, query]).routings[query.name]
    times = {stream.name: stream.time for stream in catalog.streams.values()}
    sources = {reference.source for part in (*query.makers, query) for reference in part.references}
    files = [stream for stream in catalog.streams.values() if "path" in stream.options]
    reading = [reading_line(stream, job.settings) for stream in files if stream.name in sources]
    order = order_line(query, routing, auto=True)
    found = (plan, routing.explain(), finished_line(query, routing, times), order, *reading)
    return "\n".join(line for line in found if line)
