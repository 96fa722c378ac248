"""SUM and AVG at the ends of BIGINT and DECIMAL: the final value decides, in every form of aggregate and however the
epochs are cut."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from random import Random

import pyarrow as pa
import pytest

from eddyline import Session
from tests.oracle.aggregation import apply_changelog

SECOND = 1_000_000
MOST = Decimal("9999999999999999999999999999999999.9999")
ENDS = (
    MOST,
    MOST,
    MOST.copy_negate(),
    Decimal("0.0001"),
    Decimal("-0.0001"),
    Decimal("1.5000"),
    Decimal("0.0000"),
    None,
)
WHOLE = (2**63 - 1, 2**63 - 1, -(2**63), 2**53 + 1, -(2**53), 0, 1, None)
AGGREGATES = """SUM(d) AS sd, AVG(d) AS ad, SUM(x) AS sx, AVG(x) AS ax, SUM(DISTINCT d) AS dd, AVG(DISTINCT x) AS dx,
                SUM(d) FILTER (WHERE g = 1) AS fd, AVG(x) FILTER (WHERE g = 1) AS fx, STDDEV(g) AS same"""
Row = dict[str, object]

#: Per form: the rest of the query, and the (start of the) groups that a row is in.
FORMS: dict[str, tuple[str, Callable[[int], list[int]]]] = {
    "tumble": ("SELECT window_start AS w, {} FROM s GROUP BY TUMBLE(ts, '4 seconds')", lambda ts: [ts // 4 * 4]),
    "hop": (
        "SELECT window_start AS w, {} FROM s GROUP BY HOP(ts, '2 seconds', '6 seconds')",
        lambda ts: [start for start in range(-6, 60, 2) if start <= ts < start + 6],
    ),
    "bucket": (
        "SELECT date_trunc('minute', ts) AS w, {} FROM s GROUP BY date_trunc('minute', ts) EMIT ON CLOSE",
        lambda ts: [ts // 60 * 60],
    ),
    "session": ("SELECT window_start AS w, {} FROM s GROUP BY SESSION(ts, '1 second')", lambda ts: [ts // 7 * 7]),
    "joined": (
        "SELECT window_start AS w, {} FROM s [RANGE 0 SECONDS], t [UNBOUNDED] WHERE t.one = s.one GROUP BY TUMBLE(s.ts, '4 seconds')",
        lambda ts: [ts // 4 * 4],
    ),
}


def rows_of(seed: int) -> list[Row]:
    rng = Random(seed)
    times = [t for t in range(56) if t % 7 < 5 for _ in range(2)]
    return [{"one": 1, "g": 1, "d": rng.choice(ENDS), "x": rng.choice(WHOLE), "ts": t * SECOND} for t in times]


def right(members: list[Row]) -> Row:
    """The aggregates by Python's exact numbers; `same` is the deviation of equal values."""
    decimals = [r["d"] for r in members if r["d"] is not None]
    whole = [r["x"] for r in members if r["x"] is not None]

    def total(values: list[Decimal]) -> Decimal | None:
        with localcontext(prec=76):
            return found if values and abs(found := sum(values)) <= MOST else None  # type: ignore[return-value]

    def mean(values: list) -> float | None:
        return float(sum(map(Fraction, values)) / len(values)) if values else None

    fits = sum(whole) if whole and -(2**63) <= sum(whole) < 2**63 else None
    found = {
        "sd": total(decimals),
        "ad": mean(decimals),
        "sx": fits,
        "ax": mean(whole),
        "dd": total(list(set(decimals))),
    }
    return found | {
        "dx": mean(list(set(whole))),
        "fd": found["sd"],
        "fx": found["ax"],
        "same": 0.0 if len(members) > 1 else None,
    }


def started(session: Session) -> None:
    session.execute(
        "CREATE STREAM s (one INT, g INT, d DECIMAL(38, 4), x BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')"
    )
    session.execute("CREATE STREAM t (one INT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')")
    session.push("t", [{"one": 1, "ts": -SECOND}, {"one": 2, "ts": 100 * SECOND}])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", [1, 7, 100])
def test_the_final_value_decides_in_windows_that_close(form: str, cut: int) -> None:
    text, windows = FORMS[form]
    rows = rows_of(3)
    with Session() as session:
        started(session)
        query = session.query("q", text.format(AGGREGATES))
        for first in range(0, len(rows), cut):
            session.push("s", rows[first : first + cut])
            session.step()
        session.push("s", [{**rows[0], "ts": 100 * SECOND}])
        session.run(once=True)
        found = {
            round(row["w"].timestamp()): row
            for row in query.table().to_pylist()
            if row["w"].year == 1970 and row["w"].minute == 0
        }
        nulls = session.stats()["null_results"].get("overflow", 0)
    by_window: dict[int, list[Row]] = {}
    for row in rows:
        for start in windows(row["ts"] // SECOND):  # type: ignore[operator]
            by_window.setdefault(start, []).append(row)
    lost = 0
    for start, members in by_window.items():
        if start < 0:
            continue
        want = right(members)
        assert {name: found[start][name] for name in want} == want, f"window {start}"
        lost += sum(want[name] is None for name in ("sd", "sx", "dd", "fd"))
    assert lost and nulls >= lost - 4


@pytest.mark.parametrize("emit", ["", " EMIT EVERY 1 SECOND"])
@pytest.mark.parametrize("cut", [1, 9])
def test_the_final_value_decides_where_rows_leave(emit: str, cut: int) -> None:
    rows = rows_of(4)
    with Session() as session:
        started(session)
        query = session.query("q", f"SELECT one, {AGGREGATES} FROM s [RANGE 3 SECONDS] GROUP BY one{emit}")
        for first in range(0, len(rows), cut):
            session.push("s", rows[first : first + cut])
            session.step()
        session.run(once=True)
        changes = query.table().to_pylist()
    for row in changes:
        row["_ts"] = round((row["_ts"] - row["_ts"].replace(1970, 1, 1, 0, 0, 0, 0)).total_seconds() * SECOND)
    for now in sorted({row["_ts"] for row in changes}):
        live = [row for row in rows if now - 3 * SECOND <= row["ts"] <= now]  # type: ignore[operator]
        made = apply_changelog(changes, ["one"], now)
        assert len(made) == bool(live)
        for row in made.values():
            want = right(live)
            assert {name: row[name] for name in want} == want, f"at {now}"


def test_a_deviation_is_0_after_others_have_left() -> None:
    """Values of other sizes take digits along when they leave: what remains is summed anew."""
    with Session() as session:
        session.execute("CREATE STREAM s (x DOUBLE, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')")
        query = session.query("q", "SELECT STDDEV(x) AS v FROM s [RANGE 5 SECONDS]")
        for number, value in enumerate([1e-19, 3.4e-06, 10828.4, 6.3e-14, 71783546.9, *[7.860520742121478e18] * 8]):
            session.push("s", [{"x": value, "ts": number * SECOND}])
            session.step()
        session.run(once=True)
        assert query.table().to_pylist()[-1]["v"] == 0.0


def test_the_negative_of_a_wide_constant_is_exact() -> None:
    """Python's minus rounds to 28 digits: constants are negated by another way."""
    with Session() as session:
        session.execute("CREATE STREAM a (ts TIMESTAMP) WITH (time='ts', format='memory')")
        whole, part = f"CAST('{'9' * 38}' AS DECIMAL(38, 0))", f"CAST('0.{'1' * 38}' AS DECIMAL(38, 38))"
        session.execute(f"CREATE QUERY q AS SELECT -({whole}) AS n, -(-({part})) AS p FROM a")
        session.push("a", pa.table({"ts": pa.array([0], pa.timestamp("us"))}))
        session.run(once=True)
        (row,) = next(iter(session.queries["q"].results())).to_pylist()
    assert (row["n"], row["p"]) == (Decimal("-" + "9" * 38), Decimal("0." + "1" * 38))
