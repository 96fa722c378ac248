"""Results of a query in this process, until a program takes them.

Answer   `KeptResults` is the `Handle` of a query of a session without Spark: its results, and the punctuations of its
         results.
State    Tables that nothing has taken yet, and how many rows were dropped of them: the oldest, where SET keep_results
         bounds their number.
Limits   One thread may keep while another takes. One warning per query says that many rows wait.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.connectors.results.sinks import CallbackSink
from eddyline.errors import EddylineWarning, Unsupported
from eddyline.operators.join.port import LONG_AGO
from eddyline.runtime.engine.epoch import results_of
from eddyline.runtime.engine.unit import Registered
from eddyline.runtime.front.runner import Handle
from eddyline.settings import Settings


class KeptResults:
    """Results of a query until they are taken; one thread may keep while another takes."""

    def __init__(self, name: str, schema: Callable[[], pa.Schema]) -> None:
        """`schema`: that of the results, where the query is not registered yet."""
        self._name, self._schema = name, schema
        #: Of the query.
        self.settings = Settings()
        self._lock = threading.Lock()
        self._waiting: deque[pa.Table] = deque()
        #: Rows that wait, and those that were dropped.
        self._rows = self.dropped = 0
        self._warned = False
        self._punctuations: deque[pa.Table] = deque()
        self.registered: Registered | None = None

    @property
    def start(self) -> int | None:
        if self.registered is None or self.registered.start == LONG_AGO:
            # From the first row on.
            return None
        return self.registered.start

    @property
    def stop(self) -> int | None:
        return None if self.registered is None else self.registered.stop

    @property
    def schema(self) -> pa.Schema:
        return self._schema() if self.registered is None else self.registered.schema

    @property
    def waiting(self) -> int:
        return self._rows

    def keep(self, table: pa.Table) -> None:
        settings = self.settings
        with self._lock:
            self._waiting.append(table)
            self._rows += table.num_rows
            if settings.keep_results is not None:
                self._drop(self._rows - settings.keep_results)
        if self._rows >= settings.tuning.output.kept_rows and not self._warned:
            self._warned = True
            warnings.warn(
                f"query {self._name}: {self._rows:,} rows of results wait and are not taken; query.take() takes them, "
                "SET keep_results = n keeps the newest n, and Session(keep_results=False) keeps none",
                EddylineWarning,
                stacklevel=2,
            )

    def _drop(self, rows: int) -> None:
        """Drop the oldest rows."""
        while rows > 0:
            first = self._waiting.popleft()
            gone = min(rows, first.num_rows)
            if gone < first.num_rows:
                self._waiting.appendleft(first.slice(gone))
            rows -= gone
            self._rows -= gone
            self.dropped += gone

    def add_punctuations(self, table: pa.Table) -> None:
        self._punctuations.append(table)

    def take_punctuations(self) -> list[pa.Table]:
        return [self._punctuations.popleft() for _ in range(len(self._punctuations))]

    def take(self) -> list[pa.Table]:
        with self._lock:
            found, self._waiting, self._rows = list(self._waiting), deque(), 0
        return found

    def peek(self) -> list[pa.Table]:
        with self._lock:
            return list(self._waiting)

    def to_dataframe(self, streaming: bool) -> Any:
        raise Unsupported(
            "results of an embedded session are Arrow tables",
            hint="query.table() has them; DataFrames come from Session(spark=…)",
        )


def kept_figures(handles: Mapping[str, object]) -> dict[str, Any]:
    """What a session keeps of results, by query."""
    kept = {name: handle for name, handle in list(handles.items()) if isinstance(handle, KeptResults)}
    return {
        "kept_results": {name: handle.waiting for name, handle in kept.items() if handle.waiting},
        "dropped_results": {name: handle.dropped for name, handle in kept.items() if handle.dropped},
    }


def own_sinks(
    handles: dict[str, Handle],
    made: Callable[[str], KeptResults],
    queries: Mapping[str, Registered],
    own: Mapping[str, list[Sink]],
    keeps: bool,
    name: str,
    schema: pa.Schema,
) -> list[Sink]:
    """What a session wants of a query that is now registered, or of the punctuations of its results: the sinks that are
    its `own`, and with `keeps` the results."""
    query = results_of(name)
    known = handles.get(query)
    if name != query:
        return [CallbackSink(known.add_punctuations)] if keeps and isinstance(known, KeptResults) else []
    if not isinstance(known, KeptResults) or known.registered is not None:
        known = handles[name] = made(name)
    known.registered = queries[name]
    known.settings = known.registered.query.settings
    return [*own.get(name, []), *([CallbackSink(known.keep)] if keeps else [])]
