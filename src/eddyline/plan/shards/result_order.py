"""Whether large results of a query go to files shard by shard, or in one order over all shards.

Answer   `is_by_shard` says it for a query, `order_line` is the line of EXPLAIN.
State    None.
Limits   Changelogs stay in one order: a row that is taken back stands after the row that it takes back.
Reading  docs/semantics.md, "Order of results"
"""

from __future__ import annotations

from eddyline.model.query import BoundQuery
from eddyline.plan.shards.routing import Routing


def is_by_shard(query: BoundQuery, auto: bool) -> bool:
    """
    Args:
        query: The query.
        auto: What `output_order = 'auto'` means here.
    """
    order = query.settings.output_order
    plain = type(query) is BoundQuery and not query.is_changelog
    return plain and (auto if order == "auto" else order == "by-shard")


def order_line(query: BoundQuery, routing: Routing, auto: bool) -> str:
    """The order of a query's results in files; empty: it has none of its own."""
    if query.feeds is not None or type(query) is not BoundQuery:
        return ""
    if is_by_shard(query, auto) and not routing.merged:
        return "  results: large ones in files of each shard, ordered within a file"
    return f"  results: in one order over all shards{', as a changelog must be' if query.is_changelog else ''}"
