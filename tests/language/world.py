"""Two streams and a table for the tests of the language."""

from __future__ import annotations

from eddyline.language import Job, bind_query, bind_script, parse_select
from eddyline.model.query import BoundQuery
from eddyline.settings import Settings

WORLD = """
CREATE STREAM bids (item BIGINT, bidder STRING, price DOUBLE, amount DECIMAL(10, 2), day DATE, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM asks (item INT, seller STRING, price DOUBLE, open BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', lateness = '5 seconds');
CREATE TABLE items (item BIGINT, title STRING) WITH (format = 'parquet', path = 'items.parquet');
"""


def world() -> Job:
    return bind_script(WORLD)


def bound(select: str) -> BoundQuery:
    """The SELECT, bound in the world."""
    return bind_query("q", parse_select(select), Settings(), world().catalog)


def shown(select: str) -> dict[str, str]:
    """Output names to expressions as text."""
    return {o.name: str(o.expression) for o in bound(select).outputs}
