"""Group windows: rows that belong to several windows, and sessions.

Answer   `several` repeats the combinations of a batch, once per window that HOP or CUMULATE puts them into.
         `Sessions.assign` gives every combination the beginning of the session that it belongs to: combinations of one
         group at most a gap apart.

             HOP, slide 5, span 15     ts 12 ─► [10, 25), [5, 20), [0, 15)
             CUMULATE, step 5, span 15 ts 7  ─► [0, 10), [0, 15)
             SESSION, gap 5            ts 1, 4, 9, 20 ─► 1, 1, 1, 20

State    Sessions: per values of the other grouping expressions the beginning of the newest session and its last row.
Limits   Combinations come in the order of time. A session is forgotten when the frontier has passed its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.kernels.groups import group as kernels
from eddyline.model.query import GroupWindow
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.aggregate.contributions import Batch
from eddyline.operators.aggregate.expiry import ExpiryQueue
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints
from eddyline.state.runs import places_within


def several(batch: Batch, window: GroupWindow) -> Batch:
    """The batch with one row per combination and window; it is in the same order."""
    if window.kind == "hop":
        counts = np.full(len(batch), window.span // window.step)
    else:
        assert window.end is not None, "the binder insists on the end of a CUMULATE"
        # The windows of one beginning end at every step up to the span.
        ends = batch.groups[:, window.end]
        counts = (window.span - (ends - 1) % window.span - 1) // window.step + 1
    number = places_within(counts)
    found = batch.take(np.repeat(np.arange(len(batch)), counts))
    groups = found.groups
    if window.kind == "hop":
        for at in (window.start, window.end):
            if at is not None:
                groups[:, at] -= number * window.step
    else:
        groups[:, window.end] += number * window.step
    return found


class Sessions:
    def __init__(self, gap: int, start: int, width: int) -> None:
        """`start` is the place of the beginning among `width` encoded grouping values."""
        self.gap = gap
        self.at = start
        self.others = [at for at in range(width) if at != start]
        self.keys = Dictionary(len(self.others))
        size = self.keys.capacity
        self.starts: Ints = np.zeros(size, np.int64)
        self.lasts: Ints = np.zeros(size, np.int64)
        self.known = np.zeros(size, np.bool_)
        #: Every session once, by an instant from which on it may be over.
        self._queue = ExpiryQueue()

    def assign(self, batch: Batch) -> None:
        """Replace the times of the rows by the beginnings of their sessions."""
        codes = self.keys.codes(np.ascontiguousarray(batch.groups[:, self.others]))
        self._reserve()
        times = np.ascontiguousarray(batch.groups[:, self.at])
        fresh = np.unique(codes[~self.known[codes]])
        batch.groups[:, self.at] = kernels.sessions(codes, times, self.gap, self.known, self.starts, self.lasts)
        self._wait(fresh)

    def _reserve(self) -> None:
        size = self.keys.capacity
        self.starts, self.lasts, self.known = grown(self.starts, size), grown(self.lasts, size), grown(self.known, size)

    def forget(self, frontier: int) -> None:
        """Sessions that no row at or after the frontier can continue."""
        codes = self._queue.pop(frontier)
        goes_on = self.lasts[codes] + self.gap >= frontier
        self._wait(codes[goes_on])
        over = codes[~goes_on]
        self.known[over] = False
        self.keys.release(over)

    def _wait(self, codes: Ints) -> None:
        self._queue.push(self.lasts[codes] + self.gap, codes)

    # -- snapshots

    def snapshot(self, name: str) -> tuple[list[list[Any]], Blocks]:
        return self.keys.snapshot(name, lambda codes: {"start": self.starts[codes], "last": self.lasts[codes]})

    def restore(self, saved: Sequence[Sequence[Any]], load: Load) -> None:
        codes, arrays = self.keys.load(saved, load)
        self._reserve()
        self.known[codes], self.starts[codes], self.lasts[codes] = True, arrays["start"], arrays["last"]
        self._wait(codes)

    def used_ids(self, texts: Sequence[int]) -> list[Ints]:
        """Encoded values that sessions have of the grouping expressions in `texts`."""
        live = self.keys.live()
        return [self.keys.keys[live, self.others.index(at)] for at in texts]
