"""The files of a batch in pieces that tasks read side by side.

Answer   `Cutter.pieces` cuts what a batch reads of one file: plain csv and jsonl into ranges of bytes, parquet into
         ranges of row groups (`connectors/files/parts.py`). Other files are one piece. `reading_line` says for EXPLAIN
         how the files of a stream are read.
State    None of its own; a document keeps the pieces of its batch.
Limits   A parquet file whose row groups cannot be read is one piece: the task that reads it says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eddyline.connectors.files.parts import (
    FilePart,
    RowGroup,
    by_groups,
    group_parts,
    is_divisible,
    row_groups,
    text_parts,
)
from eddyline.model.schema import Stream
from eddyline.runtime.sharded.batch import FilePiece
from eddyline.runtime.sharded.ingest.file_log import TakenFile
from eddyline.runtime.sharded.job.layout import parsing_folder
from eddyline.settings import Settings
from eddyline.tuning import InputTuning


class Cutter:
    """Cuts the files of one stream."""

    def __init__(self, stream: Stream, checkpoint: str, tuning: InputTuning) -> None:
        self._stream = stream
        self._parsing = parsing_folder(checkpoint)
        self._tuning = tuning

    def groups(self, file: TakenFile) -> tuple[RowGroup, ...]:
        """The row groups of a parquet file; none where they cannot be read, or have ended a process."""
        # Not at the top: the process that plans batches loads it when it needs it.
        from eddyline.connectors.guarded.parsing_marks import shared_marks

        marks = shared_marks(self._parsing).of(file.path)
        if marks.suspects():
            return ()
        with marks.parsing(0, 1):
            return row_groups(file.path, file.size, file.changed)

    def pieces(self, taken: Iterable[tuple[TakenFile, int, int | None]], closes: bool) -> Iterator[FilePiece]:
        """What a batch reads of the stream, in order.

        Args:
            taken: Each file with the first byte or row group, and the end of what is read; None: to the end of the
                file.
            closes: The stream ends with the last of them.
        """
        parts = [(file, *found) for file, begin, end in taken for found in self._parts(file, begin, end)]
        for number, (file, part, size) in enumerate(parts):
            is_last = closes and number == len(parts) - 1
            place = (part.begin, part.end, part.first)
            yield FilePiece(self._stream.name, number, file.name, file.path, size, is_last, *place)

    def _parts(self, file: TakenFile, begin: int, end: int | None) -> Iterator[tuple[FilePart, int]]:
        most, options = self._tuning.piece_bytes, self._stream.options
        if is_divisible(options, file.name) and (begin or end is not None or file.size > most):
            if not by_groups(options):
                yield from text_parts(begin, end, file.size, most)
                return
            groups = self.groups(file)
            if groups:
                yield from group_parts(groups, begin, end, most)
                return
        yield FilePart(begin, end), file.size


def reading_line(stream: Stream, settings: Settings) -> str:
    """How the files of a stream are read, and how many a batch takes, for EXPLAIN."""
    wanted, rows = stream.options.get("files_per_batch"), settings.max_rows_per_batch
    takes = f"{wanted} of them" if wanted else f"what about {settings.batch_seconds:g} s need"
    most = "" if wanted or rows is None else f", at most {rows:,} rows"
    if not is_divisible(stream.options, ""):
        how = "whole"
    elif by_groups(stream.options):
        how = "in ranges of row groups"
    else:
        how = "in ranges of bytes, compressed ones whole"
    return f"files of {stream.name} are read {how}; a batch takes {takes}{most}"
