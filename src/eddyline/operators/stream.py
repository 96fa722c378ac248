"""A stream (or static table) as the joins see it: one store, its keys, and the ports that read it.

Answer   `admit` stores the rows of an epoch that at least one port wants and says which ids they got. All queries over the
         stream share this one store; it is sized by the largest window that any of them needs.
State    Payload columns that a query reads; marks `seq` (place in the total order), `ts`, `num` (row number in the
         stream, where a ROWS window needs it), one per join key, one per composite key, one of lineage words per port.
Limits   Rows come in total order: the caller sorts them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.model.joining import KeyColumn
from eddyline.model.window import FOREVER
from eddyline.operators.evaluate import Compiled, compile_expression
from eddyline.operators.join.combination import any_bit
from eddyline.operators.join.port import Port
from eddyline.operators.keys import combined, key_words, without_nulls
from eddyline.state.columns import Ints
from eddyline.state.store import Store

#: The event time under which rows of a static table are stored: never out of any window.
ALWAYS = FOREVER


class StreamState:
    def __init__(self, name: str, types: Mapping[str, DataType], is_table: bool = False, store_name: str | None = None) -> None:
        self.name = name
        self.types = dict(types)
        self.is_table = is_table
        self.store = Store(store_name or name)
        self.store.add_mark("seq", np.int64)
        self.store.add_mark("ts", np.int64)
        self.keys: dict[str, tuple[Compiled, DataType]] = {}
        self.composites: dict[str, tuple[str, ...]] = {}
        self.ports: list[Port] = []
        self.counts_rows = False
        self.peak = 0

    # -- what is asked of the stream

    def need_column(self, name: str) -> None:
        self.store.add_column(name, self.types[name])

    def need_row_numbers(self) -> None:
        if not self.counts_rows:
            self.counts_rows = True
            self.store.add_mark("num", np.int64)

    def need_key(self, key: KeyColumn) -> None:
        """Hold the key's words for every row; rows that are already here get theirs now."""
        if key.mark in self.keys:
            return
        compiled = compile_expression(key.expression)
        self.keys[key.mark] = (compiled, key.expression.type)
        self.store.add_mark(key.mark, np.int64, derived=True)
        if self.store.extent:
            ids = np.arange(self.store.first, self.store.end)
            here = {at: self.store.gather(at[1], ids) for at in compiled.columns}
            self.store.mark(key.mark)[:] = key_words(compiled(here, len(ids)), key.expression.type)

    def need_index(self, marks: tuple[str, ...]) -> str:
        """An index over one or several keys; returns the mark that it is built on."""
        mark = marks[0] if len(marks) == 1 else "hash:" + "+".join(marks)
        if len(marks) > 1 and mark not in self.composites:
            self.composites[mark] = marks
            self.store.add_mark(mark, np.int64, derived=True)
            if self.store.extent:
                self.store.mark(mark)[:] = combined([self.store.mark(m) for m in marks])
        self.store.add_index(mark)
        return mark

    # -- rows

    def admit(self, table: pa.Table, ts: Ints, seq: Ints, num: Ints | None, routes: npt.NDArray[np.uint64] | None) -> tuple[int, int]:
        """Store the rows of an epoch that some port wants; returns their first id and the id after the last."""
        rows = len(ts)
        columns = whole_columns(table)
        keys, missing = self._key_marks(columns, rows)
        wanted = np.zeros(rows, np.bool_)
        lineages = []
        for port in self.ports:
            lineage = port.lineage(columns, ts, rows, routes, missing)
            lineages.append(lineage)
            if lineage is None:
                wanted[:] = True
            else:
                wanted |= any_bit(lineage)
        chosen = None if wanted.all() else np.flatnonzero(wanted)
        marks: dict[str, npt.NDArray[np.generic]] = {"seq": seq, "ts": ts, **keys}
        if self.counts_rows and num is not None:
            marks["num"] = num
        for port, lineage in zip(self.ports, lineages, strict=True):
            words = port.words_to_store(self, lineage, rows)
            if words is not None:
                marks[port.words_mark] = words
        if chosen is not None:
            rows = len(chosen)
            take = pa.array(chosen)
            columns = {name: columns[name].take(take) for name in self.store.columns}
            marks = {name: values[chosen] for name, values in marks.items()}
        for mark, parts in self.composites.items():
            marks[mark] = combined([np.asarray(marks[p]) for p in parts])
        start = self.store.append(rows, columns, marks)
        self.peak = max(self.peak, self.store.live)
        return start, self.store.end

    def _key_marks(
        self, columns: Mapping[str, pa.Array], rows: int
    ) -> tuple[dict[str, npt.NDArray[np.generic]], dict[str, npt.NDArray[np.bool_]]]:
        marks: dict[str, npt.NDArray[np.generic]] = {}
        missing: dict[str, npt.NDArray[np.bool_]] = {}
        for mark, (compiled, kind) in self.keys.items():
            values = compiled({at: columns[at[1]] for at in compiled.columns}, rows)
            marks[mark] = key_words(values, kind)
            there = without_nulls(values)
            if there is not None:
                missing[mark] = ~there
        return marks, missing

    def purge(self, frontier: int, seen: int) -> None:
        """Forget the rows that no row still to come can meet: all to come are at or after the frontier."""
        if self.is_table:
            return
        store = self.store
        cut = store.end
        for port in self.ports:
            cut = min(cut, port.first_needed(store, frontier, seen))
        store.forget_before(cut)

    def release(self, port: Port, ids: Ints) -> int:
        """No row still to come can meet these rows under this port; returns how many of them no port wants any more and are dropped.

        The rows keep their numbers: a ROWS window does not reach further back because rows have gone.
        """
        if len(self.ports) == 1:
            return self.store.drop(ids)
        port.release(self.store, ids[self.store.holds(ids)])
        return self.drop_unwanted()

    def drop_unwanted(self) -> int:
        """Drop the rows that no port wants: those that only a query wanted that has gone, and those that all ports have released."""
        store = self.store
        if not self.ports or not store.extent or not all(port.stores_words for port in self.ports):
            return 0
        wanted = np.zeros(store.extent, np.bool_)
        for port in self.ports:
            words = port.words_of(store, store.first, store.end)
            assert words is not None
            wanted |= any_bit(words)
        return 0 if wanted.all() else store.drop(np.flatnonzero(~wanted) + store.first)


def whole_columns(table: pa.Table) -> dict[str, pa.Array]:
    """The columns of a table, each as one array."""
    columns = {name: table.column(name) for name in table.column_names}
    return {name: column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for name, column in columns.items()}
