"""Which runs end the streams, and what a session is after that."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from eddyline import EddylineWarning, Session, UserError
from eddyline.errors import CheckpointProblem

STREAM = "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts')"
QUERY = "SELECT window_end, count(*) AS n FROM a GROUP BY TUMBLE(ts, '5 seconds')"


def row(second: int) -> dict[str, object]:
    return {"k": 1, "ts": f"2024-01-01 00:00:{second:02d}"}


def counts(query: object) -> list[int]:
    return [r["n"] for r in query.table().to_pylist()]  # type: ignore[attr-defined]


def test_a_final_run_closes_what_it_has_opened() -> None:
    with Session() as session:
        session.execute(STREAM)
        query = session.query("q", QUERY)
        session.push("a", [row(1), row(7)])
        session.run()
        assert counts(query) == [1, 1]
        calls: dict[str, Callable[[], object]] = {
            "run": session.run,
            "start": session.start,
            "step": session.step,
            "push": lambda: session.push("a", row(9)),
            "punctuate": lambda: session.punctuate("a", "k = 1"),
            "punctuate at": lambda: session.punctuate("a", "k = 1", at="2024-01-01 00:00:30"),
            "herald": lambda: session.herald("a", "k = 1", rows=3),
            "advance": lambda: session.advance(to="2024-01-01 00:00:30"),
            "query": lambda: session.query("p", "SELECT k FROM a"),
        }
        for name, call in calls.items():
            with pytest.raises(UserError, match="have ended") as problem:
                call()
            assert "final=False" in str(problem.value), name
        assert counts(query) == [1, 1]
        assert "a" in session.explain("q")


def test_a_run_that_is_not_final_goes_on() -> None:
    with Session() as session:
        session.execute(STREAM)
        query = session.query("q", QUERY)
        for second, expected in ((1, []), (3, []), (7, [2])):
            session.push("a", row(second))
            session.run(final=False)
            assert counts(query) == expected
        session.stop(final=True)
    assert counts(query) == [2, 1]


def test_rows_that_were_pushed_before_stop_are_processed_first() -> None:
    session = Session()
    session.execute(STREAM)
    query = session.query("q", QUERY)
    for second in range(5):
        session.push("a", row(second))
    session.stop(final=True)
    assert counts(query) == [5]
    with pytest.raises(UserError, match="final=False"):
        session.push("a", row(9))


@pytest.mark.parametrize(("final", "expected"), [(None, [3, 1]), (True, [3, 1]), (False, [3])])
def test_a_session_in_the_background_ends_with_what_was_pushed(final: bool | None, expected: list[int]) -> None:
    session = Session()
    session.execute(STREAM)
    query = session.query("q", QUERY)
    session.start()
    for second in (1, 2, 3, 8):
        session.push("a", row(second))
    session.stop(final=final)
    assert counts(query) == expected


def test_a_function_that_is_called_with_results_ends_the_session() -> None:
    for run in (lambda session: session.run(once=False), lambda session: session.step()):
        session = Session()
        session.execute(STREAM)
        query = session.query("q", QUERY)
        session.query("every", "SELECT k FROM a")
        session.on_results("every", lambda table, session=session: session.stop(final=True))
        session.push("a", [row(1), row(8)])
        session.query("later", "SELECT k FROM a")
        session.push("a", row(9))
        thread = threading.Thread(target=run, args=(session,), daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive() and counts(query) == [1, 2]


def test_stopping_before_files_are_read_closes_nothing_and_says_so(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row(second)) + "\n" for second in range(50))
    (tmp_path / "a.json").write_text(lines)
    session = Session()
    session.execute("SET epoch_rows = 5")
    session.execute(f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts', path='{tmp_path}', format='json')")
    query = session.query("q", QUERY)
    session.step()
    session.step()
    with pytest.warns(EddylineWarning, match="rows of stream a are not read"):
        session.stop(final=True)
    assert counts(query) == [5]
    session.run(final=True)
    assert counts(query) == [5] * 10


def test_a_session_that_has_not_run_ends_what_its_checkpoint_has_open(tmp_path: Path) -> None:
    with Session(checkpoint=str(tmp_path / "state")) as session:
        session.execute(STREAM)
        session.query("q", QUERY)
        session.push("a", row(1))
        session.run(final=False)
    session = Session(checkpoint=str(tmp_path / "state"))
    session.execute(STREAM)
    query = session.query("q", QUERY)
    session.stop(final=True)
    assert counts(query) == [1]
    # Files that nothing has read keep it open, and this is said.
    (tmp_path / "a.json").write_text(json.dumps(row(1)))
    session = Session()
    session.execute(f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts', path='{tmp_path}', format='json')")
    with pytest.warns(EddylineWarning, match="rows of stream a are not read"):
        session.stop(final=True)


def test_a_function_that_is_called_with_results_of_the_last_epoch_ends_the_session() -> None:
    session = Session()
    session.execute(f"{STREAM}; CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time='ts')")
    query = session.query("q", QUERY)
    # The row of `a` waits for `b` until the run closes.
    session.query("both", "SELECT a.k FROM a, b WHERE a.k = b.k")
    session.on_results("both", lambda table: session.stop(final=True))
    session.push("b", row(0))
    session.push("a", row(1))
    session.run(final=False)
    assert counts(query) == [1]


@pytest.mark.parametrize(("final", "expected"), [(True, [1]), (False, [])])
def test_a_run_in_the_background_that_ends_by_itself_meanwhile_is_final_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, final: bool, expected: list[int]
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(row(1)))
    session = Session()
    session.execute(f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts', path='{tmp_path}', format='json')")
    query = session.query("q", QUERY)
    saving, asked, save, stop = threading.Event(), threading.Event(), session.driver.save, session.driver.stop

    def saved(last: bool = False) -> None:
        saving.set()
        assert asked.wait(60)
        save(last)

    def stopped(*ending: object) -> None:
        stop(*ending)  # type: ignore[arg-type]
        asked.set()

    monkeypatch.setattr(session.driver, "save", saved)
    monkeypatch.setattr(session.driver, "stop", stopped)
    session.start()
    assert saving.wait(60)
    session.stop(final=final)
    assert counts(query) == expected


def test_exceptions_and_requests_to_stop_close_nothing() -> None:
    kept = []
    with pytest.raises(ZeroDivisionError), Session() as session:
        session.execute(STREAM)
        kept.append(session.query("q", QUERY))
        session.push("a", row(1))
        session.step()
        raise ZeroDivisionError
    session = Session()
    session.execute(STREAM)
    kept.append(session.query("q", QUERY))
    session.push("a", row(1))
    session.ask_to_stop()
    session.run(final=True)
    assert [counts(query) for query in kept] == [[], []]


def test_a_checkpoint_leaves_it_open_until_somebody_says_that_it_ends(tmp_path: Path) -> None:
    def life(second: int, final: bool | None = None) -> list[int]:
        with Session(checkpoint=str(tmp_path / "state")) as session:
            session.execute(STREAM)
            query = session.query("q", QUERY)
            session.push("a", row(second))
            session.run(final=final)
            return counts(query)

    assert [life(1), life(2), life(7), life(8, True)] == [[], [], [2], [2]]
    with pytest.raises(CheckpointProblem, match="has ended"):
        life(9)


def test_requests_are_answered_after_the_end() -> None:
    with Session() as session:
        session.execute(STREAM + "; CREATE TEMPLATE t AS SELECT k, count(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY k")
        session.push("a", [row(1), row(2)])
        session.run(final=True)
        assert session.request("k, n FROM t").to_pylist()[0]["n"] == 2
        with pytest.raises(UserError, match="lies ahead") as problem:
            session.request("k, n FROM t", as_of="2024-01-01 00:05:00")
        # Nothing that runs later makes it certain.
        assert "leave AS OF out" in str(problem.value)
