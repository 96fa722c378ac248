"""The promises about one stream: which of its rows break one.

Answer   `Promises.check` takes the rows of a stream with the punctuations among them, once, in order. A row that comes
         after a punctuation and matches it is a violation: it is removed, with a reason. The punctuations are kept for
         the rows of later calls.
State    All promises (`closed.py`).
Limits   A violation is a row: it makes no other row one. Rows that come out of order after their stream was idle are
         judged by all promises that have taken effect.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.model.records.punctuation import PATTERN, from_text
from eddyline.model.records.records import Flags
from eddyline.model.schema import Stream
from eddyline.operators.promises.closed import Closed, first_places, makes_promises
from eddyline.operators.promises.covering import covered
from eddyline.operators.stream.gate import GateStretch, PlacedRecords, Verdict


class Promises:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        types = {column.name: column.type for column in stream.schema.columns}
        self.closed = Closed(types, stream.remember)
        self._run = uuid4().hex[:8]

    def check(self, passing: GateStretch, dead: Flags) -> Verdict | None:
        """The rows that a promise before them covers."""
        placed = [one for one in passing.records if makes_promises(one.records)]
        rows = len(passing.ts)
        broken = np.zeros(rows, np.bool_)
        if rows:
            columns = _Columns(passing.table)
            if not self.closed.is_empty:
                broken |= self.closed.old(columns, rows, ts=passing.ts)
            for one in placed:
                if (found := self._broken(one, columns, rows)) is not None:
                    broken |= found
        for one in placed:
            self.closed.add(one.records.body, one.records.ts)
        if placed:
            self.closed.make_old(passing.frontier)
        if not broken.any():
            return None
        return Verdict(broken, self._reasons(columns, broken))

    def _broken(self, one: PlacedRecords, columns: Mapping[str, pa.Array], rows: int) -> Flags | None:
        """Rows that come after one of these punctuations and match it; None: no row has a key near theirs."""
        body = one.records.body
        if body.column_names == [PATTERN]:
            found = np.zeros(rows, np.bool_)
            for text, before in zip(body.column(PATTERN).to_pylist(), one.before.tolist(), strict=True):
                mask = covered(from_text(text, self.closed.types), columns, {}, rows, self.closed.types)
                assert mask is not None
                mask[:before] = False
                found |= mask
            return found
        first = first_places(body, one.before, columns, self.closed.types, rows)
        return None if first is None else np.arange(rows) >= first

    def _reasons(self, columns: Mapping[str, pa.Array], broken: Flags) -> pa.Array:
        text = "violation: a punctuation before it says that no such row comes"
        if self.stream.key:
            text += f", or a row with its {', '.join(self.stream.key)} came before"
        return pa.repeat(pa.scalar(text), int(broken.sum()))

    # -- snapshots

    def snapshot(self) -> tuple[object, Mapping[str, Callable[[], pa.Table]]]:
        return self.closed.snapshot(f"promises-{self.stream.name}-{self._run}")

    def restore(self, state: object, load: Callable[[str], pa.Table]) -> None:
        self.closed.restore(state, load)


class _Columns(Mapping[str, pa.Array]):
    """The columns of a table; the chunks of a column are combined when it is first read."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._whole: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._whole:
            column = self._table.column(name)
            self._whole[name] = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return self._whole[name]

    def __contains__(self, name: object) -> bool:
        return name in self._table.column_names

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.column_names)

    def __len__(self) -> int:
        return self._table.num_columns
