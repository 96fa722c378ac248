"""Punctuations that say nothing, or that cannot be understood: they are counted or refused, and no row is lost."""

from __future__ import annotations

from typing import Any

import pytest

from eddyline import Session
from eddyline.errors import UserError

SECOND = 1_000_000


def opened(options: str = "remember = '1 day'") -> Session:
    session = Session()
    session.execute(f"CREATE STREAM a (x BIGINT, d DOUBLE, t STRING, p STRING, ts TIMESTAMP) WITH (time = 'ts', {options})")
    session.query("q", "SELECT x, d, t FROM a")
    return session


@pytest.mark.parametrize("condition", ["x = NULL", "x BETWEEN 5 AND 1", "x IS NULL AND x = 1", "d > 1 AND d < 0", "t = 'a' AND t = 'b'"])
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
    bad = ["x =", "x = 'abc'", "zz = 1", "x = 1; DROP STREAM a", "", "x IN ()", "x % 2 = 1", "TRUE", "x = 99999999999999999999", "\x00"]
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
    rows = [(1, no_number), (2, 0.0), (3, infinite), (most, 1.0), (-most - 1, 1.0), (4, 1.0), (most - 1, None), (None, 1.0)]
    session.push("a", [{"x": x, "d": d, "ts": SECOND} for x, d in rows])
    session.run(once=True)
    assert session.stats()["violations"] == {"a": 5}
    assert session.queries["q"].table().column("x").to_pylist() == [0, 4, most - 1, None]
