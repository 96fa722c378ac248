"""Flink's SQL: interval joins on event time, a cascade of binary joins for more than two streams.

Answer   Seconds of one job whose rows go to Flink's blackhole sink, after the same job ran once in the same Java
         process to count its rows: neither the start of the cluster nor the plan nor a cold compiler counts.
State    One task slot per core, state on the heap, no checkpoints, objects reused.
Limits   Flink's Python package has no parquet format: the streams are csv, one file per slot, because its file source
         hands files out in no order and would make rows late. Event times of Flink have milliseconds: the interval is
         one millisecond wider than the window, and a condition on microseconds makes the answer exact.
"""

from __future__ import annotations

from bench.peers import Result, inside, stripes
from bench.workloads import Workload


def run(workload: Workload, *, cores: int = 2, limit: float = 360.0, **_: object) -> Result:
    folder = stripes.interleaved(workload, cores)
    statements = [stream_of(workload, name, f"file://{folder / name}") for name in workload.streams]
    report, watched = inside.run(
        "flink", "flink_sql", {"statements": statements, "query": query(workload), "slots": cores}, limit
    )
    if watched.stopped:
        return Result(limit, workload.rows_in, 0, watched.peak_rss, {"stopped": True})
    return Result(float(report["seconds"]), workload.rows_in, int(report["results"]), watched.peak_rss, report)


def stream_of(workload: Workload, name: str, path: str) -> str:
    keys = ", ".join(f"`{column}` BIGINT" for column in workload.shape.streams[name])
    return (
        f"CREATE TABLE `{name}` ({keys}, `v` DOUBLE, `us` BIGINT, `ts` AS TO_TIMESTAMP_LTZ(`us` / 1000, 3), WATERMARK FOR `ts` AS `ts`)"
        f" WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
    )


def query(workload: Workload) -> str:
    """The join in the order of the streams; every stream is tied to the first by time, and to the others by a condition
    on microseconds."""
    shape = workload.shape
    first, *others = workload.streams
    minutes, seconds = divmod(shape.window_seconds, 60)
    span = f"INTERVAL '{minutes}:{seconds:02d}.001' MINUTE TO SECOND(3)"
    joined, seen = f"`{first}`", [first]
    for stream in others:
        conditions = [
            equality
            for equality in shape.equalities
            if _streams(equality) <= {stream, *seen} and stream in _streams(equality)
        ]
        conditions.append(f"{stream}.ts BETWEEN {first}.ts - {span} AND {first}.ts + {span}")
        conditions += [f"ABS({stream}.us - {other}.us) <= {shape.window_seconds * 1_000_000}" for other in seen]
        joined += f" JOIN `{stream}` ON {' AND '.join(conditions)}"
        seen.append(stream)
    newest = ", ".join(f"{name}.us" for name in workload.streams)
    return f"SELECT {shape.select}, GREATEST({newest}) AS us FROM {joined}"


def _streams(equality: str) -> set[str]:
    return {side.split(".")[0] for side in equality.split(" = ")}
