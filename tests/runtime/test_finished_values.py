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
            streams("a", "b"), Settings(purge="eager", propagate="on"), checkpoint=str(tmp_path / "c"), out=str(tmp_path / "out")
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
