"""A report of something that another thread is changing: made only while that thread is at rest, and frozen.

Answer   `change` brackets everything that changes a job: an epoch, a query that comes or goes. `now` gives the report
         of the job at rest: at once if nothing changes it, otherwise that of the end of the change at hand.

             changing thread   |== epoch ==|publish|== epoch ==|== epoch ==|
             reader                 now ····└► report

State    The last report, whether it is still true, and how many readers wait for the next one.
Limits   A report is made when a reader calls `now`:
a job without readers pays for two lock operations per epoch. A reader in
         the changing thread itself (a callback with results) gets the last report: the change that it is part of has
         not happened yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, get_ident

from eddyline.runtime.figures.report import Report


class Publication:
    def __init__(self, make: Callable[[], Report]) -> None:
        self._make = make
        self._condition = Condition()
        #: The thread that changes the job now.
        self._changing: int | None = None
        self._latest: Report | None = None
        self._is_true = False
        #: How often a report was made, and how many readers wait for one.
        self._made = 0
        self._readers = 0

    @contextmanager
    def change(self) -> Iterator[None]:
        """The job changes within; one thread at a time, which may enter again."""
        if self._changing == get_ident():
            yield
            return
        with self._condition:
            self._is_true = False
            self._changing = get_ident()
        try:
            yield
        finally:
            with self._condition:
                self._changing = None
                if self._readers:
                    # A report that cannot be made fails in the thread of its reader.
                    with suppress(Exception):
                        self._publish()
                self._condition.notify_all()

    def now(self) -> Report:
        with self._condition:
            if self._changing == get_ident():
                return self._latest or self._make()
            if self._changing is not None:
                before = self._made
                self._readers += 1
                try:
                    self._condition.wait_for(lambda: self._made > before or self._changing is None)
                finally:
                    self._readers -= 1
                if self._latest is not None and self._made > before:
                    return self._latest
            return self._latest if self._is_true and self._latest is not None else self._publish()

    def _publish(self) -> Report:
        self._latest = self._make()
        self._is_true = True
        self._made += 1
        return self._latest
