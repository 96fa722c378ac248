"""A kind of records that only tests have: a note in a column of a row strikes out later rows with a key.

A row whose `note` is not null is no row but a note: `strike` takes out the rows that stand after it and have its `k`,
anything else says nothing. The oracle is `struck`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.records.records import Flags, Records
from eddyline.model.schema import Stream
from eddyline.operators.stream.gate import Checker, GateStretch, Verdict
from eddyline.operators.stream.intake import event_times
from eddyline.runtime.engine.records.kinds import RecordKind, Split, Splitter

NAME = "tests.runtime.noted:Notes"


class Notes(RecordKind):
    name = "note"
    for_units = True

    def concerns(self, stream: Stream) -> bool:
        return stream.schema.find("note") is not None

    def splitter(self, stream: Stream, streams: Mapping[str, Stream]) -> Splitter | None:
        def split(rows: pa.Table) -> Split:
            noted = pc.is_valid(rows.column("note")).to_numpy()
            notes = rows.filter(pa.array(noted))
            number = np.cumsum(~noted)[noted]
            sequence = None if stream.sequence is None else notes.column(stream.sequence).combine_chunks()
            times = event_times(notes, stream.time)
            return Split(
                ~noted, [Records(stream.name, self.name, times, number, notes.select(["k", "note"]), sequence)]
            )

        return split if self.concerns(stream) else None

    def checker(self, stream: Stream, streams: Mapping[str, Stream]) -> Checker | None:
        return Striking() if stream.schema.find("k") is not None else None

    def pinned(self, records: Records, stream: Stream) -> pa.Table | None:
        return records.body.select(["k"])


class Striking:
    """Rows that stand after a strike of their key are taken out."""

    def __init__(self) -> None:
        self.struck: set[int] = set()
        self.rows = 0
        self.notes = 0

    def check(self, passing: GateStretch, dead: Flags) -> Verdict | None:
        self.rows += len(passing.ts)
        keys = passing.table.column("k").to_numpy()
        struck = np.isin(keys, list(self.struck))
        for placed in (one for one in passing.records if one.records.kind == Notes.name):
            assert bool((np.diff(placed.before) >= 0).all())
            self.notes += len(placed.records)
            for place, k, note in zip(
                placed.before.tolist(), *placed.records.body.select(["k", "note"]).to_pydict().values(), strict=True
            ):
                if note == "strike":
                    self.struck.add(k)
                    struck[place:] |= keys[place:] == k
        return (
            Verdict(struck, pa.array(["violation: struck"] * int(struck.sum()), pa.string())) if struck.any() else None
        )

    def snapshot(self) -> tuple[object, Mapping[str, Callable[[], pa.Table]]]:
        return {"struck": sorted(self.struck), "rows": self.rows, "notes": self.notes}, {}

    def restore(self, state: object, load: Callable[[str], pa.Table]) -> None:
        assert isinstance(state, dict)
        self.struck, self.rows, self.notes = set(state["struck"]), state["rows"], state["notes"]


def struck(
    rows: list[dict[str, Any]], by: tuple[str, ...] = ("ts",)
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of a stream that stay, in source order, and those that are taken out; ids are places in the source."""
    gone: set[int] = set()
    dead: set[int] = set()
    for place in sorted(range(len(rows)), key=lambda n: (*(rows[n][name] for name in by), n)):
        row = rows[place]
        if row["note"] == "strike":
            gone.add(row["k"])
        elif row["note"] is None and row["k"] in gone:
            dead.add(place)
    real = [(place, row) for place, row in enumerate(rows) if row["note"] is None]
    return [row for place, row in real if place not in dead], [row for place, row in real if place in dead]


class Silent(RecordKind):
    """Every stream has a gate, and every row a record that says nothing; nothing is taken out."""

    name = "silent"
    for_units = True

    def concerns(self, stream: Stream) -> bool:
        return True

    def splitter(self, stream: Stream, streams: Mapping[str, Stream]) -> Splitter | None:
        def split(rows: pa.Table) -> Split:
            times = event_times(rows, stream.time)
            sequence = None if stream.sequence is None else rows.column(stream.sequence).combine_chunks()
            body = pa.table({"place": np.arange(len(times))})
            return Split(None, [Records(stream.name, self.name, times, np.arange(len(times)), body, sequence)])

        return split
