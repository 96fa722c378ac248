"""Punctuations in a session: where they stand, what they close, what they forget; and the errata of the papers, one by
one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.errors import BindingProblem, DataProblem
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record
from eddyline.settings import Settings
from tests.runtime.punctuated import SECOND, beat, made, row, stored, streams

# -- errata


def test_algorithm_7_counts_after_inserting() -> None:
    session = made(streams("a", "b"))
    joined = session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
    session.push("a", [row(8, 1)])
    session.push("b", [row(8, 2)])
    session.run(once=True)
    assert joined.table().column("x").to_pylist() == [8]


def test_overlapping_patterns_each_count_on_their_own() -> None:
    """State {5}; promises 5 and 1 to 10: either is enough."""
    session = made(streams("a", "b"))
    session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
    session.push("a", [row(5, 1)])
    session.push("b", [row(6, 1)])
    session.step()
    session.punctuate("b", "x = 5")
    session.punctuate("b", "x BETWEEN 1 AND 10")
    beat(session, 3, "a", "b")
    assert stored(session) == {"a": 0, "b": 1}


def test_a_group_ends_at_once_where_the_other_stream_is_empty() -> None:
    """b1(8), then A closes 8: no further result with 8, and b1 leaves."""
    session = made(streams("a", "b"))
    session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
    session.push("b", [row(8, 1)])
    session.push("a", [row(7, 1)])
    session.punctuate("a", "x = 8")
    session.step()
    beat(session, 3, "a", "b")
    assert stored(session) == {"a": 1, "b": 0}


def test_a_promise_about_two_columns_closes_neither() -> None:
    """<5, 'x'> must not purge 5."""
    session = made(streams("a", "b"))
    joined = session.query("q", "SELECT a.x, b.y FROM a, b WHERE a.x = b.x")
    session.push("a", [row(5, 1)])
    session.push("b", [row(6, 1)])
    session.punctuate("b", "x = 5 AND y = 1")
    session.step()
    beat(session, 3, "a", "b")
    session.push("b", [row(5, 4, y=2), row(5, 5, y=1)])
    session.run(once=True)
    assert joined.table().column("y").to_pylist() == [2]
    assert len(session.dead_letters("b")) == 1


def test_a_filter_that_implies_the_rest_lets_it_close() -> None:
    session = made(streams("a", "b"))
    session.query("q", "SELECT a.x, b.y FROM a, b WHERE a.x = b.x AND b.y = 1")
    session.push("a", [row(5, 1), row(6, 1)])
    session.push("b", [row(6, 1, y=1)])
    session.punctuate("b", "x = 5 AND y <= 1")
    session.step()
    beat(session, 3, "a", "b")
    assert stored(session)["a"] == 1


def test_rows_windows_keep_their_places() -> None:
    """ROWS 2, b1(7), b2(8, forgotten), b3(9): a(7) does not join b1."""
    session = made(streams("a", "b"))
    joined = session.query("q", "SELECT a.x FROM a, b [ROWS 2] WHERE a.x = b.x")
    session.push("a", [row(1, 0)])
    session.push("b", [row(7, 1), row(8, 2)])
    session.punctuate("a", "x = 8")
    session.step()
    session.push("b", [row(9, 3)])
    session.push("a", [row(7, 4)])
    session.run(once=True)
    assert joined.table().num_rows == 0


@pytest.mark.parametrize("epochs", [1, 4])
def test_rows_that_are_left_out_keep_their_places(epochs: int) -> None:
    """The same with b2(8) left out before it is stored, in its own epoch and in one of all rows."""
    session = made(streams("a", "b"))
    joined = session.query("q", "SELECT a.x FROM a, b [ROWS 2] WHERE a.x = b.x")
    session.punctuate("a", "x = 8", at="1970-01-01 00:00:00")
    for at, (name, x) in enumerate((("b", 7), ("b", 8), ("b", 9), ("a", 7)), 1):
        session.push(name, [row(x, at)])
        session.push("a" if name == "b" else "b", [row(-ord(name), at)] if name == "b" else [])
        if epochs > 1:
            session.step()
    session.run(once=True)
    assert joined.table().num_rows == 0
    assert session.stats()["dropped_rows"] == 1


def test_rows_are_judged_by_query_and_not_by_operator() -> None:
    """A(x) B(x, y) C(y): a(1), b(1, 7), B closes 1. a stays until C closes 7."""
    session = made(streams("a", "b", "c"))
    joined = session.query("q", "SELECT a.x, c.y FROM a, b, c WHERE a.x = b.x AND b.y = c.y", plan="((a b) c)")
    session.push("a", [row(1, 1)])
    session.push("b", [row(1, 2, y=7)])
    session.push("c", [row(0, 2, y=3)])
    session.punctuate("b", "x = 1")
    session.step()
    beat(session, 3, "a", "b", "c")
    assert stored(session)["a"] >= 1
    session.push("c", [row(0, 4, y=7)])
    session.punctuate("c", "y = 7")
    for name in "ab":
        session.push(name, [row(-3 * ord(name), 5)])
    session.step()
    session.run(once=True)
    assert joined.table().num_rows == 1
    kept = next(s.store for s in session.pipeline.stores() if s.name == "a")
    assert 1 not in kept.gather("x", kept.ids()).to_pylist()


# -- places


def test_rows_before_a_promise_are_untouched_whenever_they_come() -> None:
    session = made(streams("a", options=", lateness = '5 seconds'"))
    passed = session.query("q", "SELECT x FROM a")
    session.push("a", [row(1, 10)])
    session.punctuate("a", "x = 3", at="1970-01-01 00:00:08")
    session.step()
    session.push("a", [row(3, 7), row(3, 9), row(3, 8)])
    session.push("a", [row(2, 30)])
    session.run(once=True)
    assert sorted(passed.table().column("x").to_pylist()) == [1, 2, 3, 3]
    assert [letter["ts"] for letter in session.dead_letters("a").to_pylist()] == ["1970-01-01 00:00:09.000000"]


def test_a_promise_that_comes_late_stands_at_the_frontier() -> None:
    session = made(streams("a"))
    passed = session.query("q", "SELECT x, ts FROM a")
    session.push("a", [row(3, 10), row(1, 20)])
    session.step()
    session.punctuate("a", "x = 3", at="1970-01-01 00:00:05")
    session.push("a", [row(3, 21), row(1, 22)])
    session.run(once=True)
    assert passed.table().column("x").to_pylist() == [3, 1, 1]
    assert session.stats()["punctuations"] == {"a": 1} and session.stats()["late_records"] == {"a": 1}
    assert session.stats()["violations"] == {"a": 1}


def test_punctuations_derived_from_a_stream_of_ends() -> None:
    session = made(
        streams("a", "b")
        + "; CREATE STREAM ends (x BIGINT, stop TIMESTAMP, ts TIMESTAMP) WITH (time = 'ts')"
        + "; CREATE PUNCTUATION finished ON a (x) FROM ends (x) AT stop"
    )
    passed = session.query("q", "SELECT x, ts FROM a")
    ends = [
        {"x": 1, "stop": 4 * SECOND, "ts": 2 * SECOND},
        {"x": 2, "stop": None, "ts": 3 * SECOND},
        {"x": 3, "stop": 0, "ts": 3 * SECOND},
    ]
    session.push("ends", [*ends, {"x": None, "stop": 0, "ts": 30 * SECOND}])
    session.push("a", [row(3, 1), row(3, 3), row(1, 4), row(2, 4), row(3, 4.5), row(1, 5), row(2, 6)])
    session.run(once=True)
    assert passed.table().column("x").to_pylist() == [3, 3, 1, 2, 2]
    assert sorted(letter["x"] for letter in session.dead_letters("a").to_pylist()) == ["1", "3"]


def test_a_query_waits_for_the_stream_of_ends() -> None:
    session = made(streams("a", "ends") + "; CREATE PUNCTUATION finished ON a (x) FROM ends (x)")
    passed = session.query("q", "SELECT x FROM a")
    session.push("a", [row(1, 1), row(1, 9)])
    session.step()
    assert passed.table().num_rows == 0
    session.push("ends", [row(1, 3), row(9, 20)])
    session.push("a", [row(2, 21)])
    session.run(once=True)
    assert passed.table().column("x").to_pylist() == [1, 2]


def test_a_heartbeat_moves_the_horizon() -> None:
    session = made(streams("a", "b"))
    joined = session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
    session.push("a", [row(1, 1), row(2, 50)])
    session.push("b", [row(1, 2)])
    session.step()
    assert joined.table().num_rows == 0
    session.punctuate("b", "ts <= TIMESTAMP '1970-01-01 00:00:40'", at="1970-01-01 00:00:40")
    session.step()
    assert joined.table().num_rows == 1
    session.push("b", [row(1, 39)])
    session.run(once=True)
    assert str(session.dead_letters("b").column("_reason")[0]).startswith("late")


def test_conditions_in_a_text_column() -> None:
    session = made("CREATE STREAM a (x BIGINT, what STRING, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'what')")
    passed = session.query("q", "SELECT x FROM a")
    rows = [
        (1, None),
        (None, "x = 1"),
        (1, None),
        (None, "x +"),
        (None, "x = 2 AND x = 3"),
        (2, None),
        (None, "x IN (2, 7)"),
        (2, None),
    ]
    session.push("a", [{"x": x, "what": what, "ts": n * SECOND} for n, (x, what) in enumerate(rows)])
    session.run(once=True)
    assert passed.table().column("x").to_pylist() == [1, 2]
    reasons = [str(reason) for reason in session.dead_letters("a").column("_reason")]
    assert sorted(reason.split(":")[0] for reason in reasons) == ["bad", "violation", "violation"]


# -- what is forgotten


@pytest.mark.parametrize("probe", ["hash", "loop"])
def test_a_join_without_windows_runs_in_flat_memory(probe: str) -> None:
    session = made(
        "CREATE STREAM a (x BIGINT, ts TIMESTAMP) WITH (time = 'ts', key = 'x');"
        "CREATE STREAM b (x BIGINT, done BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'done')",
        Settings(purge="auto", probe=probe),
    )
    joined = session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
    assert session.warnings == []
    peak = []
    for n in range(40):
        mine = range(100 * n, 100 * n + 100)
        session.push("a", [{"x": x, "ts": n * SECOND} for x in mine])
        session.push("b", [{"x": x, "done": False, "ts": n * SECOND + 1} for x in mine])
        session.push("b", [{"x": x, "done": True, "ts": n * SECOND + 2} for x in mine])
        session.step()
        peak.append(sum(stored(session).values()))
    session.run(once=True)
    assert joined.table().num_rows == 4000
    assert max(peak[20:]) <= 1500
    assert session.stats()["purged_rows"] >= 7000


def test_without_any_promise_nothing_is_looked_at() -> None:
    session = made(
        "CREATE STREAM a (x BIGINT, ts TIMESTAMP) WITH (time = 'ts'); CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts')"
    )
    session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
    session.push("a", [{"x": 1, "ts": 0}])
    session.push("b", [{"x": 1, "ts": 0}])
    session.run(once=True)
    assert session.pipeline.gating.gates == {}
    assert session.stats()["purged_rows"] == 0 and session.stats()["punctuations"] == {}


def test_the_warning_appears_only_where_nothing_closes() -> None:
    session = made(
        "CREATE STREAM a (x BIGINT, ts TIMESTAMP) WITH (time = 'ts', key = 'x');CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts')"
    )
    session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
    assert session.warnings == ["query q: the store of a (a) grows for ever, it has no window"]
    assert "closed by: a: its key x; b: nothing" in session.explain("q")


# -- the session


def test_constants_as_a_table() -> None:
    session = made(streams("a"))
    passed = session.query("q", "SELECT x FROM a")
    session.push("a", [row(1, 1), row(2, 1)])
    session.punctuate("a", pa.table({"x": [1, 2]}))
    session.punctuate("a", {"x": 3, "y": 0})
    session.push("a", [row(1, 2), row(3, 2), row(3, 2, y=1), row(4, 3)])
    session.run(once=True)
    assert passed.table().column("x").to_pylist() == [1, 2, 3, 4]
    with pytest.raises(BindingProblem, match="no constant ts"):
        session.punctuate("a", {"ts": 0})
    with pytest.raises(BindingProblem, match="null"):
        session.punctuate("a", {"x": None})


def test_a_violation_can_stop_the_job() -> None:
    session = made(streams("a", options=", key = 'x'"), Settings(on_violation="error"))
    session.query("q", "SELECT x FROM a")
    session.push("a", [row(1, 1), row(1, 2), row(2, 3)])
    with pytest.raises(DataProblem, match="breaks a promise") as problem:
        session.run(once=True)
    assert "x = 1, y = 0, ts = 1970-01-01 00:00:02" in (problem.value.detail or "")


def test_derived_punctuations_can_be_created_while_the_job_runs(tmp_path: Path) -> None:
    """From then on rows of `a` end keys of `b`, and whatever reads `b` waits for `a`; over a restart too."""
    folder = str(tmp_path / "job")
    found: list[int] = []
    for part in range(3):
        session = made(streams("a", "b"), checkpoint=folder)
        session.query("q", "SELECT x FROM b")
        if part == 2:
            session.execute("CREATE PUNCTUATION p ON b (x) FROM a (x)")
        for n in range(10 * part, 10 * part + 10):
            session.push("a", [row(n, n)])
            session.push("b", [row(n, n), row(n - 1, n)])
            if n == 5:
                session.execute("CREATE PUNCTUATION p ON b (x) FROM a (x)")
            if n == 12:
                with pytest.raises(BindingProblem, match="no column z"):
                    session.execute("CREATE PUNCTUATION p ON b (z) FROM a (x)")
                session.execute("CREATE PUNCTUATION p ON b (x) FROM a (x)")
            session.step()
        session.run(once=True) if part == 2 else session.stop()
        found += [int(str(letter["x"])) for letter in session.dead_letters("b").to_pylist()]
    # Rows of `b` whose key a row of `a` before them has ended; until the second run has the statement, only earlier
    # promises count.
    assert found == [*range(5, 10), *range(12, 29)]


def test_derived_punctuations_come_by_control_records(tmp_path: Path) -> None:
    folder = str(tmp_path / "job")
    found: list[int] = []
    for part in range(2):
        session = made(streams("a", "b"), checkpoint=folder)
        session.query("q", "SELECT x FROM b")
        for n in range(10 * part, 10 * part + 10):
            session.push("a", [row(n, n)])
            session.push("b", [row(n, n), row(n - 1, n)])
            session.step()
            if n == 4:
                ControlFolder(folder).append(add_record("CREATE PUNCTUATION p ON b (x) FROM a (x)"))
        session.run(once=True) if part else session.stop()
        found += [int(str(letter["x"])) for letter in session.dead_letters("b").to_pylist()]
    assert found == list(range(found[0], 19))
    assert found[0] in (5, 6)


def test_statements_happen_once_per_checkpoint(tmp_path: Path) -> None:
    text = streams("a") + "; PUNCTUATE a WHERE x = 3 AT TIMESTAMP '1970-01-01 00:00:05'"
    found = []
    for first in (0, 10):
        session = made(text, checkpoint=str(tmp_path))
        passed = session.query("q", "SELECT x, ts FROM a")
        session.push("a", [row(3, first + 1), row(3, first + 7), row(1, first + 9)])
        session.step()
        session.stop()
        found += passed.table().column("x").to_pylist()
        assert session.stats()["punctuations"] == {"a": 1}
    # The last row of a run that was stopped waits in the checkpoint, and the second run goes on with it.
    assert found == [3, 1]
    assert session.stats()["violations"] == {"a": 3}


def test_a_query_that_comes_later_profits_from_earlier_promises() -> None:
    session = made(streams("a", "b"))
    session.query("first", "SELECT x FROM a")
    session.push("a", [row(1, 1)])
    session.push("b", [row(1, 1)])
    session.punctuate("b", "x = 1")
    session.step()
    beat(session, 2, "a", "b")
    joined = session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x")
    session.push("a", [row(1, 5), row(2, 6)])
    session.push("b", [row(2, 6)])
    session.run(once=True)
    assert joined.table().column("x").to_pylist() == [2]
    held = next(t.streams["a"].store for s, t in session.pipeline.timelines.items() if len(s) == 2)
    assert 1 not in held.gather("x", held.ids()).to_pylist()


def test_groups_end_when_their_windows_do() -> None:
    """PWJoin: the group is finished when the last row that it could meet has left its window."""
    session = made(streams("a", "b"))
    closing = session.query(
        "q",
        "SELECT a.x, count(*) AS n FROM a [RANGE 5 SECONDS], b [RANGE 2 SECONDS] WHERE a.x = b.x GROUP BY a.x EMIT ON CLOSE",
    )
    session.push("a", [row(1, 1)])
    session.push("b", [row(1, 2)])
    session.punctuate("a", "x = 1")
    session.step()
    beat(session, 20, "a", "b")
    beat(session, 21, "a", "b")
    [found] = closing.table().to_pylist()
    assert (found["x"], found["n"], found["_ts"]) == (1, 1, datetime(1970, 1, 1, 0, 0, 6))
