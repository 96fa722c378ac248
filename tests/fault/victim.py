"""A process that runs a job on Spark until it is done or killed: `python -m tests.fault.victim CONFIG.json`.

It writes one line per micro-batch to standard output, and `done` at the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from eddyline.connectors.results.sinks import CallbackSink
from eddyline.language import bind_script
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record
from eddyline.runtime.sharded.job import roster
from eddyline.runtime.sharded.job.progress import StreamProgress
from eddyline.runtime.sharded.job.saying import say
from eddyline.runtime.sharded.output.delivery import Delivered
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.layouts import make_layout
from eddyline.runtime.spark.job.session import open_session


def main(path: str) -> None:
    config = json.loads(Path(path).read_text())
    spark = open_session(config["master"], memory="1g", name="victim", settings=config.get("settings", {}))
    job = bind_script(config["script"])
    settings = replace(job.settings, shards=config["shards"])
    layout = make_layout(spark, config["checkpoint"], job.streams, job.queries, job.tables, settings)

    say(config["checkpoint"], job.records)

    def told(delivered: Delivered, progress: StreamProgress) -> None:
        if "add" in config and delivered.batch == 2:
            ControlFolder(config["checkpoint"]).append(add_record(config["add"]))
        print(f"batch {delivered.batch} {json.dumps(progress.came_from)}", flush=True)

    if "die_before_start" in config:
        die_before_start(Path(config["die_before_start"]))

    def driver() -> SparkDriver:
        """Of one run: its sinks are closed at the end."""
        made = SparkDriver(spark, layout, out=config["out"], on_batch=told)
        made.add_queries(
            job.catalog, {name: [CallbackSink(fail_once(file))] for name, file in config.get("fail_once", {}).items()}
        )
        return made

    if "finish" in config:
        # Follow the sources until the file is there, then read on to the end of what has come.
        following = driver()
        following.start()
        while not Path(config["finish"]).exists():
            time.sleep(0.05)
        following.stop()
    driver().run()
    print("done", flush=True)
    spark.stop()


def die_before_start(mark: Path) -> None:
    """The driver dies before the first record that starts a query on the shards; everything else is ready for the
    query."""
    write = roster.write_control

    def written(checkpoint: str, record: Mapping[str, object]) -> int:
        if "start" in record and not mark.exists():
            mark.write_text(json.dumps(record))
            os.kill(os.getpid(), signal.SIGKILL)
        return write(checkpoint, record)

    roster.write_control = written


def fail_once(path: str):
    """A sink that fails the first time it is asked, ever."""

    def take(table: pa.Table) -> None:
        if not Path(path).exists():
            Path(path).touch()
            raise OSError("the sink fails once")

    return take


if __name__ == "__main__":
    main(sys.argv[1])
