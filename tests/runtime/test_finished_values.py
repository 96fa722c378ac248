"""Values that are finished: what a join tells of its keys, when, and once; and groups that end."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import UserError
from eddyline.settings import Settings
from tests.runtime.punctuated import beat, made, row, streams


def finished(session: Session, **options: Any) -> list[tuple[int, ...]]:
    """What a join tells of its keys, epoch by epoch: how many lines came in each."""
    told = session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x", **options)
    found = []
    for n in range(8):
        session.push("a", [row(n, n)])
        session.push("b", [row(n, n)])
        session.punctuate("a", f"x = {n}")
        session.punctuate("b", f"x = {n}")
        session.step()
        found.append(tuple(told.punctuations().column("x").to_pylist()))
    return found


def test_finished_values_are_told_at_once() -> None:
    assert finished(made(streams("a", "b")), propagate="on") == [(), (0,), (1,), (2,), (3,), (4,), (5,), (6,)]


def test_finished_values_are_told_several_at_a_time() -> None:
    assert finished(made(streams("a", "b")), propagate=3) == [(), (), (), (0, 1, 2), (), (), (3, 4, 5), ()]


def test_finished_values_are_told_after_a_time() -> None:
    assert finished(made(streams("a", "b")), propagate="3 seconds") == [(), (0,), (), (), (1, 2, 3), (), (), (4, 5, 6)]


def test_a_value_without_results_is_finished_too() -> None:
    """Algorithms 6 and 8: b1(8), then A closes 8: told at once."""
    session = made(streams("a", "b"))
    told = session.query("q", "SELECT a.x, b.x AS bx, b.y FROM a, b WHERE a.x = b.x", propagate="on")
    session.push("b", [row(8, 1)])
    session.push("a", [row(7, 1)])
    session.punctuate("a", "x = 8")
    session.step()
    beat(session, 3, "a", "b")
    assert told.punctuations().to_pylist() == [{"x": 8, "bx": 8, "y": None, "_ts": datetime(1970, 1, 1, 0, 0, 1)}]
    session.push("b", [row(8, 4)])
    session.run(once=True)
    assert told.punctuations().num_rows == 0


def test_finished_values_are_written_once_across_restarts(tmp_path: Path) -> None:
    found = []
    for first in (0, 4):
        session = made(
            streams("a", "b"),
            Settings(purge="eager", propagate="on"),
            checkpoint=str(tmp_path / "c"),
            out=str(tmp_path / "out"),
        )
        session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
        for n in range(first, first + 4):
            for name in "ab":
                session.push(name, [row(n, n)])
                session.punctuate(name, f"x = {n}")
            session.step()
        session.stop()
        found += session.queries["q"].punctuations().column("x").to_pylist()
    assert found == list(range(7))
    written = parquet.read_table(str(tmp_path / "out" / "q" / "_punctuations"))
    assert written.column("x").to_pylist() == found
    assert session.stats()["punctuations_out"] == {"q": 7}


def test_punctuations_off_announces_nothing(tmp_path: Path) -> None:
    """The first run has `punctuations = off`; the second one announces the values of rows that are stored, too."""
    found = []
    for part, punctuations in enumerate(("off", "on")):
        session = made(streams("a", "b"), Settings(punctuations=punctuations, propagate="on"), checkpoint=str(tmp_path))
        told = session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
        groups = session.query("g", "SELECT x, count(*) AS n FROM a GROUP BY x EMIT ON CLOSE")
        for n in range(4 * part, 4 * part + 4):
            for name in "ab":
                session.push(name, [row(n, n)])
                session.punctuate(name, f"x = {n}")
            session.step()
        found.append(
            (
                sorted(told.punctuations().column("x").to_pylist()),
                groups.punctuations().num_rows,
                groups.table().num_rows,
            )
        )
        session.stop()
    assert found == [([], 0, 3), (list(range(7)), 4, 4)]


def test_groups_that_change_are_never_finished() -> None:
    session = made(streams("a"))
    with pytest.raises(UserError, match="puts out no punctuations"):
        session.query("q", "SELECT x, count(*) AS n FROM a GROUP BY x", propagate="on")


def test_groups_that_change_are_forgotten_when_they_are_finished() -> None:
    session = made(streams("a"), Settings())
    counted = session.query("q", "SELECT x, count(*) AS n FROM a GROUP BY x")
    for n in range(50):
        session.push("a", [row(x, n) for x in range(10 * n, 10 * n + 10)])
        session.punctuate("a", f"x < {10 * n + 10}")
        session.step()
    session.run(once=True)
    changes = counted.table().to_pylist()
    assert len(changes) == 500 and {(change["_op"], change["n"]) for change in changes} == {("+", 1)}
    held = session.pipeline.queries["q"].aggregation.groups.held  # type: ignore[attr-defined]
    assert held <= 100


# -- errata


def told_by(session: Session, *names: str, propagate: str = "on", windows: str = "") -> Any:
    """A join of streams on x that tells finished values."""
    equal = " AND ".join(f"{names[0]}.x = {name}.x" for name in names[1:])
    read = ", ".join(f"{name}{windows} AS {name}" for name in names)
    return session.query("q", f"SELECT {names[0]}.x FROM {read} WHERE {equal}", propagate=propagate)


def test_erratum_algorithm_1_values_wait_for_rows_that_can_still_join() -> None:
    """As printed, no punctuation has a count, and all of them go out at once. Overlapping ones (5, then 1 to 10) wait
    both."""
    session = made(streams("a", "b"))
    told = told_by(session, "a", "b")
    session.push("a", [row(5, 1)])
    session.push("b", [row(6, 1)])
    session.punctuate("a", "x = 5")
    session.punctuate("a", "x BETWEEN 1 AND 10")
    session.step()
    beat(session, 2, "a", "b")
    # 6 has no row in `a` and gets none; a(5) is stored, and `b` is open.
    assert told.punctuations().column("x").to_pylist() == [6]
    session.push("b", [row(5, 3)])
    session.punctuate("b", "x = 5", at="1970-01-01 00:00:03")
    session.step()
    beat(session, 4, "a", "b")
    beat(session, 5, "a", "b")
    assert told.table().column("x").to_pylist() == [5]
    assert told.punctuations().to_pylist() == [{"x": 5, "_ts": datetime(1970, 1, 1, 0, 0, 3)}]


def test_erratum_algorithm_8_values_go_out_when_their_windows_end() -> None:
    """As printed, nothing is ever scheduled or purged: with windows alone, the value would stay for ever."""
    session = made(streams("a", "b", "c"))
    told = told_by(session, "a", "b", "c", windows=" [RANGE 5 SECONDS]")
    for name in "abc":
        session.push(name, [row(8, 1)])
    session.punctuate("a", "x = 8")
    session.step()
    beat(session, 5, "a", "b", "c")
    beat(session, 6, "a", "b", "c")
    assert told.punctuations().num_rows == 0
    beat(session, 7, "a", "b", "c")
    beat(session, 8, "a", "b", "c")
    assert told.punctuations().to_pylist() == [{"x": 8, "_ts": datetime(1970, 1, 1, 0, 0, 6)}]


def test_erratum_7_4_the_last_row_and_not_its_punctuation_starts_the_window() -> None:
    """a(8) at second 1, closed at second 4, windows of 5 s: 8 is finished at second 6, not at second 9."""
    session = made(streams("a", "b"))
    told = told_by(session, "a", "b", windows=" [RANGE 5 SECONDS]")
    session.push("a", [row(8, 1)])
    session.push("b", [row(8, 2)])
    session.punctuate("a", "x = 8", at="1970-01-01 00:00:04")
    session.step()
    beat(session, 7, "a", "b")
    beat(session, 8, "a", "b")
    assert told.punctuations().to_pylist() == [{"x": 8, "_ts": datetime(1970, 1, 1, 0, 0, 6)}]


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_erratum_streams_that_punctuated_are_known_and_not_counted(names: str) -> None:
    """As many punctuations as there are other streams, all from one stream: its own row stays, and joins what comes."""
    session = made(streams(*names))
    told = told_by(session, *names)
    for name in names[:-1]:
        session.push(name, [row(8, 1)])
    session.push(names[-1], [row(7, 1)])
    for _ in names:
        session.punctuate("a", "x = 8")
    session.step()
    beat(session, 2, *names)
    assert told.punctuations().num_rows == 0
    session.push(names[-1], [row(8, 3)])
    session.run(once=True)
    assert told.table().column("x").to_pylist() == [8]
