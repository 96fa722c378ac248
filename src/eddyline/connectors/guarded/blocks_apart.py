"""Files without lines, read in a child process after another one has died with them.

Answer   `blocks_apart` gives the blocks that a reader makes up to a row. Where the reader ends its process, what is
         left of the file is one bad row that names the file and the signal.
Limits   About a million rows are in memory at once. Nothing smaller than the rest of the file is given up: what decodes
         a column of parquet, or a JSON document, does not know rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from functools import partial

from eddyline.connectors.files.blocks import RecordBlock
from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.formats.conform import bad_row, conform
from eddyline.connectors.guarded.apart import in_child
from eddyline.connectors.guarded.parsing_marks import FileMarks
from eddyline.model.schema import Schema

log = logging.getLogger(__name__)

#: Rows that one child reads.
_ROWS = 1 << 20


def blocks_apart(
    reader: Callable[[int], Iterator[RecordBlock]],
    file: DataFile,
    schema: Schema,
    first: int,
    end: int,
    marks: FileMarks,
) -> Generator[RecordBlock, None, bool]:
    """The blocks from row `first` to row `end`. `reader(row)` begins at a row, and is picklable. Returns whether the
    file may go on."""
    row = first
    while row < end:
        wanted = min(end, row + _ROWS)
        made, fatal, _ = in_child(partial(_read_up_to, reader, schema, row, wanted), 1)
        for _, _, blocks in made:
            for block in blocks:
                yield block
                row = block.first + block.count
        if fatal:
            marks.parsed_apart(0, end, [(row, 1)])
            (name,) = fatal.values()
            log.warning(
                "%s ends every process that reads it from row %d on (%s): the rest is a dead letter",
                file.shown,
                row + 1,
                name,
            )
            reason = f"{file.shown} cannot be read from row {row + 1} on: the reader ends its process: {name}"
            yield RecordBlock(row, 1, bad=bad_row(schema, reason), last=True)
            return False
        if row < wanted or (made and made[-1][2] and made[-1][2][-1].last):
            break
    marks.parsed_apart(0, end, [])
    return row >= end


def _read_up_to(
    reader: Callable[[int], Iterator[RecordBlock]], schema: Schema, row: int, end: int, low: int, high: int
) -> Iterator[RecordBlock]:
    for block in reader(row):
        if block.first >= end:
            # There is nothing before it: a part of a file may begin there.
            yield block.part(0, 0)
            break
        if block.rows is not None:
            # Values are converted by the other process later: what ends it shall end the child.
            conform(block.rows, schema, "", 0)
        yield block.part(0, min(block.count, end - block.first))
