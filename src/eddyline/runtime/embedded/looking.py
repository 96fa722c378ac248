"""A look into a session in this process: how queries are, or would be, answered, and the rows that took no part.

Answer   `explained` is the plan of a query as text, `planned` as text and as parts, `analysis` with what each operator did.
State    None. A query that runs tells of itself; before the first row, its bound form does.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from eddyline.connectors.results.dead_letter import text_rows
from eddyline.language import Job
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.operators.sharing.skipping import told
from eddyline.plan.prepare import explanation, shape
from eddyline.plan.shape import Part
from eddyline.runtime.embedded.driver import EmbeddedDriver
from eddyline.runtime.engine.unit import Registered


def explained(job: Job, driver: EmbeddedDriver | None, query: BoundQuery) -> str:
    running = _running(driver, query)
    if driver is not None and running is not None:
        return running.plan(driver.pipeline)
    return explanation(query, _relations(job))


def planned(job: Job, driver: EmbeddedDriver | None, query: BoundQuery) -> tuple[str, Part]:
    text, running = explained(job, driver, query), _running(driver, query)
    return text, shape(query, _relations(job), text) if running is None else running.shape(text)


def analysis(driver: EmbeddedDriver, name: str) -> str:
    # Between two epochs: the figures of all operators are those of one moment.
    with driver.lock:
        query = driver.pipeline.queries[name]
        results = f"results: {query.results:,} of {query.rows_in:,} combinations, {query.seconds:.3f} s"
        groups = [
            f"row groups of {name}: {told(intake.row_groups)}"
            for name, intake in driver.pipeline.intakes.items()
            if name in query.unit.streams and intake.row_groups
        ]
        return "\n".join([query.plan(), *query.analysis(), *groups, results])


def dead_letters(driver: EmbeddedDriver, stream: Stream) -> list[pa.Table]:
    """Late and bad rows of a stream so far."""
    kept = driver.delivery.kept_dead or {}
    return [text_rows(stream.schema, table) for table in kept.get(stream.name, [])]


def _running(driver: EmbeddedDriver | None, query: BoundQuery) -> Registered | None:
    return None if driver is None else driver.pipeline.queries.get(query.name)


def _relations(job: Job) -> Mapping[str, Stream | Table]:
    return {**job.catalog.streams, **job.catalog.tables}
