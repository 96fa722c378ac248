"""The smallest engine that can stand where a pipeline stands: it keeps every row and hands out those that are new.

What Spark does to a job (routing, retries, restarts, lost workers) can be seen on it without knowing what a join is:
each row of each stream must come out exactly once, in the shard that keeps its books.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.plan.shards.routing import HOME_BIT
from eddyline.runtime.engine.epoch import Epoch, Outcome
from eddyline.runtime.recovery.snapshot import Snapshot
from eddyline.runtime.sharded.job.layout import JobLayout


class EchoEngine:
    """Query `echo_<stream>` answers with the rows of its stream, and the number of rows the shard had before."""

    shard: int | None = None

    def __init__(self, layout: JobLayout):
        self.layout = layout
        self.blocks: dict[str, pa.Table] = {}
        self.newest: dict[str, int] = {}
        self.epochs = 0
        self.seen: dict[str, int] = {}
        self.census: dict[str, int] = {}
        self.closings = 0

    @classmethod
    def open(cls, layout: JobLayout, header: dict[str, Any] | None, load: Callable[[str], pa.Table]) -> EchoEngine:
        engine = cls(layout)
        if header is not None:
            engine.epochs, engine.newest, engine.closings = header["epochs"], header["newest"], header["closings"]
            engine.blocks = {name: load(name) for name in header["blocks"]}
            for name, table in engine.blocks.items():
                stream = name.rsplit("-", 1)[0]
                engine.seen[stream] = engine.seen.get(stream, 0) + table.num_rows
            assert engine.seen == header["seen"]
        return engine

    def bounds(self) -> dict[str, int | None]:
        return {}

    def late_below(self) -> dict[str, int | None]:
        return {}

    def control(self, layout: JobLayout, records: object) -> dict[str, Any]:
        return {}

    def step(self, epoch: Epoch, on_part: object = None) -> Outcome:
        outcome = Outcome()
        for name, arrival in epoch.arrivals.items():
            stream = self.layout.streams[self.layout.numbers[name]]
            rows = arrival.rows
            if arrival.routes is not None:
                rows = rows.take(pa.array(np.flatnonzero(arrival.routes >> np.uint64(HOME_BIT))))
            if arrival.newest is not None:
                self.newest[name] = max(arrival.newest, self.newest.get(name, arrival.newest))
            if rows.num_rows:
                before = self.seen.get(name, 0)
                number = pa.array(np.arange(before, before + rows.num_rows))
                answer = rows.append_column("n", number).append_column("_ts", rows.column(stream.time))
                outcome.results[f"echo_{name}"] = [answer.take(pa.compute.sort_indices(answer, [("_ts", "ascending")]))]
                self.blocks[f"{name}-{self.epochs}"] = rows
                self.seen[name] = before + rows.num_rows
            if arrival.bad is not None:
                outcome.dead[name] = [arrival.bad]
        self.closings += epoch.closing
        self.epochs += 1
        outcome.frontier = min(self.newest.values(), default=None)
        return outcome

    def snapshot(self) -> Snapshot:
        header = {
            "epochs": self.epochs,
            "newest": self.newest,
            "blocks": list(self.blocks),
            "seen": self.seen,
            "closings": self.closings,
        }
        return Snapshot(header, {name: (lambda t=table: t) for name, table in self.blocks.items()})

    def observed(self) -> dict[str, Any]:
        return {}

    def statistics(self) -> dict[str, Any]:
        return {"seen": self.seen, "closings": self.closings, "newest": self.newest, "epochs": self.epochs}


def echo_schema(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field("n", pa.int64())).append(pa.field("_ts", pa.timestamp("us")))
