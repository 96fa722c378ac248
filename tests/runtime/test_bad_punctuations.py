"""Punctuations that say nothing, or that cannot be understood: they are counted or refused, and no row is lost. Values
of all types."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from eddyline import Session
from eddyline.errors import UserError
from eddyline.settings import Settings

SECOND = 1_000_000


def opened(options: str = "remember = '1 day'") -> Session:
    session = Session()
    session.execute(
        f"CREATE STREAM a (x BIGINT, d DOUBLE, t STRING, p STRING, ts TIMESTAMP) WITH (time = 'ts', {options})"
    )
    session.query("q", "SELECT x, d, t FROM a")
    return session


@pytest.mark.parametrize(
    "condition", ["x = NULL", "x BETWEEN 5 AND 1", "x IS NULL AND x = 1", "d > 1 AND d < 0", "t = 'a' AND t = 'b'"]
)
def test_empty_patterns_are_counted_and_ignored(condition: str) -> None:
    rows = [{"x": x, "d": 1.0, "t": "a", "ts": (2 + n) * SECOND} for n, x in enumerate((1, None, 5))]
    session = opened()
    session.punctuate("a", condition)
    session.execute(f"PUNCTUATE a WHERE {condition} AT TIMESTAMP '1970-01-01 00:00:01'")
    session.push("a", rows)
    session.run(once=True)
    assert session.stats()["punctuations"] == {"a": 2} and session.stats()["violations"] == {"a": 0}
    assert session.queries["q"].table().num_rows == 3
    marked = opened("punctuation = 'p'")
    marked.push("a", [{"x": None, "p": condition, "ts": 0}, *rows])
    marked.run(once=True)
    assert marked.stats()["punctuations"] == {"a": 1} and marked.stats()["violations"] == {"a": 0}
    assert marked.queries["q"].table().num_rows == 3


@pytest.mark.parametrize("name", [None, 5])
def test_what_is_no_name_of_a_stream_is_refused(name: Any) -> None:
    session = opened()
    for said in (
        lambda: session.push(name, []),
        lambda: session.punctuate(name, "x = 1"),
        lambda: session.herald(name, "x = 1", rows=3),
    ):
        with pytest.raises(UserError, match="is no name of a stream"):
            said()


def test_an_empty_pattern_closes_nothing() -> None:
    session = Session()
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (x BIGINT, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day')")
        session.push(name, [{"x": 1, "ts": 0}, {"x": 2, "ts": SECOND}])
        session.punctuate(name, "x = NULL")
    joined = session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x", purge="eager", propagate="on")
    session.step()
    for name in "ab":
        session.push(name, [{"x": 1, "ts": 2 * SECOND}])
    session.run(once=True)
    assert joined.table().num_rows == 5
    assert joined.punctuations().num_rows == 0


@pytest.mark.parametrize(
    ("what", "at", "words"),
    [
        (5, None, "is no punctuation of a"),
        (None, None, "is no punctuation of a"),
        ([1, 2], None, "is no punctuation of a"),
        ({"x": [1, 2], "t": ["a"]}, None, "make no table"),
        ({"x": 2**63}, None, "make no table"),
        ({"x": "one"}, None, "column x of stream a is BIGINT"),
        ({"x": [1, None]}, None, "a constant of x is null"),
        ("x = 'one'", None, "is not a BIGINT"),
        ("x = 1", 5, "is no instant"),
        ("x = 1", "soon", "is not a TIMESTAMP"),
    ],
)
def test_what_is_no_punctuation_is_refused(what: Any, at: Any, words: str) -> None:
    session = opened()
    with pytest.raises(UserError, match=words):
        session.punctuate("a", what, at=at)
    session.push("a", [{"x": 1, "ts": 0}])
    session.run(once=True)
    assert session.queries["q"].table().num_rows == 1


def test_texts_that_are_no_condition_are_dead_letters() -> None:
    bad = [
        "x =",
        "x = 'abc'",
        "zz = 1",
        "x = 1; DROP STREAM a",
        "",
        "x IN ()",
        "x % 2 = 1",
        "TRUE",
        "x = 99999999999999999999",
        "\x00",
    ]
    session = opened("punctuation = 'p'")
    session.push("a", [{"x": None, "p": text, "ts": n * SECOND} for n, text in enumerate([*bad, "x = 7"])])
    session.push("a", [{"x": x, "p": None, "ts": 100 * SECOND} for x in (7, 8)])
    session.run(once=True)
    letters = session.dead_letters("a").to_pylist()
    assert [row["p"] for row in letters if row["_reason"].startswith("bad: its punctuation cannot be read")] == bad
    assert session.stats()["punctuations"] == {"a": 1} and session.stats()["violations"] == {"a": 1}
    assert session.queries["q"].table().column("x").to_pylist() == [8]


def test_constants_at_the_ends_of_their_types() -> None:
    most, infinite, no_number = 2**63 - 1, float("inf"), float("nan")
    session = opened()
    session.push("a", [{"x": 0, "d": 1.0, "ts": 0}])
    session.punctuate("a", {"d": [no_number, -0.0, infinite]})
    session.punctuate("a", {"x": [most, -most - 1]})
    rows = [
        (1, no_number),
        (2, 0.0),
        (3, infinite),
        (most, 1.0),
        (-most - 1, 1.0),
        (4, 1.0),
        (most - 1, None),
        (None, 1.0),
    ]
    session.push("a", [{"x": x, "d": d, "ts": SECOND} for x, d in rows])
    session.run(once=True)
    assert session.stats()["violations"] == {"a": 5}
    assert session.queries["q"].table().column("x").to_pylist() == [0, 4, most - 1, None]


CONDITIONS = [
    *("i = 3000000000", "i < 3000000000", "i >= -3000000000", "i <> 1e300", "i > 1.5", "i <= -0.5", "i > 2147483647"),
    *("x > 9223372036854775807", "x <= -9223372036854775808", "x > 1 AND x < 2", "x IN (1, NULL)"),
    *("d < 0.0", "d >= 0.0", "d <> 0.3", "d > 1e308", "d BETWEEN -1.0 AND 5e-324"),
    *("t = ''", "t > 'a'", "t <> 'ä'", "t = '\U0001f600'", "t IS NULL"),
    *("m = '1.50'", "m <= '-0.01'", "m BETWEEN '0.00' AND '99999999.99'"),
    *(
        "y = DATE '1969-12-31'",
        "y > '1970-01-01'",
        "y IN (DATE '2024-02-29', DATE '9999-12-31')",
        "y <> DATE '0001-01-01'",
    ),
    *("w < TIMESTAMP '1970-01-01'", "w = '2024-01-01 12:00:00'", "o", "NOT o", "o IS NOT NULL AND i = 1"),
]
OF_TYPES = {
    "i": [-(2**31), -1, 0, 1, 2, 2**31 - 1, None],
    "x": [-(2**63), 0, 1, 2, 2**63 - 1, None, 3],
    "d": [float("-inf"), -0.0, 0.0, 0.3, 5e-324, float("inf"), float("nan"), None, 1e308],
    "t": ["", "a", "ä", "A", "\U0001f600", None, "b'"],
    "m": [Decimal("-0.01"), Decimal("0.00"), Decimal("1.50"), Decimal("99999999.99"), None],
    "y": [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31), None],
    "w": [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), datetime(2024, 1, 1, 12), None],
    "o": [True, False, None],
}
COLUMNS = "i INT, x BIGINT, d DOUBLE, t STRING, m DECIMAL(10, 2), y DATE, w TIMESTAMP, o BOOLEAN"


def test_a_promise_covers_the_rows_that_its_condition_selects() -> None:
    """A stream per condition: rows that WHERE selects break the promise, and only they."""
    rows = [
        {"n": n, **{name: values[n % len(values)] for name, values in OF_TYPES.items()}, "ts": n * SECOND}
        for n in range(1, 64)
    ]
    session = Session()
    session.execute(f"CREATE STREAM whole (n BIGINT, {COLUMNS}, ts TIMESTAMP) WITH (time = 'ts')")
    session.push("whole", rows)
    for number, condition in enumerate(CONDITIONS):
        name = f"s{number}"
        session.execute(
            f"CREATE STREAM {name} (n BIGINT, {COLUMNS}, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day')"
        )
        session.execute(f"PUNCTUATE {name} WHERE {condition} AT TIMESTAMP '1970-01-01'")
        session.push(name, rows)
        session.query(f"kept{number}", f"SELECT n FROM {name}")
        session.query(f"selected{number}", f"SELECT n FROM whole WHERE {condition}")
    session.run(once=True)
    for number, condition in enumerate(CONDITIONS):
        kept, selected = (
            session.queries[f"{name}{number}"].table().column("n").to_pylist() for name in ("kept", "selected")
        )
        assert sorted([*kept, *selected]) == [row["n"] for row in rows], condition


@pytest.mark.parametrize(
    ("column", "value"),
    [("y", "DATE '2024-02-29'"), ("w", "TIMESTAMP '2024-01-01 12:00:00'"), ("m", "'1.50'"), ("o", "TRUE")],
)
def test_filters_and_keys_of_all_types_over_punctuated_streams(column: str, value: str) -> None:
    """A join in which the column is the key, and one in which a filter fixes it: rows leave, and answers are those of
    `off`."""
    found = []
    for punctuations in ("on", "off"):
        session = Session(Settings(purge="eager", punctuations=punctuations))
        for name in "ab":
            session.execute(
                f"CREATE STREAM {name} (n BIGINT, {COLUMNS}, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day')"
            )
        session.query("key", f"SELECT a.n, a.{column} FROM a, b WHERE a.{column} = b.{column}", propagate="on")
        session.query("filter", f"SELECT a.n FROM a, b WHERE a.n = b.n AND b.{column} = {value}")
        for step in range(4):
            for name in "ab":
                rows = [
                    {"n": n, **{c: v[n % len(v)] for c, v in OF_TYPES.items()}, "ts": step * SECOND} for n in range(20)
                ]
                session.push(name, rows if step < 2 else [{"n": -1, "ts": step * SECOND}])
                if step == 1:
                    session.punctuate(name, f"{column} = {value}", at="1970-01-01 00:00:01")
            session.step()
        session.run(once=True)
        told = session.queries["key"].punctuations()
        found.append([sorted(session.queries[name].table().column("n").to_pylist()) for name in ("key", "filter")])
        assert (session.stats()["purged_rows"] > 0) == (punctuations == "on")
        assert told.num_rows == (1 if punctuations == "on" else 0)
    assert found[0] == found[1] and all(found[0])
