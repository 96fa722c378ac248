"""Groups of equal order, windows with negative offsets, and the units of `propagate`."""

from __future__ import annotations

from random import Random

import pytest

from eddyline import Session
from eddyline.errors import EddylineError
from eddyline.model.triggers import Trigger, propagate_triggers
from eddyline.settings import Settings

SECOND = 1_000_000
FORMS = (
    "SELECT k, COUNT(*) AS n FROM s [RANGE 20 SECONDS] GROUP BY k QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 2",
    "SELECT window_end, k, COUNT(*) AS n FROM s GROUP BY TUMBLE(ts, '20 seconds'), k ORDER BY n DESC LIMIT 2",
    "SELECT window_end, k, COUNT(*) AS n FROM s GROUP BY TUMBLE(ts, '20 seconds'), k "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC) <= 2",
)


@pytest.mark.parametrize("text", FORMS)
def test_ties_of_one_instant_do_not_depend_on_arrival(text: str) -> None:
    """d is older than all others; b, c and a come at one instant, in any order and in any epochs."""
    for seed in range(8):
        rng = Random(seed)
        tied = ["c", "a", "b", None]
        rng.shuffle(tied)
        rows = [{"k": "d", "ts": SECOND}, *({"k": k, "ts": 2 * SECOND} for k in tied)]
        with Session() as session:
            session.execute("CREATE STREAM s (k STRING, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')")
            query = session.query("q", text)
            cut = rng.randint(1, 5)
            for first in range(0, len(rows), cut):
                session.push("s", rows[first : first + cut])
                session.step()
            if "window_end" in text:
                session.push("s", [{"k": "z", "ts": 50 * SECOND}])
            session.run(once=True)
            standing: list[str | None] = []
            for row in query.table().to_pylist():
                (standing.append if row["_op"] == "+" else standing.remove)(row["k"])
        assert [k for k in standing if k != "z"][:2] == ["d", "a"] and "b" not in standing, f"seed {seed}"


@pytest.mark.parametrize(
    "offset", ["'-5 seconds'", "INTERVAL '-5' SECOND", "-INTERVAL '5 seconds'", "'15 seconds'", "'-25 seconds'"]
)
def test_offsets_below_zero_are_later_by_whole_spans(offset: str) -> None:
    with Session() as session:
        session.execute("CREATE STREAM s (x BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')")
        query = session.query(
            "q", f"SELECT window_start, COUNT(*) AS n FROM s GROUP BY TUMBLE(ts, '20 seconds', {offset})"
        )
        session.push("s", [{"x": at, "ts": at * SECOND} for at in range(0, 60, 5)])
        session.run(once=True)
        starts = [(round(row["window_start"].timestamp()), row["n"]) for row in query.table().to_pylist()]
    assert starts == [(-5, 3), (15, 4), (35, 4), (55, 1)]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("10 seconds", 10**7),
        ("1 minute", 6 * 10**7),
        ("5 milliseconds", 5_000),
        ("3 us", 3),
        ("1.5 h", 54 * 10**8),
        ("2 days", 1728 * 10**8),
    ],
)
def test_propagate_takes_all_units_of_time(text: str, micros: int) -> None:
    assert propagate_triggers(Settings().with_option("propagate", text).propagate) == (Trigger("span", micros),)


@pytest.mark.parametrize("text", ["0 seconds", "1 fortnight", "0.1 us", "1 month", "-5 seconds"])
def test_propagate_refuses_what_is_no_span(text: str) -> None:
    with pytest.raises(EddylineError, match="propagate"):
        Settings().with_option("propagate", text)


def test_a_request_has_no_subqueries() -> None:
    with Session() as session:
        session.execute("CREATE STREAM s (k STRING, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')")
        session.execute("CREATE TEMPLATE t AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k")
        for word in ("", "NOT "):
            with pytest.raises(EddylineError, match="a request has no subqueries"):
                session.execute(f"REQUEST n FROM t WHERE k = 'a' AND {word}EXISTS (SELECT 1 FROM s)")
