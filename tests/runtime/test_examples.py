"""The worked examples of the semantics, through the engine, under every tree and in epochs of one row and of all."""

from __future__ import annotations

import pytest

from eddyline import Session

SECOND = 1_000_000

Row = tuple[str, float, int]


def answers(sql: str, rows: list[Row], streams: str, one_by_one: bool, **options: str) -> list[tuple[int, ...]]:
    """Run rows (stream, seconds, key) through a query that selects event times; the results, sorted."""
    with Session() as session:
        for name in streams:
            session.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (time='ts')")
        query = session.query("q", sql, **options)
        for stream, seconds, key in rows:
            session.push(stream, [{"k": key, "ts": round(seconds * SECOND)}])
            if one_by_one:
                session.step()
        session.run()
        found = query.table().cast(query.schema).to_pylist()
    return sorted(
        tuple(round(v.timestamp() * 1000) if hasattr(v, "timestamp") else v for v in row.values()) for row in found
    )


@pytest.fixture(params=[True, False], ids=["row by row", "at once"])
def one_by_one(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize("plan", ["mjoin", "bjtree", "((a b) c)", "(a (b c))", "((a c) b)"])
def test_first_component_to_leave(plan: str, one_by_one: bool) -> None:
    """a@0, b@4, c@8 with windows of 5 s: at c's time a has left, although ab (stamped 4) is within 5 s of c."""
    sql = (
        "SELECT a.ts AS x, b.ts AS y, c.ts AS z FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS], c [RANGE 5 SECONDS] "
        "WHERE a.k = b.k AND b.k = c.k AND a.k = c.k"
    )
    assert answers(sql, [("a", 0, 1), ("b", 4, 1), ("c", 8, 1)], "abc", one_by_one, plan=plan) == []
    assert len(answers(sql, [("a", 0, 1), ("b", 4, 1), ("c", 5, 1)], "abc", one_by_one, plan=plan)) == 1


def test_different_windows(one_by_one: bool) -> None:
    sql = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 10 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k"
    assert answers(sql, [("a", 0, 1), ("b", 7, 1)], "ab", one_by_one) == [(0, 7000, 7000)]
    assert answers(sql, [("b", 7, 1), ("a", 10, 1)], "ab", one_by_one) == []


def test_inclusive(one_by_one: bool) -> None:
    sql = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
    assert len(answers(sql, [("a", 0, 1), ("b", 5, 1)], "ab", one_by_one)) == 1
    assert answers(sql, [("a", 0, 1), ("b", 5.000001, 1)], "ab", one_by_one) == []


def test_rows_window(one_by_one: bool) -> None:
    sql = "SELECT t.ts AS x, s.ts AS y FROM t [RANGE 10 SECONDS], s [ROWS 2]"
    rows = [("s", 1.0, 1), ("s", 2.0, 1), ("t", 2.5, 1), ("s", 3.0, 1), ("t", 4.0, 1)]
    assert answers(sql, rows, "ts", one_by_one) == [
        (2500, 1000, 2500),
        (2500, 2000, 2500),
        (2500, 3000, 3000),
        (4000, 2000, 4000),
        (4000, 3000, 4000),
    ]


def test_different_speeds() -> None:
    """A has delivered up to 30 s, B up to 10 s: answers before 10 s are out, rows from 10 s on wait."""
    with Session() as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (time='ts')")
        query = session.query("q", "SELECT a.ts AS x FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k")
        session.push("a", [{"k": 1, "ts": s * SECOND} for s in (5, 30)])
        session.push("b", [{"k": 1, "ts": s * SECOND} for s in (6, 10)])
        assert query.take().num_rows == 1
        assert session.pipeline.frontier == 10 * SECOND
        assert session.pipeline.waiting == 2
        session.run()
        assert query.table().num_rows == 3


@pytest.mark.parametrize(
    ("catalog", "expected"), [("ts", [(3000, 2000, 3000), (3000, 3000, 3000)]), ("st", [(3000, 3000, 3000)])]
)
def test_ties_are_decided_by_the_catalog(catalog: str, expected: list[tuple[int, ...]], one_by_one: bool) -> None:
    sql = "SELECT t.ts AS x, s.ts AS y FROM t [RANGE 10 SECONDS], s [ROWS 1]"
    assert answers(sql, [("s", 2, 1), ("s", 3, 1), ("t", 3, 1)], catalog, one_by_one) == expected


def test_a_row_meets_itself_under_the_other_reference(one_by_one: bool) -> None:
    sql = "SELECT x.ts AS p, y.ts AS q FROM a [RANGE 5 SECONDS] x, a [RANGE 5 SECONDS] y WHERE x.k = y.k"
    assert len(answers(sql, [("a", 0, 1), ("a", 1, 1)], "a", one_by_one)) == 4


def test_an_idle_stream_lets_the_frontier_pass() -> None:
    from eddyline.testing.clocks import MovedClock

    clock = MovedClock()
    session = Session(clock=clock)
    session.execute(
        "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts');"
        "CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time='ts', idle='30 seconds')"
    )
    query = session.query("q", "SELECT a.ts AS x FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k")
    session.push("a", [{"k": 1, "ts": SECOND}])
    session.push("b", [{"k": 1, "ts": SECOND}])
    session.step()
    session.push("a", [{"k": 1, "ts": 5 * SECOND}, {"k": 1, "ts": 9 * SECOND}])
    session.step()
    assert session.pipeline.frontier == SECOND
    clock.advance(31)
    session.push("a", [{"k": 1, "ts": 10 * SECOND}])
    session.step()
    assert session.pipeline.frontier == 10 * SECOND
    session.push("b", [{"k": 1, "ts": 4 * SECOND}])
    session.step()
    assert session.dead_letters("b").num_rows == 1, "what the idle stream brings from below the frontier is late"
    assert query.table().num_rows == 3
