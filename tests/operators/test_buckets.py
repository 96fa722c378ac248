"""Time buckets: which expressions are some, where they end, and when a group over a join is complete."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.language import bind_script
from eddyline.model.expressions.expression import Expression
from eddyline.model.expressions.monotone import trend_of
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder
from eddyline.operators.aggregate.buckets import FOREVER, Bucket, Ends
from eddyline.operators.expressions.evaluate import Issues, compile_expression

BEGIN = datetime(2024, 1, 1)

MONOTONE = [
    *(
        f"date_trunc('{unit}', ts)"
        for unit in ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month")
    ),
    *(f"date_trunc('{unit}', ts)" for unit in ("quarter", "year", "decade", "century", "millennium")),
    "ts",
    "CAST(ts AS DATE)",
    "CAST(CAST(ts AS DATE) AS TIMESTAMP)",
    "date_trunc('month', CAST(ts AS DATE))",
    "epoch_us(ts) // 300000000",
    "epoch_us(ts) // 300000000 * 300000000",
    "make_timestamp(epoch_us(ts) // 300000000 * 300000000)",
    "epoch_ms(ts) // 7",
    "-(epoch_us(ts) // 1000)",
    "5 - epoch_us(ts) // (60 * 1000 * 1000)",
    "epoch_us(ts) // -1000",
    "floor(epoch(ts) / 300)",
    "CAST(epoch(ts) / 60 AS BIGINT)",
    "epoch(ts - TIMESTAMP '2000-01-01 00:00:00') / 7",
    "date_trunc('hour', ts + INTERVAL '30 minutes')",
    "date_trunc('week', ts - INTERVAL '2 days') + INTERVAL '2 days'",
    "year(ts)",
    "-year(ts)",
    "CAST(ts AS DATE) + 3",
    "date_diff('minute', TIMESTAMP '2020-02-02 00:00:30', ts)",
    "date_diff('month', ts, TIMESTAMP '2020-02-02 00:00:30')",
    "round(epoch(ts) * 0.1)",
    "ceil(epoch(ts) * -3.5)",
]

OTHER = [
    "epoch_us(ts) % 60",
    "month(ts)",
    "hour(ts)",
    "abs(epoch_us(ts))",
    "epoch_us(ts) * 0",
    "epoch_us(ts) * epoch_us(ts)",
    "epoch_us(ts) * 1000",
    "CAST(epoch(ts) AS INT)",
    "1 / epoch(ts)",
    "epoch_us(ts) // k",
    "epoch_us(other)",
    "CAST(ts AS STRING)",
    "CASE WHEN k > 0 THEN ts ELSE ts END",
    "CAST(epoch_us(ts) AS DECIMAL(38,0))",
]


def bound(text: str) -> Expression:
    job = bind_script(
        f"""CREATE STREAM s (k BIGINT, other TIMESTAMP, ts TIMESTAMP) WITH (time='ts', format='memory');
            CREATE QUERY q AS SELECT {text} AS b FROM s;"""
    )
    return job.queries[0].outputs[0].expression


def values_at(e: Expression, times: np.ndarray) -> np.ndarray:
    column = pa.array(times).cast(pa.timestamp("us"))
    values = column if not hasattr(e, "args") else compile_expression(e)({("s", "ts"): column}, len(times), Issues())
    encoded, valid = ValueEncoder().encode(values, e.type)
    assert not len(valid) or valid.all()
    return encoded


def some_times() -> np.ndarray:
    """Around 1970, around leap days, before year 0 and anywhere in between."""
    draws = np.random.default_rng(3)
    near = draws.integers(-(10**10), 10**10, 300)
    wide = draws.integers(-62_000_000_000_000_000, 250_000_000_000_000_000, 300)
    edges = np.array(
        ["1969-12-31T23:59:59.999999", "1970-01-01", "2000-02-29", "0001-01-01", "9999-12-31"], "M8[us]"
    ).view(np.int64)
    return np.concatenate([near, wide, edges, edges[:3] - 1])


@pytest.mark.parametrize("text", MONOTONE)
def test_a_bucket_ends_with_the_last_microsecond_of_its_value(text: str) -> None:
    e = bound(text)
    assert trend_of(e) is not None
    times = some_times()
    encoded = values_at(e, times)
    due = Ends(Bucket(0, e)).due(encoded)
    assert (due > times).all() and (due < FOREVER).all()
    np.testing.assert_array_equal(values_at(e, due - 1), encoded)
    assert (values_at(e, due) != encoded).all()
    # With a delay, and what is known already.
    ends = Ends(Bucket(0, e, 7))
    np.testing.assert_array_equal(ends.due(encoded), due + 7)
    np.testing.assert_array_equal(ends.due(encoded[::3]), due[::3] + 7)
    ends.forget(int(np.median(due)))
    np.testing.assert_array_equal(ends.due(encoded[::3]), due[::3] + 7)


@pytest.mark.parametrize("text", MONOTONE)
def test_values_follow_time(text: str) -> None:
    e = bound(text)
    trend = trend_of(e)
    assert trend is not None
    encoded = values_at(e, np.sort(some_times()))
    assert (encoded[1:] >= encoded[:-1]).all() if trend.rising else (encoded[1:] <= encoded[:-1]).all()


@pytest.mark.parametrize("text", OTHER)
def test_other_expressions_are_no_buckets(text: str) -> None:
    trend = trend_of(bound(text))
    assert trend is None or trend.column.column != "ts"


def test_decades_before_the_year_zero_are_cut_towards_it() -> None:
    e = bound("date_trunc('decade', ts)")
    # In the year -15, which belongs to the bucket -10.
    at = np.array(["-0015-06-01"], "M8[us]").view(np.int64)
    encoded = values_at(e, at)
    due = Ends(Bucket(0, e)).due(encoded)
    assert values_at(e, due - 1)[0] == encoded[0] != values_at(e, due)[0]


def closed(query: str, rows: list[tuple[str, float]], streams: str = "ab", *, end: bool = True) -> list[tuple]:
    """The rows of a query over streams of times only; instants are seconds since BEGIN."""
    with Session() as session:
        for name in streams:
            session.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (time='ts')")
        session.execute(f"CREATE QUERY q AS {query}")
        for name, at in rows:
            session.push(name, [{"k": 1, "ts": BEGIN + timedelta(seconds=at)}])
            session.step()
        if end:
            session.run(once=True)
        found = [row for batch in session.queries["q"].results() for row in batch.to_pylist()]
    return [(row["n"], (row["_ts"] - BEGIN).total_seconds()) for row in found]


PAIRS = "SELECT {0} AS m, COUNT(*) AS n FROM a [RANGE 10 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k GROUP BY {1} EMIT ON CLOSE"


def test_a_bucket_of_an_older_row_waits_for_its_partners() -> None:
    """The pair is completed six seconds after the end of the minute, by a row that is not in it."""
    rows = [("a", 59.0), ("b", 65.0), ("a", 80.0), ("b", 81.0)]
    minute = "date_trunc('minute', a.ts)"
    assert closed(PAIRS.format(minute, "m"), rows) == [(1, 69.999999), (1, 129.999999)]
    assert closed(PAIRS.format("date_trunc('minute', b.ts)", "m"), [*rows, ("a", 130), ("b", 131)])[0] == (
        2,
        121.999999,
    )


def test_the_earliest_of_several_buckets_closes_the_group() -> None:
    rows = [("a", 59.0), ("b", 60.5), ("b", 61.0), ("a", 75.0), ("b", 76.0)]
    query = PAIRS.format("date_trunc('minute', a.ts)", "m, date_trunc('second', b.ts)").replace(
        " AS n", " AS n, date_trunc('second', b.ts) AS s"
    )
    # The seconds 60 and 61 of b end at 61 and 62, and two seconds later; the minute of a ends at 60, and ten seconds
    # later. The second 76 closes with the run.
    assert closed(query, rows) == [(1, 62.999999), (1, 63.999999), (1, 78.999999)]


def test_a_frontier_between_the_end_of_the_bucket_and_its_closing() -> None:
    rows = [("a", 59.0), ("b", 59.5), ("a", 66.0), ("b", 66.0)]
    assert closed(PAIRS.format("date_trunc('minute', a.ts)", "m"), rows, end=False) == []
    assert closed(PAIRS.format("date_trunc('minute', a.ts)", "m"), [*rows, ("a", 70.0), ("b", 70.0)], end=False) == [
        (2, 69.999999)
    ]


def test_windows_of_five_minutes() -> None:
    query = "SELECT epoch_us(ts) // 300000000 AS m, COUNT(*) AS n FROM a GROUP BY m EMIT ON CLOSE"
    rows = [("a", 0), ("a", 299.999999), ("a", 300), ("a", 700)]
    assert closed(query, rows, "a") == [(2, 299.999999), (1, 599.999999), (1, 899.999999)]


def test_buckets_before_1970() -> None:
    """`//` cuts towards zero: the bucket 0 reaches from -59 s to 59 s."""
    shift = (BEGIN - datetime(1970, 1, 1)).total_seconds()
    rows = [("a", at - shift) for at in (-130, -70, -59, -1, 59, 60)]
    query = "SELECT epoch_us(ts) // 60000000 AS m, COUNT(*) AS n FROM a GROUP BY m EMIT ON CLOSE"
    found = [(n, round(ts + shift, 6)) for n, ts in closed(query, rows, "a")]
    assert found == [(1, -120.0), (1, -60.0), (3, 59.999999), (1, 119.999999)]
