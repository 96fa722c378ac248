"""Rows that later rows of their partition push out of `[PARTITION BY … ROWS n]`.

Answer   `see` takes the rows of a stream as they come. `out` gives the rows that have been pushed out up to an instant,
         by their numbers of arrival, each with the time of the row that pushed it out.

             rows ─► value, and number within it ─► (value, number - n) has been pushed out, if it is there

State    The last n rows of every value; what has been pushed out and not been forgotten.
Limits   All rows count that are seen; null is a value. Without columns all rows are one partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder, grown
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.aggregate.tables import Arrays, arrays_of, as_table, bytes_table, restore_bytes
from eddyline.state.columns import Ints

_NONE: Ints = np.empty(0, np.int64)


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
        self._names: list[Ints] = []
        self._times: list[Ints] = []

    def see(self, table: pa.Table, ts: Ints, arrival: Ints) -> None:
        """Rows in the order of their stream."""
        columns = [table.column(name).combine_chunks() for name in self.columns]
        codes = self._values.codes(self._encoder.encode_rows(columns, self.kinds, len(ts)))
        self._counts = grown(self._counts, self._values.capacity)
        order = np.argsort(codes, kind="stable")
        begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
        sizes = np.diff(np.append(begins, len(codes)))
        numbers = np.empty(len(codes), np.int64)
        numbers[order] = self._counts[codes[order]] + np.arange(len(codes)) - np.repeat(begins, sizes)
        self._counts[codes[order][begins]] += sizes
        entries = self._inside.codes(np.stack((codes, numbers), axis=1))
        self._arrival = grown(self._arrival, self._inside.capacity)
        self._arrival[entries] = arrival
        out = self._inside.find(np.stack((codes, numbers - self.count), axis=1))
        found = np.flatnonzero(out >= 0)
        if len(found):
            self._names.append(self._arrival[out[found]])
            self._times.append(ts[found])
            self._inside.release(out[found])

    def out(self, until: int) -> tuple[Ints, Ints]:
        """The rows that have been pushed out up to an instant and were not forgotten: their numbers, and when; by
        number."""
        if not self._names:
            return _NONE, _NONE
        names, times = np.concatenate(self._names), np.concatenate(self._times)
        here = times <= until
        names, times = names[here], times[here]
        order = np.argsort(names, kind="stable")
        return names[order], times[order]

    def forget(self, until: int) -> None:
        """Forget what was pushed out up to an instant."""
        if self._names:
            names, times = np.concatenate(self._names), np.concatenate(self._times)
            rest = times > until
            self._names, self._times = ([names[rest]], [times[rest]]) if rest.any() else ([], [])

    # -- snapshots

    def saved(self) -> dict[str, pa.Table]:
        values, inside = self._values.live(), self._inside.live()
        gone: Arrays = {"name": np.concatenate([_NONE, *self._names]), "time": np.concatenate([_NONE, *self._times])}
        return {
            "bytes": bytes_table(self._encoder),
            "values": as_table({"code": values, "key": self._values.keys[values], "count": self._counts[values]}),
            "inside": as_table({"code": inside, "key": self._inside.keys[inside], "arrival": self._arrival[inside]}),
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
        self._names, self._times = ([gone["name"]], [gone["time"]]) if len(gone["name"]) else ([], [])
