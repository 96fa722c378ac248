"""The epoch at hand, as the thread sees it that may have to give it up: it computes, or it hands results over.

Answer   The driver says when an epoch computes and when it hands results over in between. `give_up` ends an epoch that
         computes: the thread that runs it waits when it next hands over or is done, for ever. With a checkpoint the
         next run repeats what comes after it. Without one the results of earlier epochs become files before.
Limits   After `give_up` has returned a text the process must end. Without a checkpoint an epoch that hands over, and a
         run that writes its last files, are left to finish.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eddyline.runtime.embedded.driver import EmbeddedDriver


class EpochAtHand:
    def __init__(self) -> None:
        #: Held while results are handed over, and from `give_up` on.
        self._lock = threading.Lock()
        self._computes = False

    @contextmanager
    def computing(self) -> Iterator[None]:
        """The epoch computes."""
        self._computes = True
        try:
            yield
        finally:
            with self._lock:
                self._computes = False

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """The epoch, which computes, hands results over."""
        with self._lock:
            yield

    def end(self, publish: Callable[[], None]) -> bool:
        """End the epoch if it computes; False: it does not. `publish` is called when it can hand over no more."""
        if not self._lock.acquire(blocking=False):
            return False
        if not self._computes:
            self._lock.release()
            return False
        publish()
        return True


def give_up(driver: EmbeddedDriver, *, anything: bool) -> str | None:
    """Give up the epoch that is being computed, from another thread of a process that ends now; what to say of it.

    With `anything`, and a checkpoint, whatever the driver does: the next run repeats it. None: nothing is given up.
    """
    if driver.checkpoint is not None:
        repeats = f"is given up: the next run on the checkpoint {driver.checkpoint.folder} repeats it"
        if driver.at_hand.end(lambda: None):
            return f"the epoch at hand takes too long and {repeats}"
        return f"what follows the epoch at hand takes too long and {repeats}" if anything else None
    if not driver.at_hand.end(lambda: driver.delivery.publish(driver.epoch)):
        return None
    return (
        f"the epoch at hand takes too long and is given up; results of the {driver.epoch} epochs before it are published, "
        "and without a checkpoint the next run begins anew"
    )
