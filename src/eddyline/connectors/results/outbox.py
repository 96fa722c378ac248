"""When results become files: small ones are gathered, and none is lost or written twice on the way.

Answer   With `SET output_files = 'auto'` a sink's file is closed when its oldest row has waited `output_seconds`, when
         it is large, and when the job stops; with 'each' after every epoch or micro-batch. At a checkpoint the rows that
         are in no closed file go into the checkpoint's journal. The next run reads them from there.
State    The sinks of a run, the time since when rows of each wait, and the segments of the journal that are needed.

             rows ─► sink ─┬─ size, age, stop ─► file <newest epoch>-<part>
                           └─ checkpoint ─► journal segment ─► (after a crash) sink

         A file holds all rows of its sink up to the epoch in its name that no earlier file has. So the rows of a
         segment that are newer than the newest file are exactly those that are in no file. A checkpoint names the
         segments with such rows (`names`): a start can detect that one is missing. A segment is removed only after a
         checkpoint that does not name it has been written: the checkpoint before may still need it.
Limits   At most `OutputTuning.files_per_second` files are closed by age: if very many sinks have rows, files stay open
         longer. Callers hold the driver's lock.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from eddyline.connectors.base import Sink
from eddyline.connectors.formats.encoders import ENCODERS, Encoder
from eddyline.connectors.results.journal import Piece, ResultJournal
from eddyline.connectors.results.output import FileSink, last_epoch
from eddyline.tuning import OutputTuning


def encoder_of(suffix: str) -> Encoder:
    return next(encoder for encoder in ENCODERS.values() if encoder.suffix == suffix)


class Outbox:
    def __init__(
        self,
        files: str = "auto",
        seconds: float = 2.0,
        checkpoint: str | None = None,
        below: str = "",
        tuning: OutputTuning | None = None,
    ) -> None:
        """
        Args:
            files: `SET output_files`.
            seconds: `SET output_seconds`.
            checkpoint: its folder; without one there is no journal.
            below: the folder of the engine's own files in it.
            tuning: sizes and rates.
        """
        self.tuning = tuning or OutputTuning()
        self._each = files == "each"
        self._seconds = seconds
        self._journal: ResultJournal | None = None
        if checkpoint is not None:
            self._journal = ResultJournal(os.path.join(checkpoint, below, "pending"), checkpoint)
        self._sinks: dict[str, FileSink] = {}
        #: Sinks with rows that are in no file, and since when; None: since the current epoch.
        self._since: dict[str, float | None] = {}
        #: Sinks with files under way.
        self._writing: dict[str, FileSink] = {}
        #: Segment -> the newest epoch of each sink in it.
        self._segments: dict[int, dict[str, int]] = {}
        #: Segment -> its checksum.
        self._checksums: dict[int, str] = {}
        #: Segment that is no longer needed -> the first checkpoint that does not name it.
        self._unneeded: dict[int, int] = {}
        #: Sink -> epochs of its files that no checkpoint covers yet, and the newest that one covers.
        self._closed: dict[str, list[int]] = {}
        self._safe: dict[str, int] = {}

    def adopt(self, sink: Sink, key: str) -> None:
        """Decide from now on when the files of a sink are closed, if it writes files; `key` is its name in every run."""
        if isinstance(sink, FileSink):
            sink.gather(self, key)

    # -- called by sinks

    def joined(self, sink: FileSink) -> None:
        self._sinks[sink.key] = sink

    def left(self, sink: FileSink) -> None:
        self._since.pop(sink.key, None)
        self._writing.pop(sink.key, None)
        if self._sinks.get(sink.key) is sink:
            del self._sinks[sink.key]

    def waits(self, sink: FileSink) -> None:
        """A sink has rows that are in no file."""
        self._since.setdefault(sink.key, None)

    def closed(self, sink: FileSink, epoch: int) -> None:
        """A sink has queued a file for the writing thread."""
        self._closed.setdefault(sink.key, []).append(epoch)
        self._writing[sink.key] = sink
        if not sink.waiting:
            self._since.pop(sink.key, None)

    # -- called by the driver

    @property
    def is_empty(self) -> bool:
        """Whether every row is in a file that has been written."""
        return not self._since and not self._writing

    def end_epoch(self, epoch: int, now: float, closable: int | None = None) -> None:
        """Close the files that are due. Called after all results of an epoch, and in between.

        Args:
            closable: readers may see rows up to this epoch; a file never mixes them with newer ones. Without it: all
            rows.
        """
        closable = epoch if closable is None else closable
        limit = max(self._seconds, len(self._since) / self.tuning.files_per_second)
        for key, since in list(self._since.items()):
            sink = self._sinks[key]
            sink.end_epoch(epoch)
            if self._each:
                sink.close_up_to(closable)
                sink.close_up_to(epoch)
            elif since is not None and now - since >= limit:
                sink.close_up_to(closable)
            if sink.waiting and since is None:
                self._since[key] = now
        # `is_written` raises the error of a file that could not be written, also if no further result comes.
        for key, sink in list(self._writing.items()):
            if sink.is_written():
                del self._writing[key]

    def close_up_to(self, epoch: int) -> None:
        """Write all rows up to an epoch as files now."""
        for key in list(self._since):
            self._sinks[key].close_up_to(epoch)
        self._wait()

    def flush(self, epoch: int, closable: int | None = None, last: bool = False) -> None:
        """A checkpoint of this epoch follows: every row of it is in a closed file or in the journal when this returns.

        Args:
            closable: as for `end_epoch`.
            last: the job stops: all rows become files.
        """
        pieces: list[Piece] = []
        journaled: list[FileSink] = []
        for key in list(self._since):
            sink = self._sinks[key]
            sink.end_epoch(epoch)
            if last or self._each or self._journal is None or sink.new_bytes >= self.tuning.small_bytes:
                sink.close_up_to(epoch if closable is None else closable)
                sink.close_up_to(epoch)
            elif sink.new_bytes:
                pieces += sink.new_pieces()
                journaled.append(sink)
        self._wait()
        if pieces:
            assert self._journal is not None
            self._checksums[epoch] = self._journal.write(epoch, pieces)
            self._unneeded.pop(epoch, None)
            for sink in journaled:
                sink.journaled()
            self._segments[epoch] = _newest(pieces)

    def names(self, epoch: int) -> dict[str, str]:
        """After `flush`, for the checkpoint of this epoch: the segments with rows that are in no file, each with its
        checksum."""
        for key, epochs in self._closed.items():
            covered = [e for e in epochs if e <= epoch]
            if covered:
                self._safe[key] = covered[-1]
        self._closed = {key: left for key, epochs in self._closed.items() if (left := [e for e in epochs if e > epoch])}
        for segment, newest in list(self._segments.items()):
            self._segments[segment] = {key: at for key, at in newest.items() if at > self._safe.get(key, -1)}
            if not self._segments[segment]:
                del self._segments[segment]
                self._unneeded[segment] = epoch
        # Later segments have later rows only: `_safe` is needed for the sinks of the segments that are left.
        needed = {key for newest in self._segments.values() for key in newest}
        self._safe = {key: at for key, at in self._safe.items() if key in needed}
        return {str(segment): self._checksums[segment] for segment in self._segments if segment <= epoch}

    def committed(self, epoch: int) -> None:
        """The checkpoint of this epoch is written: remove the segments that neither it nor a later one names."""
        for segment, since in list(self._unneeded.items()):
            if since <= epoch:
                assert self._journal is not None
                self._journal.remove(segment)
                self._checksums.pop(segment, None)
                del self._unneeded[segment]

    def check(self, epoch: int, names: Mapping[str, str] | None = None) -> None:
        """Refuse a journal that cannot be read, before a file is changed.

        Args:
            names: the segments that the checkpoint names. None: all segments up to its epoch.

        Raises:
            CheckpointProblem: a segment is damaged, exchanged or missing.
        """
        if self._journal is None:
            return
        written = [] if names is not None else [segment for segment in self._journal.epochs() if segment <= epoch]
        expected = dict.fromkeys(map(str, written)) if names is None else names
        for segment in sorted(map(int, expected)):
            self._journal.read(segment, expected[str(segment)])

    def recover(self, epoch: int, names: Mapping[str, str] | None = None) -> None:
        """At the start of a run from the checkpoint of an epoch: give rows of the journal that are in no file to their
        sinks.

        Args:
            names: as for `check`.
        """
        if self._journal is None:
            return
        others: dict[tuple[str, str], FileSink] = {}
        last: dict[tuple[str, str, str], int] = {}
        for segment in self._journal.epochs():
            if segment > epoch:
                self._journal.remove(segment)
                continue
            if names is not None and str(segment) not in names:
                self._unneeded[segment] = epoch
                continue
            pieces, self._checksums[segment] = self._journal.read(segment)
            self._segments[segment] = _newest(pieces)
            for piece in pieces:
                place = (piece.key, piece.folder, piece.suffix)
                if place not in last:
                    last[place] = self._last_file(*place)
                    self._safe[piece.key] = max(last[place], self._safe.get(piece.key, -1))
                if piece.epoch > last[place]:
                    self._restore(piece, others)
        for (key, _), sink in others.items():
            sink.close()
            self._safe[key] = epoch

    def _restore(self, piece: Piece, others: dict[tuple[str, str], FileSink]) -> None:
        sink = self._sinks.get(piece.key)
        if sink is not None:
            sink.restore(piece.epoch, piece.table)
            return
        # The job no longer has this sink: its rows go to the folder that the sink had.
        place = (piece.key, piece.folder)
        if place not in others:
            others[place] = FileSink(piece.folder, encoder_of(piece.suffix), tuning=self.tuning)
            others[place].open(piece.table.schema)
        others[place].write(piece.epoch, piece.table)

    def _last_file(self, key: str, folder: str, suffix: str) -> int:
        """The epoch of the newest file of a sink, in its folder now and in the one that it had when the rows came."""
        now = self._sinks[key].folder if key in self._sinks else folder
        return max(last_epoch(folder, encoder_of(suffix)), last_epoch(now, encoder_of(suffix)))

    def _wait(self) -> None:
        for key, sink in list(self._writing.items()):
            sink.check_writes(wait=True)
            del self._writing[key]


def _newest(pieces: list[Piece]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for piece in pieces:
        newest[piece.key] = max(piece.epoch, newest.get(piece.key, -1))
    return newest
