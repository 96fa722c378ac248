"""The sources of a session's streams: files, sources of the program itself, and rows that the program pushes.

Answer   `of` gives the source of a stream, which is opened when it is first needed.
State    The sources so far.
"""

from __future__ import annotations

from eddyline.connectors.base import Source
from eddyline.connectors.files.files import open_source
from eddyline.connectors.memory import MemorySource
from eddyline.language import Job
from eddyline.model.clock import Clock
from eddyline.model.schema import Stream


class SessionSources:
    def __init__(self, job: Job, follow: bool, clock: Clock) -> None:
        """`follow`: files that appear while the job runs are read too."""
        self._job = job
        self._follow = follow
        self._clock = clock
        self._known: dict[str, Source] = {}

    def declare(self, stream: Stream, given: object) -> None:
        """A stream is declared; `given` may be its source."""
        form = stream.options.get("format", "parquet" if "path" in stream.options else "memory")
        if hasattr(given, "read"):
            self._known[stream.name] = given  # type: ignore[assignment]
        elif form == "memory" and stream.name not in self._known:
            self._known[stream.name] = MemorySource(stream)

    def of(self, stream: Stream) -> Source:
        if stream.name not in self._known:
            tuning = self._job.settings.tuning.input
            self._known[stream.name] = open_source(stream, follow=self._follow, clock=self._clock, tuning=tuning)
        return self._known[stream.name]

    @property
    def pushed(self) -> dict[str, MemorySource]:
        """The sources of pushed rows, by stream."""
        return {name: source for name, source in self._known.items() if isinstance(source, MemorySource)}

    def forget(self, stream: str) -> None:
        self._known.pop(stream, None)
