"""The thread of a Spark job that does what is due while no batch comes.

Answer   Between `start` and `stop`, `Ticker` calls each duty every fifth of a second: one after the other, in one
         thread.
State    The duties of the run at hand.
Limits   A duty that meets a full disk is called again at the next tick. After any other error a duty is not called
         again; the others are. A duty that takes long delays the others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

#: Seconds between two ticks.
_TICK_SECONDS = 0.2

log = logging.getLogger("eddyline.ticker")


class Ticker:
    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, duties: Mapping[str, Callable[[], object]]) -> None:
        """Call the duties until `stop`; each stands under what is not done when it fails."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run, args=(dict(duties),), name="eddyline-ticker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """After this no duty is called or under way."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, duties: dict[str, Callable[[], object]]) -> None:
        while not self._stopped.wait(_TICK_SECONDS):
            for undone, duty in list(duties.items()):
                try:
                    duty()
                except OSError as problem:
                    log.warning("%s: %s", undone, problem)
                except Exception:
                    log.exception("%s", undone)
                    del duties[undone]
