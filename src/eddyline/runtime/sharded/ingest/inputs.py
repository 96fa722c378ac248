"""From the offset where a batch ends to its document.

Answer   `batch` makes the document: the files and parts of files between the end of the batch before and this end,
         control records, streams that end.
State    The files of each stream as far as they are known: where another process appends to the lists (`file_log.py`),
         this one reads on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.backlog import TakenUpTo, places_of, taken_between
from eddyline.runtime.sharded.ingest.control import read_control
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.ingest.needed import latest_bounds
from eddyline.runtime.sharded.ingest.offsets import first_offset
from eddyline.runtime.sharded.ingest.ranges import Cutter
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.storage.heads import Head


class Inputs:
    def __init__(self, layout: JobLayout, logs: Mapping[str, FileLog] | None = None) -> None:
        """`logs`: those of the process that appends to them."""
        self._checkpoint = layout.checkpoint
        tuning = layout.settings.tuning.input
        files = [stream for stream in layout.streams if "path" in stream.options]
        self._logs = logs or {s.name: FileLog(s, layout.checkpoint, tuning) for s in files}
        self._cutters = {name: Cutter(log.stream, layout.checkpoint, tuning) for name, log in self._logs.items()}

    def batch(self, number: int, packed: PackedLayout, end: dict[str, Any], head: Head | None) -> BatchDocument:
        """The document of a batch.

        Args:
            number: The batch.
            packed: The layout that holds in it.
            end: The offset where it ends.
            head: The manifest of the batch before.
        """
        start = first_offset(self._logs) if head is None else head.position
        begins, ends = places_of(start), places_of(end)
        pieces: list[FilePiece] = []
        likely: list[FilePiece] = []
        ended: list[str] = []
        for name, log in self._logs.items():
            first, last = begins[name], ends[name]
            needed = last.files + (last.within > 0)
            if needed > log.total:
                log.read_on()
                log.check(needed)
            closes = not end["open"][name] and (start["open"][name] or last > first)
            log.forget(first.files)
            mine = [*self._cutters[name].pieces(taken_between(log, first, last), closes)]
            pieces += mine
            likely += self._likely(name, last, mine)
            if closes and last == first:
                ended.append(name)
        records = range(start["control"], end["control"])
        control = [json.loads(read_control(self._checkpoint, record)) for record in records]
        control += [{"closing": True}] if end["runs"] > start["runs"] else []
        before = {} if head is None else head.before
        at = end.get("at", 0)
        notes = {} if head is None else head.notes
        known = (notes[0].get("lines", {}) if notes else {}, latest_bounds(notes.values()))
        what = tuple(pieces), tuple(control), tuple(ended)
        return BatchDocument(number, packed.digest, *what, *known, at, before, likely=tuple(likely))

    def _likely(self, name: str, end: TakenUpTo, pieces: Sequence[FilePiece]) -> Iterator[FilePiece]:
        """Pieces of a stream after a batch: as many files as the batch has, and at most twice its bytes."""
        log, left = self._logs[name], 2 * sum(piece.size for piece in pieces)
        until = TakenUpTo(min(end.files + len({piece.path for piece in pieces}), log.total))
        for piece in self._cutters[name].pieces(taken_between(log, end, until), False) if until > end else ():
            left -= piece.size
            if left < 0:
                return
            yield piece
