"""What a session adds to its job, and drops, while the job runs on several shards.

Answer   Each change becomes a control record, which `ShardedRoster` takes up between two batches. `add` and `promise`
         wait until the record has been taken up, and raise what refused it.
State    None: records are files below the checkpoint.
Limits   A function that is called with results does not wait: the batch would wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.errors import UserError
from eddyline.model.query import BoundQuery
from eddyline.model.records.punctuation import DerivedPunctuation
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record, drop_record
from eddyline.runtime.recovery.catalog_text import created_by, punctuation_text
from eddyline.runtime.sharded.job.ledger import JOB

if TYPE_CHECKING:
    from eddyline.runtime.sharded.front.driver import ShardedDriver

#: Seconds after which a session no longer waits for a record to be taken up.
_PATIENCE = 30.0


class RunningChanges:
    def __init__(self, driver: ShardedDriver) -> None:
        self._driver = driver
        self._control = ControlFolder(driver.layout.checkpoint)

    def add(self, query: BoundQuery) -> None:
        """Add a query, or with its first maker a derived stream; it starts with one of the next batches.

        Raises:
            UserError: the job does not take it.
        """
        what = f"query {query.name}" if query.feeds is None else f"stream {query.feeds.name}"
        self._add(what, created_by(query))

    def promise(self, derived: DerivedPunctuation) -> None:
        """CREATE PUNCTUATION for the rows that the job reads from one of the next batches on."""
        self._add(f"punctuation {derived.name}", punctuation_text(derived))

    def drop(self, name: str) -> None:
        """Drop a query: its results up to the newest instant of any stream are still delivered."""
        self._control.append(drop_record([name], by=JOB))
        self._driver.go_on()

    def _add(self, what: str, sql: str) -> None:
        driver = self._driver
        assert driver.roster is not None
        number = self._control.append(add_record(sql))
        limit = driver.clock.now() + _PATIENCE
        driver.go_on()
        while driver.is_running and not driver.delivery.is_mine and driver.clock.now() < limit:
            if driver.roster.ledger.applied > number:
                break
            driver.go_on()
            driver.clock.sleep(0.05)
        refused = driver.roster.ledger.refused.get(str(number))
        if refused is not None:
            raise UserError(f"{what} was not added", detail=refused)
