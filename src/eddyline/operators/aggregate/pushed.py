"""Rows that later rows of their partition push out of `[PARTITION BY … ROWS n]`.

Answer   `add` takes the rows of a stream in their order. `out` gives the rows that have been pushed out up to an
         instant, by their numbers of arrival, each with the time of the row that pushed it out.

             rows ─► value, and number within it ─► (value, number - n) has been pushed out, if it is there

State    The last n rows of every value; rows that have been pushed out and not been forgotten.
Limits   All rows count that were added; null is a value. Without columns all rows are one partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder, grown
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.aggregate.contributions import EncodedRows
from eddyline.operators.aggregate.instant_queue import InstantQueue
from eddyline.operators.aggregate.tables import TextBlocks
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints, joined_pairs
from eddyline.state.runs import places_within, run_begins


@dataclass(slots=True)
class PushedNames(EncodedRows):
    """Rows that have been pushed out, in the order of time."""

    name: Ints


def by_name(parts: Sequence[PushedNames]) -> tuple[Ints, Ints]:
    """The numbers of rows, ascending, and when each was pushed out."""
    names, times = joined_pairs([(part.name, part.clock) for part in parts])
    order = np.argsort(names, kind="stable")
    return names[order], times[order]


class PushedOut:
    def __init__(self, columns: Sequence[str], kinds: Sequence[DataType], count: int) -> None:
        self.columns, self.kinds, self.count = list(columns), list(kinds), count
        self._encoder = ValueEncoder()
        self._texts = TextBlocks(self._encoder)
        self._values = Dictionary(len(self.columns) + 1)
        #: By value, how many rows have come.
        self._counts: Ints = np.zeros(256, np.int64)
        #: (value, number) of the rows that are in the window.
        self._inside = Dictionary(2)
        self._arrival: Ints = np.zeros(256, np.int64)
        self._gone = InstantQueue(PushedNames)

    def add(self, table: pa.Table, ts: Ints, arrival: Ints) -> None:
        """Rows in the order of their stream."""
        columns = [table.column(name).combine_chunks() for name in self.columns]
        codes = self._values.codes(self._encoder.encode_rows(columns, self.kinds, len(ts)))
        self._counts = grown(self._counts, self._values.capacity)
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        begins = np.flatnonzero(run_begins(ordered))
        sizes = np.diff(np.append(begins, len(codes)))
        numbers = np.empty(len(codes), np.int64)
        numbers[order] = self._counts[ordered] + places_within(sizes)
        self._counts[ordered[begins]] += sizes
        entries = self._inside.codes(np.stack((codes, numbers), axis=1))
        self._arrival = grown(self._arrival, self._inside.capacity)
        self._arrival[entries] = arrival
        out = self._inside.find(np.stack((codes, numbers - self.count), axis=1))
        found = np.flatnonzero(out >= 0)
        if len(found):
            self._gone.append(PushedNames(ts[found], self._arrival[out[found]]))
            self._inside.release(out[found])

    def out(self, until: int) -> tuple[Ints, Ints]:
        """The rows that have been pushed out up to an instant and were not forgotten, as `by_name` has them."""
        return by_name(self._gone.up_to(until))

    def forget(self, until: int) -> None:
        """Forget the rows that were pushed out up to an instant."""
        self._gone.until(until)

    # -- snapshots

    def snapshot(self, name: str) -> tuple[dict[str, Any], Blocks]:
        """`name` begins the names of blocks; no other state has it."""
        texts, blocks = self._texts.snapshot(f"{name}-bytes")
        values, more = self._values.snapshot(f"{name}-values", lambda codes: {"count": self._counts[codes]})
        inside, most = self._inside.snapshot(f"{name}-inside", lambda codes: {"arrival": self._arrival[codes]})
        gone, last = self._gone.snapshot(f"{name}-gone")
        return {"bytes": texts, "values": values, "inside": inside, "gone": gone}, blocks | more | most | last

    def restore(self, saved: Mapping[str, Any], load: Load) -> None:
        self._texts.restore(saved["bytes"], load)
        codes, arrays = self._values.load(saved["values"], load)
        self._counts = grown(self._counts, self._values.capacity)
        self._counts[codes] = arrays["count"]
        codes, arrays = self._inside.load(saved["inside"], load)
        self._arrival = grown(self._arrival, self._inside.capacity)
        self._arrival[codes] = arrays["arrival"]
        self._gone.restore(saved["gone"], load)
