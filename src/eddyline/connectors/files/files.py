"""Streams and tables from files.

Answer   `open_source` gives the rows of a stream's files in name order, then row order, in chunks of any size. The
         position after each read is exact: a resumed run continues with the very next row. `read_table` reads a static
         table.
State    The files read out (`file_log.py`), and the record that comes next in the current one.
Limits   Every file is read once, also one that appears later with a name before those already read; one that changes
         after it was read is warned of. While following, a file that cannot be opened is tried again until it has not
         changed for a while; then it is one bad row. What is no regular file is a bad row without being opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from eddyline.connectors.base import Chunk, Position, Source
from eddyline.connectors.files.ahead import read_ahead
from eddyline.connectors.files.blocks import Asked, FileReader, FileReading, RecordBlock
from eddyline.connectors.files.chunks import InFull, conformed
from eddyline.connectors.files.file_log import SeenFile, TakenFiles, seen
from eddyline.connectors.files.finding import Finder, check_path, list_files
from eddyline.connectors.files.listing import DataFile, required_path
from eddyline.connectors.files.parts import by_groups
from eddyline.connectors.files.readers import is_young, reader_of
from eddyline.connectors.files.watch import FileWatch, warn_of
from eddyline.connectors.formats.conform import target_of, wanted_columns
from eddyline.connectors.formats.parquet import PLAIN
from eddyline.connectors.guarded.parsing_marks import UNMARKED, FileMarks, Marks
from eddyline.errors import CheckpointProblem, SourceProblem
from eddyline.model.clock import WALL, Clock
from eddyline.model.schema import Stream, Table
from eddyline.operators.sharing.skipping import Skipping
from eddyline.tuning import InputTuning


def open_source(
    stream: Stream,
    columns: Iterable[str] | None = None,
    follow: bool = False,
    clock: Clock = WALL,
    tuning: InputTuning = PLAIN,
) -> Source:
    """The source that a stream's options describe.

    Args:
        stream: options `format` (parquet, csv, jsonl, json) and `path`; for csv also `delimiter`, `header`,
            `multiline`.
        columns: those that queries need; None: all. Time and sequence always come along.
        follow: read new files as they appear; otherwise the files that are there now are read once.
        clock: measures the time between two listings of the path.
        tuning: how much is read at once, and how often the path is listed.
    """
    path, reader = checked_source(stream, follow, tuning)
    return FileSource(stream, path, reader, wanted_columns(stream, columns), follow, clock, tuning)


def checked_source(stream: Stream, follow: bool = False, tuning: InputTuning = PLAIN) -> tuple[str, FileReader]:
    """The path of a stream and what reads its files.

    Raises:
        SourceProblem: an option has a value that it does not take, or the path means nothing.
    """
    what = f"stream {stream.name}"
    path = required_path(stream.options, what)
    reader = reader_of(stream.options, what, tuning)
    check_path(path, what, follow=follow)
    return path, reader


def read_table(table: Table, marks: Marks | None = None) -> pa.Table:
    """A static table, whole. Rows that cannot be read stop the job: there is no later moment to notice them."""
    what = f"table {table.name}"
    path = required_path(table.options, what)
    reader = reader_of(table.options, what)
    check_path(path, what)
    pieces: list[pa.Table] = []
    for file in list_files(path):
        own = UNMARKED if marks is None else marks.of(file.path)
        for block in reader(FileReading(file, table.schema, marks=own)):
            chunk = conformed(block, file, table, None, own)
            if chunk.bad is not None and chunk.bad.num_rows:
                reason = chunk.bad.column("_reason")[0].as_py().removeprefix("bad: ")
                raise SourceProblem(
                    f"{what} cannot be read", detail=reason, hint="correct the file or the declared types"
                )
            pieces.append(chunk.rows)
    target = target_of(table.schema)
    return pa.concat_tables(pieces).combine_chunks() if pieces else target.empty_table()


class FileSource:
    """Rows of a stream's files. See the head of this file."""

    def __init__(
        self,
        stream: Stream,
        path: str,
        reader: FileReader,
        columns: frozenset[str] | None,
        follow: bool,
        clock: Clock,
        tuning: InputTuning,
    ):
        self.stream = stream
        self._tuning = tuning
        self._clock = clock
        self.bounded = not follow
        self._path = path
        self._reader = reader
        self._columns = columns
        self._finder = Finder(path, clock, tuning)
        #: What this process is parsing; None: no later process reads that.
        self.marks: Marks | None = None
        #: Files read out; never read again.
        self._taken = TakenFiles(tuning)
        self._watch = FileWatch(
            stream.name, lambda name: self._finder.path_of(name), clock=clock, seconds=tuning.watch_seconds
        )
        #: Known files not yet read out, in name order; the first one may be begun.
        self._waiting: list[DataFile] = []
        #: Records of the first waiting file that have been handed out.
        self._row = 0
        #: That file as it was when reading began.
        self._begun: SeenFile | None = None
        self._blocks: Iterator[RecordBlock] | None = None
        #: What is read of it, and what a second time.
        self._reading: FileReading | None = None
        self._again: InFull | None = None
        #: The marks of what is being parsed of it.
        self._marked: FileMarks = UNMARKED
        #: What is left of the block read last.
        self._rest: RecordBlock | None = None
        #: What row groups need not be read now; None: all are read.
        self.skipping: Skipping | None = None
        self.has_groups = by_groups(stream.options)
        self._asked: Asked | None = (lambda: self.skipping) if self.has_groups else None
        self._next_look = float("-inf")
        self._empty = target_of(stream.schema, columns).empty_table()
        self._look()

    @property
    def finished(self) -> bool:
        return self.bounded and self._rest is None and not self._waiting

    def read(self, max_rows: int) -> Chunk | None:
        """The next rows. A bounded source also reads the block that follows them, so that `finished` is right."""
        rows: list[pa.Table] = []
        bad: list[pa.Table] = []
        left, early = max_rows, False
        while left > 0 and (block := self._next_block()) is not None:
            if block.skipped is not None and left < max_rows:
                break
            # A row group that is skipped is one chunk, however many rows it has.
            count = min(left, block.count) if block.skipped is None else block.count
            chunk = self._take(block, count)
            if chunk.skipped is not None:
                if self.bounded:
                    self._next_block()
                return chunk
            early = early or chunk.early
            left -= count
            if chunk.rows.num_rows:
                rows.append(chunk.rows)
            if chunk.bad is not None:
                bad.append(chunk.bad)
        if self.bounded and left == 0:
            self._next_block()
        if left == max_rows:
            return None
        whole = rows[0] if len(rows) == 1 else pa.concat_tables(rows) if rows else self._empty
        return Chunk(whole, pa.concat_tables(bad) if bad else None, early=early)

    def position(self) -> dict[str, Any]:
        begun = self._begun if self._row else None
        return {
            "files": self._taken.count,
            "file": begun and begun.name,
            "row": self._row if begun else 0,
            "begun": begun and [*begun[1:]],
        }

    def keep_log(self, folder: str) -> None:
        self._taken.keep_log(folder)

    def saved(self, position: Position) -> dict[str, Any]:
        return {**position, **self._taken.saved(position["files"])}

    def seek(self, position: Position) -> None:
        self._blocks = self._rest = None
        self._taken.restore(position)
        self._finder = Finder(self._path, self._clock, self._tuning)
        self._waiting = []
        self._next_look = float("-inf")
        self._look()
        self._row, self._begun = 0, None
        self._watch.warn_of_changes(self._taken.newest, now=True)
        if position["file"] is not None:
            self._row = int(position["row"])
            self._begin_with(position["file"])
            self._begun = seen(position["file"], self._waiting[0].path)
            if position.get("begun") not in (None, [*self._begun[1:]]):
                warn_of(self.stream.name, [self._begun.name])

    def _begin_with(self, name: str | None) -> None:
        """The begun file, if there is one, is finished first, whatever has appeared before it in name order."""
        if name is None:
            return
        index = next((i for i, f in enumerate(self._waiting) if f.name == name), None)
        if index is None:
            raise CheckpointProblem(
                f"stream {self.stream.name} cannot continue: {name} is gone",
                detail=f"{self._row} of its rows were read before the checkpoint",
                hint=f"put the file back under {self._path}, or begin without the checkpoint",
            )
        self._waiting.insert(0, self._waiting.pop(index))

    def close(self) -> None:
        self._blocks = self._rest = None
        self._waiting = []

    def go_on(self) -> None:
        self._finder = Finder(self._path, self._clock, self._tuning)
        self._next_look = float("-inf")
        self._look()
        self._begin_with(self._begun.name if self._row and self._begun is not None else None)

    def _look(self) -> None:
        """List the path for files not yet known; while following, not more often than the poll interval."""
        now = self._clock.now()
        if now < self._next_look:
            return
        self._next_look = now + self._tuning.poll_seconds
        known = {f.name for f in self._waiting}
        fresh = [f for f in self._finder.new_files() if f.name not in known and f.name not in self._taken]
        begun = self._waiting[:1] if self._blocks is not None or self._row else []
        self._waiting = begun + sorted(self._waiting[len(begun) :] + fresh, key=lambda f: f.name)

    def _next_block(self) -> RecordBlock | None:
        """What is left of the block read last, or else the next block; None: nothing is there at the moment."""
        while self._rest is None or not self._stands(self._rest):
            if self._rest is not None:
                self._rest = self._blocks = None
            if not self._waiting:
                if not self.bounded:
                    self._look()
                    self._watch.warn_of_changes(self._taken.newest)
                if not self._waiting:
                    return None
            file = self._waiting[0]
            if self._blocks is None:
                self._begun = self._begun if self._row and self._begun else seen(file.name, file.path)
                self._marked = UNMARKED if self.marks is None else self.marks.of(file.path)
                reading = FileReading(
                    file, self.stream.schema, self._row, self._columns, self._marked, skipping=self._asked
                )
                blocks, self._reading, self._again = self._reader(reading), reading, None
                # A file of several blocks is read while its rows are worked on; for a small one a second thread is not
                # worth its cost.
                self._blocks = read_ahead(blocks) if self._begun.size > self._tuning.text_bytes else blocks
            block = next(self._blocks, None)
            if (
                block is not None
                and not self.bounded
                and block.last
                and block.first == 0
                and is_young(file, self._tuning)
            ):
                self._blocks = None
                return None
            if block is None:
                self._finish()
            elif block.count:
                self._rest = block
        return self._rest

    def _stands(self, block: RecordBlock) -> bool:
        """Whether a block is still what is read: a row group that was skipped may be needed by now."""
        skipped = block.skipped
        return skipped is None or (self.skipping is not None and not self.skipping.reason(skipped))

    def _finish(self) -> None:
        name = self._waiting.pop(0).name
        self._taken.add(self._begun if self._begun is not None else SeenFile(name, 0, 0))
        self._row, self._begun = 0, None
        self._blocks = None

    def _take(self, block: RecordBlock, count: int) -> Chunk:
        """The first records of the block, which are handed out now; the others stay in `_rest`."""
        file, part, self._rest = self._waiting[0], block, None
        if count < block.count:
            part, self._rest = block.part(0, count), block.part(count, block.count - count)
        self._row += count
        chunk = conformed(part, file, self.stream, self._columns, self._marked)
        if chunk.bad is not None and part.projected:
            # Nothing of a bad row may be lost: read it again with all its columns.
            assert self._reading is not None
            self._again = self._again or InFull(self._reader, self.stream, self._reading)
            chunk = replace(chunk, bad=self._again.bad(part))
        if block.last and self._rest is None:
            self._finish()
        return chunk
