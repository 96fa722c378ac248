"""What one more stateful step costs a micro-batch on Spark.

Answer   The same nearly empty batches through one stateful step and through two, in turns within one session:
         milliseconds of a batch in the second half of each run, by the clock (median) and of the processors (mean; of
         this process, the JVM and the workers). The steps pass rows on and keep one value per shard; a step of the
         engine has this cost before it works, and the rows between the steps are encoded, shuffled and decoded besides.
Limits   Two cores, `local[2]`, two shards.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import Row

from bench import harness
from eddyline.runtime.spark.job.session import open_session, prepare_session

RESULTS = Path(__file__).parent / "results"
BATCHES = 30
ROUNDS = 2
SHARDS = 2


class Pass(StatefulProcessor):
    """Hands rows on and notes that it did."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "count BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        before = self.seen.get()
        passed = [Row(shard=key[0], value=row.value) for row in rows]
        self.seen.update(((before[0] if before else 0) + len(passed),))
        yield from passed

    def close(self) -> None:
        """Nothing is open."""


def main() -> None:
    session = open_session("local[2]", name="steps")
    prepare_session(session, SHARDS)
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    try:
        for _ in range(ROUNDS):
            for steps, taken in found.items():
                taken.append(_milliseconds(session, steps))
    finally:
        session.stop()
    milliseconds = {
        f"{steps} steps": {
            what: statistics.median(one[at] for one in taken) for at, what in enumerate(("clock", "processor"))
        }
        for steps, taken in found.items()
    }
    print(milliseconds, found)
    harness.write(
        RESULTS / "steps.json",
        "stateful steps on Spark",
        {"machine": harness.machine(), "milliseconds": milliseconds, "samples": found},
    )


def _milliseconds(session: SparkSession, steps: int) -> tuple[float, float]:
    """Milliseconds of a batch in the second half of a run: of the clock, and of the processors."""
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).option("numPartitions", 1).load()
    frame = rows.selectExpr("CAST(value % 2 AS INT) AS shard", "value")
    for _ in range(steps):
        frame = frame.groupBy("shard").transformWithState(Pass(), "shard INT, value BIGINT", "Append", "None")
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as folder:
        query = frame.writeStream.foreachBatch(_dropped).option("checkpointLocation", f"file://{folder}").start()
        seen: dict[int, float] = {}
        began, first = 0.0, 0
        while len(seen) < BATCHES and query.isActive:
            for one in query.recentProgress:
                seen[one["batchId"]] = one["durationMs"]["triggerExecution"]
            if not first and len(seen) >= BATCHES // 2:
                began, first = _processor_seconds(), max(seen)
            time.sleep(0.05)
        spent = 1000 * (_processor_seconds() - began) / max(max(seen) - first, 1)
        query.stop()
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
    return statistics.median(seconds for batch, seconds in seen.items() if batch >= BATCHES // 2), spent


def _processor_seconds() -> float:
    """What this process and all that it has started have used so far."""
    me = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (me, *me.children(recursive=True)))


def _dropped(frame: Any, batch: int) -> None:
    frame.collect()


if __name__ == "__main__":
    main()
