"""Which row groups an embedded job need not read, as an epoch begins.

Answer   `of` gives what may be skipped of a stream now: the queries of this moment decide, and the event times from which
         on no row is late.
State    Per stream what its queries let pass, and for which queries that was found.
Limits   Streams from parquet files only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from eddyline.connectors.files.files import FileSource
from eddyline.connectors.files.parts import by_groups
from eddyline.model.query import BoundQuery
from eddyline.operators.sharing.skipping import Skipping
from eddyline.plan.lower import Lowered
from eddyline.plan.prepare import prepare
from eddyline.plan.skippable import skipping_of
from eddyline.runtime.embedded.reader import StreamReader
from eddyline.runtime.engine.lateness import late_below
from eddyline.runtime.engine.records.kinds import is_concerned

if TYPE_CHECKING:
    from eddyline.runtime.embedded.driver import EmbeddedDriver


class EmbeddedSkipping:
    def __init__(self, driver: EmbeddedDriver) -> None:
        self._driver = driver
        self._queries: list[BoundQuery] = []
        #: Stream -> whether records may speak of it, and what was found.
        self._found: dict[str, tuple[bool, Skipping]] = {}

    def of(self, reader: StreamReader) -> Skipping | None:
        """What may be skipped of a stream now; None: its source reads no row groups."""
        pipeline, intake = self._driver.pipeline, self._driver.pipeline.intakes[reader.stream.name]
        name, stream = intake.stream.name, intake.stream
        if not isinstance(reader.source, FileSource) or not by_groups(stream.options):
            return None
        queries = [registered.query for registered in pipeline.queries.values()]
        if len(queries) != len(self._queries) or any(a is not b for a, b in zip(queries, self._queries, strict=True)):
            self._queries = queries
            self._found.clear()
        # A statement may come with the epoch that begins.
        promises = self._driver.has_announced or name in pipeline.gating.gates or intake.promised is not None
        promises = promises or is_concerned(stream) or name not in self._driver.splitting.plain
        if name not in self._found or self._found[name][0] != promises:
            made = skipping_of(stream, queries, pipeline.settings, promises, self._lowered)
            self._found[name] = promises, replace(made, counts=intake.row_groups)
        return self._found[name][1].at(late_below(pipeline, name))

    def _lowered(self, query: BoundQuery) -> Lowered:
        """The form in which a query runs: planning it again would cost as much as to register it."""
        found = getattr(self._driver.pipeline.queries[query.name], "lowered", None)
        return found if isinstance(found, Lowered) else prepare(query)
