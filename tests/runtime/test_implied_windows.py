"""Conditions between event times imply windows: stores forget rows by them, and answers stay the same."""

from __future__ import annotations

import pytest

from eddyline import Session
from eddyline.errors import PlanProblem
from eddyline.language import bind_script
from eddyline.plan.ranges.implied import implied_windows
from eddyline.settings import Settings

SECOND = 1_000_000
STREAMS = ";".join(f"CREATE STREAM {name} (x BIGINT, ts TIMESTAMP) WITH (time = 'ts')" for name in "abc")


def implied(select: str) -> dict[str, int]:
    query = bind_script(f"{STREAMS}; CREATE QUERY q AS {select}").queries[0]
    return {
        alias: window.micros // SECOND for alias, window in implied_windows(query, dict.fromkeys("abc", "ts")).items()
    }


@pytest.mark.parametrize(
    ("select", "wanted"),
    [
        ("SELECT a.x FROM a, b WHERE b.ts <= a.ts + INTERVAL '1 hour'", {"a": 3600}),
        ("SELECT a.x FROM a, b WHERE b.ts BETWEEN a.ts AND a.ts + INTERVAL '1 minute'", {"a": 60, "b": 0}),
        ("SELECT a.x FROM a, b WHERE INTERVAL '1 minute' >= b.ts - a.ts", {"a": 60}),
        # The second is always the older one.
        ("SELECT a.x FROM a, b WHERE b.ts <= a.ts - INTERVAL '1 minute'", {"a": 0}),
        ("SELECT a.x FROM a, b WHERE a.ts = b.ts", {"a": 0, "b": 0}),
        # One bound after the other; c alone says nothing of a.
        (
            "SELECT a.x FROM a, b, c WHERE b.ts <= a.ts + INTERVAL '2 seconds' AND c.ts <= b.ts + INTERVAL '3 seconds'",
            {"a": 5},
        ),
        ("SELECT a.x FROM a, b, c WHERE b.ts <= a.ts + INTERVAL '2 seconds'", {}),
        # A window bounds what comes later than its rows.
        ("SELECT a.x FROM a, b [RANGE 4 SECONDS], c WHERE b.ts <= a.ts + INTERVAL '2 seconds'", {"a": 6}),
        ("SELECT a.x FROM a [RANGE 9 SECONDS], b WHERE b.ts <= a.ts + INTERVAL '2 seconds'", {}),
        ("SELECT a.x FROM a, b WHERE b.ts <= a.ts + INTERVAL '2 seconds' OR a.x = 1", {}),
        ("SELECT a.x FROM a, b WHERE a.x = b.x", {}),
    ],
)
def test_what_conditions_imply(select: str, wanted: dict[str, int]) -> None:
    assert implied(select) == wanted


def test_stores_forget_by_implied_windows() -> None:
    where = "a.x = b.x AND b.ts BETWEEN a.ts - INTERVAL '2 seconds' AND a.ts + INTERVAL '4 seconds'"
    found = []
    for source in ("a, b", "a [RANGE 4 SECONDS] AS a, b [RANGE 2 SECONDS] AS b"):
        session = Session(Settings(unbounded="error"))
        session.execute(STREAMS)
        joined = session.query("q", f"SELECT a.x, a.ts AS first, b.ts AS second FROM {source} WHERE {where}")
        counted = session.query("n", f"SELECT count(*) AS n FROM {source} WHERE {where}")
        for second in range(400):
            for name in "ab":
                session.push(name, [{"x": second % 3, "ts": second * SECOND + (name == "b") * SECOND // 2}])
            session.step()
        session.run(once=True)
        found.append((joined.table().to_pylist(), [row["n"] for row in counted.table().to_pylist()]))
        assert session.stats()["peak_stored_rows"] <= 20
        assert not session.warnings
    assert found[0][0] == found[1][0]
    # A combination without windows is live for ever, however long its rows are stored.
    assert found[0][1] == sorted(found[0][1])
    assert found[0][1][-1] == len(found[0][0])
    assert found[1][1][-1] < 20


def test_explain_says_it() -> None:
    session = Session()
    session.execute(STREAMS)
    session.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x AND b.ts <= a.ts + INTERVAL '1 hour'")
    assert "implied by event times: a [RANGE 1 HOUR]" in session.explain("q").splitlines()
    assert [line for line in session.warnings if "grows" in line] == [
        "query q: the store of b (b) grows for ever, it has no window"
    ]
    strict = Session(Settings(unbounded="error"))
    strict.execute(STREAMS)
    with pytest.raises(PlanProblem, match=r"the store of b"):
        strict.query("q", "SELECT a.x FROM a, b WHERE a.x = b.x AND b.ts <= a.ts + INTERVAL '1 hour'")
