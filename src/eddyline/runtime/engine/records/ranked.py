"""Records among the rows of a timeline: which rank each record has.

Answer   A record's rank is that of the first row after it: rows with this rank or a greater one come after
         the record, in this epoch and in later ones.
State    None.
Limits   The total order is (time, place of the stream in the catalog, place in the stream), as for rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.model.records.records import Records
from eddyline.model.schema import Stream
from eddyline.operators.stream.record_queue import rows_before
from eddyline.operators.stream.waiting import Released
from eddyline.state.columns import Ints


@dataclass(frozen=True, slots=True)
class RankedRecords:
    """Records of one kind in order of place; the rows of the timeline with `ranks[i]` and above come after record
    i."""

    records: Records
    ranks: Ints


def ranked_records(
    streams: Sequence[Stream], released: Mapping[str, Released], records: Mapping[str, list[Records]], first: int
) -> dict[str, list[RankedRecords]]:
    """The ranks of records that a timeline releases together with rows.

    Args:
        streams: The streams of the timeline.
        released: stream -> the rows that are released.
        records: stream -> the records that are.
        first: The rank of the first of these rows.
    """
    known = {stream.name: stream for stream in streams}
    found: dict[str, list[RankedRecords]] = {}
    for name, batches in records.items():
        for batch in batches:
            ranks = np.full(len(batch), first, np.int64)
            for other, rows in released.items():
                if other == name:
                    ranks += _own(known[name], rows, batch)
                else:
                    side = "right" if known[other].position < known[name].position else "left"
                    ranks += np.searchsorted(rows.times, batch.ts, side=side)  # type: ignore[call-overload]
            found.setdefault(name, []).append(RankedRecords(batch, ranks))
    return found


def _own(stream: Stream, rows: Released, records: Records) -> Ints:
    """How many of the stream's released rows come before each record, on whichever shard they are."""
    if rows.numbers is not None:
        return rows_before(records, rows.times, rows.numbers)
    sequence = None if stream.sequence is None else rows.table.column(stream.sequence)
    return rows_before(records, rows.ts, rows.number, sequence)


def between(ranked: Mapping[str, list[RankedRecords]], first: int, stop: int | None) -> dict[str, list[RankedRecords]]:
    """The records with ranks from `first` on and below `stop`."""
    found: dict[str, list[RankedRecords]] = {}
    for name, batches in ranked.items():
        for batch in batches:
            low = int(np.searchsorted(batch.ranks, first))
            high = len(batch.ranks) if stop is None else int(np.searchsorted(batch.ranks, stop))
            if high > low:
                found.setdefault(name, []).append(RankedRecords(batch.records.slice(low, high), batch.ranks[low:high]))
    return found
