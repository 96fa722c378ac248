"""The keys of a template's rows, computed when the template gets a request.

Answer   `catch_up(end)` computes the missing keys of the rows below an id; `of` gives those of a stretch of rows.
State    Per row since the store's first: one key per grouping column, and one number whose bits are the columns that
         are null. For a ROWS template with a condition also whether the condition holds. A template without requests
         holds nothing.
Limits   Row ids must not change: `forget` drops everything where they do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eddyline.model.expressions.expression import Expression
from eddyline.operators.expressions.evaluate import Compiled, compile_expression
from eddyline.operators.stream.keys import keys_of
from eddyline.state.columns import Ints
from eddyline.state.store import Store


class TemplateKeys:
    def __init__(self, store: Store, keys: Sequence[Expression], holds: Expression | None, portion: int) -> None:
        """`portion` is the number of rows whose keys are computed at a time."""
        self.store = store
        self._portion = portion
        self._keys: list[tuple[Compiled, Expression]] = [(compile_expression(e), e) for e in keys]
        self._holds = None if holds is None else compile_expression(holds)
        self.forget()

    def forget(self) -> None:
        """Drop all keys: row ids have changed."""
        #: The id of the first row whose keys are known, and the one after the last.
        self.base = self.upto = 0
        self.keys: Ints = np.empty((len(self._keys), 0), np.int64)
        self.nulls: Ints = np.empty(0, np.int64)
        self.holds: npt.NDArray[np.bool_] | None = None if self._holds is None else np.empty(0, np.bool_)
        #: The bits of all columns that are null somewhere.
        self.null_bits = 0

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.nulls.nbytes + (0 if self.holds is None else self.holds.nbytes)

    def catch_up(self, end: int) -> None:
        """Compute the keys of the rows below the id `end`."""
        if self.upto < self.store.first:
            self.base = self.upto = self.store.first
        while self.upto < end:
            stop = min(end, self.upto + self._portion)
            self._make_room(stop)
            self._compute(self.upto, stop)
            self.upto = stop

    def _make_room(self, stop: int) -> None:
        """Room up to the id `stop`; rows that have left the store go."""
        if stop - self.base <= len(self.nulls):
            return
        gone = self.store.first - self.base
        live = self.upto - self.store.first
        size = max(2 * (stop - self.store.first), 1024)
        keys, nulls = np.empty((len(self._keys), size), np.int64), np.empty(size, np.int64)
        keys[:, :live] = self.keys[:, gone : gone + live]
        nulls[:live] = self.nulls[gone : gone + live]
        if self.holds is not None:
            holds = np.empty(size, np.bool_)
            holds[:live] = self.holds[gone : gone + live]
            self.holds = holds
        self.keys, self.nulls, self.base = keys, nulls, self.store.first

    def _compute(self, first: int, stop: int) -> None:
        ids = np.arange(first, stop)
        here = slice(first - self.base, stop - self.base)
        needed = {at for compiled, _ in self._keys for at in compiled.columns}
        needed |= set(self._holds.columns if self._holds is not None else ())
        columns = {at: self.store.gather(at[1], ids) for at in needed}
        self.nulls[here] = 0
        for number, (compiled, expression) in enumerate(self._keys):
            values = compiled({at: columns[at] for at in compiled.columns}, len(ids))
            self.keys[number, here] = keys_of(values, expression.type)
            if values.null_count:
                self.null_bits |= 1 << number
                self.nulls[here] |= np.asarray(values.is_null()).astype(np.int64) << number
        if self._holds is not None and self.holds is not None:
            values = self._holds({at: columns[at] for at in self._holds.columns}, len(ids))
            self.holds[here] = np.asarray(values.fill_null(False))

    def column(self, number: int, first: int, end: int) -> Ints:
        """The keys of a grouping column, of the rows first … end-1; a view."""
        return self.keys[number, first - self.base : end - self.base]

    def lines(self, first: int, end: int) -> Ints:
        """The keys of all grouping columns, one line each; a view."""
        return self.keys[:, first - self.base : end - self.base]

    def nulls_of(self, first: int, end: int) -> Ints:
        return self.nulls[first - self.base : end - self.base]
