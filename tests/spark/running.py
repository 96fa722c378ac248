"""Scripts and random cases through Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import SparkSession

from eddyline.connectors.results.sinks import MemorySink
from eddyline.language import bind_script
from eddyline.language.job import Job
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.layouts import make_layout
from tests.property.compare import Outcome, plain_rows
from tests.property.specs import Case


def layout_of(spark: SparkSession, job: Job, checkpoint: Path, shards: int) -> JobLayout:
    settings = replace(job.settings, shards=shards)
    return make_layout(spark, str(checkpoint), job.streams, job.queries, job.tables, settings)


def run_script(
    spark: SparkSession, text: str, checkpoint: Path, out: Path | None = None, shards: int = 2
) -> tuple[SparkDriver, dict[str, pa.Table]]:
    """Run a script to its end; returns the job and all results of each query."""
    job = bind_script(text)
    running = SparkDriver(spark, layout_of(spark, job, checkpoint, shards), out=None if out is None else str(out))
    # What makes a derived stream writes to no sink.
    kept = {query.name: MemorySink() for query in job.queries if query.feeds is None}
    running.delivery.kept_dead = {}
    running.add_queries(job.catalog, {name: [sink] for name, sink in kept.items()})
    running.run()
    return running, {name: sink.table() for name, sink in kept.items()}


def check_removed(
    spark: SparkSession,
    folder: Path,
    text: str,
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    wanted: Mapping[str, Sequence[Any]],
    lost: Sequence[Mapping[str, Any]],
) -> None:
    """Run a script over rows in three files per stream: it gives the wanted results, and the lost rows are dead letters
    of stream a."""
    for stream in bind_script(text).streams:
        os.mkdir(folder / stream.name)
        for number in range(3):
            part = rows[stream.name][30 * number : 30 * number + 30]
            parquet.write_table(
                pa.Table.from_pylist(part, stream.schema.arrow), folder / stream.name / f"{number}.parquet"
            )
    running, found = run_script(spark, text, folder / "checkpoint")
    for name, results in wanted.items():
        assert sorted(map(str, plain_rows([found[name]]))) == sorted(map(str, results)), name
    letters = plain_rows((running.delivery.kept_dead or {}).get("a", []))
    assert sorted(row["id"] for row in letters) == sorted(row["id"] for row in lost)


def run_case(spark: SparkSession, case: Case, shards: int) -> Outcome:
    """A case as files: the n-th file of every stream is the n-th epoch; a last empty one closes."""
    with TemporaryDirectory() as directory:
        for table in case.tables:
            parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
        for stream in case.streams:
            Path(directory, stream.name).mkdir()
            for number, epoch in enumerate([*case.epochs(), {}]):
                rows: Sequence = epoch.get(stream.name, ())
                parquet.write_table(
                    case.arrow_rows(stream.name, rows), f"{directory}/{stream.name}/{number:06d}.parquet"
                )
        # Settings may stand before the streams: each stream's own statement says its name.
        memory, statements = "format='memory'", case.statements(directory)
        for stream in case.streams:
            declared = f"format='parquet', files_per_batch='1', path='{directory}/{stream.name}'"
            named = [
                text.replace(memory, declared) if text.startswith(f"CREATE STREAM {stream.name} ") else text
                for text in statements
            ]
            assert named != statements
            statements = named
        driver, results = run_script(spark, ";\n".join(statements), Path(directory, "checkpoint"), None, shards)
        found = Outcome()
        found.results = {name: plain_rows([table]) for name, table in results.items()}
        for stream in case.streams:
            letters = plain_rows((driver.delivery.kept_dead or {}).get(stream.name, []))
            found.dead[stream.name] = [
                (str(row["_reason"]), {k: v for k, v in row.items() if k != "_reason"}) for row in letters
            ]
        return found
