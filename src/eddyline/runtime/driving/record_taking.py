"""The control records of a job that runs, under either driver: read in the order of their numbers, and folded.

Answer   `take_up` hands each new record to the driver; `fold` removes the records that the checkpoint knows, and keeps
         what they did together.
State    How many records have been taken up since the last fold.
Limits   A record that cannot be carried out is refused as a whole, and the job runs on. A full disk is no fault of the
         record: the job ends, and its next start carries the record out.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from eddyline.runtime.control.control import FOLD_RECORDS, ControlFolder, refusal
from eddyline.runtime.control.control_fold import Fold
from eddyline.runtime.control.control_record import Record

#: Carries out a record; returns how many queries it has brought, or None: the record has to wait.
CarryOut = Callable[[Record], int | None]


class RecordTaking:
    def __init__(self, control: ControlFolder, unfolded: int = 0) -> None:
        self.control = control
        self._unfolded = unfolded

    @property
    def is_fold_due(self) -> bool:
        return self._unfolded >= FOLD_RECORDS

    def take_up(self, first: int, carry_out: CarryOut, refuse: Callable[[int, str], None]) -> int:
        """Carry out the records from number `first` on, those that are refused are given to `refuse`.

        Returns:
            the number of the next record.
        """
        for number in self.control.waiting(first):
            brought: int | None = 0
            try:
                brought = carry_out(self.control.read(number))
            except Exception as problem:  # whatever is wrong with a record: it never ends the job
                if _is_for_want_of_space(problem):
                    raise
                refuse(number, refusal(problem))
                # A fold sets the refused record aside.
                self._unfolded = FOLD_RECORDS
            if brought is None:
                break
            # A record with many queries takes as long to read as many records.
            self._unfolded += max(1, brought)
            first = number + 1
        return first

    def fold(self, applied: int, done: Fold, refused: dict[str, str]) -> None:
        """Remove the records below `applied`; the checkpoint, which has just been written, knows them."""
        self.control.fold(applied, done, refused)
        self._unfolded = 0


def _is_for_want_of_space(problem: BaseException | None) -> bool:
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        problem = problem.__cause__
    return False
