"""The micro-batches of one run of a job, each carried out once.

Answer   `SparkBatches.conduct` makes the document of a batch, has `SparkConductor` run its phases unless the batch
         counts already, and returns the parcels of its results.
State    The inputs and the heads of one run. A run that starts anew makes another `SparkBatches`.
Limits   Spark calls it for one batch after the other.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.conducting import Batches
from eddyline.runtime.sharded.ingest.inputs import Inputs
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.job.roster import ShardedRoster
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.shard.pipeline import ShardEngine
from eddyline.runtime.sharded.storage.heads import Head
from eddyline.runtime.spark.conductor import SparkConductor
from eddyline.runtime.spark.ingest.frames import BATCH, said_of
from eddyline.state.sealed import damaged

_HELD = "what a batch reads"


class SparkBatches:
    def __init__(
        self,
        spark: SparkSession,
        layout: JobLayout,
        first: PackedLayout,
        engine: type[ShardEngine],
        roster: ShardedRoster | None,
        has_frames: bool,
    ):
        """
        Args:
            spark: The session.
            layout: Of the job.
            first: The layout of the run's first batch.
            engine: What runs a shard.
            roster: Gives the layouts of later batches; None: no query comes or goes.
            has_frames: Whether a stream is a DataFrame, whose rows the batch's own frame brings.
        """
        self._spark, self._first, self._roster, self._has_frames = spark, first, roster, has_frames
        self._conductor = SparkConductor(spark, Phases(first, engine))
        self._checkpoint = layout.checkpoint
        self._inputs, self._batches = Inputs(layout), Batches(layout.checkpoint, layout.shards)

    def conduct(self, frame: DataFrame, number: int) -> list[Parcel]:
        packed = self._first if self._roster is None else self._roster.packed
        source, end = offsets_of(self._checkpoint, number)
        return self._batches.parcels(
            number, source, lambda head: (self._planned(number, packed, end, head), end), partial(self._run, frame)
        )

    def _run(self, frame: DataFrame, batch: BatchDocument) -> list[Parcel]:
        if not self._has_frames:
            return self._conductor.run(batch)
        self._spark.sparkContext.setLocalProperty(BATCH, said_of(batch))
        return self._conductor.run(batch, frame)

    def _planned(self, number: int, packed: PackedLayout, end: dict[str, Any], head: Head | None) -> BatchDocument:
        batch = self._inputs.batch(number, packed, end, head)
        return batch if self._roster is None else replace(batch, untaken=self._roster.delivery.untaken())


def offsets_of(checkpoint: str, number: int) -> tuple[str, dict[str, Any]]:
    """The digest of what Spark has written down of a batch, and the offset of our source where it ends. Offsets are of
    Spark's first form: a line per source."""
    path = os.path.join(checkpoint, "offsets", str(number))
    try:
        with open(path, "rb") as file:
            content = file.read()
        found = [json.loads(line) for line in content.splitlines()[1:] if line.startswith(b"{")]
        mine = next(offset for offset in found if "files" in offset and "runs" in offset)
    except (OSError, ValueError, StopIteration) as problem:
        raise damaged(path, _HELD, problem) from problem
    return hashlib.sha256(content).hexdigest(), mine
