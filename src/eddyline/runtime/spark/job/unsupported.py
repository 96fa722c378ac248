"""What a job on Spark refuses that an embedded one answers."""

from __future__ import annotations

from eddyline.errors import Unsupported
from eddyline.model.query import BoundQuery


def check_spark(query: BoundQuery) -> None:
    """Refuse a query that shards cannot answer."""
    if query.settings.propagate != "off":
        raise Unsupported(
            f"query {query.name} cannot put out punctuations on Spark",
            detail=f"propagate = {query.settings.propagate}",
            hint="SET propagate = 'off', or run the job without Spark",
        )
