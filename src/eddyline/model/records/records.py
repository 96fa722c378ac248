"""Records: punctuations and heralds, each at a place in the order of a stream's rows.

Answer   `Records` holds many records of one stream and one kind as columns: their places and their bodies. Records
         have places in the total order among the rows of their stream and wait for the frontier like rows. No window
         counts them.

             rows       r0 (10)   r1 (20)            r2 (20)          r3 (30)
             records                  (20, number 2)    (20, AFTER_ALL)        (30, AFTER_ALL)

State    None: a batch of records never changes.
Limits   The kind of a record defines the columns of its body. In the records of a source, numbers count from its first
         row.
Reading  docs/add-a-record.md
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.schema import Stream

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Numbers of places before and after all rows of their time.
BEFORE_ALL = int(np.iinfo(np.int64).min)
AFTER_ALL = int(np.iinfo(np.int64).max)

#: Columns of places in the tables that snapshots and packets hold, before those of the body.
_PLACE = ("_ts", "_number", "_sequence", "_origin_ts", "_home", "_serial")
_ABOUT = b"eddyline.records"
#: The columns of records that are NumPy arrays; the others are Arrow's.
_NUMPY = ("ts", "number", "origin_ts", "home", "serial")


@dataclass(frozen=True, eq=False)
class Records:
    """Records of one stream and one kind, in the order in which they came."""

    stream: str
    kind: str
    #: Event time of each place, in microseconds.
    ts: Ints
    #: A record lies before the row of its time that has this number of arrival, and after those with smaller ones;
    #: or BEFORE_ALL, AFTER_ALL.
    number: Ints
    #: One line per record.
    body: pa.Table
    #: Of a stream with a `sequence`: the value of each place; null: after all values.
    sequence: pa.Array | None = None
    #: Records that were derived from rows of a stream: that stream and the event times of these rows. A late row gives
    #: no record.
    origin: str | None = None
    origin_ts: Ints | None = None
    #: Where several shards get a record: whether this copy is the one that is counted. None: all are.
    home: Flags | None = None
    #: The name of a statement's records: a pipeline takes them once, however often the job starts again.
    once: str | None = None
    #: The order in which records of all kinds came to their stream; its gate gives these numbers.
    serial: Ints | None = None

    def __len__(self) -> int:
        return len(self.ts)

    @staticmethod
    def one(
        stream: str,
        kind: str,
        ts: int,
        body: Mapping[str, Any],
        number: int = AFTER_ALL,
        once: str | None = None,
        sequence: Any = None,
    ) -> Records:
        """A single record; by default its place is after all rows of its time."""
        table = pa.table({name: [value] for name, value in body.items()})
        place = None if sequence is None else pa.array([sequence])
        return Records(stream, kind, np.array([ts], np.int64), np.array([number], np.int64), table, place, once=once)

    @staticmethod
    def beside(
        source: Stream, target: Stream, kind: str, ts: Ints, body: pa.Table, origin_ts: Ints | None = None
    ) -> Records:
        """Records of `target` at places of rows of another stream: before or after all rows of that time, by the order
        of the catalog."""
        side = BEFORE_ALL if source.position < target.position else AFTER_ALL
        number = np.full(len(ts), side, np.int64)
        return Records(
            target.name, kind, ts, number, body, origin=source.name, origin_ts=ts if origin_ts is None else origin_ts
        )

    @property
    def counted(self) -> int:
        """How many of them are counted here."""
        return len(self) if self.home is None else int(self.home.sum())

    def take(self, chosen: npt.NDArray[Any]) -> Records:
        """Those with these numbers, or where a mask is true."""
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        places = pa.array(chosen, pa.int64())
        return self._each(lambda array: array[chosen], lambda array: array.take(places))

    def slice(self, start: int, stop: int) -> Records:
        """Those from one number to before another; nothing is copied."""
        if stop - start == len(self):
            return self
        return self._each(lambda array: array[start:stop], lambda array: array.slice(start, stop - start))

    def _each(self, change: Callable[[Any], Any], change_arrow: Callable[[Any], Any]) -> Records:
        """The records with each of their columns changed: those of NumPy, and those of Arrow."""
        given = [name for name in (*_NUMPY, "body", "sequence") if getattr(self, name) is not None]
        columns = {name: (change if name in _NUMPY else change_arrow)(getattr(self, name)) for name in given}
        return replace(self, **columns)

    def shifted(self, rows: int) -> Records:
        """The same records after `rows` further rows before the first one; places before and after all rows stay."""
        if not rows:
            return self
        among = (self.number != BEFORE_ALL) & (self.number != AFTER_ALL)
        return replace(self, number=np.where(among, self.number + np.where(among, rows, 0), self.number))

    def renumbered(self, kept: Flags) -> Records:
        """The same records where only the rows with a flag are left: a number counts rows that are left."""
        before = np.concatenate([[0], np.cumsum(kept)])
        among = (self.number != BEFORE_ALL) & (self.number != AFTER_ALL)
        return replace(self, number=np.where(among, before[np.clip(self.number, 0, len(kept))], self.number))

    # -- as tables and documents

    def table(self) -> pa.Table:
        """The records as one table, with what is the same for all of them in its metadata."""
        given = {name: getattr(self, name.removeprefix("_")) for name in _PLACE}
        columns: dict[str, Any] = {name: column for name, column in given.items() if column is not None}
        for name in self.body.column_names:
            columns["body " + name] = self.body.column(name)
        about = {"stream": self.stream, "kind": self.kind, "origin": self.origin, "once": self.once}
        return pa.table(columns).replace_schema_metadata({_ABOUT: json.dumps(about).encode()})

    @staticmethod
    def from_table(table: pa.Table) -> Records:
        about = json.loads(table.schema.metadata[_ABOUT])
        names = [name for name in table.column_names if name not in _PLACE]
        body = table.select(names).rename_columns([name[5:] for name in names]).replace_schema_metadata(None)
        given = table.column_names
        return Records(
            about["stream"],
            about["kind"],
            _ints(table, "_ts"),
            _ints(table, "_number"),
            body,
            table.column("_sequence").combine_chunks() if "_sequence" in given else None,
            about["origin"],
            _ints(table, "_origin_ts") if "_origin_ts" in given else None,
            np.asarray(table.column("_home")).astype(np.bool_) if "_home" in given else None,
            about["once"],
            _ints(table, "_serial") if "_serial" in given else None,
        )

    def document(self) -> dict[str, Any]:
        """The records as a JSON value; for bodies of texts, numbers and truth values."""
        places = {"ts": self.ts.tolist(), "number": self.number.tolist()}
        return {"stream": self.stream, "kind": self.kind, **places, "body": self.body.to_pydict(), "once": self.once}

    @staticmethod
    def from_document(found: Mapping[str, Any]) -> Records:
        ts, number = np.array(found["ts"], np.int64), np.array(found["number"], np.int64)
        return Records(found["stream"], found["kind"], ts, number, pa.table(found["body"]), once=found["once"])


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table.column(name)).astype(np.int64)


def concatenated(batches: Sequence[Records]) -> list[Records]:
    """The same records in few batches: those of one kind and origin together, in their order."""
    groups: dict[tuple[object, ...], list[Records]] = {}
    for batch in batches:
        whole = (batch.sequence is None, batch.origin_ts is None, batch.home is None, batch.serial is None)
        groups.setdefault((batch.stream, batch.kind, batch.origin, batch.body.schema, *whole), []).append(batch)
    return [_joined(same) for same in groups.values()]


def _joined(same: Sequence[Records]) -> Records:
    if len(same) == 1:
        return same[0]
    given = [name for name in _NUMPY if getattr(same[0], name) is not None]
    columns = {name: np.concatenate([getattr(batch, name) for batch in same]) for name in given}
    sequence = None if same[0].sequence is None else pa.concat_arrays([batch.sequence for batch in same])
    body = pa.concat_tables([batch.body for batch in same])
    return replace(same[0], body=body, sequence=sequence, once=None, **columns)  # type: ignore[arg-type]
