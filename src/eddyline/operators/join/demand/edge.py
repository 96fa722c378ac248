"""One edge from a producer to its consumers: whether feedback flows on it, and what it has done so far.

Answer   `listens` is true while the producer holds back what is not demanded.
With `auto` that follows what is observed:
         the work that refused combinations would have been, against the work of testing, of resuming, and of an epoch as
         such.

             listening ──less than 10 % of the work saved──► making everything
                       ◄──more than 25 %, as samples show──

State    Counts, the pause until the next sample, which doubles while nothing changes, and the conditions that are
         listened to.
Limits   To stop listening costs the making of what was held back; to start costs nothing. No answer depends on any of
         this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.demand.mns import DemandCondition, Flags
from eddyline.state.columns import Ints
from eddyline.tuning import DemandTuning

#: What is compared with what it was when the edge last decided.
_COUNTS = attrgetter("suspensions", "marks", "produced", "_checks", "examined", "woken", "resumptions", "busy")


@dataclass(slots=True)
class ConditionBackoff:
    """Whether evaluating a condition on single rows has paid; a condition that never refuses rows is evaluated ever
    more rarely."""

    active: bool = False
    pause: int = 1
    until: int = 0
    checked: int = 0
    refused: int = 0

    def later(self, epoch: int, longest: int) -> None:
        """Set the epoch in which the condition is evaluated next."""
        self.pause = 1 if self.active else min(2 * self.pause, longest)
        self.until = epoch + self.pause


@dataclass(frozen=True, slots=True)
class EdgeSample:
    """What an epoch would make, and what of it would be refused."""

    #: New rows, and the combinations that the epoch would make of them.
    rows: int
    expected: float
    #: Per condition and sampled combination, whether it refuses it.
    refusals: Flags
    #: Per condition, how many opposite rows are new, and how many rows would be touched in order to resume.
    waking: list[tuple[int, float]]
    #: Inputs without rows that every combination must meet: while they are empty no combination is demanded, and no
    #: test is needed. By the number of the condition; -1 where there is none.
    empty: list[int]
    tuning: DemandTuning

    def saved(self, worth: float, chosen: Sequence[int]) -> float:
        """The work that some conditions save, tested in the order given, in nanoseconds."""
        if -1 in self.empty or set(self.empty) & set(chosen):
            return self.expected * worth
        left: Flags = np.ones(self.refusals.shape[1], np.bool_)
        spent, cost = 0.0, self.tuning
        for number in chosen:
            new, touched = self.waking[number]
            spent += (
                self.expected * float(left.mean()) * cost.check + new * cost.novel + touched * cost.wake + cost.fixed
            )
            left = left & ~self.refusals[number]
        # About as many combinations are made late as at once: their opposite row comes after or before them with equal
        # chance.
        late = self.expected * float(left.mean()) * self.tuning.resume if chosen else 0.0
        return self.expected * float(1.0 - left.mean()) * worth - spent - late

    def best(self, worth: float, used: Sequence[int]) -> tuple[float, list[int]]:
        """Those that are used, and further conditions taken one by one, each time the one that saves the most, up to
        where it was best."""
        chosen = list(used) or [number for number in self.empty if number >= 0][:1]
        found = (self.saved(worth, chosen), chosen)
        while not self.empty and len(chosen) < len(self.refusals):
            rest = [n for n in range(len(self.refusals)) if n not in chosen]
            chosen = max(([*chosen, n] for n in rest), key=lambda tried: self.saved(worth, tried))
            found = max(found, (self.saved(worth, chosen), chosen), key=lambda one: one[0])
        return found


@dataclass(slots=True)
class Edge:
    #: Whether the edge decides itself whether to listen.
    is_open: bool
    listens: bool
    tuning: DemandTuning
    suspensions: int = 0
    marks: int = 0
    resumptions: int = 0
    admitted: int = 0
    produced: int = 0
    #: Opposite rows that may demand a suspended row, and rows touched in order to resume.
    examined: int = 0
    woken: int = 0
    #: Epochs in which a condition was tested: not those in which the whole producer was suspended.
    busy: int = 0
    #: Combinations that a new row gives if nothing is held back, as last seen.
    per_row: float = 1.0
    #: What a combination costs that is made, in nanoseconds.
    worth: float = 0.0
    suspended_peak: int = 0
    switches: int = 0
    #: A condition on single rows is tested when it refuses at least this share of them; below 0: the one for
    #: combinations.
    useful: float = -1.0
    #: The most conditions on single rows that are tried in one epoch.
    samples: int = 64
    used_early: set[DemandCondition] = field(default_factory=set)
    _epoch: int = 0
    _pause: int = 0
    _next: int = 1
    _checks: int = 0
    #: The epoch in which conditions were last tried, and how many.
    _sampled: tuple[int, int] = (0, 0)
    _before: tuple[int, ...] = (0,) * 8
    _backoffs: dict[DemandCondition, ConditionBackoff] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.worth = self.tuning.make
        self.useful = self.tuning.useful if self.useful < 0 else self.useful

    # -- the whole edge

    def next_epoch(self) -> None:
        self._epoch += 1

    def is_sample_due(self) -> bool:
        """Whether to sample what is or would be made. Call it once in an epoch."""
        self.next_epoch()
        return self.is_open and self._epoch >= self._next

    def sees_little(self, made: int, expected: float, is_free: bool) -> bool:
        """Whether too few combinations are made: testing would cost more than it saves, or a sample would be too small.
        The next sample is put off.

        `is_free`: an opposite input is empty, so that no combination is demanded and no test is needed.
        """
        if made >= (1 if is_free else self.tuning.enough) and (is_free or self.listens or self.may_save(expected, 0)):
            return False
        self.put_off()
        return True

    def may_save(self, expected: float, new: int) -> bool:
        """Whether a condition with `new` new opposite rows would be worth it if it refused everything."""
        cost = self.tuning
        return expected * (self.worth * (1.0 - cost.start) - cost.check) - new * (cost.novel + cost.wake) > cost.fixed

    def put_off(self) -> None:
        """Sample again later, the later the longer nothing has changed."""
        self._pause = min(max(2 * self._pause, 1), self.tuning.longest_pause)
        self._next = self._epoch + self._pause

    def scans(self, rows: int) -> None:
        """The node above scans `rows` rows for each combination that it gets."""
        self.worth = self.tuning.make + self.tuning.scan * rows

    def weigh(self, sample: EdgeSample, used: Sequence[int]) -> list[int]:
        """Which conditions to listen to: none, or those that save the most.

        Args:
            used: the conditions that are listened to now.
        """
        self.per_row = sample.expected / max(sample.rows, 1)
        total = sample.expected * self.worth
        # To test more conditions costs nothing now; to test fewer would mean to make all that was held back.
        saved, chosen = sample.best(self.worth, used if self.listens else ())
        if self.listens and saved < sample.saved(self.worth, used) + self.tuning.better * total:
            saved, chosen = sample.saved(self.worth, used), list(used)
        listens = saved >= (self.tuning.stop if self.listens else self.tuning.start) * total and total > 0.0
        self._decide(listens, listens and self.listens and set(chosen) == set(used))
        return chosen if listens else []

    def _decide(self, listens: bool, is_same: bool) -> None:
        self.switches += listens != self.listens
        if not is_same and (listens or self.listens):
            self._pause = 2 if listens else 0
        self.listens = listens
        self.put_off()
        self._mark()

    def gives_up(self, checks: int, conditions: int) -> bool:
        """Whether too little work has been saved lately; the caller then makes what is missing."""
        if not self.is_open:
            return False
        self._checks = checks
        suspensions, marks, produced, tested, examined, woken, resumed, epochs = (
            now - then for now, then in zip(_COUNTS(self), self._before, strict=True)
        )
        refused = marks + suspensions * self.per_row
        if refused + produced < 16 * self.tuning.enough:
            return False
        self._mark()
        cost = self.tuning
        spent = (
            tested * cost.check
            + examined * cost.novel
            + woken * cost.wake
            + resumed * cost.resume
            + epochs * conditions * cost.fixed
        )
        if refused * self.worth - spent >= self.tuning.stop * (refused + produced) * self.worth:
            return False
        self._decide(False, False)
        return True

    def _mark(self) -> None:
        self._before = _COUNTS(self)

    # -- single rows

    def admitted_by(
        self, questions: Sequence[tuple[DemandCondition, DemandCondition]], rows: Combinations
    ) -> Ints | None:
        """Positions of the rows that may be part of something; only conditions that are worth it are tested; None: all of them.

        `questions`: conditions on combinations, each with its conditions on single rows.
        """
        chosen: Ints | None = None
        for _, condition in questions:
            if not self.is_worth_testing(condition, rows):
                continue
            condition.prepare()
            found = condition.passes(rows, chosen)
            self.note_tested(condition, len(found), len(found) - int(np.count_nonzero(found)))
            chosen = np.flatnonzero(found) if chosen is None else chosen[found]
        left = len(rows) if chosen is None else len(chosen)
        self.admitted += left
        self.suspensions += len(rows) - left
        return None if left == len(rows) else chosen

    def is_worth_testing(self, condition: DemandCondition, rows: Combinations) -> bool:
        """Whether to test single rows now; one that refuses too little is only tried now and then, on a sample."""
        backoff = self._backoffs.setdefault(condition, ConditionBackoff())
        if self.is_open and not backoff.active and self._epoch >= backoff.until and self._may_sample():
            enough = self.tuning.enough
            few = spread(len(rows), 4 * enough)
            refused = 1.0 if len(few) < enough else np.count_nonzero(~condition.sampled(rows.ids, few)) / len(few)
            backoff.active = refused >= self.useful
            backoff.later(self._epoch, self.tuning.longest_pause)
        if backoff.active or not self.is_open:
            self.used_early.add(condition)
            return True
        self.used_early.discard(condition)
        return False

    def _may_sample(self) -> bool:
        if self._sampled[0] != self._epoch:
            self._sampled = (self._epoch, 0)
        self._sampled = (self._epoch, self._sampled[1] + 1)
        return self._sampled[1] <= self.samples

    def note_tested(self, condition: DemandCondition, rows: int, refused: int) -> None:
        backoff = self._backoffs[condition]
        backoff.checked += rows
        backoff.refused += refused
        if backoff.checked >= 16 * self.tuning.enough:
            backoff.active = backoff.refused >= self.useful * backoff.checked
            backoff.later(self._epoch, self.tuning.longest_pause)
            backoff.checked = backoff.refused = 0

    @property
    def avoided(self) -> int:
        """Combinations that were not made: pairs found and dropped, and what suspended rows would have found, less what
        came back."""
        per_row = (self.marks + self.produced) / self.admitted if self.admitted else self.per_row
        return max(0, int(self.marks + self.suspensions * per_row) - self.resumptions)

    def as_json(self) -> dict[str, Any]:
        return {
            "state": "listening" if self.listens else "making everything",
            "decides": self.is_open,
            "suspensions": self.suspensions,
            "resumptions": self.resumptions,
            "marks": self.marks,
            "suspended_peak": self.suspended_peak,
            "partials_avoided": {"estimate": self.avoided},
            "switches": self.switches,
        }


def spread(size: int, most: int) -> Ints:
    """At most `most` positions below a size, evenly spread."""
    return np.arange(size) if size <= most else np.linspace(0, size - 1, most).astype(np.int64)
