"""The first row of a run that becomes a dead letter is warned of, once, with the reason and the place of all."""

from __future__ import annotations

import warnings
from datetime import datetime
from pathlib import Path

from eddyline import EddylineWarning, Session

NOON = datetime(2024, 1, 1, 12)


def opened(**options: object) -> Session:
    session = Session(**options)  # type: ignore[arg-type]
    session.execute("CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
    session.query("q", "SELECT k FROM s")
    return session


def said(session: Session, *rows: tuple[object, datetime]) -> list[str]:
    """What is warned of while these rows are processed."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", EddylineWarning)
        session.push("s", rows)
        session.step()
    return [str(one.message) for one in found if one.category is EddylineWarning]


def test_the_first_bad_row_of_a_run_is_warned_of() -> None:
    session = opened()
    assert said(session, (1, NOON)) == []
    assert said(session, (1, NOON), (2.5, NOON), ("x", NOON)) == [
        "a row of stream s is a dead letter: bad: pushed row 3: column k is declared as BIGINT and holds 2.5; "
        "session.dead_letters('s') has such rows, and the figures of the run count them; no further one is warned of"
    ]
    assert said(session, (3.5, NOON)) == []
    session.run(final=False)
    (again,) = said(session, (4.5, NOON))
    assert "pushed row 6" in again


def test_the_first_late_row_of_a_run_is_warned_of_with_its_place(tmp_path: Path) -> None:
    with opened(out=str(tmp_path / "out"), keep_results=False) as session:
        (found,) = said(session, (1, NOON)) + said(session, (2, NOON.replace(hour=11)))
    assert "is a dead letter: late" in found and f"{tmp_path}/out/_dead_letter/s has such rows" in found


def test_rows_that_are_kept_nowhere_are_warned_of_with_the_remedy() -> None:
    (found,) = said(opened(keep_results=False), ("x", NOON))
    assert "such rows are kept with Session(out=…) or --out" in found


def test_a_row_that_breaks_a_promise_is_no_accident() -> None:
    session = opened()
    session.punctuate("s", "k = 1")
    assert said(session, (1, NOON), (2, NOON), (3, NOON.replace(minute=1))) == []
    session.run(final=False)
    assert session.dead_letters("s").column("k").to_pylist() == ["1"]
