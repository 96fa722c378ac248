"""A stream, table or sink of an embedded job is dropped.

Answer   `forget` removes it from the driver.
Limits   Called between two epochs. What a query reads stays: also one that was dropped and still has results to give.
"""

from __future__ import annotations

from eddyline.errors import UserError
from eddyline.runtime.embedded.driver import EmbeddedDriver


def forget(driver: EmbeddedDriver, kind: str, name: str) -> None:
    """
    Args:
        kind: stream, table or sink.
    """
    if kind == "sink":
        driver.delivery.drop_sink(name)
        return
    for query in driver.pipeline.queries.values():
        if any(reference.source == name for reference in query.query.references):
            raise UserError(
                f"{kind} {name} is read by query {query.name}, which has been dropped and still has results to give",
                detail=f"it goes when every stream has passed {query.stop}",
                hint=f"drop the {kind} once it has gone",
            )
    if kind == "table":
        driver.pipeline.versions.drop(name)
    else:
        driver.drop_stream(name)
