"""The one source of a job's files and control records: Spark ships names, our connectors read.

Answer   A Python data source whose offset says how many files of each stream, and how many control records, have been
         taken. A task reads its files in order, packs them and hands Spark packets, so rows cross into the JVM once.
         Files come in name order whatever their modification times; an unreadable one is a bad row.
State    A log of the files of each stream, in the order of taking (`file_log.py`). Offsets count its files, so a file
         that appears later with an earlier name shifts nothing.
Limits   Names are listed on the driver and must be readable by all workers.

    offset    {"files": {"bids": 3}, "open": {"bids": true}, "control": 0, "runs": 0, "done": false, "at":
    1700000000000000}

A bounded run ends although control records keep coming: after two batches with nothing else it leaves them to the next
run.

`open` turns false in the batch that brings a stream's last file of a bounded run, `runs` counts bounded runs that came
to their end: both are in the offset, so a batch that runs again after a crash ends the same streams. `at` is the wall
clock when the batch was planned: what is too far ahead of it is so in every run of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from eddyline.connectors.files.listing import DataFile
from eddyline.errors import CheckpointProblem
from eddyline.model.clock import WALL
from eddyline.runtime.sharded.ingest.control import asked_to_stop, forget_control, next_control, read_control
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.ingest.packet import PACKET, PIECE_ROWS
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout, parsing_folder
from eddyline.runtime.sharded.job.shipped import Shipped
from eddyline.runtime.spark.job.failure import reported
from eddyline.state.sealed import RESTORE

if TYPE_CHECKING:
    from eddyline.runtime.sharded.ingest.packer import Packer

#: A task costs tens of milliseconds before it reads: a second one must have something to read.
_TASK_BYTES = 1 << 20
#: Batches of a bounded run, with nothing but control records, at most: what a batch asks for is carried out by the one
#: after it.
_CONTROL_BATCHES = 2
#: Pieces of one file are numbered below this.
PIECES_PER_FILE = 1 << 24

_SPARK = {
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.bool_(): BooleanType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
}


@dataclass
class Work(InputPartition):
    """What one task reads: files of any streams, in order; and, for one task of a batch, ends and control records."""

    #: (stream, file number, name, path, is the stream's last)
    files: list[tuple[str, int, str, str, bool]]
    ends: list[tuple[str, int]]
    control: list[int]
    closing: bool
    #: The wall clock when the batch was planned, in microseconds.
    at: int = 0


class PacketSource(DataSource):
    """`spark.readStream.format("eddyline")`, with the layout in its options."""

    #: What rows are placed by may call functions of one's own.
    functions = Shipped()

    @classmethod
    def name(cls) -> str:
        return "eddyline"

    def schema(self) -> Any:
        return spark_schema(PACKET)

    def streamReader(self, schema: Any) -> PacketReader:
        packed = PackedLayout(self.options["digest"], self.options["layout"], self.functions)
        return PacketReader(packed, int(self.options["tasks"]), self.options["once"] == "true")


def source_with(functions: Shipped) -> type[PacketSource]:
    """The source of a job that has functions of its own: a class that Spark carries whole, and its functions with
    it."""
    return type("PacketSource", (PacketSource,), {"functions": functions}) if functions.functions else PacketSource


class PacketReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, packed: PackedLayout, tasks: int, once: bool):
        self.packed = packed
        self.tasks = tasks
        self.once = once
        self._logs: dict[str, FileLog] | None = None
        self._checked = False
        #: Of a bounded run: the places in the control records from which batches with nothing else began.
        self._only_control: set[int] = set()
        #: Up to where the batch before the last one was committed.
        self._committed: dict[str, int] = {}

    def initialOffset(self) -> dict[str, Any]:
        names = list(self.logs)
        return {
            "files": dict.fromkeys(names, 0),
            "open": dict.fromkeys(names, True),
            "control": 0,
            "runs": 0,
            "done": False,
            "at": 0,
        }

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

    def prepareForTriggerAvailableNow(self) -> None:
        """A bounded run reads what is there now."""
        with reported("looking for files"):
            for log in self.logs.values():
                log.look()

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:
        with reported("looking for files"):
            return self._latest(start)

    def _latest(self, start: dict[str, Any]) -> dict[str, Any]:
        last = asked_to_stop(self.packed.open().checkpoint)
        if last is not None:
            return {**start, "control": max(start["control"], last)}
        self._check(start)
        if not self.once:
            for log in self.logs.values():
                log.look(following=True)
        files = {name: log.after(start["files"][name]) for name, log in self.logs.items()}
        fresh = {name: files[name] > start["files"][name] for name in files}
        out = {name: self.once and files[name] == log.total for name, log in self.logs.items()}
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
            "files": files,
            "open": still_open,
            "control": control,
            "runs": start["runs"] + int(ends),
            "done": done or ends,
            "at": start.get("at", 0),
        }
        # Another instant alone is nothing new: it would be a batch.
        return found if found == {"at": 0, **start} else {**found, "at": WALL.instant()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Work]:
        if start == end:
            return []
        with reported("planning a batch"):
            self._check(end)
            taken = sum(log.bytes_between(start["files"][name], end["files"][name]) for name, log in self.logs.items())
            work = [Work([], [], [], False) for _ in range(min(max(self.tasks, 1), 1 + taken // _TASK_BYTES))]
            load = [0] * len(work)
            ends: list[tuple[str, int]] = []
            for name, log in self.logs.items():
                first, last = start["files"][name], end["files"][name]
                closes = not end["open"][name] and (start["open"][name] or last > first)
                for number in range(first, last):
                    # Whole files to the task with the least to read: a stream's order is put right by the shards.
                    lightest = load.index(min(load))
                    file = log.file(number)
                    load[lightest] += file.size + 1
                    work[lightest].files.append((name, number, file.name, file.path, closes and number == last - 1))
                if closes and last == first:
                    ends.append((name, last))
            work[0].ends = ends
            work[0].control = list(range(start["control"], end["control"]))
            work[0].closing = end["runs"] > start["runs"]
            for one in work:
                one.at = end.get("at", 0)
            return [w for w in work if w.files or w.ends or w.control or w.closing]

    def read(self, work: Work) -> Iterator[pa.RecordBatch]:
        with reported("the layout of the job"):
            layout = self.packed.open()
            packer = packer_of(self.packed)
        for number in work.control:
            with reported("control records"):
                record = read_control(layout.checkpoint, number)
            yield packer.control(record, number)
        if work.closing:
            yield packer.control(json.dumps({"closing": True}).encode(), 1 << 62)
        for name, number in work.ends:
            yield packer.pack(name, _nothing(layout, name), None, number * PIECES_PER_FILE, True)
        for name, number, file, path, last in work.files:
            with reported(f"stream {name}, file {file}"):
                yield from _pieces(layout, packer, name, number, DataFile(file, path), last, work.at)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has committed up to here: no batch reads the control records, nor the files before the last one,
        again."""
        with reported("control records that are not needed any more"):
            forget_control(self.packed.open().checkpoint, end["control"])
            for name, count in self._committed.items():
                self.logs[name].forget(count)
            self._committed = end["files"]

    def _check(self, offset: dict[str, Any]) -> None:
        """The first offset that Spark names comes from an earlier process: the logs must have what it counts."""
        if self._checked:
            return
        self._checked = True
        for name, count in offset["files"].items():
            if count > self.logs[name].recovered:
                raise CheckpointProblem(
                    f"the list of files of stream {name} is shorter than the checkpoint says",
                    detail=f"it has {self.logs[name].recovered} files, and {count} have been taken",
                    hint=RESTORE,
                )


_PACKERS: dict[str, Packer] = {}


def packer_of(packed: PackedLayout) -> Packer:
    """This worker's packer for the layout of the batch at hand: compiling keys costs, and tasks are many."""
    # Not at the top: the process that plans batches packs nothing, and expressions take a second to load.
    from eddyline.runtime.sharded.ingest.packer import Packer

    packed = packed.at(batch_id())
    if packed.digest not in _PACKERS:
        _PACKERS.clear()
        _PACKERS[packed.digest] = Packer(packed.open())
    return _PACKERS[packed.digest]


def _nothing(layout: JobLayout, name: str) -> pa.Table:
    return layout.streams[layout.numbers[name]].schema.arrow.empty_table()


def _pieces(
    layout: JobLayout, packer: Packer, name: str, number: int, file: DataFile, last: bool, at: int
) -> Iterator[pa.RecordBatch]:
    """A file in pieces of bounded size; every file gives at least one, so that its tick is never missing."""
    # Not at the top, for the same reason as the packer.
    from eddyline.connectors.files.files import read_chunks
    from eddyline.connectors.future_rows import limit_at, within
    from eddyline.connectors.guarded.parsing_marks import shared_marks

    stream = layout.streams[layout.numbers[name]]
    limit = limit_at(stream, at)
    marks = shared_marks(parsing_folder(layout.checkpoint)).of(file.path)
    place, first_row = number * PIECES_PER_FILE, 0
    waiting: list[pa.Table] = []
    bad: list[pa.Table] = []
    size = 0

    def piece(closed: bool) -> pa.RecordBatch:
        rows = pa.concat_tables(waiting) if waiting else _nothing(layout, name)
        return packer.pack(name, rows, pa.concat_tables(bad) if bad else None, place, closed, first_row)

    for chunk in (within(chunk, stream, limit) for chunk in read_chunks(stream, file, marks=marks)):
        if size and size + chunk.rows.num_rows > PIECE_ROWS:
            yield piece(False)
            place, first_row, size = place + 1, first_row + size, 0
            waiting, bad = [], []
        if chunk.rows.num_rows:
            waiting.append(chunk.rows)
            size += chunk.rows.num_rows
        if chunk.bad is not None:
            bad.append(chunk.bad)
    yield piece(last)


def spark_schema(schema: pa.Schema) -> StructType:
    return StructType([StructField(field.name, _SPARK[field.type], True) for field in schema])


def batch_id() -> int:
    """The micro-batch that this task works for; -1 outside of one."""
    context = TaskContext.get()
    found = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return int(found) if found is not None else -1
