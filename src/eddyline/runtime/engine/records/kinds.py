"""The kinds of records, and what each kind defines.

Answer   `kinds()` gives the registered kinds by name: a new kind is a subclass of `RecordKind` and one line in `KINDS`.
         `Splitting` finds the records in decoded rows; both runtimes call it before rows reach a pipeline.
State    None: a kind has no state. What is kept per stream is in its checkers.
Limits   Tests add kinds through the environment variable EDDYLINE_RECORD_KINDS (module:function, separated by commas).
Reading  docs/add-a-record.md
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.connectors.formats.conform import bad_schema
from eddyline.connectors.formats.conversion import as_text
from eddyline.errors import BindingProblem, SettingProblem
from eddyline.model.expressions.coercion import micros_of
from eddyline.model.records.records import AFTER_ALL, BEFORE_ALL, Flags, Ints, Records
from eddyline.model.schema import Stream
from eddyline.operators.stream.gate import Checker
from eddyline.operators.stream.intake import Heartbeats, event_times

#: The environment variable with the names of further kinds that this process may import.
ALLOWED = "EDDYLINE_RECORD_KINDS"


@dataclass(frozen=True)
class Split:
    """What a stretch of decoded rows turns out to be."""

    #: Mask of the data rows; None: all are.
    kept: Flags | None = None
    #: `number` counts the rows that are kept: a record comes before the row with its number.
    records: list[Records] = field(default_factory=list)
    #: Rows that cannot be understood, as `bad_rows` makes them; they are not among those that are kept.
    bad: pa.Table | None = None


#: Rows of one stream, in source order, to what they are.
Splitter = Callable[[pa.Table], Split]


class RecordKind:
    """One kind of records. A subclass overrides what is different."""

    name: str
    #: A record whose place has passed when it comes: whether it is ignored; otherwise its place is the frontier.
    ignored_below = False
    #: Whether units get these records in slices.
    for_units = False

    def concerns(self, stream: Stream) -> bool:
        """Whether the declaration of a stream allows records of the kind about it."""
        return False

    def follows(self, stream: Stream, streams: Mapping[str, Stream]) -> frozenset[str]:
        """The streams whose rows carry records about this one: whatever reads it waits for them too."""
        return frozenset()

    def splitter(self, stream: Stream, streams: Mapping[str, Stream]) -> Splitter | None:
        """What finds records in the rows of a stream; None: they hold none."""
        return None

    def checker(self, stream: Stream, streams: Mapping[str, Stream]) -> Checker | None:
        """The checker of the rows of a stream that records of the kind may be about."""
        return None

    def heartbeats(self, records: Records) -> Ints | None:
        """Per record the instant up to which no row comes any more; None: the records promise nothing of that."""
        return None

    def after_place(self, records: Records, stream: Stream) -> Records | None:
        """Of heartbeats with a place of their own in event time: which rows after that place break them, as records;
        None: none do."""
        return None

    def pinned(self, records: Records, stream: Stream) -> pa.Table | None:
        """The columns of the stream in which every one of these records has a constant: such records travel like
        rows."""
        return None

    def counts_rows(self, stream: Stream) -> bool:
        """Whether every shard has to know the numbers of all rows of a stream."""
        return False


#: In the order in which their checkers are called.
KINDS: tuple[str, ...] = (
    "eddyline.runtime.engine.records.punctuations:PunctuationKind",
    "eddyline.runtime.engine.records.heralds:HeraldKind",
)


@lru_cache(maxsize=8)
def _kinds(names: tuple[str, ...]) -> Mapping[str, RecordKind]:
    found: dict[str, RecordKind] = {}
    for name in names:
        module, _, function = name.partition(":")
        try:
            kind: RecordKind = getattr(importlib.import_module(module), function)()
        except (ImportError, AttributeError, ValueError) as problem:
            raise SettingProblem(
                f"there is no kind of records {name}", detail=str(problem), hint="module:class of a RecordKind"
            ) from None
        found[kind.name] = kind
    return found


def kinds() -> Mapping[str, RecordKind]:
    """The kinds by name, in the order in which their checkers are called."""
    further = tuple(name for name in os.environ.get(ALLOWED, "").split(",") if name)
    return _kinds(KINDS + further)


def is_concerned(stream: Stream) -> bool:
    """Whether a stream has a gate from the start."""
    return stream.receives_punctuations or any(kind.concerns(stream) for kind in kinds().values())


def is_counted(stream: Stream) -> bool:
    """Whether every shard has to know the numbers of all rows of a stream."""
    return any(kind.counts_rows(stream) for kind in kinds().values())


def followed(stream: Stream, streams: Mapping[str, Stream]) -> frozenset[str]:
    """The streams that whatever reads a stream waits for, beside it."""
    return frozenset().union(*(kind.follows(stream, streams) for kind in kinds().values())) - {stream.name}


class Splitting:
    """The splitters of all streams of a job."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        self._streams = {stream.name: stream for stream in streams}
        self._splitters: dict[str, list[Splitter]] = {}
        #: Streams whose rows contain no record, of those that were prepared.
        self.plain: set[str] = set()

    def prepare(self, stream: Stream) -> None:
        """Find the splitters of a stream."""
        known = {**self._streams, stream.name: stream}
        made = (kind.splitter(stream, known) for kind in kinds().values())
        self._splitters[stream.name] = [splitter for splitter in made if splitter is not None]
        if not self._splitters[stream.name]:
            self.plain.add(stream.name)

    def change(self, streams: Iterable[Stream]) -> None:
        """Streams are declared otherwise from now on: what is found in rows that are read later is another thing."""
        self._streams |= {stream.name: stream for stream in streams}
        self._splitters.clear()
        self.plain.clear()

    def split(
        self, stream: Stream, rows: pa.Table, given: Iterable[Records] = ()
    ) -> tuple[pa.Table, list[Records], pa.Table | None]:
        """The rows of a stretch, the records in it beside those that are `given`, and rows that cannot be
        understood."""
        stream = self._streams.get(stream.name, stream)
        if stream.name not in self._splitters:
            self.prepare(stream)
        records = list(given)
        bad: list[pa.Table] = []
        for splitter in self._splitters[stream.name]:
            if not rows.num_rows:
                break
            found = splitter(rows)
            if found.bad is not None and found.bad.num_rows:
                bad.append(found.bad)
            if found.kept is not None and not found.kept.all():
                rows = rows.filter(pa.array(found.kept))
                records = [r.renumbered(found.kept) if r.stream == stream.name else r for r in records]
            records += [r for r in found.records if len(r)]
        return rows, self._timely(stream, rows, records), pa.concat_tables(bad) if bad else None

    def _timely(self, stream: Stream, rows: pa.Table, records: list[Records]) -> list[Records]:
        """The records without those that were derived from rows which break a heartbeat before them: as of late rows,
        nothing is."""
        heartbeats = heartbeats_among(stream.name, records) if any(r.origin == stream.name for r in records) else None
        if heartbeats is None:
            return records
        kept = np.flatnonzero(~heartbeats.broken(event_times(rows, stream.time), np.arange(len(rows))))
        if len(kept) == len(rows):
            return records
        others = [r for r in records if r.origin != stream.name]
        left = rows.take(pa.array(kept))
        again = (r for splitter in self._splitters[stream.name] for r in splitter(left).records) if len(kept) else ()
        return others + [
            _spread(r, kept) if r.stream == stream.name else r for r in again if r.origin == stream.name and len(r)
        ]


def instant_of(at: object) -> int:
    """The instant that a program names as the place of a record."""
    if not isinstance(at, str | datetime):
        raise BindingProblem(f"{at!r} is no instant", hint="at = '2024-01-31 12:30:00', or a datetime")
    return micros_of(at)


def bad_rows(stream: Stream, rows: pa.Table, reasons: pa.Array) -> pa.Table:
    """Rows that cannot be understood, as dead letters have them; reasons do not begin with `bad`."""
    arrays = [as_text(rows.column(name)) for name in stream.schema.names]
    return pa.Table.from_arrays(
        [*arrays, pc.binary_join_element_wise("bad: ", reasons, "")], schema=bad_schema(stream.schema)
    )


def late_origins(records: Records, horizons: Mapping[str, int | None]) -> Records:
    """The records without those that were derived from late rows."""
    bound = None if records.origin is None else horizons.get(records.origin)
    if bound is None or records.origin_ts is None:
        return records
    late = records.origin_ts < bound
    return records.take(~late) if np.any(late) else records


def _spread(records: Records, kept: Ints) -> Records:
    """Records right after rows that were picked out of others, by the numbers of all of these."""
    among = among_rows(records)
    return replace(records, number=np.where(among, kept[np.where(among, records.number, 1) - 1] + 1, records.number))


def among_rows(records: Records) -> Flags:
    """Which records are between rows of their source: the others come before or after all rows of their time."""
    found: Flags = (records.number != BEFORE_ALL) & (records.number != AFTER_ALL)
    return found


def heartbeats_among(stream: str, records: Iterable[Records]) -> Heartbeats | None:
    """The heartbeats between the rows of a stream, of the records that came with these; None: there are none."""
    before: list[Ints] = []
    instants: list[Ints] = []
    for batch in records:
        said = kinds()[batch.kind].heartbeats(batch) if batch.stream == stream else None
        if said is not None:
            among = among_rows(batch)
            before.append(batch.number[among])
            instants.append(said[among])
    if not before:
        return None
    numbers = np.concatenate(before)
    order = np.argsort(numbers, kind="stable")
    return Heartbeats(numbers[order], np.concatenate(instants)[order])


def with_home(records: Records, home: bool) -> Records:
    return replace(records, home=np.full(len(records), home))
