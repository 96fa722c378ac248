"""Folders of result files: one file after the other, complete or not there at all.

Answer   `FileSink` collects results and writes them as `<newest epoch, 12 digits>-<part, 4 digits>.<suffix>`, in a
         thread of its own, under a hidden name first. Names in order are results in order; a query without results
         leaves one file with its schema and no rows. An epoch with more results than a file may have becomes several:
         they are written while the epoch runs, and get their names together when it has ended.
State    Results since the last file. A sink without an outbox closes a file at every checkpoint, so that later files
         can be removed by name. A sink that gathers has an outbox: the checkpoint keeps what is in no file.
Limits   Safe when the process dies; no fsync, so the machine's last seconds may be lost when the power goes.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from eddyline.connectors.formats.encoders import Encoder
from eddyline.connectors.results.journal import Piece
from eddyline.errors import UserError
from eddyline.tuning import OutputTuning

if TYPE_CHECKING:
    from eddyline.connectors.results.outbox import Outbox

_NAME = re.compile(r"(\d{12})-(\d{4,})\.[a-z]+$")


class Writer:
    """The one thread that writes files, in the order in which they were handed over."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="eddyline-writer")
        self._lock = threading.Lock()
        self._under_way: deque[tuple[Future[None], int]] = deque()
        #: Bytes that sinks have collected and not yet handed over.
        self.collected = 0

    def submit(self, work: Callable[[], None], size: int, most: int) -> Future[None]:
        """Hand work over; where more than `most` bytes are under way, this call waits."""
        future = self._pool.submit(work)
        with self._lock:
            self._under_way.append((future, size))
            while sum(s for _, s in self._under_way) > most or self._under_way[0][0].done():
                oldest, _ = self._under_way.popleft()
                oldest.exception()  # waits; the sink that owns it raises what it finds
                if not self._under_way:
                    break
        return future

    def settle(self) -> None:
        """Wait until everything that was handed over so far is written, or has failed."""
        self._pool.submit(lambda: None).result()

    def count(self, difference: int) -> None:
        with self._lock:
            self.collected += difference


@cache
def shared_writer() -> Writer:
    return Writer()


class FileSink:
    """Results of one query in one folder."""

    def __init__(self, folder: str, encoder: Encoder, writer: Writer | None = None, tuning: OutputTuning | None = None):
        self.folder = folder
        self._tuning = tuning or OutputTuning()
        #: What the outbox knows the sink by.
        self.key = folder
        self._encoder = encoder
        self._writer = writer or shared_writer()
        self._outbox: Outbox | None = None
        self._schema: pa.Schema | None = None
        #: Rows that are in no file, in order.
        self._tables: list[_Held] = []
        self._size = _Size()
        #: The part of it that came with the newest epoch, and that the journal does not have.
        self._newest = -1
        self._newest_size = _Size()
        self._new_bytes = 0
        #: Tables of epochs up to this one are in the journal.
        self._journaled = -1
        #: An epoch of which a part is in a file: the rest follows when it ends. None: there is none.
        self._split: int | None = None
        #: The files of that epoch, each under its hidden name and with the one that it gets.
        self._unnamed: list[tuple[str, str]] = []
        #: Epoch and part of the file named last.
        self._epoch, self._part = -1, -1
        self._futures: deque[Future[None]] = deque()
        #: Why a file could not be written. Its rows are in no file: from then on every call that hands over or waits
        #: raises it.
        self._failed: BaseException | None = None
        #: The file without rows that an earlier run left, if it did.
        self._placeholder: str | None = None

    def gather(self, outbox: Outbox, key: str) -> None:
        """From now on the outbox says when a file is closed; before `open`."""
        self._outbox, self.key = outbox, key
        self._tuning = outbox.tuning

    def open(self, schema: pa.Schema) -> None:
        if self._schema is None:
            _make_folder(self.folder)
            for name in os.listdir(self.folder):
                if name.startswith(".") and name.endswith(".tmp"):
                    os.remove(os.path.join(self.folder, name))
            files = self._files()
            if files:
                self._epoch, self._part = files[-1][0], files[-1][1]
            if len(files) == 1 and self._encoder.is_empty(files[0][2]):
                self._placeholder = files[0][2]
            if self._outbox is not None:
                self._outbox.joined(self)
        elif self._outbox is None:
            self._hand_over(self._tables)
        self._schema = schema

    def write(self, epoch: int, table: pa.Table) -> None:
        assert self._schema is not None, "open comes before write"
        if table.num_rows == 0:
            return
        if epoch != self._newest:
            self._name()
            if self._size.is_large(self._tuning):
                self._hand_over(self._tables)
            self._newest_size = _Size()
        self._new_bytes += self._collect(epoch, table)
        if self._newest_size.is_large(self._tuning) or self._writer.collected >= self._tuning.collected_bytes:
            self.close_up_to(epoch - 1)
            self._split = epoch
            self._hand_over(self._tables)

    def _collect(self, epoch: int, table: pa.Table) -> int:
        """Keep a table; its bytes."""
        held = _Held(epoch, table, table.nbytes)
        self._tables.append(held)
        self._newest = epoch
        self._size.add(held)
        self._newest_size.add(held)
        self._writer.count(held.bytes)
        if self._outbox is not None:
            self._outbox.waits(self)
        return held.bytes

    def flush(self, epoch: int) -> None:
        """Everything becomes a file; of sinks that gather, the outbox takes care."""
        if self._outbox is None:
            self._hand_over(self._tables)
            self._name()
            self.settle()

    def truncate_after(self, epoch: int) -> None:
        self._forget(self._tables)
        self.settle()
        for hidden, _ in self._unnamed:
            os.remove(hidden)
        self._unnamed, self._split = [], None
        for number, _, path in self._files():
            if number > epoch:
                os.remove(path)
        left = self._files()
        self._epoch, self._part = (left[-1][0], left[-1][1]) if left else (-1, -1)

    def close(self) -> None:
        if self._schema is None:
            return
        self._hand_over(self._tables)
        self._name()
        self.settle()
        if not self._files():
            path = os.path.join(self.folder, f"{0:012d}-{0:04d}{self._encoder.suffix}")
            _write_whole(self._encoder, self._schema.empty_table(), path)
        self._schema = None
        if self._outbox is not None:
            self._outbox.left(self)

    def last_time(self) -> int | None:
        """The `_ts` of the newest row, of this run or an earlier one, in microseconds; None: there is none."""
        if self._tables:
            newest = self._tables[-1].table.column("_ts").cast(pa.int64())
            return int(newest[len(newest) - 1].as_py())
        self.settle()
        files = [path for _, _, path in self._files() if not self._encoder.is_empty(path)]
        return self._encoder.last_time(files[-1]) if files else None

    # -- what the outbox asks for

    @property
    def waiting(self) -> bool:
        """Whether there are rows that are in no file that has its name."""
        return bool(self._tables or self._unnamed)

    @property
    def new_bytes(self) -> int:
        """Of the rows that are neither in a file nor in the journal."""
        return self._new_bytes

    def new_pieces(self) -> list[Piece]:
        folder = os.path.abspath(self.folder)
        new = [held for held in self._tables if held.epoch > self._journaled]
        return [Piece(self.key, folder, self._encoder.suffix, held.epoch, held.table) for held in new]

    def journaled(self) -> None:
        """The journal has all rows that are here."""
        self._journaled, self._new_bytes = self._newest, 0

    def restore(self, epoch: int, table: pa.Table) -> None:
        """Rows that the journal has."""
        self._collect(epoch, table)
        self._journaled = epoch

    def end_epoch(self, epoch: int) -> None:
        """All rows of an epoch are here: they are in files, all of them, or none is."""
        if self._split is not None and self._split <= epoch:
            self._hand_over([held for held in self._tables if held.epoch <= epoch])
            self._name()

    def close_up_to(self, epoch: int) -> None:
        """Rows up to an epoch, which has ended, become a file."""
        self._hand_over([held for held in self._tables if held.epoch <= epoch])
        if self._split is not None and self._split <= epoch:
            self._name()

    def is_written(self) -> bool:
        """Whether everything that was handed over is written; what went wrong is raised."""
        self._settle(wait=False)
        return not self._futures

    def settle(self) -> None:
        """Return when everything that was handed over is written."""
        self._settle(wait=True)

    # -- files

    def _hand_over(self, closing: list[_Held]) -> None:
        """These tables, the oldest ones, become a file, written by the other thread."""
        self._settle(wait=False)
        if not closing:
            return
        assert self._schema is not None
        epoch = closing[-1].epoch
        self._part = self._part + 1 if epoch == self._epoch else 0
        self._epoch = epoch
        path = os.path.join(self.folder, f"{epoch:012d}-{self._part:04d}{self._encoder.suffix}")
        schema, encoder = self._schema, self._encoder
        hidden = _hidden(path)
        self._unnamed.append((hidden, path))

        def work() -> None:
            encoder.encode(pa.concat_tables([_conformed(held.table, schema) for held in closing]), hidden)

        size = self._forget(closing)
        self._futures.append(self._writer.submit(work, size, self._tuning.under_way_bytes))
        if self._split != epoch:
            self._name()

    def _name(self) -> None:
        """The files that were written under hidden names are complete: a listing has them from now on."""
        unnamed, placeholder = self._unnamed, self._placeholder
        self._split, self._unnamed = None, []
        if not unnamed:
            return
        self._placeholder = None
        paths = [path for _, path in unnamed]

        def work() -> None:
            for hidden, path in unnamed:
                os.replace(hidden, path)
            if placeholder is not None and placeholder not in paths and os.path.exists(placeholder):
                os.remove(placeholder)

        self._futures.append(self._writer.submit(work, 0, self._tuning.under_way_bytes))
        if self._outbox is not None:
            self._outbox.closed(self, self._epoch)

    def _forget(self, closing: list[_Held]) -> int:
        """The oldest tables are no longer here; their bytes."""
        size = sum(held.bytes for held in closing)
        self._writer.count(-size)
        self._tables = self._tables[len(closing) :]
        self._size = _Size()
        for held in self._tables:
            self._size.add(held)
        self._new_bytes = sum(held.bytes for held in self._tables if held.epoch > self._journaled)
        if not self._tables:
            self._newest_size = _Size()
        return size

    def _settle(self, wait: bool) -> None:
        """Raise what went wrong in the writing thread; with `wait`, after everything is written."""
        while self._failed is None and self._futures and (wait or self._futures[0].done()):
            problem = self._futures.popleft().exception()
            if isinstance(problem, OSError):
                hint = "check space and permissions; with --checkpoint the same command continues afterwards"
                self._failed = UserError(f"results cannot be written to {self.folder}", detail=str(problem), hint=hint)
                raise self._failed from problem
            self._failed = problem
        if self._failed is not None:
            raise self._failed

    def _files(self) -> list[tuple[int, int, str]]:
        return result_files(self.folder, self._encoder.suffix)


class _Held(NamedTuple):
    epoch: int
    table: pa.Table
    bytes: int


class _Size:
    """How much has been collected."""

    def __init__(self) -> None:
        self.rows = 0
        self.bytes = 0

    def add(self, held: _Held) -> None:
        self.rows += held.table.num_rows
        self.bytes += held.bytes

    def is_large(self, tuning: OutputTuning) -> bool:
        return self.rows >= tuning.file_rows or self.bytes >= tuning.file_bytes


def last_epoch(folder: str, encoder: Encoder) -> int:
    """The epoch of the newest file with results in a folder; -1: there is none."""
    files = result_files(folder, encoder.suffix)
    if not files or (len(files) == 1 and encoder.is_empty(files[0][2])):
        return -1
    return files[-1][0]


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with the columns of its sink; a sink FOR ALL may have got further ones since."""
    if table.schema.equals(schema):
        return table
    known = set(table.column_names)
    columns = [
        table.column(f.name).cast(f.type) if f.name in known else pa.nulls(table.num_rows, f.type) for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def result_files(folder: str, suffix: str = ".parquet") -> list[tuple[int, int, str]]:
    """Epoch, part and path of the result files that are in a folder, in order."""
    if not os.path.isdir(folder):
        return []
    found = [(m, name) for name in os.listdir(folder) if (m := _NAME.match(name)) and name.endswith(suffix)]
    return sorted((int(m[1]), int(m[2]), os.path.join(folder, name)) for m, name in found)


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as problem:
        raise UserError(
            f"the folder {folder} cannot be made", detail=str(problem), hint="check the path and permissions"
        ) from problem


def _write_whole(encoder: Encoder, table: pa.Table, path: str) -> None:
    """Under a hidden name first: a listing of the folder has complete files only."""
    encoder.encode(table, _hidden(path))
    os.replace(_hidden(path), path)


def _hidden(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.tmp")
