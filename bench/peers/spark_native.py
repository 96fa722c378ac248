"""Spark's own stream-stream join: watermarks, a range condition, a cascade of binary joins for more than two streams.

Answer   Seconds of all micro-batches after the first, for the fastest of the variants asked for. Results go to parquet.
State    `hdfs`: the default state store, in the JVM's memory, with files. `rocksdb`: RocksDB with changelog
         checkpoints. `rocksdb-v4`: the same with join state format 4. All three with the quick checkpoint file manager,
         as many shuffle partitions as cores, adaptive execution off and no extra batches without data: an inner join
         needs none of these.
Limits   A joined row keeps the event time of the first stream only (Spark allows one event-time column per input of a
         stateful operator); the other times are kept as numbers and compared by a residual condition.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq

from bench.peers import Result, processes
from bench.workloads import SHAPES, Workload

STREAMING = "spark.sql.streaming"
ROCKSDB = {
    f"{STREAMING}.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
VARIANTS: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb": ROCKSDB,
    "rocksdb-v4": {**ROCKSDB, f"{STREAMING}.join.stateFormatVersion": "4"},
}
TUNED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    f"{STREAMING}.noDataMicroBatches.enabled": "false",
    f"{STREAMING}.numRecentProgressUpdates": "10000",
    f"{STREAMING}.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def run(
    workload: Workload,
    *,
    variants: tuple[str, ...] = ("hdfs", "rocksdb-v4"),
    cores: int = 2,
    driver_memory: str = "4g",
    limit: float = 360.0,
    **_: object,
) -> Result:
    """The fastest of the variants, one process each; the details tell of all of them."""
    runs: dict[str, Result] = {}
    for variant in variants:
        argument = {
            "workload": workload.name,
            "streams": {name: str(workload.path(name)) for name in workload.streams},
            "configuration": {**TUNED, **VARIANTS[variant]},
            "cores": cores,
            "driver_memory": driver_memory,
        }
        report, watched = processes.run_module(__name__, argument, limit)
        if watched.stopped:
            runs[variant] = Result(limit, workload.rows_in, 0, watched.peak_rss, {"stopped": True})
            continue
        batches = report["batch_seconds"]
        details = {"batch_seconds": batches, "late": report["late"], "state_rows": report["state_rows"]}
        runs[variant] = Result(sum(batches[1:]), workload.rows_in, report["results"], watched.peak_rss, details)
    best = min(runs, key=lambda variant: (runs[variant].stopped, runs[variant].seconds))
    told = {
        variant: {"seconds": one.seconds, "results": one.results, "peak_rss": one.peak_rss, **one.details}
        for variant, one in runs.items()
    }
    timed = workload.rows_in * (workload.files - 1) // workload.files
    details = {"variant": best, "timed_rows": timed, "stopped": runs[best].stopped, "variants": told}
    return Result(runs[best].seconds, workload.rows_in, runs[best].results, runs[best].peak_rss, details)


def child(argument: dict, report: Path) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{argument['cores']}]").config(
        "spark.driver.memory", argument["driver_memory"]
    )
    builder = builder.config("spark.sql.shuffle.partitions", argument["cores"])
    for key, value in argument["configuration"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    out = report.parent / "out"
    query = (
        cascade(spark, argument["workload"], argument["streams"])
        .writeStream.format("parquet")
        .option("path", str(out))
        .option("checkpointLocation", str(report.parent / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.recentProgress
    told = {
        "batch_seconds": [batch["durationMs"]["triggerExecution"] / 1000 for batch in progress],
        "late": sum(
            operator["numRowsDroppedByWatermark"] for batch in progress for operator in batch["stateOperators"]
        ),
        "state_rows": max(sum(operator["numRowsTotal"] for operator in batch["stateOperators"]) for batch in progress),
        "results": sum(pq.read_metadata(file).num_rows for file in out.glob("*.parquet")),
    }
    report.write_text(json.dumps(told))
    spark.stop()


def cascade(spark, name: str, paths: dict[str, str]):
    """The query of a workload as a left-deep cascade of binary joins, in the order of the streams."""
    from pyspark.sql import functions

    shape = SHAPES[name]
    first, *others = shape.streams
    window = f"INTERVAL {shape.window_seconds} SECONDS"
    joined, seen = _stream(spark, shape.streams[first], first, paths[first]), [first]
    for stream in others:
        sides = [equality.split(" = ") for equality in shape.equalities]
        conditions = [
            f"{left} = {right}".replace(".", "_")
            for left, right in sides
            if left.split(".")[0] in seen and right.split(".")[0] == stream
        ]
        conditions.append(f"{stream}_ts BETWEEN {first}_ts - {window} AND {first}_ts + {window}")
        conditions += [
            f"abs(unix_micros({stream}_ts) - {other}_us) <= {shape.window_seconds * 1_000_000}" for other in seen[1:]
        ]
        joined = (
            joined.join(
                _stream(spark, shape.streams[stream], stream, paths[stream]), functions.expr(" AND ".join(conditions))
            )
            .withColumn(f"{stream}_us", functions.expr(f"unix_micros({stream}_ts)"))
            .drop(f"{stream}_ts")
        )
        seen.append(stream)
    newest = ", ".join([f"unix_micros({first}_ts)"] + [f"{stream}_us" for stream in others])
    selected = [column.strip().replace(".", "_") for column in shape.select.split(",")]
    return joined.selectExpr(*selected, f"timestamp_micros(greatest({newest})) AS _ts")


def _stream(spark, columns: dict[str, int], name: str, path: str):
    schema = ", ".join([f"{column} BIGINT" for column in columns] + ["v DOUBLE", "ts TIMESTAMP"])
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path)
    named = rows.selectExpr(*[f"{column} AS {name}_{column}" for column in rows.columns])
    # Rows come in time order within a stream and files of one number cover the same time: no row can be late.
    return named.withWatermark(f"{name}_ts", "0 seconds")


if __name__ == "__main__":
    child(json.loads(sys.argv[1]), Path(sys.argv[2]))
