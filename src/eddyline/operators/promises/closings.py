"""The promises about the streams of one timeline, for all joins that read it.

Answer   `Closings.closed` has, per stream, the values that promises have closed (`closed.py`) up to the frontier of the
         timeline.
State    The promises, and how many have taken effect.
Limits   Promises are kept once a join wants them; for it, all promises before its first row have taken effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from uuid import uuid4

import pyarrow as pa

from eddyline.model.records.records import Records
from eddyline.model.schema import Stream
from eddyline.operators.promises.closed import Closed, makes_promises
from eddyline.state.columns import Ints


class Closings:
    """The promises about the streams of one timeline, up to its frontier."""

    def __init__(self, streams: Iterable[Stream] = ()) -> None:
        self._streams = {stream.name: stream for stream in streams}
        #: Whether a join of the timeline reads promises.
        self.wanted = False
        self.closed: dict[str, Closed] = {}
        #: Stream -> its event-time column.
        self.times = {stream.name: stream.time for stream in streams}
        #: Whether anything has been promised so far, be it among the rows of the epoch at hand.
        self.is_promised = False
        #: Called once, with the first promise.
        self.on_first: set[Callable[[], None]] = set()
        #: Punctuations that have taken effect so far.
        self.count = 0
        #: Streams whose rows of the slice at hand are stored.
        self.stored: set[str] = set()
        self._run = uuid4().hex[:8]

    def is_closing(self, name: str) -> bool:
        """Whether there are promises about a stream."""
        return name in self.closed and not self.closed[name].is_empty

    def of(self, name: str) -> Closed:
        """What is closed of a stream of which something is promised."""
        if name not in self.closed:
            stream = self._streams[name]
            self.closed[name] = Closed({column.name: column.type for column in stream.schema.columns}, stream.remember)
            self.is_promised, waiting, self.on_first = True, self.on_first, set()
            for begin in waiting:
                begin()
        return self.closed[name]

    def want(self, known: Mapping[str, Closed]) -> None:
        """A join reads promises from now on. For it, all promises before its first row have taken effect."""
        if not self.wanted:
            self.wanted = True
            for name, closed in known.items():
                if not closed.is_empty:
                    self.of(name).copy_old(closed)
                    self.count += 1

    def take(self, records: Mapping[str, Iterable[Records]]) -> None:
        """Punctuations that take effect in an epoch, per stream."""
        for name, batches in records.items() if self.wanted else ():
            for batch in batches:
                if makes_promises(batch):
                    self.of(name).add(batch.body, batch.ts)
                    self.count += len(batch)

    def expect(self, coming: Mapping[str, Iterable[tuple[Records, Ints]]]) -> None:
        """Records among the rows of an epoch that begins, per stream, with the ranks of the first rows after them."""
        for name, batches in coming.items() if self.wanted else ():
            for batch, ranks in batches:
                if makes_promises(batch):
                    self.of(name).expect(batch.body, ranks)

    def end(self, now: int, names: Iterable[str]) -> None:
        """Streams that are declared with punctuations end: no further row has any value."""
        for name in names if self.wanted else ():
            self.of(name).ended = now

    def end_epoch(self, now: int) -> None:
        """The promises of the epoch count as old from now on."""
        for closed in self.closed.values():
            if closed.fresh:
                closed.make_old(now)

    def snapshot(self, timeline: str) -> tuple[dict[str, object], dict[str, Callable[[], pa.Table]]]:
        saved: dict[str, object] = {}
        blocks: dict[str, Callable[[], pa.Table]] = {}
        for name, closed in self.closed.items():
            saved[name], made = closed.snapshot(f"closed-{timeline}-{name}-{self._run}")
            blocks |= made
        return saved, blocks

    def restore(self, saved: Mapping[str, object], load: Callable[[str], pa.Table]) -> None:
        for name, state in saved.items():
            self.of(name).restore(state, load)
            self.count += 1
