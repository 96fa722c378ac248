"""The layout of a job on Spark.

Answer   `make_layout` settles a job with its checkpoint and routes its queries over as many shards as Spark has cores,
         where nothing else says how many.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from eddyline.model.expressions.own_function import OwnFunction
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.job.reconciling import reconciled
from eddyline.settings import Settings


def make_layout(
    spark: SparkSession,
    checkpoint: str,
    streams: Sequence[Stream],
    queries: Sequence[BoundQuery],
    tables: Sequence[Table] = (),
    settings: Settings | None = None,
    functions: Sequence[OwnFunction] = (),
) -> JobLayout:
    """The layout of a job over a checkpoint, new or continued; refuses what does not fit the checkpoint."""
    usual = spark.sparkContext.defaultParallelism
    return reconciled(checkpoint, streams, queries, tables, settings or Settings(), usual, functions)
