"""What forgetting costs: rows that are looked at, and promises within the memory budget; and what closes a
reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.operators.join.punctuations.policy import Punctuations
from eddyline.settings import Settings
from tests.runtime.punctuated import SECOND, beat, made, row, stored, streams

OPEN, CLOSED = 3000, 40


def policy(session: Session) -> Punctuations:
    [found] = [one for group in session.pipeline.groups.values() if (one := group.policy(Punctuations)) is not None]
    return found


def opened(kind: str, **more: Any) -> Session:
    """A join of three streams with many keys that stay open."""
    session = Session(Settings(purge="eager", **more))
    for name in "abc":
        session.execute(
            f"CREATE STREAM {name} (x {kind}, y BIGINT, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day')"
        )
    session.query("q", "SELECT a.x FROM a, b, c WHERE a.x = b.x AND b.x = c.x")
    return session


def key(kind: str, value: int) -> object:
    return f"key {value}" if kind == "STRING" else value


def literal(kind: str, value: int) -> str:
    return f"'key {value}'" if kind == "STRING" else str(value)


@pytest.mark.parametrize("kind", ["BIGINT", "STRING"])
def test_only_the_chains_of_newly_closed_keys_are_looked_at(kind: str) -> None:
    session = opened(kind)
    for name in "abc":
        session.push(name, [{"x": key(kind, n), "y": n, "ts": 0} for n in range(OPEN)])
        session.punctuate(name, f"x = {literal(kind, 0)}")
    # The first look is at all rows.
    session.step()
    for name in "abc":
        session.push(name, [{"x": key(kind, -1), "y": 0, "ts": SECOND}])
    session.step()
    found = policy(session)
    before = found.visited
    for n in range(1, 1 + CLOSED):
        for name in "abc":
            session.punctuate(name, f"x = {literal(kind, n)}")
            session.push(name, [{"x": key(kind, -1), "y": 0, "ts": (n + 1) * SECOND}])
        session.step()
    looked = found.visited - before
    # Three rows per key; texts also have the chains of new rows.
    rows_of_open = 3 * CLOSED * CLOSED if kind == "STRING" else 0
    assert 3 * (CLOSED - 1) <= looked <= 3 * CLOSED + 3 + rows_of_open
    assert found.sweeps >= CLOSED
    assert sum(stream.store.live for stream in session.pipeline.stores()) <= 3 * (OPEN - CLOSED + 1 + CLOSED + 2)


def test_rows_whose_key_was_closed_before_they_came_are_looked_at() -> None:
    """A row of `b` comes after `a` and `c` closed its key: its partner is stored, so that it joins, and leaves after
    that."""
    session = opened("BIGINT")
    for name in "abc":
        session.push(name, [{"x": n, "y": n, "ts": 0} for n in range(5)])
        session.push(name, [{"x": -1, "y": 0, "ts": SECOND}])
    session.step()
    for name in "ac":
        session.punctuate(name, "x = 3")
    for second in (2, 3, 4, 5, 6):
        if second == 5:
            # Another promise brings about a look.
            session.punctuate("a", "x = 4")
        for name in "abc":
            session.push(name, [{"x": 3 if name == "b" and second == 3 else -1, "y": 0, "ts": second * SECOND}])
        session.step()
    stores = {stream.name: stream.store for stream in session.pipeline.stores()}
    held = stores["b"].gather("x", stores["b"].ids()).to_pylist()
    assert 3 not in held
    assert session.queries["q"].table().column("x").to_pylist().count(3) == 2


def held(session: Session, name: str) -> list[object]:
    [store] = [stream.store for stream in session.pipeline.stores() if stream.name == name]
    found: list[object] = store.gather("x", store.ids()).to_pylist()
    return found


@pytest.mark.parametrize("kind", ["BIGINT", "STRING", "DOUBLE"])
@pytest.mark.parametrize("closing", "abc")
def test_one_closed_stream_ends_the_rows_of_all_others(kind: str, closing: str) -> None:
    """Three streams with one key: one closes 7 without a row of it. Rows with 7 of both others leave, though none of
    them is closed."""
    session = opened(kind)
    for name in "abc":
        session.push(name, [{"x": key(kind, 7), "y": 0, "ts": 0}] if name != closing else [])
        session.push(name, [{"x": key(kind, 1), "y": 0, "ts": 0}])
    session.punctuate(closing, f"x = {literal(kind, 7)}")
    for name in "abc":
        session.push(name, [{"x": key(kind, 2), "y": 0, "ts": SECOND}])
    session.step()
    for name in "abc":
        assert key(kind, 7) not in held(session, name), name
        assert key(kind, 1) in held(session, name), name


@pytest.mark.parametrize("window", ["", " [RANGE 5 SECONDS]"])
@pytest.mark.parametrize("epochs", [1, 4])
def test_rows_are_left_out_at_their_own_places(window: str, epochs: int) -> None:
    """`a` closes 7 at second 2 and has a row of it at second 1: rows of `b` join it while it is in its window, and are
    left out later,
    whatever the epochs, from the first one on; a row that stands before the promise is not left out."""
    session = Session(Settings(purge="eager"))
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (x BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
    joined = session.query("q", f"SELECT b.ts AS at FROM a{window} AS a, b{window} AS b WHERE a.x = b.x")
    rows = {
        "a": [{"x": 7, "ts": SECOND}, *({"x": -3, "ts": n * SECOND} for n in range(2, 21))],
        "b": [{"x": x, "ts": n * SECOND} for n in range(1, 21) for x in (7, 8, 9)],
    }
    session.punctuate("a", "x = 7", at="1970-01-01 00:00:02")
    session.punctuate("a", "x = 8", at="1970-01-01 00:00:10")
    for part in range(epochs):
        for name, all_rows in rows.items():
            session.push(name, all_rows[len(all_rows) * part // epochs : len(all_rows) * (part + 1) // epochs])
        session.step()
    session.run(once=True)
    assert joined.table().num_rows == (6 if window else 20)
    # From second 7 on `a` has no row with 7 in its window. Rows of `b` at second 10 stand after those of `a`: no row
    # with 8 follows them.
    assert session.stats()["dropped_rows"] == (14 + 11 if window else 11)


def closed_and_late(session: Session, late: int = 1000) -> None:
    """`a` closes 7 without a row of it; then `b` has many rows with 7 among a few with 8, which `a` has too."""
    session.push("a", [{"x": 8, "y": 0, "ts": 0}])
    session.punctuate("a", pa.table({"x": [7]}))
    session.push("a", [{"x": 9, "y": 0, "ts": SECOND}])
    session.push("b", [{"x": 7 if n % 100 else 8, "y": n, "ts": 2 * SECOND + n} for n in range(late)])
    session.push("a", [{"x": 9, "y": 0, "ts": 9 * SECOND}])
    session.step()


def two_streams() -> Session:
    session = Session(Settings(purge="eager"))
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
    return session


def test_rows_that_are_in_no_result_are_not_stored() -> None:
    session = two_streams()
    joined = session.query("q", "SELECT b.y FROM a, b WHERE a.x = b.x")
    closed_and_late(session)
    session.run(once=True)
    stats = session.stats()
    assert joined.table().num_rows == 10 and stats["dropped_rows"] == 990
    assert stats["peak_stored_rows"] <= 3 + 10


def test_a_row_that_one_query_refuses_is_stored_for_another() -> None:
    """Both queries read `b` with `a`; the other one joins by a column of which nothing is promised."""
    session = two_streams()
    joined = session.query("q", "SELECT b.y FROM a, b WHERE a.x = b.x")
    other = session.query("other", "SELECT a.x, b.y FROM a, b WHERE a.y = b.y")
    closed_and_late(session)
    session.push("a", [{"x": 1, "y": 501, "ts": 10 * SECOND}])
    session.push("b", [{"x": 8, "y": -1, "ts": 11 * SECOND}])
    session.run(once=True)
    assert joined.table().column("y").to_pylist() == [*range(0, 1000, 100), -1]
    # Row 501 of `b` has 7, which `a` has closed; rows 0 of both streams meet three times.
    assert sorted((row["x"], row["y"]) for row in other.table().to_pylist()) == [(1, 501), (8, 0), (9, 0), (9, 0)]
    assert session.stats()["dropped_rows"] == 990


def test_values_of_rows_that_are_in_no_result_are_announced() -> None:
    """`b` closes 7 after rows with it that were in no result: the value is told once, at that instant."""
    session = two_streams()
    joined = session.query("q", "SELECT b.x, b.y FROM a, b WHERE a.x = b.x", propagate="on")
    closed_and_late(session)
    session.punctuate("b", "x = 7")
    session.push("b", [{"x": 8, "y": -1, "ts": 12 * SECOND}])
    session.run(once=True)
    assert 7 in joined.punctuations().column("x").to_pylist()


def test_rows_of_one_stream_under_two_references_are_stored() -> None:
    """A row of the promised column's own stream is its own partner, at a place before its promise."""
    session = Session(Settings(purge="eager"))
    session.execute("CREATE STREAM s (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts', key = 'x')")
    joined = session.query("q", "SELECT p.x, c.x AS child FROM s AS p, s AS c WHERE p.x = c.y")
    session.push("s", [{"x": n, "y": n // 2, "ts": n} for n in range(40)])
    session.run(once=True)
    assert sorted(joined.table().column("child").to_pylist()) == list(range(40))


def test_promises_count_within_the_memory_budget() -> None:
    session = opened("STRING", over_budget="spill")
    held = session.pipeline.spilling.held
    for name in "abc":
        session.push(name, [{"x": "open", "y": 0, "ts": 0}])
        session.punctuate(name, {"x": [f"a long key with a number {n}" for n in range(5000)]})
        session.push(name, [{"x": "open", "y": 0, "ts": SECOND}])
    session.step()
    assert session.pipeline.spilling.held - held > 3 * 5000 * 20


@pytest.mark.parametrize(
    "other",
    [
        "SELECT x, count(*) AS n FROM b GROUP BY x EMIT ON CLOSE",
        "SELECT b.y FROM b [ROWS 5], c [ROWS 5] WHERE b.y = c.y",
    ],
)
def test_other_queries_keep_no_rows_for_a_join(other: str) -> None:
    """An aggregate over one stream reads rows once, and windows of another join have an end: rows leave that no query
    needs."""
    session = opened("BIGINT")
    session.query("other", other)
    held = []
    for n in range(60):
        for name in "abc":
            session.push(name, [{"x": 10 * n + k, "y": n, "ts": n * SECOND} for k in range(10)])
            session.punctuate(name, f"x BETWEEN {10 * n} AND {10 * n + 9}")
        session.step()
        held.append(sum(stream.store.live for stream in session.pipeline.stores()))
    assert max(held[20:]) <= 3 * 64 + 60
    session.run(once=True)
    assert session.queries["q"].table().num_rows == 600


def mean_rows(life: int, window: int, share: float) -> float:
    """One key: a row of `a` every second while it lives; `b` closes it after a share of its life. Rows of `a` held, per
    second of life."""
    session = Session(Settings(purge="eager"))
    session.execute(
        "CREATE STREAM a (x BIGINT, ts TIMESTAMP) WITH (time = 'ts'); CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts')"
    )
    session.query(
        "q", f"SELECT a.x FROM a [RANGE {window} SECONDS] AS a, b [RANGE {window} SECONDS] AS b WHERE a.x = b.x"
    )
    held = 0
    for now in range(life + window + 2):
        stamp = f"1970-01-01 00:{now // 60:02d}:{now % 60:02d}"
        if now < life:
            session.push("a", [{"x": 7, "ts": now * 1_000_000}])
        if now == round(share * life):
            session.punctuate("b", "x = 7", at=stamp)
        for name in "ab":
            session.punctuate(name, f"ts <= TIMESTAMP '{stamp}'")
        session.step()
        held += sum(stream.store.live for stream in session.pipeline.stores() if stream.name == "a")
    return held / life


@pytest.mark.parametrize(
    ("window", "share", "wanted"),
    [
        # Case 4: the key closes before it ends and before rows leave their window: its rows go at once, later ones are
        # not kept.
        (60, 0.5, lambda life, window, share: share**2 * life / 2),
        # Case 5: it closes after its end, when the first rows have left their window: the last ones go early.
        (30, 1.5, lambda life, window, share: share * window - (window**2 / life + (share - 1) ** 2 * life) / 2),
    ],
)
def test_equation_6_1(window: int, share: float, wanted: Callable[[int, int, float], float]) -> None:
    life = 40
    assert mean_rows(life, window, share) == pytest.approx(wanted(life, window, share), rel=0.1)


# -- what closes a reference


@pytest.mark.parametrize(
    ("expression", "left"), [("b.x", [4, 6]), ("b.x + 1", [4, 5]), ("b.x - 1", [5, 6]), ("b.x % 10", [4, 5, 6])]
)
def test_key_expressions_close_only_where_they_can_be_turned_round(expression: str, left: list[int]) -> None:
    """`b` closes x = 5: rows of `a` leave that wait for exactly this value."""
    session = made(streams("a", "b"))
    session.query("q", f"SELECT a.x FROM a, b WHERE a.x = {expression}")
    session.push("a", [row(x, 1) for x in (4, 5, 6)])
    session.push("b", [row(99, 1)])
    session.punctuate("b", "x = 5")
    session.step()
    beat(session, 3, "a", "b")
    assert [x for x in held(session, "a") if isinstance(x, int) and x > 0] == left


def test_keys_that_follow_the_event_time_are_closed_below_the_frontier() -> None:
    session = Session(Settings(purge="eager"))
    session.execute("CREATE STREAM a (x BIGINT, minute TIMESTAMP, ts TIMESTAMP) WITH (time = 'ts', key = 'minute')")
    session.execute("CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
    joined = session.query("q", "SELECT a.x FROM a, b WHERE a.minute = date_trunc('minute', b.ts)")
    assert session.warnings == []
    for minute in range(9):
        session.push("a", [{"x": minute, "minute": 60 * minute * SECOND, "ts": 60 * minute * SECOND}])
        session.push("b", [{"x": 0, "ts": 60 * minute * SECOND + n} for n in (1, 2)])
        session.step()
        assert all(count <= 2 for count in stored(session).values())
    session.run(once=True)
    assert joined.table().column("x").to_pylist() == [n for n in range(9) for _ in (1, 2)]


def test_tables_are_closed(tmp_path: Path) -> None:
    """A row without a partner in the table is left out, and one whose stream partner is closed leaves."""
    parquet.write_table(pa.table({"x": [1, 2]}), tmp_path / "t.parquet")
    session = made(
        streams("a", "b") + f"; CREATE TABLE t (x BIGINT) WITH (format = 'parquet', path = '{tmp_path}/t.parquet')"
    )
    joined = session.query("q", "SELECT a.x FROM a, b, t WHERE a.x = b.x AND b.x = t.x")
    session.push("a", [row(x, 1) for x in (1, 2, 9)])
    session.push("b", [row(x, 1) for x in (1, 2)])
    session.punctuate("b", "x = 1")
    session.step()
    beat(session, 3, "a", "b")
    assert (held(session, "a"), held(session, "b")) == ([2], [1, 2])
    assert joined.table().column("x").to_pylist() == [1, 2]


def test_promises_are_forgotten_after_remember() -> None:
    """Kept for ten seconds at least and for twenty at most: a second row of a key is a violation, and later a row like
    any other."""
    session = made(
        "CREATE STREAM a (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts', key = 'x', remember = '10 seconds')"
    )
    passed = session.query("q", "SELECT x, ts FROM a")
    for x, at in ((1, 0), (2, 5), (1, 9), (3, 25), (1, 40), (1, 41)):
        session.push("a", [row(x, at)])
        session.step()
    session.run(once=True)
    assert [(found["x"], found["ts"].second) for found in passed.table().to_pylist()] == [
        (1, 0),
        (2, 5),
        (3, 25),
        (1, 40),
    ]
    assert session.stats()["violations"] == {"a": 2}
