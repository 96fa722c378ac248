"""Rows far ahead of the wall clock: taken out where their stream has the option `most_ahead`, warned of where it has not.

Answer   `within` takes the rows after a limit out of a chunk; each becomes a dead letter whose reason begins with
         `ahead`. The limit is the wall clock at reading plus `most_ahead` (`limit_at`). `FutureWatch` warns once of
         each stream without the option whose horizon lies more than a day beyond the wall clock.
State    `FutureWatch` has the streams that it has warned of.
Limits   A driver keeps the limit of a read with the position of that read, so that a read that is repeated takes out
         the same rows.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.connectors.base import Chunk
from eddyline.connectors.formats.conform import LATEST
from eddyline.connectors.results.dead_letter import text_rows
from eddyline.model.records.records import Records
from eddyline.model.schema import Stream

log = logging.getLogger(__name__)

#: Microseconds.
_DAY = 86_400_000_000


def limit_at(stream: Stream, instant: int) -> int | None:
    """The last event time that a read at an instant of the wall clock takes; None: all are taken."""
    return None if stream.most_ahead is None else min(instant + stream.most_ahead, LATEST)


def within(chunk: Chunk, stream: Stream, limit: int | None) -> Chunk:
    """A chunk without the rows after the limit, which are among its bad rows."""
    if limit is None or not chunk.rows.num_rows:
        return chunk
    times = chunk.rows.column(stream.time).cast(pa.int64())
    if pc.max(times).as_py() <= limit:
        return chunk
    ahead = pc.greater(times, limit)
    lost = chunk.rows.filter(ahead)
    reason = f"ahead: event time lies after {np.datetime64(limit, 'us')}, the wall clock at reading plus most_ahead"
    letters = text_rows(stream.schema, lost.append_column("_reason", pa.repeat(pa.scalar(reason), lost.num_rows)))
    bad = letters if chunk.bad is None else pa.concat_tables([chunk.bad, letters])
    kept = ~ahead.to_numpy()
    records = tuple(_renumbered(batch, kept) for batch in chunk.records)
    return replace(chunk, rows=chunk.rows.filter(pa.array(kept)), bad=bad, records=records)


def _renumbered(records: Records, kept: np.ndarray) -> Records:
    """The same places among the rows that are left."""
    before = np.concatenate(([0], np.cumsum(kept)))
    counted = (records.number >= 0) & (records.number <= len(kept))
    return replace(records, number=np.where(counted, before[np.where(counted, records.number, 0)], records.number))


class FutureWatch:
    """Warns of streams whose horizon is far ahead of the wall clock, and of those whose integers are probably not
    microseconds."""

    def __init__(self) -> None:
        self._warned: set[str] = set()
        self._warned_early: set[str] = set()

    def warn_of_early(self, stream: Stream) -> None:
        """An integer in a row of the stream was read as an instant before 1971."""
        if stream.name in self._warned_early:
            return
        self._warned_early.add(stream.name)
        log.warning(
            "stream %s: an integer read as TIMESTAMP lies before 1971: integers are microseconds from 1970; "
            "WITH (time_unit = 's') reads them as seconds ('ms', 'us' and 'ns' are the others)",
            stream.name,
        )

    def warn_of_future(self, stream: Stream, newest: int, instant: int) -> None:
        """`newest` is the newest event time of a stream, `instant` is now."""
        horizon = newest - stream.lateness
        if stream.most_ahead is not None or horizon <= instant + _DAY or stream.name in self._warned:
            return
        self._warned.add(stream.name)
        log.warning(
            "stream %s has a row of %s, more than a day ahead of the wall clock: rows before %s are late from now on; "
            "WITH (most_ahead = '1 hour') sends such rows to the dead letters",
            stream.name,
            np.datetime64(newest, "us"),
            np.datetime64(horizon, "us"),
        )
