"""How much of the files that wait a batch takes.

Answer   `Backlog.after` gives the places in the files of all streams where the next batch ends. The batch takes about
         the same share of each stream's backlog, so that streams that cover the same time stay side by side. It takes
         bytes that are worth about `batch_seconds`, and at most `max_rows_per_batch` rows. A stream with the option
         `files_per_batch` takes that many files, whatever the others do.
State    How long the batches of this process took (`Pace`).
Limits   Rows are known before they are read only in parquet, by its row groups. In text they are estimated by the line
         ends at the beginning of each stretch. Of a compressed file that is longer than `sample_bytes` only the size is
         known: it is alone in a batch that is bounded by rows. The first piece of a batch is taken whatever it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from eddyline.connectors.files.parts import PACKED, by_groups, is_divisible
from eddyline.model.clock import WALL, Clock
from eddyline.runtime.sharded.ingest.file_log import FileLog, TakenFile
from eddyline.runtime.sharded.ingest.ranges import Cutter
from eddyline.settings import Settings


class TakenUpTo(NamedTuple):
    """How far the files of a stream have been taken."""

    #: How many of them whole.
    files: int
    #: How much of the next one: bytes or row groups.
    within: int = 0


def places_of(offset: Mapping[str, Any]) -> dict[str, TakenUpTo]:
    """The places that an offset names."""
    within = offset.get("within", {})
    return {name: TakenUpTo(count, within.get(name, 0)) for name, count in offset["files"].items()}


def as_offset(places: Mapping[str, TakenUpTo]) -> dict[str, Any]:
    """Places as plain JSON."""
    return {
        "files": {name: place.files for name, place in places.items()},
        "within": {name: place.within for name, place in places.items() if place.within},
    }


def taken_between(log: FileLog, start: TakenUpTo, end: TakenUpTo) -> Iterator[tuple[TakenFile, int, int | None]]:
    """The files between two places, each with its first byte or row group, and the end of what is read."""
    count = end.files + (end.within > 0) - start.files
    for number, file in enumerate(log.files(start.files, count), start.files):
        begin = start.within if number == start.files else 0
        yield file, begin, end.within if number == end.files else None


class _Unit(NamedTuple):
    """What a batch takes as a whole, or not at all."""

    end: TakenUpTo
    size: int
    rows: int


class _Lane:
    """What waits of one stream."""

    def __init__(self, start: TakenUpTo, units: Iterator[_Unit], size: int, age: int) -> None:
        self.end, self._units, self._size = start, units, max(size, 1)
        self.next = next(units, None)
        #: When its oldest file was changed.
        self.age = age
        self._taken = 0

    @property
    def share(self) -> float:
        """How much of it the batch has."""
        return self._taken / self._size

    def take(self) -> None:
        assert self.next is not None
        self.end, self._taken = self.next.end, self._taken + self.next.size
        self.next = next(self._units, None)


class Backlog:
    def __init__(
        self, logs: Mapping[str, FileLog], checkpoint: str, settings: Settings, clock: Clock | None = None
    ) -> None:
        self._logs = logs
        self._settings = settings
        self._tuning = settings.tuning.input
        self._cutters = {name: Cutter(log.stream, checkpoint, self._tuning) for name, log in logs.items()}
        self._pace = Pace(settings, clock or WALL)

    def after(self, start: Mapping[str, TakenUpTo]) -> dict[str, TakenUpTo]:
        """Where a batch ends that begins at some places."""
        self._pace.stand(start)
        ends = dict(start)
        lanes: dict[str, _Lane] = {}
        for name, log in self._logs.items():
            wanted = log.stream.options.get("files_per_batch")
            if log.total > start[name].files:
                if wanted is None:
                    lanes[name] = self._lane(name, log, start[name])
                else:
                    ends[name] = TakenUpTo(min(start[name].files + int(wanted), log.total))
        size, is_all = self._share_out(lanes.values())
        ends |= {name: lane.end for name, lane in lanes.items()}
        self._pace.plan(ends, size, is_all)
        return ends

    def _share_out(self, lanes: Iterable[_Lane]) -> tuple[int, bool]:
        """Have lanes take their units until one does not fit; the bytes that were taken, and whether these are all."""
        size = rows = 0
        most_rows, open_lanes = self._settings.max_rows_per_batch, [lane for lane in lanes if lane.next is not None]
        while open_lanes:
            lane = min(open_lanes, key=lambda each: (each.share, each.age))
            unit = lane.next
            assert unit is not None
            over = size + unit.size > self._pace.size or (most_rows is not None and rows + unit.rows > most_rows)
            if over and (size or rows):
                return size, False
            size, rows = size + unit.size, rows + unit.rows
            lane.take()
            open_lanes = [each for each in open_lanes if each.next is not None]
        return size, True

    def _lane(self, name: str, log: FileLog, start: TakenUpTo) -> _Lane:
        waiting = log.files(start.files)
        units = (
            unit
            for number, file in enumerate(waiting, start.files)
            for unit in self._units(name, file, number, start.within if number == start.files else 0)
        )
        size = sum(file.size for file in waiting) - (0 if by_groups(log.stream.options) else start.within)
        return _Lane(start, units, size, waiting[0].changed)

    def _units(self, name: str, file: TakenFile, number: int, begin: int) -> Iterator[_Unit]:
        """A file from a byte or row group on, in what a batch may take of it."""
        options, most_rows = self._logs[name].stream.options, self._settings.max_rows_per_batch
        whole = TakenUpTo(number + 1)
        if not is_divisible(options, file.name):
            yield _Unit(whole, file.size, 0 if most_rows is None else self._estimated(file, most_rows))
        elif by_groups(options):
            is_small = not begin and most_rows is None and file.size <= self._tuning.piece_bytes
            groups = () if is_small else self._cutters[name].groups(file)
            if begin >= len(groups):
                yield _Unit(whole, file.size, 0)
            for place in range(begin, len(groups)):
                end = whole if place == len(groups) - 1 else TakenUpTo(number, place + 1)
                yield _Unit(end, groups[place].size, groups[place].rows)
        else:
            yield from self._stretches(file, number, begin)

    def _stretches(self, file: TakenFile, number: int, begin: int) -> Iterator[_Unit]:
        most_rows = self._settings.max_rows_per_batch
        most = min(self._tuning.piece_bytes, max(self._pace.size // self._tuning.stretches, 1))
        at = begin
        while True:
            step, rows = most, 0
            if most_rows is not None:
                density = _density(file.path, at, self._tuning.sample_bytes)
                step = min(max(round(max(most_rows / self._tuning.stretches, 1) / density), 1), most)
                rows = max(round(min(step, file.size - at) * density), 1)
            end = TakenUpTo(number, at + step) if at + step < file.size else TakenUpTo(number + 1)
            yield _Unit(end, min(step, file.size - at), rows)
            at += step
            if at >= file.size:
                return

    def _estimated(self, file: TakenFile, most_rows: int) -> int:
        """About how many rows a file has that is read whole."""
        import pyarrow as pa  # processes that plan batches load it when they need it

        is_packed = file.name.lower().endswith(PACKED)
        try:
            with pa.input_stream(file.path) as stream:
                text = stream.read(self._tuning.sample_bytes)
                is_all = not stream.read(1)
        except (OSError, ValueError):
            return 1
        # Documents may have many objects in a line.
        found = max(text.count(b"\n"), text.count(b"{"), 1)
        return found if is_all else most_rows if is_packed else found * file.size // len(text)


def _density(path: str, at: int, most: int) -> float:
    """Rows per byte of a text file from a byte on."""
    try:
        with open(path, "rb") as file:
            file.seek(at)
            text = file.read(most)
    except OSError:
        return 1.0
    return max(text.count(b"\n"), 1) / max(len(text), 1)


class Pace:
    """How many bytes a batch takes, so that it takes `batch_seconds`.

    Batches that took less than that and left something are followed by larger ones, at most twice as large; after one
    that took longer comes a smaller one. The time of a batch is that between its plan and the next one.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._seconds = settings.batch_seconds
        self._tuning = settings.tuning.input
        self._clock = clock
        self.size = min(self._tuning.first_batch_bytes, self._tuning.batch_bytes)
        #: The batch that was planned last: where it ends, its bytes, whether nothing was left, and when it was planned.
        self._planned: tuple[Mapping[str, TakenUpTo], int, bool, float] | None = None

    def stand(self, start: Mapping[str, TakenUpTo]) -> None:
        """The next batch begins here: the one before is done if it ends here."""
        if self._planned is None or self._planned[0] != start:
            return
        _, size, is_all, began = self._planned
        self._planned = None
        took = max(self._clock.now() - began, 1e-3)
        fitting = int(size * min(max(self._seconds / took, 0.5), 2.0))
        if took > self._seconds:
            self.size = min(self.size, max(fitting, self._tuning.least_batch_bytes))
        elif not is_all:
            self.size = min(max(self.size, fitting), self._tuning.batch_bytes)

    def plan(self, ends: Mapping[str, TakenUpTo], size: int, is_all: bool) -> None:
        if size:
            self._planned = (ends, size, is_all, self._clock.now())
