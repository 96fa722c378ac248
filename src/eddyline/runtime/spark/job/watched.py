"""What a reporter sees of a job on Spark.

Answer   `WatchedSparkDriver` gives reports made of the shards' notes, plans of the driver's model, and results as they
         are delivered.
State    None of its own.
Limits   Between two batches, or while one that has been delivered is being noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eddyline.connectors.base import Sink
from eddyline.runtime.figures.report import Report
from eddyline.runtime.reporting.standing_view import described, detail
from eddyline.runtime.spark.job.figures import job_report

if TYPE_CHECKING:
    from eddyline.runtime.spark.job.driver import SparkDriver
    from eddyline.runtime.spark.job.roster import SparkRoster


class WatchedSparkDriver:
    name = "spark"

    def __init__(self, driver: SparkDriver) -> None:
        self._driver = driver

    @property
    def _roster(self) -> SparkRoster:
        assert self._driver.roster is not None
        return self._driver.roster

    def report(self) -> Report:
        return job_report(self._driver, plans=False)

    def described(self) -> dict[str, dict[str, Any]]:
        entries = self._roster.ledger.queries
        found = {}
        for name, standing in self._roster.model.queries.items():
            if name not in entries:
                # It stands behind a subquery, and comes and goes with its query.
                continue
            entry = entries[name]
            found[name] = {**described(standing), "start": entry.start, "stop": entry.stop}
        return found

    def leaving(self) -> frozenset[str]:
        return frozenset(name for name, entry in self._roster.ledger.routed.items() if entry.is_leaving)

    def detail(self, query: str) -> dict[str, Any] | None:
        routing = self._roster.layout.routing.routings.get(query)
        return detail(self._roster.model, query, "" if routing is None else routing.explain())

    def attach(self, query: str, sink: Sink) -> bool:
        standing = self._roster.model.queries.get(query)
        if standing is None or query not in self._driver.delivery.sinks:
            return False
        self._driver.delivery.add_sink(query, standing.schema, sink)
        return True

    def detach(self, query: str, sink: Sink) -> None:
        self._driver.delivery.remove_sink(query, sink)
