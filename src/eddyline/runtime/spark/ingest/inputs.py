"""From what Spark has written down of a batch to its document.

Answer   `source` gives the digest of `offsets/N` and what our own source has said there; `batch` makes the document:
         the files and parts of files between the end of the batch before and this end, control records, streams that
         end.
State    The files of each stream as far as they are known: the planning process appends to the lists (`file_log.py`),
         this one reads on.
Limits   Offsets of Spark's first form: a line per source.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.backlog import places_of, taken_between
from eddyline.runtime.sharded.ingest.control import read_control
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.ingest.needed import latest_bounds
from eddyline.runtime.sharded.ingest.ranges import Cutter
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.storage.heads import Head
from eddyline.runtime.spark.ingest.sources import first_offset
from eddyline.state.sealed import damaged

_HELD = "what a batch reads"


class Inputs:
    def __init__(self, layout: JobLayout) -> None:
        self._checkpoint = layout.checkpoint
        tuning = layout.settings.tuning.input
        self._logs = {s.name: FileLog(s, layout.checkpoint, tuning) for s in layout.streams if "path" in s.options}
        self._cutters = {name: Cutter(log.stream, layout.checkpoint, tuning) for name, log in self._logs.items()}

    def source(self, number: int) -> tuple[str, dict[str, Any]]:
        """The digest of a batch's offsets, and that of our source."""
        path = os.path.join(self._checkpoint, "offsets", str(number))
        try:
            with open(path, "rb") as file:
                content = file.read()
            found = [json.loads(line) for line in content.splitlines()[1:] if line.startswith(b"{")]
            mine = next(offset for offset in found if "files" in offset and "runs" in offset)
        except (OSError, ValueError, StopIteration) as problem:
            raise damaged(path, _HELD, problem) from problem
        return hashlib.sha256(content).hexdigest(), mine

    def batch(self, number: int, packed: PackedLayout, end: dict[str, Any], head: Head | None) -> BatchDocument:
        """The document of a batch.

        Args:
            number: The batch.
            packed: The layout that holds in it.
            end: The offset of our source where it ends.
            head: The manifest of the batch before.
        """
        start = first_offset(self._logs) if head is None else head.position
        begins, ends = places_of(start), places_of(end)
        pieces: list[FilePiece] = []
        ended: list[str] = []
        for name, log in self._logs.items():
            first, last = begins[name], ends[name]
            needed = last.files + (last.within > 0)
            if needed > log.total:
                log.read_on()
                log.check(needed)
            closes = not end["open"][name] and (start["open"][name] or last > first)
            log.forget(first.files)
            pieces += self._cutters[name].pieces(taken_between(log, first, last), closes)
            if closes and last == first:
                ended.append(name)
        records = range(start["control"], end["control"])
        control = [json.loads(read_control(self._checkpoint, record)) for record in records]
        control += [{"closing": True}] if end["runs"] > start["runs"] else []
        before = {} if head is None else head.before
        at = end.get("at", 0)
        notes = {} if head is None else head.notes
        known = (notes[0].get("lines", {}) if notes else {}, latest_bounds(notes.values()))
        return BatchDocument(number, packed.digest, tuple(pieces), tuple(control), tuple(ended), *known, at, before)
