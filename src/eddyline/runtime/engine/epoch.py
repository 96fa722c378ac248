"""What a driver hands to the pipeline and what it gets back: one epoch.

Answer   `Epoch` carries, per stream, the rows that arrived (in source order) and the rows that could not be read. Where the
         pipeline is a shard, it also carries what the driver knows of the whole stream.
         `Outcome` carries results per query in order, dead letters per stream, and where the frontier is now.
Limits   Plain data. Nothing here decides what is late or what is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.model.records.records import Records
from eddyline.operators.sharing.filter_group import Bundle


@dataclass(frozen=True)
class Arrival:
    """What one stream brings in one epoch."""

    #: Readable rows in source order: exactly the declared columns with their declared Arrow types; the event time is
    #: never null and lies within years 1 to 9999.
    rows: pa.Table
    #: Unreadable rows: the declared columns as text, plus `_reason`; None when there are none.
    bad: pa.Table | None = None
    #: Newest event time (microseconds) that the *whole* stream brought in this epoch, where `rows` may be a part.
    #: None: the newest of `rows`.
    newest: int | None = None
    #: The stream has ended: it will bring no further row.
    closed: bool = False
    #: Per row a uint64: bit r is set where routing r sent the row here. None: every routing did.
    routes: np.ndarray | None = None
    #: Where `rows` may be a part: how many readable rows the whole stream brought in this epoch, and for each of `rows`
    #: its place among them in source order. None: `rows` is everything.
    total: int | None = None
    places: np.ndarray | None = None
    #: The event times of all readable rows of the stream in this epoch, in source order: for parts of streams read with
    #: ROWS.
    census: np.ndarray | None = None
    #: Records that came with the rows; `number` counts the readable rows of the whole stream in this epoch. Those of
    #: other streams come before or after all rows of their time.
    records: tuple[Records, ...] = ()
    #: How many rows were not read, because no query can use them; `total`, `newest` and `places` count them.
    skipped: int = 0
    #: How many row groups were skipped, and read for each reason, where the pipeline is a shard.
    row_groups: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Epoch:
    arrivals: Mapping[str, Arrival]
    #: Streams that have been silent for longer than their `idle` and do not hold the frontier back now.
    idle: frozenset[str] = frozenset()
    #: The end of a bounded run: every frontier moves just past the newest row and the last heartbeat of the streams
    #: that it follows.
    closing: bool = False
    #: The end of the streams, `closing` with it: nothing comes any more, and what is open is closed.
    final: bool = False
    #: Records of statements, which did not come with rows.
    records: tuple[Records, ...] = ()


@dataclass
class Outcome:
    #: Per query, result tables in delivery order: the selected columns, then `_ts` (aggregates: `_op`, then `_ts`).
    results: dict[str, list[pa.Table]] = field(default_factory=dict)
    #: Results of queries that filter one stream, many queries to a table; for drivers that take bundles.
    bundles: list[Bundle] = field(default_factory=list)
    #: Per stream, rows that are late or bad: declared columns (late rows typed, bad rows as text) and `_reason`.
    dead: dict[str, list[pa.Table]] = field(default_factory=dict)
    #: Queries that were dropped earlier and have given their last result now.
    gone: list[str] = field(default_factory=list)
    #: Event times strictly below are answered by all queries; and per timeline by its queries.
    frontier: int | None = None
    frontiers: dict[str, int | None] = field(default_factory=dict)
    #: Of requests to a shard: per token what became of them, and per token and template the parts of
    #: the answers.
    request_outcomes: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, pa.Table] = field(default_factory=dict)
    #: Rows that wait for the frontier.
    waiting: int = 0
    #: Rows of derived streams that other pipelines read: by stream and the number of the maker, with the places of
    #: newest rows.
    handed: dict[tuple[str, int], pa.Table] = field(default_factory=dict)


_PUNCTUATIONS = "/_punctuations"


def punctuations_of(query: str) -> str:
    """The name under which the punctuations of a query's results are delivered: a folder in that of its results."""
    return query + _PUNCTUATIONS


def results_of(name: str) -> str:
    """The query of that name, or the query whose punctuations go by it."""
    return name.removesuffix(_PUNCTUATIONS)
