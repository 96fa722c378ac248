"""Sealed segments: the form in which a checkpoint has the rows of a store.

Answer   A segment is a range of row ids of one store. It gets its name when it is sealed and never changes. A random
         token in the name distinguishes it from segments of other runs, and of a stream that was created again. Its
         Arrow form holds the payload and the columns that cannot be derived. `seal` covers new rows; neighbours that
         are small are sealed again as one, so that the number of segments grows with the logarithm of the rows.

             ids   |···dead···|== s0 ==========|== s1 =====|= s2 =| new |
                                                            └── sealed as one when s2 is not larger than what came

State    The live segments, oldest first. A segment also has the rows that were dropped from its middle; a separate list
         (`dropped`) names these until the store closes the gaps. Then all rows are sealed anew, under other names.
Limits   Rows die from the oldest on, so at most the first segment has dead ones. When three quarters of it are dead it
         is sealed anew without them; it goes when all of them are. At most a third of what was written is written
         again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eddyline.model.schema import DERIVED_TIME, RESULT_TIME
from eddyline.state.renumbering import Renumbering
from eddyline.state.store import DROPPED, Store

#: Larger segments are left alone: writing them again costs more than it saves.
_ROWS_AT_MOST = 65_536
#: Smaller ones are not written again.
_ROWS_WORTH = 1024


def _token() -> str:
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True)
class Segment:
    store: str
    first: int
    end: int
    #: The same rows under the same token; the same ids of another run, or after a renumbering, are other rows.
    token: str = field(default_factory=_token)

    @property
    def rows(self) -> int:
        return self.end - self.first

    @property
    def name(self) -> str:
        return f"{self.store}-{self.first}-{self.end}-{self.token}"


class SegmentList:
    """The sealed segments of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.segments: list[Segment] = []
        #: Keeps lists of this run apart from those of others.
        self.token = _token()

    def seal(self) -> None:
        """Cover every live row; forget segments whose rows are all dead."""
        store = self.store
        self.segments = [s for s in self.segments if s.end > store.first]
        if self.segments and self._is_mostly_dead(self.segments[0]):
            self.segments[0] = self._segment(store.first, self.segments[0].end)
        start = self.segments[-1].end if self.segments else store.first
        start = max(start, store.first)
        if start < store.end:
            while self.segments and self.segments[-1].rows <= store.end - start < _ROWS_AT_MOST:
                start = max(self.segments.pop().first, store.first)
            while store.end - start > _ROWS_AT_MOST:
                self.segments.append(self._segment(start, start + _ROWS_AT_MOST))
                start += _ROWS_AT_MOST
            self.segments.append(self._segment(start, store.end))

    def _segment(self, first: int, end: int) -> Segment:
        return Segment(self.store.name, first, end)

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows have new ids: the ids of written segments are those of other rows now, so all rows are written
        again. As many rows have gone since."""
        if old_to_new.store is self.store:
            self.segments = []

    @property
    def dropped(self) -> str | None:
        """The name of the list of rows that lie in segments and were dropped from the store; None: there are none."""
        store = self.store
        if not store.dropped:
            return None
        lowest = store.first + int(np.argmax(store.column(DROPPED)))
        return f"{store.name}-dropped-{self.token}-{store.generation}-{store.drops}-{lowest}"

    def dropped_table(self) -> pa.Table:
        return pa.table({"id": np.flatnonzero(self.store.column(DROPPED)) + self.store.first})

    def _is_mostly_dead(self, segment: Segment) -> bool:
        return segment.rows >= _ROWS_WORTH and 4 * (self.store.first - segment.first) >= 3 * segment.rows

    def table(self, segment: Segment) -> pa.Table:
        """The rows of a segment that are still here: payload, and the columns that cannot be derived from it."""
        store = self.store
        first = max(segment.first, store.first)
        ids = np.arange(first, segment.end)
        columns = {payload_name(name): store.gather(name, ids) for name in store.payload}
        for name in store.columns:
            if name not in store.derived:
                columns[f"_{name}"] = _as_arrow(store.at(name, ids))
        return pa.table(columns).replace_schema_metadata({"first": str(first)})


def payload_name(column: str) -> str:
    """What payload is called in a segment, where names of columns begin with _."""
    return DERIVED_TIME if column == RESULT_TIME else column


def _as_arrow(values: np.ndarray) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1])


def open_columns(table: pa.Table) -> dict[str, np.ndarray]:
    """The columns of a segment's Arrow form, by name."""
    columns = {}
    for name in table.column_names:
        if name.startswith("_"):
            column = table.column(name).combine_chunks()
            if pa.types.is_fixed_size_list(column.type):
                columns[name[1:]] = np.asarray(column.flatten()).reshape(len(column), column.type.list_size)
            else:
                columns[name[1:]] = np.asarray(column)
    return columns
