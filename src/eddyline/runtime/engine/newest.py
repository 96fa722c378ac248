"""The places of the newest rows of results in the total order, for drivers that merge several pipelines.

Answer   A pipeline that sees a part of the rows puts its own results in order, but cannot number them. `placed` adds to
         results of equal `_ts` what orders them among those of other pipelines, `merged` puts the pieces together and
         takes it off.

             `_place`          stream position * 2^56 + place of arrival in its stream
             `_sequence_<n>`   for results whose newest row is of stream n, which declares a `sequence`: its value

State    For the rows of the epoch at hand: their places, by rank.
Limits   2^56 rows per stream, 128 streams. Results of an aggregate have no newest row: pieces keep their order among
         equal `_ts`.
Reading  docs/semantics.md, "Time and order"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.schema import Stream
from eddyline.operators.stream.waiting import Released
from eddyline.state.columns import Ints

PLACE = "_place"
_SEQUENCE = "_sequence_"
#: The bits of a place that hold the number of a row.
_NUMBER_BITS = 56
#: Added to the place of a result that comes after all rows of its instant; streams have fewer than 64 places below it.
_AFTER = 1 << 62


class NewestPlaces:
    def __init__(self, streams: Iterable[Stream]) -> None:
        self._streams = {stream.name: stream for stream in streams}
        self._first = 0
        self._places = np.empty(0, np.int64)
        #: stream -> per rank the row in its released table, and the table's sequence column.
        self._sequences: dict[str, tuple[Ints, pa.ChunkedArray]] = {}

    def add(self, stream: Stream) -> None:
        """A stream that came later."""
        self._streams[stream.name] = stream

    def note(self, first: int, total: int, released: Mapping[str, Released], ranks: Mapping[str, Ints]) -> None:
        """The rows of an epoch, with their ranks from `first` on."""
        self._first = first
        self._places = np.zeros(total, np.int64)
        self._sequences = {}
        for name, all_ranks in ranks.items():
            stream, rows = self._streams[name], released[name]
            mine = (all_ranks if rows.place is None else all_ranks[rows.place]) - first
            self._places[mine] = rows.number + (stream.position << _NUMBER_BITS)
            if stream.sequence is not None:
                at = np.full(total, -1)
                at[mine] = np.arange(len(mine))
                self._sequences[name] = (at, rows.table.column(stream.sequence))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Rows that are noted within are forgotten, and those before are known again."""
        before = self._first, self._places, self._sequences
        yield
        self._first, self._places, self._sequences = before

    def placed(self, table: pa.Table, ranks: Ints) -> pa.Table:
        """Results with the places of their newest rows."""
        local = ranks - self._first
        table = table.append_column(PLACE, pa.array(self._places[local]))
        for name, (at, values) in self._sequences.items():
            rows = at[local]
            taken = values.take(pa.array(rows, mask=rows < 0))
            table = table.append_column(f"{_SEQUENCE}{self._streams[name].position}", taken)
        return table


def placed(table: pa.Table, stream: Stream, numbers: Ints, waits: np.ndarray, sequence: pa.Array | None) -> pa.Table:
    """Results whose newest rows are of one stream, with their places; those that wait come after all rows of their
    instant."""
    place = numbers + (stream.position << _NUMBER_BITS) + np.where(waits, _AFTER, 0)
    table = table.append_column(PLACE, pa.array(place))
    return table if sequence is None else table.append_column(f"{_SEQUENCE}{stream.position}", sequence)


def ordering_columns(table: pa.Table) -> list[str]:
    """The columns that order results among those of other pipelines."""
    return [name for name in table.column_names if name == PLACE or name.startswith(_SEQUENCE)]


def merged(pieces: Sequence[pa.Table], time: str = "_ts", placed: bool = False) -> pa.Table:
    """The pieces of one query and epoch as one table in the total order of newest rows; each is in order already.

    Args:
        placed: The columns that order results stay.
    """
    if len(pieces) == 1:
        return pieces[0] if placed else _plain(pieces[0])
    # A piece without a row of a stream that has a sequence lacks the column.
    whole = pa.concat_tables(pieces, promote_options="default")
    times = whole.column(time).combine_chunks().view(pa.int64()).to_numpy()
    # Sorted runs, one after another: the stable sort merges them.
    order = np.argsort(times, kind="stable")
    if PLACE in whole.column_names:
        places = whole.column(PLACE).to_numpy()
        times, places = times[order], places[order]
        tied = times[1:] == times[:-1]
        sequences = [name for name in whole.column_names if name.startswith(_SEQUENCE)]
        if (
            bool((tied & (places[1:] != places[:-1])).any())
            if sequences
            else bool((tied & (places[1:] < places[:-1])).any())
        ):
            # Only what shares its instant with others can be out of place.
            among = np.flatnonzero(np.concatenate([[False], tied]) | np.concatenate([tied, [False]]))
            order[among] = order[among][
                _tie_order(whole.take(pa.array(order[among])), times[among], places[among], sequences)
            ]
    return (whole if placed else _plain(whole)).take(pa.array(order))


def _tie_order(rows: pa.Table, times: Ints, places: Ints, sequences: Sequence[str]) -> Ints:
    if not sequences:
        return np.lexsort((places, times))
    keys = pa.table(
        {"times": times, "stream": places >> _NUMBER_BITS, **{n: rows.column(n) for n in sequences}, "place": places}
    )
    by = [(name, "ascending") for name in keys.column_names]
    return np.asarray(pc.sort_indices(keys, sort_keys=by)).astype(np.int64)


def _plain(table: pa.Table) -> pa.Table:
    return table.drop_columns(ordering_columns(table))
