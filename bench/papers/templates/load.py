"""Rows and requests of the experiments: three attributes of 2,048 values, and the request statistics of Examples 1 to
3.

Answer   `Running` is a session with one template and one stream of requests; `rows` and `requests` push, `ask` and
         `turn` step and give what the requests cost: rows looked at, CPU seconds of the whole step, CPU seconds that
         finding the rows took.
Limits   Patterns come in fixed shares, shuffled: a run of few requests has the statistics of a long one.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time

import numpy as np
import pyarrow as pa

from eddyline import Session
from eddyline.operators.template.imp import Imp
from eddyline.operators.template.registered import RegisteredTemplate

VALUES = 2_048
EXAMPLES = {
    "Example 1": {"a": 0.4, "ab": 0.1, "b": 0.3, "c": 0.2},
    "Example 2": {"a": 0.3, "ab": 0.4, "c": 0.3},
    "Example 3": {"a": 0.3, "ab": 0.4, "bc": 0.25, "c": 0.05},
}
SECOND = 1_000_000


@dataclass(frozen=True)
class Cost:
    requests: int
    #: Rows looked at, as a share of the rows in the windows of all requests.
    visited: float
    cpu: float
    finding: float


class Running:
    def __init__(
        self, window: int, index: str, bits: int = 16, batch: str = "off", tuning: str = "on", group_by: str = ""
    ) -> None:
        self.window = window
        self.session = Session(keep_results=False)
        self.session.execute(
            f"SET epoch_rows = 10000000; SET template_batch = '{batch}'; SET template_tuning = '{tuning}';"
            "CREATE STREAM r (a INT, b INT, c INT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');"
            f"CREATE TEMPLATE t WITH (index = '{index}', bits = {bits}) AS SELECT a, b, c, SUM(v) AS total, COUNT(*) AS n "
            f"FROM r [RANGE {window - 1} SECONDS] GROUP BY a, b, c;"
            "CREATE REQUESTS q (id BIGINT, a INT, b INT, c INT, groups STRING, ts TIMESTAMP) FOR t WITH (time = 'ts', group_by = 'groups');"
        )
        self.group_by = group_by
        self.random = np.random.default_rng(22)
        self.at = 0
        self.asked = False
        self.finding = self.building = self.rebuilding = 0.0
        self.epochs: list[float] = []
        self._measure()

    @property
    def registered(self) -> RegisteredTemplate:
        return self.session.pipeline.kinds.templates.unit("t").registered

    def _measure(self) -> None:
        """Time the finding of rows, the building of blocks, and of these the rebuilding after a change, inside of what
        the session does."""
        found, built, rebuilt = RegisteredTemplate._found, Imp._build, Imp.rebuild
        registered, index = self.registered, self.registered.index

        def find(requests: object) -> object:
            began = process_time()
            pairs = found(registered, requests)  # type: ignore[arg-type]
            self.finding += process_time() - began
            return pairs

        def build(first: int, stop: int) -> None:
            began = process_time()
            built(index, first, stop)  # type: ignore[arg-type]
            self.building += process_time() - began

        def rebuild(first: int) -> None:
            began = process_time()
            rebuilt(index, first)  # type: ignore[arg-type]
            self.rebuilding += process_time() - began

        registered._found = find  # type: ignore[method-assign, assignment]
        if index is not None:
            index._build = build  # type: ignore[method-assign]
            index.rebuild = rebuild  # type: ignore[method-assign]

    def rows(self, count: int) -> None:
        """Push rows, one per second."""
        columns = {name: pa.array(self.random.integers(0, VALUES, count), pa.int32()) for name in "abc"}
        times = pa.array(np.arange(self.at, self.at + count) * SECOND, pa.timestamp("us"))
        self.session.push("r", pa.table({**columns, "v": np.ones(count, np.int64), "ts": times}))
        self.at += count

    def requests(self, statistics: dict[str, float], count: int, instants: np.ndarray | None = None) -> int:
        """Push requests for the last instant, or for given ones, in time order."""
        kinds = [kind for kind, weight in statistics.items() for _ in range(round(weight * count))]
        self.random.shuffle(kinds)
        seconds = np.full(len(kinds), self.at - 2) if instants is None else instants[: len(kinds)]
        drawn = {name: self.random.integers(0, VALUES, len(kinds)) for name in "abc"}
        fixed = {
            name: pa.array(drawn[name], pa.int32(), mask=np.array([name not in kind for kind in kinds]))
            for name in "abc"
        }
        table = {"id": np.arange(len(kinds)), **fixed, "groups": [self.group_by] * len(kinds)}
        self.session.push("q", pa.table({**table, "ts": pa.array(seconds * SECOND, pa.timestamp("us"))}))
        return len(kinds)

    def step(self) -> float:
        began = process_time()
        self.session.step()
        self.epochs.append(process_time() - began)
        return self.epochs[-1]

    def ask(self, statistics: dict[str, float], count: int) -> Cost:
        """So many requests for the last instant, answered in one step."""
        if self.asked:
            # Requests come in time order: later ones ask for a later instant.
            self.rows(3)
        self.asked = True
        before, finding, answered = self.registered.visits.rows, self.finding, self.registered.answered
        asked = self.requests(statistics, count)
        # One request more moves the time of the stream of requests.
        self.session.push("q", self._tick())
        cpu = self.step()
        assert self.registered.answered - answered >= asked
        visited = (self.registered.visits.rows - before) / (asked * self.window)
        return Cost(asked, visited, cpu, self.finding - finding)

    def turn(self, statistics: dict[str, float], count: int) -> Cost:
        """So many rows and requests in turns, each request after its row and for the window that the row ends, in one
        epoch."""
        instants = np.arange(self.at, self.at + count)
        self.rows(count)
        before, finding, answered = self.registered.visits.rows, self.finding, self.registered.answered
        self.requests(statistics, count, instants)
        cpu = self.step()
        asked = self.registered.answered - answered
        visited = (self.registered.visits.rows - before) / (max(asked, 1) * self.window)
        return Cost(asked, visited, cpu, self.finding - finding)

    def _tick(self) -> pa.Table:
        """A request that fixes everything."""
        some = pa.array([0], pa.int32())
        times = pa.array([(self.at - 1) * SECOND], pa.timestamp("us"))
        return pa.table({"id": [-1], "a": some, "b": some, "c": some, "groups": [""], "ts": times})
