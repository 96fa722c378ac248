"""The parts of the embedded driver by themselves: results that wait, tables that are read again, a start that fails."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import CheckpointProblem, EddylineError
from eddyline.runtime.driving.kept_results import KeptResults
from eddyline.runtime.embedded.checkpoint import Checkpoint
from eddyline.runtime.embedded.driver import EmbeddedDriver
from eddyline.runtime.embedded.opening import opened
from eddyline.runtime.embedded.refreshing import EmbeddedRefreshing
from eddyline.runtime.embedded.watched import WatchedEmbeddedDriver
from eddyline.testing.clocks import MovedClock


def table(*values: int) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64())})


def test_results_are_taken_once_and_in_their_order() -> None:
    kept = KeptResults("q", pa.Schema)
    for number in range(3):
        kept.keep(table(number))
    assert [one.column("k").to_pylist() for one in kept.peek()] == [[0], [1], [2]]
    assert [one.column("k").to_pylist() for one in kept.take()] == [[0], [1], [2]]
    assert kept.take() == [] and kept.peek() == []


def test_punctuations_wait_apart_from_results() -> None:
    kept = KeptResults("q", pa.Schema)
    kept.keep(table(1))
    kept.add_punctuations(table(2))
    assert [one.column("k").to_pylist() for one in kept.take_punctuations()] == [[2]]
    assert kept.take_punctuations() == []
    assert [one.column("k").to_pylist() for one in kept.take()] == [[1]]


def test_a_query_that_has_not_begun_has_no_start_and_no_stop() -> None:
    kept = KeptResults("q", pa.Schema)
    assert kept.start is None and kept.stop is None


def with_table(folder: Path) -> Session:
    parquet.write_table(pa.table({"k": [1], "rate": [1.5]}), folder / "rates.parquet")
    session = Session()
    session.execute(f"""
        CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory');
        CREATE TABLE rates (k BIGINT, rate DOUBLE) WITH (format = 'parquet', path = '{folder}/rates.parquet', refresh = '10 minutes');
        CREATE QUERY q AS SELECT a.k, rates.rate FROM a, rates WHERE a.k = rates.k;
    """)
    session.push("a", [(1, 0)])
    session.step()
    return session


def test_a_table_is_read_again_when_its_period_is_over(tmp_path: Path) -> None:
    session, clock = with_table(tmp_path), MovedClock()
    refreshing = EmbeddedRefreshing(session.driver.pipeline, clock)
    refreshing.begin(resumed=False)
    parquet.write_table(pa.table({"k": [1], "rate": [2.5]}), tmp_path / "rates.parquet")
    clock.advance(599)
    assert not refreshing.refresh()
    clock.advance(1)
    assert refreshing.refresh()
    # The same rows are no change.
    clock.advance(600)
    assert not refreshing.refresh()
    session.stop()


def test_a_job_that_continues_reads_its_tables_at_once(tmp_path: Path) -> None:
    session = with_table(tmp_path)
    refreshing = EmbeddedRefreshing(session.driver.pipeline, MovedClock())
    parquet.write_table(pa.table({"k": [1], "rate": [2.5]}), tmp_path / "rates.parquet")
    refreshing.begin(resumed=True)
    assert refreshing.refresh()
    session.stop()


@pytest.mark.parametrize("problem", [OSError(5, "Input/output error"), EddylineError("no table")])
def test_a_table_that_cannot_be_read_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    session, clock = with_table(tmp_path), MovedClock()
    pipeline = session.driver.pipeline
    refreshing, before = EmbeddedRefreshing(pipeline, clock), pipeline.tables["rates"]
    refreshing.begin(resumed=True)

    def failing(*_: object) -> pa.Table:
        raise problem

    monkeypatch.setattr("eddyline.runtime.driving.table_refreshing.read_table", failing)
    assert not refreshing.refresh()
    assert pipeline.tables["rates"].equals(before)
    session.stop()


def test_a_start_that_fails_lets_another_process_continue(tmp_path: Path) -> None:
    def build(*_: object) -> EmbeddedDriver:
        raise CheckpointProblem("the job is another one")

    with pytest.raises(CheckpointProblem, match="another one"):
        opened(Checkpoint(str(tmp_path / "state")), None, False, {}, build)
    again = Checkpoint(str(tmp_path / "state"))
    again.open()
    with pytest.raises(CheckpointProblem):
        Checkpoint(str(tmp_path / "state")).open()
    again.release()


def test_a_watched_driver_knows_its_queries_and_no_others(tmp_path: Path) -> None:
    session = with_table(tmp_path)
    watched = WatchedEmbeddedDriver(session.driver)
    assert set(watched.described()) == {"q"} and watched.leaving() == frozenset()
    assert watched.detail("q") is not None and watched.detail("other") is None
    assert not watched.attach("other", None)  # type: ignore[arg-type]
    session.stop()
