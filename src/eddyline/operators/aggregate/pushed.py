"""Rows that later rows of their partition push out of `[PARTITION BY … ROWS n]`.

Answer   `add` takes the rows of a stream in their order. `out` gives the rows that have been pushed out up to an
         instant, by their numbers of arrival, each with the time of the row that pushed it out.

             rows ─► value, and number within it ─► (value, number - n) has been pushed out, if it is there

State    The last n rows of every value; rows that have been pushed out and not been forgotten.
Limits   All rows count that were added; null is a value. Without columns all rows are one partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder, grown
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.aggregate.tables import Arrays, arrays_of, as_table, bytes_table, restore_bytes
from eddyline.state.columns import Ints, joined_pairs
from eddyline.state.runs import places_within, run_begins


class PushedOut:
    def __init__(self, columns: Sequence[str], kinds: Sequence[DataType], count: int) -> None:
        self.columns, self.kinds, self.count = list(columns), list(kinds), count
        self._encoder = ValueEncoder()
        self._values = Dictionary(len(self.columns) + 1)
        #: By value, how many rows have come.
        self._counts: Ints = np.zeros(256, np.int64)
        #: (value, number) of the rows that are in the window.
        self._inside = Dictionary(2)
        self._arrival: Ints = np.zeros(256, np.int64)
        #: Rows that have been pushed out: their numbers of arrival, and when.
        self._gone: list[tuple[Ints, Ints]] = []

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
            self._gone.append((self._arrival[out[found]], ts[found]))
            self._inside.release(out[found])

    def out(self, until: int) -> tuple[Ints, Ints]:
        """The rows that have been pushed out up to an instant and were not forgotten: their numbers, and when; by
        number."""
        names, times = joined_pairs(self._gone)
        here = np.flatnonzero(times <= until)
        here = here[np.argsort(names[here], kind="stable")]
        return names[here], times[here]

    def forget(self, until: int) -> None:
        """Forget the rows that were pushed out up to an instant."""
        names, times = joined_pairs(self._gone)
        rest = times > until
        self._gone = [(names[rest], times[rest])] if rest.any() else []

    # -- snapshots

    def saved(self) -> dict[str, pa.Table]:
        values, inside = self._values.saved(), self._inside.saved()
        gone: Arrays = dict(zip(("name", "time"), joined_pairs(self._gone), strict=True))
        return {
            "bytes": bytes_table(self._encoder),
            "values": as_table(values | {"count": self._counts[values["code"]]}),
            "inside": as_table(inside | {"arrival": self._arrival[inside["code"]]}),
            "gone": as_table(gone),
        }

    def restore(self, saved: Mapping[str, pa.Table]) -> None:
        restore_bytes(self._encoder, saved["bytes"])
        values, inside, gone = (arrays_of(saved[name]) for name in ("values", "inside", "gone"))
        self._values.restore(values["code"], values["key"])
        self._counts = np.zeros(self._values.capacity, np.int64)
        self._counts[values["code"]] = values["count"]
        self._inside.restore(inside["code"], inside["key"])
        self._arrival = np.zeros(self._inside.capacity, np.int64)
        self._arrival[inside["code"]] = inside["arrival"]
        self._gone = [(gone["name"], gone["time"])] if len(gone["name"]) else []
