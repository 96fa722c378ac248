"""The one source of a job's files and control records: Spark ships names, our connectors read.

Answer   A Python data source whose offset says how many files of each stream, and how many control records, have been
         taken. A task reads its files in order, packs them and hands Spark packets, so rows cross into the JVM once.
         Files come in name order whatever their modification times; an unreadable one is a bad row.
State    `files/<stream>.jsonl` below the checkpoint: every file ever taken, in the order of taking. Offsets count its
         lines, so a file that appears later with an earlier name shifts nothing.
Limits   Names are listed on the driver and must be readable by all workers.

    offset    {"files": {"bids": 3}, "open": {"bids": true}, "control": 0, "runs": 0, "done": false}

`open` turns false in the batch that brings a stream's last file of a bounded run, `runs` counts bounded runs that came to
their end: both are in the offset, so a batch that runs again after a crash ends the same streams.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from eddyline.connectors.listing import DataFile, list_files
from eddyline.errors import CheckpointProblem, SourceProblem
from eddyline.model.schema import Stream
from eddyline.runtime.spark.ingest.control import forget_control, is_asked_to_stop, next_control, read_control
from eddyline.runtime.spark.ingest.packet import PACKET, PIECE_ROWS, spark_schema
from eddyline.runtime.spark.job.failure import reported
from eddyline.runtime.spark.job.layout import Layout, PackedLayout, batch_id
from eddyline.state.sealed import RESTORE

if TYPE_CHECKING:
    from eddyline.runtime.spark.ingest.packer import Packer

#: Without `files_per_batch`, a batch takes files of a stream up to so many bytes together, at least one.
BATCH_BYTES = 64 << 20
#: A task costs tens of milliseconds before it reads: a second one must have something to read.
_TASK_BYTES = 1 << 20
#: Pieces of one file are numbered below this.
PIECES_PER_FILE = 1 << 24


class FileLog:
    """The files of one stream in the order in which they are taken; survives in the checkpoint."""

    def __init__(self, stream: Stream, checkpoint: str):
        self.stream = stream
        self._path = os.path.join(checkpoint, "eddyline", "files", f"{stream.name}.jsonl")
        self.files: list[DataFile] = []
        self.sizes: list[int] = []
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        if os.path.exists(self._path):
            with open(self._path, "rb") as text:
                whole = text.read()
            # A line without its end was being written when the driver died; no offset counts it.
            self._end = whole.rfind(b"\n") + 1
            for line in whole[: self._end].splitlines():
                entry = json.loads(line)
                self.files.append(DataFile(entry["name"], entry["path"]))
                self.sizes.append(entry["bytes"])
        else:
            self._end = 0
        self._known = {f.name for f in self.files}

    def look(self) -> None:
        """Append files that were not there before, in name order."""
        fresh = [f for f in list_files(self.stream.options["path"]) if f.name not in self._known]
        if not fresh:
            return
        with open(self._path, "r+b" if os.path.exists(self._path) else "w+b") as log:
            log.seek(self._end)
            log.truncate()
            for file in fresh:
                size = os.path.getsize(file.path)
                log.write(json.dumps({"name": file.name, "path": file.path, "bytes": size}).encode() + b"\n")
                self.files.append(file)
                self.sizes.append(size)
                self._known.add(file.name)
            log.flush()
            os.fsync(log.fileno())
            self._end = log.tell()

    def after(self, start: int) -> int:
        """How many files have been taken after one more batch."""
        wanted = self.stream.options.get("files_per_batch")
        if wanted is not None:
            return min(start + int(wanted), len(self.files))
        end, total = start, 0
        while end < len(self.files) and (end == start or total + self.sizes[end] <= BATCH_BYTES):
            total += self.sizes[end]
            end += 1
        return end


@dataclass
class Work(InputPartition):
    """What one task reads: files of any streams, in order; and, for one task of a batch, ends and control records."""

    #: (stream, file number, name, path, is the stream's last)
    files: list[tuple[str, int, str, str, bool]]
    ends: list[tuple[str, int]]
    control: list[int]
    closing: bool


class PacketSource(DataSource):
    """`spark.readStream.format("eddyline")`, with the layout in its options."""

    @classmethod
    def name(cls) -> str:
        return "eddyline"

    def schema(self) -> Any:
        return spark_schema(PACKET)

    def streamReader(self, schema: Any) -> PacketReader:
        packed = PackedLayout(self.options["digest"], self.options["layout"])
        return PacketReader(packed, int(self.options["tasks"]), self.options["once"] == "true")


class PacketReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, packed: PackedLayout, tasks: int, once: bool):
        self.packed = packed
        self.tasks = tasks
        self.once = once
        self._logs: dict[str, FileLog] | None = None

    def initialOffset(self) -> dict[str, Any]:
        names = list(self.logs)
        return {"files": dict.fromkeys(names, 0), "open": dict.fromkeys(names, True), "control": 0, "runs": 0, "done": False}

    @property
    def logs(self) -> dict[str, FileLog]:
        if self._logs is None:
            layout = self.packed.open()
            self._logs = {s.name: FileLog(s, layout.checkpoint) for s in layout.streams if "path" in s.options}
        return self._logs

    def prepareForTriggerAvailableNow(self) -> None:
        """A bounded run reads what is there now."""
        for log in self.logs.values():
            log.look()

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:
        if is_asked_to_stop(self.packed.open().checkpoint):
            return start
        if not self.once:
            for log in self.logs.values():
                log.look()
        files = {name: log.after(start["files"][name]) for name, log in self.logs.items()}
        fresh = {name: files[name] > start["files"][name] for name in files}
        out = {name: self.once and files[name] == len(log.files) for name, log in self.logs.items()}
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
        return {
            "files": files,
            "open": still_open,
            "control": control,
            "runs": start["runs"] + int(ends),
            "done": done or ends,
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Work]:
        if start == end:
            return []
        with reported("planning a batch"):
            taken = sum(size for name, log in self.logs.items() for size in log.sizes[start["files"][name] : end["files"][name]])
            work = [Work([], [], [], False) for _ in range(min(max(self.tasks, 1), 1 + taken // _TASK_BYTES))]
            load = [0] * len(work)
            ends: list[tuple[str, int]] = []
            for name, log in self.logs.items():
                first, last = start["files"][name], end["files"][name]
                closes = not end["open"][name] and (start["open"][name] or last > first)
                if last > len(log.files):
                    raise SourceProblem(
                        f"the list of files of stream {name} is shorter than the checkpoint says",
                        hint="the folder eddyline/files of the checkpoint was changed; begin with a new checkpoint",
                    )
                for number in range(first, last):
                    # Whole files to the task with the least to read: a stream's order is put right by the shards.
                    lightest = load.index(min(load))
                    load[lightest] += log.sizes[number] + 1
                    file = log.files[number]
                    work[lightest].files.append((name, number, file.name, file.path, closes and number == last - 1))
                if closes and last == first:
                    ends.append((name, last))
            work[0].ends = ends
            work[0].control = list(range(start["control"], end["control"]))
            work[0].closing = end["runs"] > start["runs"]
            return [w for w in work if w.files or w.ends or w.control or w.closing]

    def read(self, work: Work) -> Iterator[pa.RecordBatch]:
        layout = self.packed.open()
        packer = packer_of(self.packed)
        for number in work.control:
            yield packer.control(read_control(layout.checkpoint, number), number)
        if work.closing:
            yield packer.control(json.dumps({"closing": True}).encode(), 1 << 62)
        for name, number in work.ends:
            yield packer.pack(name, _nothing(layout, name), None, number * PIECES_PER_FILE, True)
        for name, number, file, path, last in work.files:
            with reported(f"stream {name}, file {file}"):
                yield from _pieces(layout, packer, name, number, DataFile(file, path), last)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has committed up to here: no batch reads the control records before it again."""
        forget_control(self.packed.open().checkpoint, end["control"])


_PACKERS: dict[str, Packer] = {}


def packer_of(packed: PackedLayout) -> Packer:
    """This worker's packer for the layout of the batch at hand: compiling keys costs, and tasks are many."""
    # Not at the top: the process that plans batches packs nothing, and expressions take a second to load.
    from eddyline.runtime.spark.ingest.packer import Packer

    packed = packed.at(batch_id())
    if packed.digest not in _PACKERS:
        _PACKERS.clear()
        _PACKERS[packed.digest] = Packer(packed.open())
    return _PACKERS[packed.digest]


def _nothing(layout: Layout, name: str) -> pa.Table:
    return layout.streams[layout.numbers[name]].schema.arrow.empty_table()


def _pieces(layout: Layout, packer: Packer, name: str, number: int, file: DataFile, last: bool) -> Iterator[pa.RecordBatch]:
    """A file in pieces of bounded size; every file gives at least one, so that its tick is never missing."""
    # Not at the top, for the same reason as the packer.
    from eddyline.connectors.files import read_chunks

    stream = layout.streams[layout.numbers[name]]
    place, first_row = number * PIECES_PER_FILE, 0
    waiting: list[pa.Table] = []
    bad: list[pa.Table] = []
    size = 0

    def piece(closed: bool) -> pa.RecordBatch:
        rows = pa.concat_tables(waiting) if waiting else _nothing(layout, name)
        return packer.pack(name, rows, pa.concat_tables(bad) if bad else None, place, closed, first_row)

    for chunk in read_chunks(stream, file):
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
