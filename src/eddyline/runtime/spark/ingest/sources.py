"""The one source of a job's files and control records: Spark keeps offsets, the driver makes batches of them.

Answer   A Python data source whose offset says how many files of each stream, and how many control records, have been
         taken, and how far the next one. It has no rows: the driver turns its offsets into documents (`inputs.py`), and
         tasks read what these name. Files come in name order whatever their modification times; an unreadable one is a bad row.
State    What `Offsets` has, made when Spark asks for the first time.
Limits   Names are listed on the driver and must be readable by all workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from eddyline.runtime.sharded.ingest.offsets import Offsets
from eddyline.runtime.sharded.job.layout import PackedLayout
from eddyline.runtime.spark.job.failure import reported

#: The rows of a source, as Spark knows them: those of DataFrames are packets.
PACKETS = (
    "shard INT, stream INT, place BIGINT, newest BIGINT, rows BIGINT, closed BOOLEAN, blob BINARY, bad BINARY,"
    " census BINARY, records BINARY, lines BIGINT, row_groups STRING"
)


class PacketSource(DataSource):
    """`spark.readStream.format("eddyline")`, with the layout in its options."""

    @classmethod
    def name(cls) -> str:
        return "eddyline"

    def schema(self) -> str:
        return PACKETS

    def streamReader(self, schema: Any) -> PacketReader:
        return PacketReader(
            PackedLayout(self.options["digest"], self.options["layout"]), self.options["once"] == "true"
        )


class PacketReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, packed: PackedLayout, once: bool):
        self.packed = packed
        self.once = once

    @cached_property
    def offsets(self) -> Offsets:
        with reported("the lists of files"):
            return Offsets(self.packed.open(), self.once)

    def initialOffset(self) -> dict[str, Any]:
        return self.offsets.first

    def prepareForTriggerAvailableNow(self) -> None:
        with reported("looking for files"):
            self.offsets.take_all()

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:
        with reported("looking for files"):
            return self.offsets.after(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has committed up to here."""
        with reported("control records that are not needed any more"):
            self.offsets.committed(end)
