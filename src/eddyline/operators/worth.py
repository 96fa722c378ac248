"""Whether zones are worth comparing, per step of a join or per filter.

Answer   `is_worth`: whether to compare stretches now. `note` adds the work without zones, and how much zones saved.

             comparing ──less than 10 % of the work saved──► not comparing; tried again after 1, 2, 4 … 64 epochs
                       ◄──at least 25 %──

State    Whether to compare, work and savings of this epoch, when to try again.
Limits   Work is counted and weighed with fixed costs: no clock is read, so that a run repeats its decisions.
"""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.tuning import ZoneTuning


@dataclass(slots=True)
class Worth:
    tuning: ZoneTuning
    #: `heralds = auto`: zones are compared while that saves work; otherwise they are always compared.
    is_open: bool
    is_on: bool = False
    switches: int = 0
    _epoch: int = -1
    _work: float = 0.0
    _saved: float = 0.0
    _pause: int = 0
    _next: int = 0

    def is_worth(self, epoch: int) -> bool:
        if not self.is_open:
            return True
        if epoch != self._epoch:
            self._close()
            self._epoch = epoch
        return self.is_on or epoch >= self._next

    def note(self, work: float, saved: float) -> None:
        """Add nanoseconds: of the work without zones, and of the work that zones save less their own cost."""
        if not self.is_open:
            return
        self._work += work
        self._saved += saved
        if self.is_on or work <= 0.0:
            return
        if saved >= self.tuning.start * work:
            self.is_on, self._pause = True, 0
            self.switches += 1
        else:
            self._put_off()

    def _close(self) -> None:
        """An epoch is over."""
        if self.is_on and self._work > 0.0 and self._saved < self.tuning.stop * self._work:
            self.is_on = False
            self.switches += 1
            self._put_off()
        self._work = self._saved = 0.0

    def _put_off(self) -> None:
        self._pause = min(max(2 * self._pause, 1), self.tuning.longest_pause)
        self._next = self._epoch + self._pause
