"""What a reporter sees of an embedded job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.runtime.driving.watched_driver import WatchedDriver
from eddyline.runtime.figures.report import Report

if TYPE_CHECKING:
    from eddyline.runtime.embedded.driver import EmbeddedDriver


class WatchedEmbeddedDriver(WatchedDriver):
    name = "embedded"

    def __init__(self, driver: EmbeddedDriver) -> None:
        super().__init__(driver.pipeline, driver.delivery)
        self._driver = driver

    def report(self) -> Report:
        return self._driver.report(plans=False)

    def leaving(self) -> frozenset[str]:
        return frozenset(self.pipeline.stopping)
