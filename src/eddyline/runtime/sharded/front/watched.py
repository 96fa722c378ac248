"""What a reporter sees of a job on several shards.

Answer   `WatchedShards` gives reports made of the shards' notes, plans of the driver's model, and results as they
         are delivered.
State    None of its own.
Limits   Between two batches, or while one that has been delivered is being noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eddyline.connectors.base import Sink
from eddyline.runtime.driving.watched_driver import WatchedDriver
from eddyline.runtime.figures.report import Report
from eddyline.runtime.reporting.registered_view import detail
from eddyline.runtime.sharded.front.figures import job_report

if TYPE_CHECKING:
    from eddyline.runtime.sharded.front.driver import ShardedDriver


class WatchedShards(WatchedDriver):
    def __init__(self, driver: ShardedDriver) -> None:
        assert driver.roster is not None
        super().__init__(driver.roster.model, driver.delivery)
        self.name, self._driver, self._roster = driver.name, driver, driver.roster

    def report(self) -> Report:
        return job_report(self._driver, plans=False)

    def described(self) -> dict[str, dict[str, Any]]:
        entries = self._roster.ledger.queries
        # A query without an entry stands behind a subquery: it comes and goes with its query.
        return {
            name: {**one, "start": entries[name].start, "stop": entries[name].stop}
            for name, one in super().described().items()
            if name in entries
        }

    def leaving(self) -> frozenset[str]:
        return frozenset(name for name, entry in self._roster.ledger.routed.items() if entry.is_leaving)

    def detail(self, query: str) -> dict[str, Any] | None:
        routing = self._roster.layout.routing.routings.get(query)
        return detail(self.pipeline, query, "" if routing is None else routing.explain())

    def attach(self, query: str, sink: Sink) -> bool:
        return query in self.delivery.schemas and super().attach(query, sink)
