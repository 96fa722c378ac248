"""Folders of result files: each file is complete, or not there at all.

Answer   `FileSink` collects results and writes them as `<newest epoch, 12 digits>-<part, 4 digits>.<suffix>`. A thread
         writes each file under a hidden name first. The order of the names is the order of the results; a query without
         results leaves one file with its schema and no rows. An epoch with more results than a file may have becomes
         several files: the thread writes them while the epoch runs, and renames them together at its end. Files that
         shards have written for an epoch (`adopt`) get their names in the same way.
State    Results since the last file. A sink without an outbox closes a file at every checkpoint, so that later files can
         be removed by name. A sink with an outbox gathers: the checkpoint keeps the rows that are in no file.
Limits   A process that dies loses no file that has its name. There is no fsync: a power cut may lose the files of the
         last seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from eddyline.connectors.formats.encoders import Encoder
from eddyline.connectors.results.journal import Piece
from eddyline.connectors.results.landing import FileTarget, named_places, names_of, remove_landings
from eddyline.errors import UserError
from eddyline.state.whole_file import make_folder, sync_folder
from eddyline.tuning import OutputTuning

if TYPE_CHECKING:
    from eddyline.connectors.results.outbox import Outbox

_HIDDEN = ".tmp"
_NAME = re.compile(r"(\d{12})-(\d{4,})\.[a-z]+$")
NO_COLUMNS: Mapping[str, pa.Array] = MappingProxyType({})


class Writer:
    """The one thread that writes files, in the order in which they were handed over."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="eddyline-writer")
        self._lock = threading.Lock()
        self._under_way: deque[tuple[Future[None], int]] = deque()
        #: Bytes that sinks have collected and not yet handed over.
        self.collected = 0

    def submit(self, work: Callable[[], None], size: int, most: int) -> Future[None]:
        """Queue work for the thread; if more than `most` bytes are under way, this call waits until fewer are."""
        future = self._pool.submit(work)
        with self._lock:
            self._under_way.append((future, size))
            while sum(s for _, s in self._under_way) > most or self._under_way[0][0].done():
                oldest, _ = self._under_way.popleft()
                oldest.exception()  # waits; the sink that queued the work raises its error
                if not self._under_way:
                    break
        return future

    def wait(self) -> None:
        """Wait until all work that is queued now is done, or has failed."""
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
        #: The name of the sink in the outbox.
        self.key = folder
        self._encoder = encoder
        #: Where files of this sink go, those of shards too, and their form.
        self.target = FileTarget(os.path.abspath(folder), encoder.suffix)
        self._writer = writer or shared_writer()
        self._outbox: Outbox | None = None
        self._schema: pa.Schema | None = None
        #: Results that are in no file, in order.
        self._tables: list[_Held] = []
        self._size = _Size()
        #: The newest epoch, and the size of its results.
        self._newest = -1
        self._newest_size = _Size()
        #: Bytes of the results that are neither in a file nor in the journal.
        self._new_bytes = 0
        #: Results of epochs up to this one are in the journal.
        self._journaled = -1
        #: An epoch of which a part is in a file: the rest follows when the epoch ends. None: there is none.
        self._split: int | None = None
        #: Files that have their hidden name still.
        self._unnamed: list[_Unnamed] = []
        #: Epoch and part of the file named last.
        self._epoch, self._part = -1, -1
        self._futures: deque[Future[None]] = deque()
        #: The error of a file that could not be written. Its rows are in no file: from then on every call that queues a
        #: file or waits raises the error.
        self._failed: BaseException | None = None
        #: The file without rows that an earlier run has left.
        self._placeholder: str | None = None
        #: Result files that `truncate_after` leaves: they were adopted before, and will be again.
        self._spared: Collection[str] = ()

    def gather(self, outbox: Outbox, key: str) -> None:
        """From now on the outbox decides when a file is closed. Called before `open`."""
        self._outbox, self.key = outbox, key
        self._tuning = outbox.tuning

    def open(self, schema: pa.Schema) -> None:
        if self._schema is None:
            _make_folder(self.folder)
            for name in os.listdir(self.folder):
                if name.startswith(".") and name.endswith(_HIDDEN):
                    os.remove(os.path.join(self.folder, name))
            files = self._files()
            if files:
                self._epoch, self._part = files[-1][:2]
            if len(files) == 1 and self._encoder.is_empty(files[0][2]):
                self._placeholder = files[0][2]
            if self._outbox is not None:
                self._outbox.joined(self)
        elif self._outbox is None:
            self._queue_file(self._tables)
        self._schema = schema

    def write(self, epoch: int, table: pa.Table) -> None:
        assert self._schema is not None, "open comes before write"
        if table.num_rows == 0:
            return
        if epoch != self._newest:
            self._name_files()
            if self._size.is_large(self._tuning):
                self._queue_file(self._tables)
            self._newest_size = _Size()
        self._new_bytes += self._collect(epoch, table)
        if self._newest_size.is_large(self._tuning) or self._writer.collected >= self._tuning.collected_bytes:
            self.close_up_to(epoch - 1)
            self._split = epoch
            self._queue_file(self._tables)

    def _collect(self, epoch: int, table: pa.Table) -> int:
        """Keep a table until it is in a file; returns its bytes."""
        held = _Held(epoch, table, table.nbytes)
        self._tables.append(held)
        self._newest = epoch
        self._size.add(held)
        self._newest_size.add(held)
        self._writer.count(held.bytes)
        if self._outbox is not None:
            self._outbox.waits(self)
        return held.bytes

    def spare(self, epoch: int, landed: Sequence[str]) -> None:
        """Before `truncate_after`: an epoch comes again whose files may have got their names already."""
        named = zip(landed, self._names(epoch, len(landed)), strict=True)
        self._spared = {path for hidden, path in named if not os.path.exists(hidden)}

    def adopt(self, epoch: int, landed: Sequence[str]) -> None:
        """Take all results of an epoch as files that have landed: they get their names together when it ends. Nothing
        else is written for the epoch."""
        assert self._schema is not None, "open comes before adopt"
        remove_landings(self.folder, epoch)
        self.close_up_to(epoch - 1)
        for hidden, path in zip(landed, self._names(epoch, len(landed)), strict=True):
            renames = names_of(hidden, path)
            if not renames and not os.path.exists(path):
                raise UserError(
                    f"results of batch {epoch} are missing in {self.folder}",
                    detail=f"{hidden} is not there",
                    hint="the driver and all workers must see this folder under the same path",
                )
            if any(name == named_places(path) for _, name in renames):
                make_folder(os.path.dirname(named_places(path)), private=False)
            self._unnamed += [_Unnamed(*names, landed=True) for names in renames]
        self._epoch, self._part = epoch, len(landed) - 1
        self._newest = self._split = epoch
        if self._outbox is not None and self._unnamed:
            self._outbox.waits(self)

    def _names(self, epoch: int, files: int) -> list[str]:
        """The names of the first files of an epoch."""
        return [self.target.named(epoch, part) for part in range(files)]

    def flush(self, epoch: int) -> None:
        """Write all results as a file; for a sink that gathers, the outbox does this."""
        if self._outbox is None:
            self._write_all()

    def _write_all(self) -> None:
        self._queue_file(self._tables)
        self._name_files()
        self.check_writes(wait=True)

    def truncate_after(self, epoch: int) -> None:
        self._forget(self._tables)
        self.check_writes(wait=True)
        for file in self._unnamed:
            if not file.landed:
                os.remove(file.hidden)
        self._unnamed, self._split = [], None
        for number, _, path in self._files():
            if number > epoch and path not in self._spared:
                os.remove(path)
                with contextlib.suppress(FileNotFoundError):
                    os.remove(named_places(path))
        left = self._files()
        self._epoch, self._part = left[-1][:2] if left else (-1, -1)

    def close(self) -> None:
        if self._schema is None:
            return
        self._write_all()
        if not self._files():
            path = self.target.named(0, 0)
            _write_whole(self._encoder, self._schema.empty_table(), path)
        self._schema = None
        remove_landings(self.folder)
        if self._outbox is not None:
            self._outbox.left(self)

    def last_time(self) -> int | None:
        """The `_ts` of the newest row, of this run or an earlier one, in microseconds; None: there is none."""
        if self._tables:
            return newest_time(self._tables[-1].table)
        self.check_writes(wait=True)
        files = [path for _, _, path in self._files() if not self._encoder.is_empty(path)]
        return self._encoder.last_time(files[-1]) if files else None

    # -- called by the outbox

    @property
    def waiting(self) -> bool:
        """Whether a row is in no file, or in one that has its hidden name still."""
        return bool(self._tables or self._unnamed)

    @property
    def new_bytes(self) -> int:
        """Bytes of the rows that are neither in a file nor in the journal."""
        return self._new_bytes

    def new_pieces(self) -> list[Piece]:
        new = [held for held in self._tables if held.epoch > self._journaled]
        return [Piece(self.key, self.target.folder, self.target.suffix, held.epoch, held.table) for held in new]

    def journaled(self) -> None:
        """The journal has all rows of this sink."""
        self._journaled, self._new_bytes = self._newest, 0

    def restore(self, epoch: int, table: pa.Table) -> None:
        """Collect rows that the journal has."""
        self._collect(epoch, table)
        self._journaled = epoch

    def end_epoch(self, epoch: int) -> None:
        """An epoch has ended: if a part of its rows is in a file, write the rest, and give its files their names."""
        if self._split is not None and self._split <= epoch:
            self.close_up_to(epoch)

    def close_up_to(self, epoch: int) -> None:
        """Write the rows up to an epoch, which has ended, as a file."""
        self._queue_file([held for held in self._tables if held.epoch <= epoch])
        if self._split is not None and self._split <= epoch:
            self._name_files()

    def is_written(self) -> bool:
        """Whether all queued files are written; raises the error of one that failed."""
        self.check_writes(wait=False)
        return not self._futures

    # -- files

    def _queue_file(self, closing: list[_Held]) -> None:
        """Let the thread write these tables, the oldest ones, as a file."""
        self.check_writes(wait=False)
        if not closing:
            return
        assert self._schema is not None
        epoch = closing[-1].epoch
        self._part = self._part + 1 if epoch == self._epoch else 0
        self._epoch = epoch
        path = self.target.named(epoch, self._part)
        schema, encoder = self._schema, self._encoder
        hidden = _hidden(path)
        self._unnamed.append(_Unnamed(hidden, path))

        def work() -> None:
            # A sink FOR ALL may have got further columns since these tables came.
            encoder.encode(pa.concat_tables([arranged(held.table, schema) for held in closing]), hidden)

        size = self._forget(closing)
        self._futures.append(self._writer.submit(work, size, self._tuning.under_way_bytes))
        if self._split != epoch:
            self._name_files()

    def _name_files(self) -> None:
        """Let the thread rename the hidden files: readers of the folder find them from then on."""
        unnamed, placeholder = self._unnamed, self._placeholder
        self._split, self._unnamed = None, []
        if not unnamed:
            return
        self._placeholder = None
        paths, writing = [file.path for file in unnamed], list(self._futures)

        def work() -> None:
            for written in writing:
                written.result()  # a file that could not be written whole gets no name
            # The first file of an epoch comes last: who finds it finds them all.
            for file in reversed(unnamed):
                os.replace(file.hidden, file.path)
            if any(file.landed for file in unnamed):
                # The landing, which is synced, goes with the next batch.
                sync_folder(self.target.folder)
            if placeholder is not None and placeholder not in paths and os.path.exists(placeholder):
                os.remove(placeholder)

        self._futures.append(self._writer.submit(work, 0, self._tuning.under_way_bytes))
        if self._outbox is not None:
            self._outbox.closed(self, self._epoch)

    def _forget(self, closing: list[_Held]) -> int:
        """Remove the oldest tables, which are `closing`; returns their bytes."""
        size = sum(held.bytes for held in closing)
        self._writer.count(-size)
        self._tables = self._tables[len(closing) :]
        self._size = _Size(self._tables)
        self._new_bytes = sum(held.bytes for held in self._tables if held.epoch > self._journaled)
        if not self._tables:
            self._newest_size = _Size()
        return size

    def check_writes(self, wait: bool) -> None:
        """Raise the error of a file that the thread could not write; with `wait`, when all queued files are done."""
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
        return result_files(self.target.folder, self.target.suffix)


class _Unnamed(NamedTuple):
    """A file that has its hidden name still."""

    hidden: str
    path: str
    #: A shard has written it, or its places.
    landed: bool = False


class _Held(NamedTuple):
    epoch: int
    table: pa.Table
    bytes: int


class _Size:
    """Rows and bytes of collected tables."""

    def __init__(self, tables: Iterable[_Held] = ()) -> None:
        self.rows = self.bytes = 0
        for held in tables:
            self.add(held)

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


def arranged(table: pa.Table, schema: pa.Schema, given: Mapping[str, pa.Array] = NO_COLUMNS) -> pa.Table:
    """A table with the columns of a schema, from `given` or from the table; columns in neither are null."""
    known = {**dict(zip(table.column_names, table.columns, strict=True)), **given}
    columns = [known[f.name].cast(f.type) if f.name in known else pa.nulls(table.num_rows, f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def newest_time(table: pa.Table) -> int:
    """The `_ts` of the last row, in microseconds."""
    times = table.column("_ts").cast(pa.int64())
    return int(times[len(times) - 1].as_py())


def result_files(folder: str, suffix: str = ".parquet") -> list[tuple[int, int, str]]:
    """Epoch, part and path of the result files of a folder, in order."""
    if not os.path.isdir(folder):
        return []
    found = [(m, name) for name in os.listdir(folder) if (m := _NAME.match(name)) and name.endswith(suffix)]
    return sorted((int(m[1]), int(m[2]), os.path.join(folder, name)) for m, name in found)


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as problem:
        hint = "check the path and permissions"
        raise UserError(f"the folder {folder} cannot be made", detail=str(problem), hint=hint) from problem


def _write_whole(encoder: Encoder, table: pa.Table, path: str) -> None:
    """Write a file under a hidden name, then rename it: readers of the folder find complete files only."""
    encoder.encode(table, _hidden(path))
    os.replace(_hidden(path), path)


def _hidden(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{_HIDDEN}")
