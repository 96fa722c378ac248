"""Rows of a file that fit their declaration, and the others, a stretch at a time.

Answer   `read_chunks` gives a file of a stream, or a part of it. `conformed` makes a chunk of a block. Of a block whose
         reader has left columns out, `InFull` reads the bad rows once more with all their columns: nothing of a bad row
         is lost.
State    `InFull` goes on in the file where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.connectors.base import Chunk
from eddyline.connectors.files.blocks import Asked, FileReader, FileReading, RecordBlock
from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.files.parts import FilePart
from eddyline.connectors.files.readers import reader_of
from eddyline.connectors.formats.conform import conform, target_of, with_partitions
from eddyline.connectors.guarded.parsing_marks import UNMARKED, FileMarks
from eddyline.model.schema import Stream, Table

#: Records of the file are passed over anew from its beginning where those between are more than this part of them: so
#: often that all of it together costs about as much as reading the file once more.
_PASSED_OVER = 16


def read_chunks(
    stream: Stream,
    file: DataFile,
    marks: FileMarks = UNMARKED,
    part: FilePart | None = None,
    columns: frozenset[str] | None = None,
    whole_below: int | None = None,
    skipping: Asked | None = None,
) -> Iterator[Chunk]:
    """One file of a stream, or a part of it, a stretch at a time: for drivers that keep order and positions
    themselves.

    Args:
        stream: what is read, whose options say how.
        file: one of its files.
        marks: of what is being parsed.
        part: of the file; None: all of it.
        columns: those needed, as `wanted_columns` gives them; None: all.
        whole_below: a stretch with a row below this event time is read with all columns.
        skipping: which row groups need not be read now; None: all are read.
    """
    reader = reader_of(stream.options, f"stream {stream.name}")
    reading = FileReading(file, stream.schema, 0 if part is None else part.first, columns, marks, part, skipping)
    again = InFull(reader, stream, reading)
    for block in reader(reading):
        chunk = conformed(block, file, stream, columns, marks)
        if columns is not None and whole_below is not None and chunk.rows.num_rows:
            oldest = pc.min(chunk.rows.column(stream.time)).cast(pa.int64()).as_py()
            if oldest < whole_below:
                yield from again.chunks(block)
                continue
        if chunk.bad is not None and block.projected:
            chunk = replace(chunk, bad=again.bad(block))
        yield chunk


class InFull:
    """Blocks of a file, read again with all their columns, in the order of the file."""

    def __init__(self, reader: FileReader, stream: Stream, reading: FileReading) -> None:
        # Lines are counted once.
        part = None if reading.part is None else replace(reading.part)
        self._reader, self._stream = reader, stream
        self._reading = replace(reading, columns=None, part=part, skipping=None)
        self._blocks: Iterator[RecordBlock] | None = None
        #: The number of the next record of these, and what is left of the block read last.
        self._at = 0
        self._rest: RecordBlock | None = None

    def chunks(self, block: RecordBlock) -> Iterator[Chunk]:
        """The records of a block."""
        first, end = block.first, block.first + block.count
        if self._blocks is None or first < self._at or (first - self._at) * _PASSED_OVER > first:
            self._blocks, self._rest = self._reader(replace(self._reading, first=first)), None
        while first < end:
            found = next(self._blocks, None) if self._rest is None else self._rest
            if found is None:
                return
            passed = min(max(first - found.first, 0), found.count)
            taken = found.part(passed, min(end - first, found.count - passed))
            first += taken.count
            self._at = found.first + passed + taken.count
            left = found.count - passed - taken.count
            self._rest = found.part(passed + taken.count, left) if left else None
            if taken.count:
                yield conformed(taken, self._reading.file, self._stream, None, self._reading.marks)

    def bad(self, block: RecordBlock) -> pa.Table:
        """The bad rows of a block, which has some."""
        return pa.concat_tables([chunk.bad for chunk in self.chunks(block) if chunk.bad is not None])


def conformed(
    block: RecordBlock,
    file: DataFile,
    target: Stream | Table,
    columns: frozenset[str] | None,
    marks: FileMarks = UNMARKED,
) -> Chunk:
    """The rows of a block that fit their declaration, and those that do not."""
    if block.rows is None:
        return Chunk(target_of(target.schema, columns).empty_table(), block.bad, skipped=block.skipped)
    rows = with_partitions(block.rows, file, target.schema) if "=" in file.name else block.rows
    read = columns if block.projected else None
    with marks.parsing(block.first, block.count):
        chunk = conform(rows, target, file.name, block.first, columns=read, numbers=block.numbers, unit=block.unit)
    if columns is not None and not block.projected:
        chunk = replace(chunk, rows=chunk.rows.select(target_of(target.schema, columns).names))
    if block.bad is None or block.bad.num_rows == 0:
        return chunk
    # Within a chunk, lines that are no rows come before rows that do not fit; the reasons have the number of each line.
    return replace(chunk, bad=block.bad if chunk.bad is None else pa.concat_tables([block.bad, chunk.bad]))
