"""Streams with punctuations for the figures of the dissertation: a row every 2 ms on average (Poisson), 20 open keys.

Answer   `by_clock` gives streams whose keys open and close at the same instants in all of them, as auctions do;
         `by_count` streams that close a key after every so many rows of their own; `four_streams` the streams of figure
         8.7. `run` feeds streams to one join and counts rows held after every epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import Session
from eddyline.settings import Settings

OPEN_KEYS = 20
EPOCHS = 80
GAP = 2_000
#: Of the four streams: microseconds from row to row, until a key is closed, and of a window.
_STEP, _LIFE, _WINDOW = 10_000, 100_000, 10_000_000
JOIN = "SELECT a.k, b.ts AS at FROM a, b WHERE a.k = b.k"


def by_clock(seconds: float, per_punctuation: int, seed: int) -> pa.Table:
    """A key closes whenever so many rows have come on average."""
    rng = np.random.default_rng(seed)
    ts = _times(rng, seconds)
    oldest = ts // (GAP * per_punctuation)
    ends = np.arange(1, int(oldest[-1]) + 1)
    return _with_ends(ts, oldest + rng.integers(0, OPEN_KEYS, len(ts)), ends - 1, ends * GAP * per_punctuation - 1)


def by_count(seconds: float, per_punctuation: int, seed: int) -> pa.Table:
    """A key closes after so many rows of this stream."""
    rng = np.random.default_rng(seed)
    ts = _times(rng, seconds)
    oldest = np.arange(len(ts)) // per_punctuation
    closing = np.arange(per_punctuation - 1, len(ts), per_punctuation)
    return _with_ends(ts, oldest + rng.integers(0, OPEN_KEYS, len(ts)), oldest[closing], ts[closing])


def four_streams(seconds: float, droppable: float = 0.4) -> tuple[dict[str, pa.Table], int, str]:
    """Four streams of 100 rows a second each under windows of 10 s; the first one closes a key every 10 rows, the
    others close none.
    Rows of these come late for their keys so often that the given share of all rows has a key that the first stream has
    closed and whose rows of it have left their window. With how many these rows are, and the join."""
    gap, life, window = _STEP, _LIFE, _WINDOW
    tables, lost = {}, 0
    for number, name in enumerate("abcd"):
        rng = np.random.default_rng(number)
        ts = np.cumsum(rng.exponential(gap, int(seconds * 1_000_000 / gap))).astype(np.int64)
        keys = ts // life + rng.integers(0, OPEN_KEYS, len(ts))
        if name == "a":
            ends = np.arange(1, int(ts[-1] // life) + 1)
            tables[name] = _with_ends(ts, keys, ends - 1, ends * life - 1)
            continue
        # The first rows have no key that is closed for so long; later ones make up for it.
        possible = ts > window + (OPEN_KEYS + 2) * life
        late = possible & (rng.random(len(ts)) < droppable * 4 / 3 * len(ts) / possible.sum())
        keys[late] = (ts[late] - window) // life - 2 - rng.integers(0, OPEN_KEYS, int(late.sum()))
        lost += int(late.sum())
        tables[name] = _with_ends(ts, keys, keys[:0], ts[:0])
    windows = ", ".join(f"{name} [RANGE 10 SECONDS] AS {name}" for name in "abcd")
    return tables, lost, f"SELECT a.k, d.ts AS at FROM {windows} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"


def without_droppable(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Four streams without the rows whose keys the first one closed more than a window ago."""

    def kept(table: pa.Table) -> pa.Table:
        late = table.column("ts").cast(pa.int64()).to_numpy() >= (table.column("k").to_numpy() + 1) * _LIFE + _WINDOW
        return table.filter(pa.array(~late))

    return {name: table if name == "a" else kept(table) for name, table in tables.items()}


def _times(rng: np.random.Generator, seconds: float) -> Any:
    return np.cumsum(rng.exponential(GAP, int(seconds * 1_000_000 / GAP))).astype(np.int64)


def _with_ends(ts: Any, keys: Any, closed: Any, at: Any) -> pa.Table:
    """Rows and punctuations in order; a punctuation stands after the rows of its instant."""
    times = np.concatenate([ts, at])
    order = np.argsort(times, kind="stable")
    done = np.concatenate([np.zeros(len(ts), np.bool_), np.ones(len(at), np.bool_)])[order]
    return pa.table(
        {
            "k": np.concatenate([keys, closed])[order],
            "done": done,
            "ts": pa.array(times[order]).cast(pa.timestamp("us")),
        }
    )


def pair(seconds: float, per_punctuation: int) -> dict[str, pa.Table]:
    return {"a": by_clock(seconds, per_punctuation, 1), "b": by_clock(seconds, per_punctuation, 2)}


@dataclass
class Count:
    #: Rows held after every epoch, by stream and in all.
    by_stream: dict[str, list[int]] = field(default_factory=dict)
    told: pa.Table | None = None
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def held(self) -> list[int]:
        return [sum(rows) for rows in zip(*self.by_stream.values(), strict=True)]

    @property
    def mean(self) -> float:
        """Without the first quarter, in which state builds up, and the end."""
        return float(np.mean(self.held[EPOCHS // 4 : EPOCHS]))


def run(tables: dict[str, pa.Table], settings: Settings, select: str, said: Iterable[str] = ()) -> Count:
    found = Count({name: [] for name in tables})
    with Session(settings) as session:
        for name in tables:
            session.execute(
                f"CREATE STREAM {name} (k BIGINT, done BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'done')"
            )
        for statement in said:
            session.execute(statement)
        query = session.query("q", select)
        for epoch in range(EPOCHS):
            for name, table in tables.items():
                first, last = (len(table) * n // EPOCHS for n in (epoch, epoch + 1))
                session.push(name, table.slice(first, last - first))
            session.step()
            _note(session, found)
        session.run(final=False)
        _note(session, found)
        found.stats = session.stats()
        found.told = query.punctuations()
    return found


def _note(session: Session, found: Count) -> None:
    stores = {one.name: one.store.live for one in session.pipeline.stores()}
    for name, rows in found.by_stream.items():
        rows.append(stores[name])
