"""Rows into a session: pushed rows, and what is said of rows that come.

Answer   `SessionRows` is the part of a session that takes rows, punctuations, heartbeats and heralds.
State    The job and the runner of the session.
Limits   `push` may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa

from eddyline.connectors.pushed_rows import Rows
from eddyline.language import Job
from eddyline.runtime.engine.records.heralds import herald
from eddyline.runtime.engine.records.punctuating import advance, promise
from eddyline.runtime.front.runner import Runner


class SessionRows:
    job: Job
    _runner: Runner

    def push(self, stream: str, rows: Rows) -> int:
        """Queue rows of a stream; they are processed by the next `step`, `run` or `results`.

        Args:
            stream: The stream, whose rows are pushed.
            rows: A frame of pandas or polars, a relation of DuckDB, a table, batch or reader of Arrow, anything else
                with `__arrow_c_stream__`; a mapping from names to columns; an iterable of tuples, mappings or dataclass
                objects; or one such row. Names match in any order and case; a missing column is null, an unknown one is
                refused.

        Returns:
            How many rows there were. Those whose values do not fit become dead letters when they are processed.
        """
        return self._runner.push(self.job.catalog.stream(stream), rows)

    def punctuate(
        self, stream: str, what: str | pa.Table | Mapping[str, object], at: str | datetime | None = None
    ) -> None:
        """Promise that no further row of a stream matches: a condition as text, or constants by column, one promise per
        line of a table.

        Args:
            stream: The stream of which no such row comes any more.
            what: For example "item_id = 180 AND price < 5", or a table with a column item_id.
            at: Rows of this instant may still come; without it rows that were pushed before may.
        """
        promise(self._runner, self.job.catalog.stream(stream), what, at)

    def advance(self, stream: str | None = None, *, to: str | datetime) -> None:
        """A heartbeat: no further row of a stream (None: of any) has this time or an earlier one. Windows that end up to
        there are complete, as `punctuate(stream, "ts <= …")` makes them.

        Args:
            stream: The stream; without it all of them.
            to: The instant, such as "2024-01-01 12:00:00".
        """
        every = [found for found in self.job.streams if not found.is_derived]
        advance(self._runner, every if stream is None else [self.job.catalog.stream(stream)], to)

    def herald(
        self,
        stream: str,
        condition: str,
        *,
        rows: int | None = None,
        span: str | None = None,
        at: str | datetime | None = None,
    ) -> None:
        """Say what the next rows of a stream are like; rows that are not become dead letters.

        Args:
            stream: The stream whose rows come.
            condition: For example "store >= 200 AND store < 400".
            rows: The number of rows that are like that; or
            span: rows of so long, such as "10 minutes".
            at: After the rows of this instant; without it after the rows that were pushed before.
        """
        herald(self._runner, self.job.catalog.stream(stream), condition, rows, span, at)
