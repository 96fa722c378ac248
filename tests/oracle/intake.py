"""Which rows count, which are late, and in which order: "Time and order" of SEMANTICS, row by row.

Answer   `intake(streams, epochs, read)` is what a query that reads some of the streams sees: its rows in total order,
         the epoch in which each is processed, the rows that it misses with the first word of the reason, its frontier
         at the end of every epoch, and the rows that still wait for it. `dead_letters` has each row that some query
         misses, once.
Limits   Rows are mappings from column to value; TIMESTAMP is int microseconds. A row without event time is bad.
         Two rows of one stream with equal time and equal `sequence` keep their source order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.oracle.expressions import Value

Values = Mapping[str, Value]


@dataclass(frozen=True)
class Stream:
    name: str
    time: str = "ts"
    lateness: int = 0
    sequence: str | None = None
    most_ahead: int | None = None


@dataclass(frozen=True)
class Epoch:
    rows: Mapping[str, Sequence[Values]]
    #: The end of a bounded run.
    closing: bool = False
    #: The end of the streams, `closing` with it: nothing comes any more.
    final: bool = False
    #: Streams that are left out of the frontier in this epoch.
    idle: frozenset[str] = frozenset()
    #: The wall clock when its rows were read, in microseconds.
    at: int = 0


@dataclass(frozen=True)
class Row:
    """A row that counts."""

    stream: str
    values: Values
    ts: int
    #: Place in the total order of all processed rows, from 0.
    number: int
    #: Place among the processed rows of its stream, from 0.
    rank: int
    #: The epoch that processed it, from 0.
    epoch: int


@dataclass
class Intake:
    rows: list[Row] = field(default_factory=list)
    #: Per stream (reason, values), in arrival order, and the number of each among the rows that arrived.
    dead: dict[str, list[tuple[str, Values]]] = field(default_factory=dict)
    dead_at: dict[str, list[int]] = field(default_factory=dict)
    #: At the end of every epoch; None while a stream without data holds it back.
    frontiers: list[int | None] = field(default_factory=list)
    waiting: int = 0
    #: The end of the streams, once they have ended and had a row: *now* from then on.
    end: int | None = None


def intake(streams: Sequence[Stream], epochs: Iterable[Epoch], read: frozenset[str]) -> Intake:
    """Streams are in catalog order; `read` are those that the query reads."""
    out = Intake(dead={s.name: [] for s in streams}, dead_at={s.name: [] for s in streams})
    newest: dict[str, int] = {}
    arrived = {s.name: 0 for s in streams}
    waiting: list[tuple[tuple[int, int, Value, int], str, Values]] = []
    frontier: int | None = None
    for number, epoch in enumerate(epochs):
        horizon = {s.name: newest[s.name] - s.lateness for s in streams if s.name in newest}
        began_at = frontier
        for catalog_position, s in enumerate(streams):
            for values in epoch.rows.get(s.name, ()):
                ts = values[s.time]
                arrived[s.name] += 1
                if ts is not None and s.most_ahead is not None and ts > epoch.at + s.most_ahead:
                    # As a row that cannot be read: it moves nothing.
                    out.dead[s.name].append(("ahead", values))
                    out.dead_at[s.name].append(arrived[s.name])
                    continue
                below_horizon = ts is not None and s.name in horizon and ts < horizon[s.name]
                if ts is not None and not below_horizon:
                    # A row that a query has passed is late for that query; its stream has moved on all the same.
                    newest[s.name] = max(newest.get(s.name, ts), ts)
                passed = ts is not None and s.name in read and began_at is not None and ts < began_at
                if ts is None or below_horizon or passed:
                    out.dead[s.name].append(("bad" if ts is None else "late", values))
                    out.dead_at[s.name].append(arrived[s.name])
                elif s.name in read:
                    position = 0 if s.sequence is None else values[s.sequence]
                    waiting.append(((ts, catalog_position, position, arrived[s.name]), s.name, values))
        frontier = _frontier(streams, newest, read, epoch, began_at)
        ready = [w for w in waiting if frontier is not None and w[0][0] < frontier]
        waiting = [w for w in waiting if frontier is None or w[0][0] >= frontier]
        for place, stream, values in sorted(ready, key=lambda w: w[0]):
            rank = sum(1 for r in out.rows if r.stream == stream)
            out.rows.append(Row(stream, values, place[0], len(out.rows), rank, number))
        out.frontiers.append(frontier)
        if epoch.final and frontier is not None:
            out.end = frontier - 1
    out.waiting = len(waiting)
    return out


def dead_letters(
    streams: Sequence[Stream], epochs: Sequence[Epoch], reads: Iterable[frozenset[str]]
) -> dict[str, list[tuple[str, Values]]]:
    """Per stream each row that some query misses, once; `reads` are the streams of each query."""
    found: dict[str, dict[int, tuple[str, Values]]] = {s.name: {} for s in streams}
    for read in {frozenset(), *reads}:
        taken = intake(streams, epochs, read)
        for name, letters in found.items():
            letters.update(zip(taken.dead_at[name], taken.dead[name], strict=True))
    return {name: [letters[at] for at in sorted(letters)] for name, letters in found.items()}


def _frontier(
    streams: Sequence[Stream], newest: dict[str, int], read: frozenset[str], epoch: Epoch, before: int | None
) -> int | None:
    """Where the frontier stands after an epoch; it never goes back."""
    if epoch.closing:
        reached = max((newest[name] + 1 for name in read if name in newest), default=None)
    else:
        heard = [s for s in streams if s.name in read and s.name not in epoch.idle]
        horizons = [newest[s.name] - s.lateness if s.name in newest else None for s in heard]
        reached = None if not horizons or None in horizons else min(horizons)
    return before if reached is None else reached if before is None else max(before, reached)
