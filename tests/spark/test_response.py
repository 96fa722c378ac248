"""Response times of a job on several shards: measured by the shards, put together by the driver."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from tests.spark.simulated import Simulated

JOB = """
CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time = 'ts');
CREATE QUERY pairs AS SELECT a.k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k;
CREATE QUERY plain AS SELECT k FROM a;
"""


def rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table({"k": numbers % 7, "ts": pa.array(numbers * 1_000, pa.timestamp("us"))})


def test_results_of_all_shards_have_response_times(tmp_path: Path) -> None:
    job = Simulated(JOB, str(tmp_path), 3, Random(1), forgetful=0.0)
    for batch in range(4):
        job.run({"a": rows(batch * 50, 50), "b": rows(batch * 50, 50)})
    job.run(closing=True)
    progress = job.driver.progress
    found = progress.responses["pairs"]
    assert found.count == progress.results["pairs"] == len(job.table("pairs")) > 0
    summary = found.summary()
    assert 0.0 < summary["mean"] <= summary["max"] and summary["p95"] <= summary["max"]  # type: ignore[operator]
    assert progress.responses["plain"].count == len(job.table("plain")) == 200
    progress.forget_oldest({"plain"})
    assert set(progress.responses) == {"plain"}
    job.close()
