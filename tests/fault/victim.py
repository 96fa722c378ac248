"""A process that runs a job on Spark until it is done or killed: `python -m tests.fault.victim CONFIG.json`.

It writes one line per micro-batch to standard output, and `done` at the end.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from eddyline.connectors.sinks import CallbackSink
from eddyline.language import bind_script
from eddyline.runtime.spark.driver import SparkDriver
from eddyline.runtime.spark.job import make_layout
from eddyline.runtime.spark.session import open_session


def main(path: str) -> None:
    config = json.loads(Path(path).read_text())
    spark = open_session(config["master"], memory="1g", name="victim", settings=config.get("settings", {}))
    job = bind_script(config["script"])
    settings = replace(job.settings, shards=config["shards"])
    layout = make_layout(spark, config["checkpoint"], job.streams, job.queries, job.tables, settings)

    def told(delivered: object, progress: object) -> None:
        print(f"batch {delivered.batch} {json.dumps(progress.came_from)}", flush=True)  # type: ignore[attr-defined]

    running = SparkDriver(spark, layout, out=config["out"], told=told)
    running.add_queries(job.catalog, {name: [CallbackSink(fail_once(file))] for name, file in config.get("fail_once", {}).items()})
    if "finish" in config:
        # Follow the sources until the file is there, then read on to the end of what has come.
        running.start()
        while not Path(config["finish"]).exists():
            time.sleep(0.05)
        running.stop()
    running.run()
    print("done", flush=True)
    spark.stop()


def fail_once(path: str):
    """A sink that fails the first time it is asked, ever."""

    def take(table: pa.Table) -> None:
        if not Path(path).exists():
            Path(path).touch()
            raise OSError("the sink fails once")

    return take


if __name__ == "__main__":
    main(sys.argv[1])
