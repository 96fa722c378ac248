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
from eddyline.model.query import BoundQuery
from eddyline.operators.sharing.skipping import Skipping
from eddyline.operators.stream.intake import Intake
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
        #: Stream -> what was found, after how many changes of the queries, and whether records may speak of it.
        self._found: dict[str, tuple[int, bool, Skipping]] = {}

    def of(self, reader: StreamReader) -> Skipping | None:
        """What may be skipped of a stream now; None: its source reads no row groups."""
        if not isinstance(reader.source, FileSource) or not reader.source.has_groups:
            return None
        pipeline, name = self._driver.pipeline, reader.stream.name
        # A statement may come with the epoch that begins.
        promises = self._driver.has_announced or name in pipeline.gating.gates
        promises = promises or pipeline.intakes[name].promised is not None or name not in self._driver.splitting.plain
        changes, promised, found = self._found.get(name, (-1, False, None))
        if found is None or (changes, promised) != (pipeline.changes, promises):
            found = self._find(pipeline.intakes[name], promises)
            self._found[name] = pipeline.changes, promises, found
        return found.at(late_below(pipeline, name))

    def _find(self, intake: Intake, promises: bool) -> Skipping:
        pipeline = self._driver.pipeline
        queries = [registered.query for registered in pipeline.queries.values()]
        promises = promises or is_concerned(intake.stream)
        made = skipping_of(intake.stream, queries, pipeline.settings, promises, self._lowered)
        return replace(made, counts=intake.row_groups)

    def _lowered(self, query: BoundQuery) -> Lowered:
        """The form in which a query runs: planning it again would cost as much as to register it."""
        found = getattr(self._driver.pipeline.queries[query.name], "lowered", None)
        return found if isinstance(found, Lowered) else prepare(query)
