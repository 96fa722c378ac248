"""What can be seen of a session: its queries, plans, figures and dead letters.

Answer   `SessionView` is the part of a session that answers questions and changes nothing.
State    The job, the runner and the statements of the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from eddyline.connectors.formats.conform import bad_schema
from eddyline.language import Job
from eddyline.runtime.control.statements import Statements
from eddyline.runtime.front.query import Query
from eddyline.runtime.front.runner import Observer, Runner
from eddyline.runtime.reporting.notebook import session_html


class SessionView:
    job: Job
    _runner: Runner
    _statements: Statements

    @property
    def analyzed(self) -> list[str]:
        """Queries under EXPLAIN ANALYZE: their `analysis` is worth reading after the run."""
        return self._statements.analyzed

    @property
    def warnings(self) -> list[str]:
        """What is worth knowing about the queries: references whose store grows for ever."""
        return self._statements.warnings

    @property
    def queries(self) -> Mapping[str, Query]:
        """The registered queries, by name."""
        return {name: Query(self.job, self._runner, name, handle) for name, handle in self._runner.handles.items()}

    def _repr_html_(self) -> str:
        streams = {stream.name: [f"{c.name} {c.type}" for c in stream.schema.columns] for stream in self.job.streams}
        queries = {query.name: " ".join(query.text.split()) for query in self.job.queries}
        return session_html(streams, queries, self.stats() if self._runner.begun else None)

    def observe(self, observer: Observer) -> None:
        """Call the function `observer` after every epoch, after those of earlier calls; for progress displays."""
        self._runner.observers.append(observer)

    def explain(self, name: str) -> str:
        """How the query `name` is, or would be, answered, as text."""
        return self._runner.explain(self.job.catalog.query(name))

    def analysis(self, name: str) -> str:
        """How the query `name` was answered so far: its plan and what each operator did."""
        return self._runner.analysis(self.job.catalog.query(name).name)

    def stats(self) -> dict[str, Any]:
        """The figures of the run so far, as `--stats` writes them."""
        return self._runner.stats()

    def dead_letters(self, stream: str) -> pa.Table:
        """Late and bad rows of `stream` so far: declared columns as text, and `_reason`."""
        found = self.job.catalog.stream(stream)
        return pa.concat_tables([bad_schema(found.schema).empty_table(), *self._runner.dead_letters(found)])
