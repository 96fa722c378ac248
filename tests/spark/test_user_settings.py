"""A user's Spark session whose settings conflict with a job's: the answer is the same, and the session has its own
settings afterwards."""

from __future__ import annotations

from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session

pytestmark = [pytest.mark.spark, pytest.mark.long]

SETTINGS: dict[str, dict[str, str]] = {
    "none": {},
    "ansi": {"spark.sql.ansi.enabled": "true"},
    "zone": {"spark.sql.session.timeZone": "Asia/Kathmandu"},
    "partitions": {"spark.sql.shuffle.partitions": "7"},
    "adaptive": {"spark.sql.adaptive.enabled": "true", "spark.sql.adaptive.coalescePartitions.enabled": "true"},
    "arrow": {
        "spark.sql.execution.arrow.pyspark.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    },
    "case": {"spark.sql.caseSensitive": "true"},
    "empty batches": {"spark.sql.streaming.noDataMicroBatches.enabled": "true", "spark.sql.streaming.stopTimeout": "1"},
    "legacy": {"spark.sql.legacy.timeParserPolicy": "LEGACY", "spark.sql.storeAssignmentPolicy": "LEGACY"},
}


def job(spark, folder: Path, checkpoint: str) -> Session:
    session = Session(spark=spark, checkpoint=str(folder / checkpoint))
    session.set("shards", 2)
    for name in "ab":
        session.execute(
            f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{folder}/{name}', time = 'ts')"
        )
    session.query("q", "SELECT a.k, a.ts AS at FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k")
    return session


def files(folder: Path) -> None:
    for name in "ab":
        (folder / name).mkdir()
        ts = pa.array([1_000_000 * n for n in range(50)]).cast(pa.timestamp("us"))
        parquet.write_table(pa.table({"k": [n % 5 for n in range(50)], "ts": ts}), folder / name / "0.parquet")


def test_conflicting_settings_change_no_answer(spark, tmp_path: Path) -> None:
    files(tmp_path)
    found = {}
    for what, settings in SETTINGS.items():
        before = {key: spark.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            with job(spark, tmp_path, what.replace(" ", "_")) as session:
                session.run()
                found[what] = sorted(map(str, session.queries["q"].table().to_pylist()))
            assert {key: spark.conf.get(key) for key in settings} == settings, what
        finally:
            for key, value in before.items():
                spark.conf.unset(key) if value is None else spark.conf.set(key, value)
    assert found["none"] and {what for what, rows in found.items() if rows != found["none"]} == set()


def test_twenty_starts_and_stops_leave_no_thread_and_no_handle(spark, tmp_path: Path) -> None:
    files(tmp_path)
    me, seen = psutil.Process(), []
    for _ in range(20):
        with job(spark, tmp_path, "state") as session:
            session.start()
        seen.append((me.num_threads(), me.num_fds()))
    assert max(seen[10:]) <= max(seen[:10]), seen
