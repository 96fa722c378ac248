"""A case through the embedded engine: declared by SQL, pushed epoch by epoch.

Answer   `run_embedded(case)` is the outcome of a session that takes one step per epoch and then closes.
         `run_interrupted` has the results of several sessions on one checkpoint, all but the last of which are given
         up; they are read from files.
Limits   Static tables are written as parquet to a folder that lives as long as the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pyarrow.parquet as parquet

from eddyline import Session
from eddyline.connectors.results.output import result_files
from eddyline.settings import Settings
from eddyline.testing.clocks import MovedClock
from eddyline.tuning import SchedulingTuning, Tuning
from tests.memory import folder_of_a_case
from tests.oracle.intake import Values
from tests.property.compare import Outcome, plain_rows
from tests.property.pieces import drawn
from tests.property.specs import IDLE_SECONDS, Case

#: Results of joins with several windows are released early, however few rows there are.
EARLY = Settings(tuning=Tuning(scheduling=SchedulingTuning(least_rows=1, least_batch=2)))


def run_embedded(
    case: Case,
    between: Callable[[Session], object] | None = None,
    settings: Settings | None = None,
    beat: str | None = None,
    cores: int | None = None,
) -> Outcome:
    """Run a case; `between` is called after every epoch, for tests that change the running session, and `beat` is the
    instant of a last heartbeat of all streams; `cores` are those of the session."""
    clock = MovedClock()
    # Every second case, by its number of epochs, is cut into small pieces.
    cut = Random(len(case.arrivals))
    settings = settings or (
        EARLY if case.scheduler is not None else Settings(tuning=drawn(cut)) if cut.random() < 0.5 else None
    )
    with folder_of_a_case() as directory, Session(settings, clock=clock, cores=cores) as session:
        for table in case.tables:
            parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
        for statement in case.statements(directory):
            session.execute(statement)
        for number, epoch in enumerate(case.epochs()):
            if number in case.pauses:
                clock.advance(2 * IDLE_SECONDS)
            change_tables(case, session, directory, number)
            for stream, rows in epoch.items():
                session.push(stream, case.arrow_rows(stream, rows))
            session.step()
            if between is not None:
                between(session)
        if beat is not None:
            session.advance(to=beat)
        session.run(once=True, final=case.final)
        outcome = Outcome()
        for query in case.queries:
            outcome.results[query.name] = plain_rows(session.queries[query.name].results())
        for stream in case.streams:
            driver = session.driver if session.is_one_process else session._runner.driver  # type: ignore[attr-defined]
            letters = plain_rows((driver.delivery.kept_dead or {}).get(stream.name, ()))
            outcome.dead[stream.name] = [
                (str(letter["_reason"]), {name: value for name, value in letter.items() if name != "_reason"})
                for letter in letters
            ]
        return outcome


def change_tables(case: Case, session: Session, directory: str, epoch: int) -> None:
    """Let the tables that change be what they are when an epoch begins, and let the session read them again."""
    for table in case.tables:
        if table.changes:
            parquet.write_table(case.arrow_rows(table.name, table.rows_at(epoch)), f"{directory}/{table.name}.parquet")
            session.driver.refreshing.reading.begin([session.job.catalog.tables[table.name]], resumed=True)


def run_interrupted(case: Case, rng: Random, early: Settings = EARLY) -> dict[str, list[Values]]:
    """The results of a case whose session is given up now and then; the next one goes on from the last checkpoint."""
    clock = MovedClock()
    epochs = case.epochs()
    with folder_of_a_case() as directory:
        for table in case.tables:
            parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
        settings = replace(early, output_files=rng.choice(("auto", "each")))
        ended = False
        while not ended:
            session = Session(settings, checkpoint=f"{directory}/checkpoint", out=f"{directory}/out", clock=clock)
            for statement in case.statements(directory):
                session.execute(statement)
            # Rows of later epochs come again: the position of a source that is pushed counts what the checkpoint has.
            number = session.driver.epoch
            while number < len(epochs) and rng.random() < 0.8:
                change_tables(case, session, directory, number)
                for stream, rows in epochs[number].items():
                    session.push(stream, case.arrow_rows(stream, rows))
                # A checkpoint is taken when the clock has moved.
                clock.advance(rng.choice((0, 0, 2 * settings.checkpoint_seconds)))
                session.step()
                number += 1
            ended = number == len(epochs)
            if ended:
                session.run(once=True, final=case.final)
                session.stop()
            else:
                session._runner.abandon()
        found = {}
        for query in case.queries:
            files = result_files(f"{directory}/out/{query.name}")
            found[query.name] = plain_rows(parquet.read_table(path) for _, _, path in files)
        return found
