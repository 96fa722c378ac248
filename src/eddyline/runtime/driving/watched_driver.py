"""What a reporter sees of a job, under either driver.

Answer   `WatchedDriver` gives plans of the queries of a pipeline, and sends results of a query to a further sink.
State    None of its own.
Limits   Between two epochs. The driver's own class adds the report and the queries that leave.
"""

from __future__ import annotations

from typing import Any

from eddyline.connectors.base import Sink
from eddyline.runtime.driving.query_sinks import QuerySinks
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.reporting.registered_view import described, detail


class WatchedDriver:
    def __init__(self, pipeline: Pipeline, delivery: QuerySinks) -> None:
        self.pipeline = pipeline
        self.delivery = delivery

    def described(self) -> dict[str, dict[str, Any]]:
        return {name: described(registered) for name, registered in self.pipeline.queries.items()}

    def detail(self, query: str) -> dict[str, Any] | None:
        return detail(self.pipeline, query)

    def attach(self, query: str, sink: Sink) -> bool:
        registered = self.pipeline.queries.get(query)
        if registered is None:
            return False
        self.delivery.add_sink(query, sink, registered.schema)
        return True

    def detach(self, query: str, sink: Sink) -> None:
        self.delivery.remove_sink(query, sink)
