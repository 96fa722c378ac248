"""Folders of result files: one file after the other, complete or not there at all.

Answer   `FileSink` collects results and writes them as `<epoch, 12 digits>-<part, 4 digits>.<suffix>`, in a thread of its
         own, under a hidden name first. Names in order are results in order; a query without results leaves one file with
         its schema and no rows.
State    Results since the last file. A file never holds results from both sides of a checkpoint, so that those after it
         can be removed by name.
Limits   Safe when the process dies; no fsync, so the machine's last seconds may be lost when the power goes.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import pyarrow as pa

from eddyline.connectors.encoders import Encoder
from eddyline.errors import UserError

#: A file is written when this much has been collected.
FILE_ROWS = 1_000_000
FILE_BYTES = 32 << 20
#: All sinks together hold at most about this much: then the next one to be written to makes a smaller file.
COLLECTED_BYTES = 256 << 20
#: Files under way in the writing thread; more than this and `write` waits.
UNDER_WAY_BYTES = 128 << 20

_NAME = re.compile(r"(\d{12})-(\d{4,})\.[a-z]+$")


def prepare_output(path: str, overwrite: bool, has_checkpoint: bool) -> None:
    """Make the folder for results; refuse one that is in use, unless it is to be continued or replaced."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise UserError(f"{path} is a file", hint="results go into a folder")
    if os.path.isdir(path) and os.listdir(path) and not has_checkpoint:
        if not overwrite:
            raise UserError(
                f"{path} is not empty",
                detail=f"it holds {', '.join(sorted(os.listdir(path))[:5])}",
                hint="--overwrite replaces what is there; --checkpoint DIR continues an earlier run",
            )
        for name in os.listdir(path):
            inside = os.path.join(path, name)
            if os.path.isdir(inside) and not os.path.islink(inside):
                shutil.rmtree(inside)
            else:
                os.remove(inside)
    os.makedirs(path, exist_ok=True)


class Writer:
    """The one thread that writes files, in the order in which they were handed over."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="eddyline-writer")
        self._lock = threading.Lock()
        self._under_way: deque[tuple[Future[None], int]] = deque()
        #: Bytes that sinks have collected and not yet handed over.
        self.collected = 0

    def submit(self, work: Callable[[], None], size: int) -> Future[None]:
        future = self._pool.submit(work)
        with self._lock:
            self._under_way.append((future, size))
            while sum(s for _, s in self._under_way) > UNDER_WAY_BYTES or self._under_way[0][0].done():
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

    def __init__(self, folder: str, encoder: Encoder, writer: Writer | None = None):
        self.folder = folder
        self._encoder = encoder
        self._writer = writer or shared_writer()
        self._schema: pa.Schema | None = None
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0
        #: Epoch of the newest collected result.
        self._newest = 0
        #: Epoch and part of the file named last.
        self._epoch, self._part = -1, -1
        self._futures: deque[Future[None]] = deque()
        #: The file without rows that an earlier run left, if it did.
        self._placeholder: str | None = None

    def open(self, schema: pa.Schema) -> None:
        if self._schema is not None:
            self._hand_over()
        else:
            _make_folder(self.folder)
            for name in os.listdir(self.folder):
                if name.startswith(".") and name.endswith(".tmp"):
                    os.remove(os.path.join(self.folder, name))
            files = self._files()
            if files:
                self._epoch, self._part = files[-1][0], files[-1][1]
            if len(files) == 1 and self._encoder.is_empty(files[0][2]):
                self._placeholder = files[0][2]
        self._schema = schema

    def write(self, epoch: int, table: pa.Table) -> None:
        assert self._schema is not None, "open comes before write"
        if table.num_rows == 0:
            return
        self._tables.append(table)
        self._rows += table.num_rows
        self._newest = epoch
        size = table.nbytes
        self._bytes += size
        self._writer.count(size)
        if self._rows >= FILE_ROWS or self._bytes >= FILE_BYTES or self._writer.collected >= COLLECTED_BYTES:
            self._hand_over()

    def flush(self, epoch: int) -> None:
        self._hand_over()
        self._settle(wait=True)

    def truncate_after(self, epoch: int) -> None:
        self._discard()
        self._settle(wait=True)
        for number, _, path in self._files():
            if number > epoch:
                os.remove(path)
        left = self._files()
        self._epoch, self._part = (left[-1][0], left[-1][1]) if left else (-1, -1)

    def close(self) -> None:
        if self._schema is None:
            return
        self._hand_over()
        self._settle(wait=True)
        if not self._files():
            path = os.path.join(self.folder, f"{0:012d}-{0:04d}{self._encoder.suffix}")
            _write_whole(self._encoder, self._schema.empty_table(), path)
        self._schema = None

    def _hand_over(self) -> None:
        """What is collected becomes a file, written by the other thread."""
        self._settle(wait=False)
        if not self._tables:
            return
        assert self._schema is not None
        epoch = self._newest
        self._part = self._part + 1 if epoch == self._epoch else 0
        self._epoch = epoch
        path = os.path.join(self.folder, f"{epoch:012d}-{self._part:04d}{self._encoder.suffix}")
        tables, schema, placeholder, encoder = self._tables, self._schema, self._placeholder, self._encoder
        if path == placeholder:
            placeholder = None
        self._placeholder = None

        def work() -> None:
            whole = pa.concat_tables(tables)
            _write_whole(encoder, whole if whole.schema.equals(schema) else whole.select(schema.names).cast(schema), path)
            if placeholder is not None and os.path.exists(placeholder):
                os.remove(placeholder)

        size = self._bytes
        self._discard()
        self._futures.append(self._writer.submit(work, size))

    def _discard(self) -> None:
        self._writer.count(-self._bytes)
        self._tables, self._rows, self._bytes = [], 0, 0

    def _settle(self, wait: bool) -> None:
        """Raise what went wrong in the writing thread; with `wait`, after everything is written."""
        while self._futures and (wait or self._futures[0].done()):
            problem = self._futures.popleft().exception()
            if isinstance(problem, OSError):
                message = f"results cannot be written to {self.folder}"
                raise UserError(message, detail=str(problem), hint="check space and permissions") from problem
            if problem is not None:
                raise problem

    def _files(self) -> list[tuple[int, int, str]]:
        return result_files(self.folder, self._encoder.suffix)


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
        raise UserError(f"the folder {folder} cannot be made", detail=str(problem), hint="check the path and permissions") from problem


def _write_whole(encoder: Encoder, table: pa.Table, path: str) -> None:
    """Under a hidden name first: whoever lists the folder sees complete files only."""
    folder, name = os.path.split(path)
    hidden = os.path.join(folder, f".{name}.tmp")
    encoder.encode(table, hidden)
    os.replace(hidden, path)
