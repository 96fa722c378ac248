"""Results of an embedded query, until a program takes them.

Answer   `KeptResults` is the `Handle` of a query of an embedded session: its results, and the punctuations of its
         results.
State    Tables that nothing has taken yet.
Limits   One thread may keep while another takes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline.errors import Unsupported
from eddyline.runtime.embedded.roster import instant
from eddyline.runtime.engine.unit import Registered

if TYPE_CHECKING:
    from eddyline.runtime.embedded.runner import EmbeddedRunner


class KeptResults:
    """Results of a query until they are taken; one thread may keep while another takes."""

    def __init__(self, runner: EmbeddedRunner, name: str) -> None:
        self._runner = runner
        self._name = name
        self._waiting: deque[pa.Table] = deque()
        self._punctuations: deque[pa.Table] = deque()
        self.registered: Registered | None = None

    @property
    def start(self) -> int | None:
        return None if self.registered is None else instant(self.registered.start)

    @property
    def stop(self) -> int | None:
        return None if self.registered is None else self.registered.stop

    @property
    def schema(self) -> pa.Schema:
        return (self.registered or self._runner.driver.pipeline.queries[self._name]).schema

    def keep(self, table: pa.Table) -> None:
        self._waiting.append(table)

    def add_punctuations(self, table: pa.Table) -> None:
        self._punctuations.append(table)

    def take_punctuations(self) -> list[pa.Table]:
        return [self._punctuations.popleft() for _ in range(len(self._punctuations))]

    def take(self) -> list[pa.Table]:
        # `popleft` takes and removes in one step; tables that come meanwhile are for the next call.
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def peek(self) -> list[pa.Table]:
        return list(self._waiting)

    def to_dataframe(self, streaming: bool) -> Any:
        raise Unsupported(
            "results of an embedded session are Arrow tables",
            hint="query.table() has them; DataFrames come from Session(spark=…)",
        )
