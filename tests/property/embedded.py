"""A case through the embedded engine: declared by SQL, pushed epoch by epoch.

Answer   `run_embedded(case)` is the outcome of a session that takes one step per epoch and then closes.
Limits   Static tables are written as parquet to a folder that lives as long as the run.
"""

from __future__ import annotations

from collections.abc import Callable
from tempfile import TemporaryDirectory

import pyarrow.parquet as parquet

from eddyline import Session
from eddyline.settings import Settings
from tests.property.compare import Outcome, plain_rows
from tests.property.specs import Case


def run_embedded(case: Case, between: Callable[[Session], object] | None = None, settings: Settings | None = None) -> Outcome:
    """Run a case; `between` is called after every epoch, for tests that change the running session."""
    with TemporaryDirectory() as directory, Session(settings) as session:
        for table in case.tables:
            parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
        for statement in case.statements(directory):
            session.execute(statement)
        for epoch in case.epochs():
            for stream, rows in epoch.items():
                session.push(stream, case.arrow_rows(stream, rows))
            session.step()
            if between is not None:
                between(session)
        session.run(once=True)
        outcome = Outcome()
        for query in case.queries:
            outcome.results[query.name] = plain_rows(session.queries[query.name].results())
        for stream in case.streams:
            letters = plain_rows((session.driver.delivery.kept_dead or {}).get(stream.name, ()))
            outcome.dead[stream.name] = [
                (str(letter["_reason"]), {name: value for name, value in letter.items() if name != "_reason"}) for letter in letters
            ]
        return outcome
