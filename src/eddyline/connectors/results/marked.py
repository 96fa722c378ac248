"""Results and the punctuations of results in one sink, in the order of their times.

Answer   `MarkedSink` writes the results of a query with a further BOOLEAN column: false in results, true in
         punctuations. A punctuation has constants in the columns of finished values and null in the others. It follows
         the results of its instant. Its `_ts` is the later of the instant and the newest `_ts` that was written before.
State    What came in the epoch at hand, and the newest `_ts` of those before it.
Limits   After a restart the newest `_ts` is read from the last file. Formats that Spark writes have none: a punctuation
         that waited (`propagate = n`) over a restart may have a smaller `_ts` than results that were written.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.results.sinks import PassingSink
from eddyline.model.schema import RESULT_TIME

#: Columns that stand last in results.
_LAST = ("_op", RESULT_TIME)


@runtime_checkable
class Lasting(Protocol):
    """A sink that knows what it wrote."""

    def last_time(self) -> int | None:
        """The newest `_ts` that was written, in microseconds; None: there is none."""


class MarkedSink:
    def __init__(self, inner: Sink, column: str) -> None:
        self.inner = inner
        self.column = column
        self._schema: pa.Schema | None = None
        self._results: list[pa.Table] = []
        self._punctuations: list[pa.Table] = []
        self._epoch = -1
        self._newest: int | None = None
        self._begun = False

    @property
    def punctuations(self) -> Sink:
        """What takes the punctuations of the results."""
        return _Told(self)

    def open(self, schema: pa.Schema) -> None:
        plain = [field for field in schema if field.name not in _LAST]
        last = [field for field in schema if field.name in _LAST]
        self._schema = pa.schema([*plain, pa.field(self.column, pa.bool_()), *last])
        self.inner.open(self._schema)

    def write(self, epoch: int, table: pa.Table) -> None:
        self._go_to(epoch)
        self._results.append(table)

    def add_punctuations(self, epoch: int, table: pa.Table) -> None:
        """Punctuations of an epoch."""
        self._go_to(epoch)
        self._punctuations.append(table)

    def _go_to(self, epoch: int) -> None:
        if epoch != self._epoch:
            self.end_epoch()
            self._epoch = epoch

    def end_epoch(self) -> None:
        """The epoch has brought everything: it is written in order."""
        results, punctuations = self._results, self._punctuations
        self._results, self._punctuations = [], []
        if punctuations and not self._begun and isinstance(self.inner, Lasting):
            self._newest = self.inner.last_time()
        if not results and not punctuations:
            return
        self._begun = True
        parts = [self._marked(table, False) for table in results] + [
            self._marked(table, True) for table in punctuations
        ]
        times = np.concatenate([_times(part) for part in parts])
        rows = sum(len(table) for table in results)
        if self._newest is not None:
            times[rows:] = np.maximum(times[rows:], self._newest)
        order = np.argsort(times, kind="stable") if punctuations else np.arange(len(times))
        whole = pa.concat_tables(parts)
        if punctuations:
            at = whole.column_names.index(RESULT_TIME)
            whole = whole.set_column(
                at, whole.schema.field(at), pa.array(times).cast(whole.schema.field(at).type)
            ).take(pa.array(order))
        if len(times):
            self._newest = int(times[order[-1]])
            self.inner.write(self._epoch, whole)

    def _marked(self, table: pa.Table, is_punctuation: bool) -> pa.Table:
        assert self._schema is not None, "open comes before write"
        rows = len(table)
        columns = [
            pa.repeat(pa.scalar(is_punctuation), rows)
            if field.name == self.column
            else table.column(field.name)
            if field.name in table.column_names
            else pa.nulls(rows, field.type)
            for field in self._schema
        ]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def flush(self, epoch: int) -> None:
        self.end_epoch()
        self.inner.flush(epoch)

    def truncate_after(self, epoch: int) -> None:
        self._results, self._punctuations, self._newest, self._begun = [], [], None, False
        self.inner.truncate_after(epoch)

    def close(self) -> None:
        self.end_epoch()
        self.inner.close()


class _Told(PassingSink):
    """The other end of a marked sink: it takes punctuations, and the sink itself takes care of the rest."""

    def __init__(self, whole: MarkedSink) -> None:
        self._whole = whole

    def write(self, epoch: int, table: pa.Table) -> None:
        self._whole.add_punctuations(epoch, table)


def with_punctuations(opened: Sink, options: Mapping[str, str], marked: list[MarkedSink]) -> Sink:
    """The sink of a query, which takes the punctuations of its results too where its options say so; it is then among
    the marked ones."""
    if "punctuation" not in options:
        return opened
    made = MarkedSink(opened, options["punctuation"])
    marked.append(made)
    return made


def _times(table: pa.Table) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = np.array(table.column(RESULT_TIME).cast(pa.int64()), dtype=np.int64)
    return found
