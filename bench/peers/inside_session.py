"""A job of ours several times in one warm session: `python -m bench.peers.inside_session ARGUMENT REPORT`.

Answer   For each run the seconds from the start to the last result (on Spark from the start of the streaming query, when
         the job is planned), those of each batch, CPU seconds of all
         processes, and the statistics of the session. A run has a checkpoint, and a folder of results with `write`, of
         its own. The first run loads kernels, warms the JVM and starts the workers: it does not count.
Limits   Linux: CPU seconds are those of this process and of all that descend from it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from eddyline import Session


def main(argument: dict[str, Any], report: Path) -> None:
    spark = None
    if argument["engine"] == "spark":
        from eddyline.runtime.spark.job.session import open_session

        spark = open_session(f"local[{argument['cores']}]")
        note_starts()
    runs = [once(argument, spark) for _ in range(argument["runs"])]
    report.write_text(json.dumps({"runs": runs}))
    if spark is not None:
        spark.stop()


def once(argument: dict[str, Any], spark: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-", dir=argument.get("folder")) as name:
        places = {"out": f"{name}/results"} if argument.get("write") else {}
        if spark is not None:
            places["checkpoint"] = f"{name}/checkpoint"
        session = Session(spark=spark, keep_results=False, keep_memory=True, **places)
        session.execute(argument["job"])
        ends: list[float] = []
        STARTS.clear()
        session.observe(lambda *_: ends.append(time.perf_counter()))
        before, began = processor_seconds(), time.perf_counter()
        session.run()
        returned = time.perf_counter()
        spent = processor_seconds()
        said = session.stats()
        found = {
            # Embedded results are out when the run returns.
            "seconds": ends[-1] - STARTS[0] if spark is not None else returned - began,
            "settling": STARTS[0] - began if spark is not None else 0.0,
            "returned": returned - began,
            "batches": [end - start for start, end in zip([*STARTS[:1], *ends], ends, strict=False)],
            "cpu_seconds": {kind: spent[kind] - before.get(kind, 0.0) for kind in spent},
            "results": said["results"],
            "stats": {key: said[key] for key in KEPT if key in said},
        }
        return found


#: When streaming queries were started: by then a job is planned, as that of Flink is when its clock begins.
STARTS: list[float] = []


def note_starts() -> None:
    from pyspark.sql.streaming import DataStreamWriter

    start = DataStreamWriter.start

    def noted(writer: Any, *args: Any, **options: Any) -> Any:
        STARTS.append(time.perf_counter())
        return start(writer, *args, **options)

    DataStreamWriter.start = noted


KEPT = ("epochs", "epoch_seconds", "stages", "shard_seconds", "reopened", "late", "bad")


def processor_seconds() -> dict[str, float]:
    """User and system seconds of this process (`driver`), of the JVM (`java`), of all other processes below."""
    found = {"driver": 0.0, "java": 0.0, "python": 0.0}
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
            kind = "driver" if process == me else "java" if process.name() == "java" else "python"
            own = times.user + times.system
            found[kind] += own + (times.children_user + times.children_system if kind == "python" else 0)
        except psutil.NoSuchProcess:
            continue
    return found


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
