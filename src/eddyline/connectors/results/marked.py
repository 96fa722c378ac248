"""Results and the punctuations of results in one sink, in the order of their times.

Answer   `MarkedSink` writes the results of a query with a further BOOLEAN column: false in results, true in
         punctuations. A punctuation has constants in the columns of finished values and null in the others. It follows
         the results of its instant. Its `_ts` is the later of the instant and the newest `_ts` that was written before.
State    Results and punctuations of the current epoch, and the newest `_ts` of the epochs before.
Limits   After a restart the newest `_ts` is read from the last file. Spark's own formats have no such file: a punctuation
         that waited over a restart (`propagate = n`) may have a smaller `_ts` than results that were written.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.results.output import arranged
from eddyline.connectors.results.sinks import PassingSink
from eddyline.model.schema import RESULT_TIME

#: Columns that stand last in results.
_LAST = ("_op", RESULT_TIME)


@runtime_checkable
class Lasting(Protocol):
    """A sink that can return the time of the newest row that it has written."""

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
        """The sink for the punctuations of the results."""
        return _PunctuationSink(self)

    def open(self, schema: pa.Schema) -> None:
        plain = [field for field in schema if field.name not in _LAST]
        last = [field for field in schema if field.name in _LAST]
        self._schema = pa.schema([*plain, pa.field(self.column, pa.bool_()), *last])
        self.inner.open(self._schema)

    def write(self, epoch: int, table: pa.Table) -> None:
        self._go_to(epoch)
        self._results.append(table)

    def add_punctuations(self, epoch: int, table: pa.Table) -> None:
        """Take punctuations of an epoch; `end_epoch` writes them."""
        self._go_to(epoch)
        self._punctuations.append(table)

    def _go_to(self, epoch: int) -> None:
        if epoch != self._epoch:
            self.end_epoch()
            self._epoch = epoch

    def end_epoch(self) -> None:
        """Write the results and punctuations of the current epoch in the order of their times."""
        results, punctuations = self._results, self._punctuations
        self._results, self._punctuations = [], []
        if punctuations and not self._begun and isinstance(self.inner, Lasting):
            self._newest = self.inner.last_time()
        if not results and not punctuations:
            return
        self._begun = True
        parts = [self._marked(table, False) for table in results]
        parts += [self._marked(table, True) for table in punctuations]
        times = np.concatenate([_times(part) for part in parts])
        rows = sum(len(table) for table in results)
        if self._newest is not None:
            times[rows:] = np.maximum(times[rows:], self._newest)
        order = np.argsort(times, kind="stable") if punctuations else np.arange(len(times))
        whole = pa.concat_tables(parts)
        if punctuations:
            at = whole.column_names.index(RESULT_TIME)
            field = whole.schema.field(at)
            whole = whole.set_column(at, field, pa.array(times).cast(field.type)).take(pa.array(order))
        if len(times):
            self._newest = int(times[order[-1]])
            self.inner.write(self._epoch, whole)

    def _marked(self, table: pa.Table, is_punctuation: bool) -> pa.Table:
        assert self._schema is not None, "open comes before write"
        return arranged(table, self._schema, {self.column: pa.repeat(pa.scalar(is_punctuation), len(table))})

    def flush(self, epoch: int) -> None:
        self.end_epoch()
        self.inner.flush(epoch)

    def truncate_after(self, epoch: int) -> None:
        self._results, self._punctuations, self._newest, self._begun = [], [], None, False
        self.inner.truncate_after(epoch)

    def close(self) -> None:
        self.end_epoch()
        self.inner.close()


class _PunctuationSink(PassingSink):
    """Passes punctuations to a marked sink, which writes them."""

    def __init__(self, marked: MarkedSink) -> None:
        self._marked = marked

    def write(self, epoch: int, table: pa.Table) -> None:
        self._marked.add_punctuations(epoch, table)


def with_punctuations(opened: Sink, options: Mapping[str, str], marked: list[MarkedSink]) -> Sink:
    """The sink of a query; with the option `punctuation` one that takes the punctuations of the results too, which is
    then added to `marked`."""
    if "punctuation" not in options:
        return opened
    made = MarkedSink(opened, options["punctuation"])
    marked.append(made)
    return made


def _times(table: pa.Table) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = np.array(table.column(RESULT_TIME).cast(pa.int64()), dtype=np.int64)
    return found
