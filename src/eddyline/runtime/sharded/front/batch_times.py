"""Seconds per stage of a batch.

Answer   `BatchTimes` has them of the newest batches one by one, and of all of them in sum.
State    Those figures.
"""

from __future__ import annotations

from collections.abc import Iterable

from eddyline.runtime.figures.epoch_times import EpochTimes


class BatchTimes:
    def __init__(self, stages: Iterable[str], whole: str) -> None:
        """
        Args:
            stages: Their names, in order.
            whole: The one that has the others in it.
        """
        self.stages = {stage: EpochTimes() for stage in stages}
        self._whole = whole

    @property
    def whole(self) -> EpochTimes:
        return self.stages[self._whole]

    @property
    def parts(self) -> dict[str, EpochTimes]:
        return {stage: times for stage, times in self.stages.items() if stage != self._whole}

    def newest(self) -> dict[str, list[float]]:
        return {stage: list(times.newest) for stage, times in self.stages.items()}
