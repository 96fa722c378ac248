"""What a reporter sees of an embedded job.

Answer   `WatchedEmbeddedDriver` gives reports, plans and results of the driver's pipeline, between two epochs.
State    None of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eddyline.connectors.base import Sink
from eddyline.runtime.figures.report import Report
from eddyline.runtime.reporting.standing_view import described, detail

if TYPE_CHECKING:
    from eddyline.runtime.embedded.driver import EmbeddedDriver


class WatchedEmbeddedDriver:
    name = "embedded"

    def __init__(self, driver: EmbeddedDriver) -> None:
        self._driver = driver

    def report(self) -> Report:
        return self._driver.report(plans=False)

    def described(self) -> dict[str, dict[str, Any]]:
        return {name: described(standing) for name, standing in self._driver.pipeline.queries.items()}

    def leaving(self) -> frozenset[str]:
        return frozenset(self._driver.pipeline.stopping)

    def detail(self, query: str) -> dict[str, Any] | None:
        return detail(self._driver.pipeline, query)

    def attach(self, query: str, sink: Sink) -> bool:
        standing = self._driver.pipeline.queries.get(query)
        if standing is None:
            return False
        self._driver.delivery.add_sink(query, sink, standing.schema)
        return True

    def detach(self, query: str, sink: Sink) -> None:
        self._driver.delivery.remove_sink(query, sink)
