"""How a session in this process ends: rows that were pushed are processed, and what is open is closed.

Answer   `wind_up` is what a driver does last where a program has stopped it. `refuse_over` refuses what a session cannot
         do once its streams have ended.
State    None: a pipeline knows that its streams have ended, and so does its checkpoint.
Limits   Files are not read further. While rows of a bounded source are unread, nothing is closed, and a warning says so.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eddyline.connectors.memory import MemorySource
from eddyline.errors import EddylineWarning, UserError

if TYPE_CHECKING:
    from eddyline.runtime.embedded.driver import EmbeddedDriver


@dataclass(frozen=True, slots=True)
class Ending:
    """How a driver ends that a program has stopped."""

    #: Whether the streams end.
    final: bool
    #: Whether rows that were pushed are processed before. A function that is called with results has stopped it where
    #: they are not: the epoch at hand is the last one.
    takes_pushed: bool


def wind_up(driver: EmbeddedDriver, ending: Ending) -> None:
    """Process the rows that were pushed, and end the streams, as far as the ending says."""
    sources = {name: reader.source for name, reader in driver.readers.items()}
    memories = {name: source for name, source in sources.items() if isinstance(source, MemorySource)}
    pushed = {name: driver.readers[name] for name in memories}

    def waiting() -> list[str]:
        return [name for name, source in memories.items() if source.waiting_rows or pushed[name].pieces]

    while ending.takes_pushed and (driver.has_announced or waiting()):
        driver.step(only=pushed)
    if not ending.final or driver.pipeline.over:
        return
    others = {name: reader for name, reader in driver.readers.items() if name not in pushed}
    unread = [*waiting(), *(name for name, reader in others.items() if reader.source.bounded and not reader.finished)]
    if unread:
        warnings.warn(
            f"what is open stays open: rows of stream{'s' * (len(unread) > 1)} {', '.join(unread)} are not read; run() "
            "reads them to their end and closes it, stop(final=False) closes nothing and says nothing",
            EddylineWarning,
            stacklevel=2,
        )
        return
    driver.step(closing=True, final=True, only=pushed)


def refuse_over(driver: EmbeddedDriver | None) -> None:
    """Refuse what needs streams that go on."""
    if driver is not None and driver.pipeline.over:
        raise UserError(
            "the streams of this session have ended",
            detail="run() or stop() has closed what was open: nothing comes after that",
            hint="run(final=False), stop(final=False) or a checkpoint leaves it open",
        )
