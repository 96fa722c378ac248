"""The end of the streams closes what is open, kind by kind, as docs/semantics.md says."""

from __future__ import annotations

from typing import Any

import pytest

from eddyline import Session

STREAMS = "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts'{}); CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time='ts')"
#: Stream, k, second.
ROWS = (("a", 1, 1), ("a", 2, 3), ("b", 1, 4), ("a", 1, 7), ("b", 9, 20))


def ended(*queries: str, options: str = "", rows: Any = ROWS, before: str = "", final: bool = True) -> list[list[Any]]:
    """Per query its rows as tuples without `_op`, times as seconds."""
    with Session() as session:
        session.execute(STREAMS.format(options) + before)
        handles = [session.query(f"q{at}", text) for at, text in enumerate(queries)]
        for stream, k, second in rows:
            session.push(stream, {"k": k, "ts": f"2024-01-01 00:00:{second:02d}"})
        session.run(once=True, final=final)
        return [[_plain(row) for row in handle.table().to_pylist()] for handle in handles]


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    gone = row.get("_op") == "-"
    values = [v.second + v.microsecond / 1e6 if hasattr(v, "second") else v for n, v in row.items() if n != "_op"]
    return ("-", *values) if gone else tuple(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT window_end, count(*) AS n FROM a GROUP BY TUMBLE(ts, '5 seconds')",
            [(5, 2, 4.999999), (10, 1, 9.999999)],
        ),
        ("SELECT window_end, count(*) AS n FROM a GROUP BY SESSION(ts, '9 seconds')", [(16, 3, 16)]),
        (
            "SELECT window_end, k FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY k DESC) = 1",
            [(10, 2, 9.999999)],
        ),
        ("SELECT count(*) AS n FROM a [RANGE 2 SECONDS] EMIT EVERY 5 SECONDS", [(1, 5), (0, 10)]),
        ("SELECT count(*) AS n FROM a [RANGE 3 SECONDS] EMIT EVERY 8 SECONDS", [(1, 8)]),
        ("SELECT count(*) AS n FROM a [RANGE 3 SECONDS] EMIT EVERY 9 SECONDS", [(1, 9)]),
        ("SELECT count(*) AS n FROM a [RANGE 3 SECONDS]", [(1, 7)]),
        (
            "SELECT a.k AS x, b.k AS y FROM a [RANGE 30 SECONDS] LEFT JOIN b [RANGE 30 SECONDS] ON a.k = b.k",
            [(1, 1, 4), (1, 1, 7), (2, None, 33)],
        ),
        (
            "SELECT a.k AS x, b.k AS y FROM a [ROWS 5] LEFT JOIN b [RANGE 30 SECONDS] ON a.k = b.k",
            [(1, 1, 4), (1, 1, 7), (2, None, 20)],
        ),
        (
            "SELECT k FROM a [PARTITION BY k ROWS 1] WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
            [(2, 20)],
        ),
    ],
)
def test_what_is_open_ends(text: str, expected: list[Any]) -> None:
    [found] = ended(text)
    assert found == expected
    [open_still] = ended(text, final=False)
    assert len(open_still) < len(found) or text.endswith("FROM a [RANGE 3 SECONDS]")


def test_a_match_that_nothing_follows_ends_with_its_span() -> None:
    with Session() as session:
        session.execute("CREATE STREAM e (k BIGINT, type STRING, ts TIMESTAMP) WITH (time='ts')")
        handle = session.query("q", "EVENT SEQ(A x, NOT(B)) FROM e TYPE type WITHIN 30 SECONDS RETURN x.k AS k")
        session.push("e", {"k": 1, "type": "A", "ts": "2024-01-01 00:00:01"})
        session.run(once=True, final=True)
        assert [_plain(row) for row in handle.table().to_pylist()] == [(1, 31)]


def test_punctuations_end_with_their_streams_and_nothing_is_announced() -> None:
    """NULL is in a group, and a punctuation of a key closes none of it; the end does."""
    text = "SELECT k, count(*) AS n FROM a GROUP BY k EMIT ON CLOSE"
    rows = (*ROWS, ("a", None, 9))
    [found] = ended(text, options=", remember='1 day'", rows=rows)
    assert sorted(found, key=str) == [(1, 2, 9), (2, 1, 9), (None, 1, 9)]
    with Session() as session:
        session.execute(STREAMS.format(", remember='1 day'"))
        handle = session.query("q", "SELECT k FROM a", propagate="on")
        over = session.query(
            "over", "SELECT k, count(*) AS n FROM (SELECT k FROM a) x GROUP BY k EMIT ON CLOSE", propagate="on"
        )
        for stream, k, second in ROWS:
            session.push(stream, {"k": k, "ts": f"2024-01-01 00:00:{second:02d}"})
        session.punctuate("a", "k = 2")
        session.run(once=True, final=True)
        assert [_plain(row) for row in handle.punctuations().to_pylist()] == [(2, 7)]
        assert sorted(_plain(row) for row in over.table().to_pylist()) == [(1, 2, 7), (2, 1, 7)]


def test_queries_over_queries_end_in_their_order() -> None:
    """Windows of three seconds end at 3, 6 and 9; their results lie in a window that ends at 10, and one query more sees that
    at its time."""
    inner = "SELECT window_end AS e, k, count(*) AS n FROM a GROUP BY TUMBLE(ts, '3 seconds'), k"
    outer = f"SELECT window_end AS f, count(*) AS m FROM ({inner}) x GROUP BY TUMBLE(_ts, '10 seconds')"
    found, last = ended(outer, f"SELECT m, count(*) AS c FROM ({outer}) y [RANGE 1 SECOND] GROUP BY m")
    assert found == [(10, 3, 9.999999)]
    assert last == [(3, 1, 9.999999)]


def test_rows_meet_the_table_of_their_own_time() -> None:
    """b at 20 meets a table from which all rows of a have gone; without the end it meets that of 7."""
    text = "SELECT b.k AS k, t.n AS n FROM b JOIN LATEST (SELECT count(*) AS n FROM a [RANGE 5 SECONDS] EMIT EVERY 2 SECONDS) t ON TRUE"
    own = "SELECT count(*) AS n FROM a [RANGE 5 SECONDS] EMIT EVERY 2 SECONDS"
    found, table = ended(text, own)
    assert found == [(1, 2, 4), (9, 0, 20)]
    assert table == [(1, 2), (2, 4)]
    [open_still, _] = ended(text, own, final=False)
    assert open_still == [(1, 2, 4), (9, 2, 20)]
