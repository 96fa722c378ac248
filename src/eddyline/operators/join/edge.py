"""One edge from a producer to its consumers: whether feedback flows on it, and what it has done so far.

Answer   `listens` says whether the producer holds back what is not demanded. With `auto` that follows what is observed:
         the share of combinations that nobody could use. It takes a clear benefit to start and a clear lack of it to stop.

             listening ──under 20 % saved──► not listening: everything is made, a sample is looked at now and then
                       ◄──over 40 % of the sample──

State    Counts, and the pause until the next sample, which doubles while nothing changes.
Limits   To stop listening costs the making of what was held back; to start costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.mns import Condition, Flags

_START, _STOP = 0.4, 0.2
#: To ask whether a combination is demanded, and to touch a row in order to make it later, against making and storing one.
_CHECK, _WAKE = 0.15, 0.3
#: Where a row finds fewer partners than this, nothing is to be saved.
_LITTLE = 0.25
#: Fewer observations than this decide nothing.
_ENOUGH = 64
_LONGEST_PAUSE = 64
#: A condition on single rows is asked when it refuses at least this share of them.
_USEFUL = 0.05


@dataclass(slots=True)
class Asking:
    """Whether a condition on single rows has been worth its questions."""

    active: bool = False
    pause: int = 1
    until: int = 0
    checked: int = 0
    refused: int = 0

    def later(self, epoch: int) -> None:
        """When to try again what is not asked now."""
        self.pause = 1 if self.active else min(2 * self.pause, _LONGEST_PAUSE)
        self.until = epoch + self.pause


@dataclass(slots=True)
class Edge:
    #: Whether the edge decides itself whether to listen.
    is_open: bool
    listens: bool
    suspensions: int = 0
    marks: int = 0
    resumptions: int = 0
    admitted: int = 0
    produced: int = 0
    checks: int = 0
    suspended_peak: int = 0
    switches: int = 0
    asked_early: set[Condition] = field(default_factory=set)
    _epoch: int = 0
    _pause: int = 1
    _next: int = 0
    _decided: bool = False
    _before: tuple[int, int, int, int] = (0, 0, 0, 0)
    _asking: dict[Condition, Asking] = field(default_factory=dict)

    # -- the whole edge

    def wants_sample(self) -> bool:
        """Asked once in an epoch."""
        self._epoch += 1
        return (not self.listens or not self._decided) and self._epoch >= self._next

    def finds_little(self, rows: int, made: int) -> bool:
        """Whether so little is made of so many rows that asking costs more than it can save; then the edge does not listen."""
        if rows < 4 * _ENOUGH or made >= _LITTLE * rows:
            return False
        self._decide(False)
        return True

    def weigh(self, expected: float, refusals: Flags, waking: list[float], empty: bool) -> list[int] | None:
        """Whether to listen, and to which conditions.

        Args:
            expected: combinations that this epoch would make.
            refusals: per condition and sampled combination, whether it refuses it.
            waking: per condition, what it costs in an epoch to make later what was held back.
            empty: an input that all combinations must meet has no rows: nothing is demanded.

        Returns:
            The numbers of the conditions to ask, or None while too little has been seen.
        """
        if refusals.shape[1] < _ENOUGH:
            return None
        left = np.ones(refusals.shape[1], np.bool_)
        chosen: list[int] = []
        saved = float(expected) if empty else 0.0
        while True:
            gains = [
                expected * (float((r & left).mean()) - _CHECK * float(left.mean())) - _WAKE * waking[n] if n not in chosen else 0.0
                for n, r in enumerate(refusals)
            ]
            if not gains or max(gains) <= 0.0:
                break
            best = gains.index(max(gains))
            saved += gains[best]
            chosen.append(best)
            left &= ~refusals[best]
        listens = saved >= (_STOP if self.listens else _START) * expected
        self._decide(listens)
        return chosen if listens else []

    def _decide(self, listens: bool) -> None:
        self.switches += listens != self.listens
        self.listens = listens
        self._pause = 1 if listens else min(2 * self._pause, _LONGEST_PAUSE)
        self._next = self._epoch + self._pause
        self._decided = True
        self._mark()

    def gives_up(self) -> bool:
        """Whether too little has been held back lately; the caller then makes what is missing."""
        if not self.is_open:
            return False
        suspensions, marks, admitted, produced = (now - then for now, then in zip(self._counts, self._before, strict=True))
        per_row = max(1.0, (marks + produced) / max(admitted, 1))
        refused = marks + suspensions * per_row
        if refused + produced < 16 * _ENOUGH:
            return False
        self._decided = True
        self._mark()
        if refused >= _STOP * (refused + produced):
            return False
        self.listens = False
        self.switches += 1
        self._pause = 2
        self._next = self._epoch + self._pause
        return True

    @property
    def _counts(self) -> tuple[int, int, int, int]:
        return self.suspensions, self.marks, self.admitted, self.produced

    def _mark(self) -> None:
        self._before = self._counts

    # -- single rows

    def worth_asking(self, condition: Condition, rows: Combinations) -> bool:
        """Whether to ask of single rows now; one that refuses too little is only tried now and then, on a sample."""
        asking = self._asking.setdefault(condition, Asking())
        if self.is_open and not asking.active and self._epoch >= asking.until:
            few = np.arange(len(rows)) if len(rows) <= 4 * _ENOUGH else np.linspace(0, len(rows) - 1, 4 * _ENOUGH).astype(np.int64)
            refused = 1.0 if len(few) < _ENOUGH else np.count_nonzero(~condition.sampled(rows.ids, few)) / len(few)
            asking.active = refused >= _USEFUL
            asking.later(self._epoch)
        if asking.active or not self.is_open:
            self.asked_early.add(condition)
            return True
        self.asked_early.discard(condition)
        return False

    def asked(self, condition: Condition, rows: int, refused: int) -> None:
        asking = self._asking[condition]
        asking.checked += rows
        asking.refused += refused
        if asking.checked >= 16 * _ENOUGH:
            asking.active = asking.refused >= _USEFUL * asking.checked
            asking.later(self._epoch)
            asking.checked = asking.refused = 0

    @property
    def avoided(self) -> int:
        """Combinations that were not made: pairs found and dropped, and what suspended rows would have found, less what came back."""
        per_row = (self.marks + self.produced) / max(self.admitted, 1)
        return max(0, int(self.marks + self.suspensions * per_row) - self.resumptions)

    def as_json(self) -> dict[str, object]:
        return {
            "state": "listening" if self.listens else "making everything",
            "decides": self.is_open,
            "suspensions": self.suspensions,
            "resumptions": self.resumptions,
            "marks": self.marks,
            "suspended_peak": self.suspended_peak,
            "switches": self.switches,
        }
