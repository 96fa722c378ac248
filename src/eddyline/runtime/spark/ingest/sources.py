"""The one source of a job's files and control records: Spark keeps offsets, the driver makes batches of them.

Answer   A Python data source whose offset says how many files of each stream, and how many control records, have been
         taken, and how far the next one. It has no rows: the driver turns its offsets into documents (`inputs.py`), and
         tasks read what these name. Files come in name order whatever their modification times; an unreadable one is a bad row.
State    A log of the files of each stream, in the order of taking (`file_log.py`). Offsets count its files, so a file
         that appears later with an earlier name shifts nothing.
Limits   Names are listed on the driver and must be readable by all workers.

    offset    {"files": {"bids": 3}, "within": {"bids": 4194304}, "open": {"bids": true}, "control": 0, "runs": 0,
               "done": false, "at": 1700000000000000}

`files` counts those that were taken whole; `within` says how many bytes or row groups of the next one were taken.

A bounded run ends although control records keep coming: after two batches with nothing else it leaves them to the next
run.

`open` turns false in the batch that brings a stream's last file of a bounded run, `runs` counts bounded runs that came
to their end: both are in the offset, so a batch that runs again after a crash ends the same streams. `at` is the wall
clock when the batch was planned: what is too far ahead of it is so in every run of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from eddyline.errors import CheckpointProblem
from eddyline.model.clock import WALL
from eddyline.runtime.sharded.ingest.backlog import Backlog, TakenUpTo, as_offset, places_of
from eddyline.runtime.sharded.ingest.control import asked_to_stop, forget_control, next_control
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.job.layout import PackedLayout
from eddyline.runtime.spark.job.failure import reported
from eddyline.state.sealed import RESTORE

#: Batches of a bounded run, with nothing but control records, at most: what a batch asks for is carried out by the one
#: after it.
_CONTROL_BATCHES = 2
#: The rows of a source, as Spark knows them: those of DataFrames are packets.
PACKETS = (
    "shard INT, stream INT, place BIGINT, newest BIGINT, rows BIGINT, closed BOOLEAN, blob BINARY, bad BINARY,"
    " census BINARY, records BINARY, lines BIGINT"
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
        self._logs: dict[str, FileLog] | None = None
        #: Of a bounded run: the places in the control records from which batches with nothing else began.
        self._only_control: set[int] = set()
        #: Up to where the batch before the last one was committed.
        self._committed: dict[str, int] = {}

    def initialOffset(self) -> dict[str, Any]:
        return first_offset(self.logs)

    @property
    def logs(self) -> dict[str, FileLog]:
        if self._logs is None:
            with reported("the lists of files"):
                layout = self.packed.open()
                self._logs = {
                    s.name: FileLog(s, layout.checkpoint, layout.settings.tuning.input)
                    for s in layout.streams
                    if "path" in s.options
                }
        return self._logs

    @cached_property
    def backlog(self) -> Backlog:
        layout = self.packed.open()
        return Backlog(self.logs, layout.checkpoint, layout.settings)

    def prepareForTriggerAvailableNow(self) -> None:
        """A bounded run reads what is there now."""
        with reported("looking for files"):
            for log in self.logs.values():
                log.append_new()

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:
        with reported("looking for files"):
            return self._latest(start)

    def _latest(self, start: dict[str, Any]) -> dict[str, Any]:
        last = asked_to_stop(self.packed.open().checkpoint)
        if last is not None:
            return {**start, "control": max(start["control"], last)}
        if not self.once:
            for log in self.logs.values():
                log.append_new(following=True)
        begins = places_of(start)
        for name, log in self.logs.items():
            log.check(begins[name].files + (begins[name].within > 0))
        files = self.backlog.after(begins)
        fresh = {name: files[name] > begins[name] for name in files}
        out = {name: self.once and files[name] == TakenUpTo(log.total) for name, log in self.logs.items()}
        still_open = {name: not out[name] and (start["open"][name] or fresh[name]) for name in files}
        done = start["done"] and not any(fresh.values())
        control = next_control(self.packed.open().checkpoint)
        if control < start["control"]:
            raise CheckpointProblem(
                f"control records of {self.packed.open().checkpoint} are missing",
                detail=f"there are {control} in eddyline/control, and {start['control']} have been read",
                hint=RESTORE,
            )
        # Streams that are not files end when Spark says so: then a control record closes the run.
        all_files = len(files) == len(self.packed.open().streams)
        ends = self.once and not done and all_files and not any(still_open.values())
        if self.once and not ends and not any(fresh.values()):
            self._only_control.add(start["control"])
            if len(self._only_control) > _CONTROL_BATCHES:
                return start
        found = {
            **as_offset(files),
            "open": still_open,
            "control": control,
            "runs": start["runs"] + int(ends),
            "done": done or ends,
            "at": start.get("at", 0),
        }
        # Another instant alone is nothing new: it would be a batch.
        return found if found == {"at": 0, "within": {}, **start} else {**found, "at": WALL.instant()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has committed up to here: no batch reads the control records, nor the files before the last one,
        again."""
        with reported("control records that are not needed any more"):
            forget_control(self.packed.open().checkpoint, end["control"])
            for name, count in self._committed.items():
                self.logs[name].forget(count)
            self._committed = end["files"]


def first_offset(names: Iterable[str]) -> dict[str, Any]:
    """Where the first batch begins."""
    names = list(names)
    return {
        **as_offset(dict.fromkeys(names, TakenUpTo(0))),
        "open": dict.fromkeys(names, True),
        "control": 0,
        "runs": 0,
        "done": False,
        "at": 0,
    }
