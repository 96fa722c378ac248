"""Aggregates by worked examples, and the parts that they are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, DataType, decimal
from eddyline.operators.aggregate.accumulators.accumulators import Distinct, FloatSums
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder
from eddyline.operators.aggregate.accumulators.groups import Dictionary, Touched
from eddyline.operators.aggregate.expiry import ExpiryQueue
from eddyline.operators.aggregate.tables import TextBlocks
from eddyline.operators.expressions.evaluate import Issues

BEGIN = datetime(2024, 1, 1)
SECOND = 1_000_000

Row = tuple[object, ...]


def run(query: str, columns: str, epochs: Sequence[Sequence[Row]], close: bool = True) -> list[Row]:
    """The changelog of a query over stream s; a row is (seconds, values …). `_ts` comes last, in seconds."""
    with Session() as session:
        session.execute(f"CREATE STREAM s (ts TIMESTAMP, {columns}) WITH (time = 'ts')")
        session.execute(f"CREATE QUERY q AS {query}")
        for epoch in epochs:
            names = ["ts", *(c.split()[0] for c in columns.split(", "))]
            session.push(
                "s", [dict(zip(names, (BEGIN + timedelta(seconds=row[0]), *row[1:]), strict=True)) for row in epoch]
            )  # type: ignore[arg-type]
            session.step()
        if close:
            session.run(once=True)
        rows = [row for batch in session.queries["q"].results() for row in batch.to_pylist()]
        return [(*(v for n, v in row.items() if n != "_ts"), (row["_ts"] - BEGIN).total_seconds()) for row in rows]


def rounded(rows: list[Row]) -> list[Row]:
    """Instants of the epochs' ends lie one microsecond before the frontier: here the frontier itself is shown."""
    return [(*row[:-1], round(row[-1] + 1e-6, 3)) for row in rows]  # type: ignore[operator]


def test_groups_come_change_and_go() -> None:
    epochs: list[list[Row]] = [[(0, "a", 1), (0, "b", 5)], [(1, "a", 2)], [(2.5, "c", 7)], [(9, "c", 1)]]
    found = rounded(
        run("SELECT k, COUNT(*) AS n, SUM(x) AS t FROM s [RANGE 2 SECONDS] GROUP BY k", "k STRING, x INT", epochs)
    )
    assert sorted(found[:2]) == [("a", 1, 1, "+", 1.0), ("b", 1, 5, "+", 1.0)]
    # Before 2.5 s the second row of a has come, and the rows of 0 s have left.
    assert sorted(found[2:4]) == [("a", 1, 2, "+", 2.5), ("b", None, None, "-", 2.5)]
    # The row of 2.5 s has come and left in between; the last instant is that of the newest row.
    assert found[4:] == [("a", None, None, "-", 9.0), ("c", 1, 1, "+", 9.0)]


def test_without_group_by_there_is_one_group_from_the_first_row_on() -> None:
    found = run("SELECT COUNT(*) AS n, SUM(x) AS t, MAX(x) AS m FROM s [RANGE 1 SECOND] WHERE x > 0", "x INT",
                [[(0, -1)], [(1, -1)], [(2, 4)], [(3, -1)], [(9, -1)], [(10, 5)]])  # fmt: skip
    assert rounded(found) == [
        (0, None, None, "+", 1.0),
        (1, 4, 4, "+", 3.0),
        (0, None, None, "+", 9.0),
        (1, 5, 5, "+", 10.0),
    ]  # fmt: skip


def test_the_first_change_is_not_before_the_first_row() -> None:
    """The frontier passes 4 s before any row has come: nothing is said of that, nor of the moment before the first row,
    at 5 s."""
    with Session() as session:
        session.execute("CREATE STREAM s (ts TIMESTAMP, x INT) WITH (time = 'ts', remember = '1 day')")
        session.execute("CREATE QUERY changes AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND]")
        session.execute(
            "CREATE QUERY late AS SELECT COUNT(*) AS n, SUM(x) AS t FROM s [RANGE 1 SECOND] EMIT EVERY 2 SECONDS"
        )
        session.punctuate("s", "ts <= TIMESTAMP '2024-01-01 00:00:04'")
        session.step()
        for at in (5, 5.5, 8):
            session.push("s", [{"ts": BEGIN + timedelta(seconds=at), "x": 1}])
            session.step()
        session.run(once=True)
        found = {
            name: [row for batch in query.results() for row in batch.to_pylist()]
            for name, query in session.queries.items()
        }
        made = {
            name: [(row["n"], (row["_ts"] - BEGIN).total_seconds()) for row in rows] for name, rows in found.items()
        }
    assert made == {"changes": [(1, 5.499999), (0, 7.999999), (1, 8.0)], "late": [(2, 6.0), (1, 8.0)]}


@pytest.mark.parametrize("emit", ["ON CHANGE", "EVERY 2 SECONDS"])
def test_an_empty_stream_has_no_group(emit: str) -> None:
    """Also when its time goes on, and with another stream that has rows; one row makes the group."""
    query = f"SELECT COUNT(*) AS n, SUM(x) AS t FROM s [RANGE 1 SECOND] EMIT {emit}"
    assert run(query, "x INT", []) == run(query, "x INT", [[]]) == []
    with Session() as session:
        session.execute("CREATE STREAM s (ts TIMESTAMP, x INT) WITH (time = 'ts', remember = '1 day')")
        session.execute("CREATE STREAM other (ts TIMESTAMP, x INT) WITH (time = 'ts')")
        session.execute(f"CREATE QUERY q AS {query}")
        session.execute("CREATE QUERY rest AS SELECT x FROM other")
        session.push("other", [{"ts": BEGIN + timedelta(seconds=at), "x": at} for at in range(9)])
        session.punctuate("s", "ts <= TIMESTAMP '2024-01-01 00:00:07'")
        session.step()
        session.run(once=True)
        assert sum(len(batch) for batch in session.queries["rest"].results()) == 9
        assert not list(session.queries["q"].results())
    assert [row[0] for row in run(query, "x INT", [[(2, 1)]])] == [1]


def test_having_makes_groups_come_and_go() -> None:
    epochs: list[list[Row]] = [[(0, 1, 5)], [(1, 1, 6), (2, 1, 7)], [(4.5, 2, 1)], [(9, 2, 1)]]
    found = run("SELECT k, SUM(x) AS t FROM s [RANGE 3 SECONDS] GROUP BY k HAVING COUNT(*) > 1", "k INT, x INT", epochs)
    assert rounded(found) == [(1, 11, "+", 2.0), (1, None, "-", 4.5)]


def test_an_output_that_does_not_change_is_not_emitted_again() -> None:
    found = run("SELECT k, SUM(x) > 10 AS large FROM s [UNBOUNDED] GROUP BY k", "k INT, x INT",
                [[(0, 1, 5)], [(1, 1, 3)], [(2, 1, 7)], [(3, 1, 7)]])  # fmt: skip
    assert [row[:3] for row in found] == [(1, False, "+"), (1, True, "+")]


def test_rows_window() -> None:
    found = run("SELECT SUM(x) AS t FROM s [ROWS 2]", "x INT", [[(0, 1)], [(1, 10)], [(2, 100)], [(3, 1000)]])
    assert [row[0] for row in found] == [1, 11, 110, 1100]


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_every_does_not_depend_on_epochs(size: int) -> None:
    rng = Random(6)
    rows: list[Row] = [(i * 0.7, rng.choice("abc"), rng.randrange(9)) for i in range(40)]
    aggregates = "COUNT(*) AS n, MIN(x) AS low, MAX(x) AS high, COUNT(DISTINCT x) AS d"
    for window in ("RANGE 4 SECONDS", "ROWS 5", "UNBOUNDED"):
        query = f"SELECT k, {aggregates} FROM s [{window}] GROUP BY k EMIT EVERY 2 SECONDS"
        whole = run(query, "k STRING, x INT", [rows])
        parts = run(query, "k STRING, x INT", [rows[i : i + size] for i in range(0, 40, size)])
        assert sorted(map(repr, parts)) == sorted(map(repr, whole))
        assert len(whole) > 10
        assert all(row[-1] % 2 == 0 for row in whole)  # type: ignore[operator]


def test_on_close_emits_complete_buckets_once() -> None:
    found = run("SELECT date_trunc('minute', ts) AS m, k, COUNT(*) AS n, COUNT(DISTINCT x) AS d FROM s [RANGE 1 SECOND] "
                "GROUP BY date_trunc('minute', ts), k EMIT ON CLOSE", "k STRING, x INT",
                [[(0, "a", 1), (10, "a", 1), (20, "b", 1)], [(59, "a", 2)], [(60, "a", 1)], [(130, "a", 3)]])  # fmt: skip
    minute = timedelta(minutes=1)
    assert sorted(found[:2]) == [(BEGIN, "a", 3, 2, "+", 59.999999), (BEGIN, "b", 1, 1, "+", 59.999999)]
    # The last one closes with the run.
    closed = [(BEGIN + minute, "a", 1, 1, "+", 119.999999), (BEGIN + 2 * minute, "a", 1, 1, "+", 179.999999)]
    assert found[2:] == closed


def test_distinct_values_are_added_once_and_leave_with_their_last_row() -> None:
    aggregates = "SUM(DISTINCT x) AS t, AVG(DISTINCT x) AS m, STDDEV(DISTINCT x) AS d, SUM(DISTINCT y) AS u, AVG(DISTINCT w) AS v"
    first: list[Row] = [(0, 1, 0.5, Decimal("0.10")), (1, 1, 0.5, Decimal("0.10")), (2, 3, 1e300, Decimal("0.30"))]
    epochs: list[list[Row]] = [first, [(2.5, None, None, None)], [(4, 5, -1e300, None)], [(9, 5, 2.0, None)]]
    found = run(f"SELECT {aggregates} FROM s [RANGE 2 SECONDS]", "x BIGINT, y DOUBLE, w DECIMAL(6,2)", epochs)
    assert found[1][:5] == (4, 2.0, pytest.approx(2**0.5), 1e300, pytest.approx(0.2))
    assert found[-1][:5] == (5, 5.0, None, 2.0, None)


def test_distinct_whole_numbers_are_told_apart_before_they_are_doubles() -> None:
    big = 2**53
    found = run("SELECT AVG(DISTINCT x) AS m, STDDEV(DISTINCT x) AS d, COUNT(DISTINCT x) AS n FROM s", "x BIGINT",
                [[(0, big), (1, big + 1), (2, 0), (3, 0)], [(4, 0)]])  # fmt: skip
    assert found[-1][:3] == (pytest.approx(2 * big / 3), pytest.approx(big / 3**0.5), 3)


def test_stddev_of_large_values() -> None:
    """Large values that lie close together keep their digits; where squares have no finite value it is NaN, and no
    error."""
    found = run("SELECT STDDEV(x) AS d FROM s", "x DOUBLE", [[(0, 1e16), (1, 1e16 + 2), (2, 1e16 + 4)], [(3, 1e16)]])
    assert 2.0 in [row[0] for row in found]
    epochs: list[list[Row]] = [
        [(0, 1e200), (0.5, -1e200), (0.6, 1e200)],
        [(9, 1.0), (9.5, 3.0), (9.6, None)],
        [(20, 1.0)],
    ]
    values = [row[0] for row in run("SELECT STDDEV(x) AS d FROM s [RANGE 1 SECOND]", "x DOUBLE", epochs)]
    assert any(isinstance(v, float) and math.isnan(v) for v in values) and pytest.approx(2**0.5) in values


def test_distinct_is_group_by_all_columns() -> None:
    found = run("SELECT DISTINCT k, x FROM s [RANGE 1 SECOND]", "k STRING, x DOUBLE",
                [[(0, "a", 0.0), (0, "a", -0.0), (0, None, float("nan"))], [(0.5, None, float("nan"))], [(3, "z", None)]])  # fmt: skip
    assert [(row[0], row[2]) for row in found[:2]] == [("a", "+"), (None, "+")]
    assert sorted((str(row[0]), row[2]) for row in found[2:]) == [("None", "-"), ("a", "-"), ("z", "+")]


def test_texts_and_decimals_leave_their_groups() -> None:
    encoded = ("pear", "apple", "beetroot", "elderberry", "fig")
    epochs: list[list[Row]] = [
        [(at, encoded, Decimal(encoded.count("e")) - Decimal("1.25"))] for at, encoded in enumerate(encoded)
    ]
    aggregates = "MIN(w) AS low, MAX(w) AS high, SUM(d) AS t, MIN(d) AS least"
    found = run(f"SELECT {aggregates} FROM s [RANGE 2 SECONDS]", "w STRING, d DECIMAL(6,2)", epochs)
    assert [row[:4] for row in found] == [
        ("pear", "pear", Decimal("-0.25"), Decimal("-0.25")),
        ("apple", "pear", Decimal("-0.50"), Decimal("-0.25")),
        ("apple", "beetroot", Decimal("0.50"), Decimal("-0.25")),
        ("beetroot", "elderberry", Decimal("2.50"), Decimal("0.75")),
        ("beetroot", "fig", Decimal("1.25"), Decimal("-1.25")),
    ]


def test_expressions_over_aggregates() -> None:
    query = "SELECT k + 1 AS k1, SUM(x) / COUNT(*) AS ratio, COUNT(DISTINCT x) AS d, k + 1 AS again FROM s [RANGE 1 SECOND] GROUP BY k + 1"
    found = run(query, "k INT, x DOUBLE", [[(0, 1, 2.0), (0, 1, 2.0), (0, 1, 5.0)], [(0.5, 1, 7.0)], [(1.2, 3, 0.0)]])
    assert sorted(row[:5] for row in found) == [(2, 3.0, 2, 2, "+"), (2, 7.0, 1, 2, "+"), (4, 0.0, 1, 4, "+")]


def test_a_sum_beyond_bigint_is_null_and_counted() -> None:
    big = 2**63 - 1
    with Session() as session:
        session.execute("CREATE STREAM s (ts TIMESTAMP, x BIGINT) WITH (time = 'ts')")
        session.execute("CREATE QUERY q AS SELECT SUM(x) AS t FROM s [RANGE 2 SECONDS]")
        for at, x in ((0, big), (1, 1), (2, 5), (3, 5)):
            session.push("s", [{"ts": BEGIN + timedelta(seconds=at), "x": x}])
            session.step()
        rows = [row for batch in session.queries["q"].results() for row in batch.to_pylist()]
        assert [row["t"] for row in rows] == [big, None, 6]
        assert session.pipeline.issues.counts["overflow"] == 1


def test_codes_and_slots_of_the_dead_are_given_out_again() -> None:
    with Session() as session:
        session.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, w STRING) WITH (time = 'ts')")
        session.execute(
            "CREATE QUERY q AS SELECT k, MAX(w) AS m, COUNT(DISTINCT w) AS d FROM s [RANGE 1 SECOND] GROUP BY k"
        )
        for epoch in range(40):
            ts = pa.array(np.arange(500) * 2_000 + epoch * SECOND).cast(pa.timestamp("us"))
            keys = np.arange(500) + 500 * epoch
            session.push("s", pa.table({"ts": ts, "k": keys, "w": [f"word {k}" for k in keys]}))
            session.step()
        aggregation = session.pipeline.queries["q"].aggregation  # type: ignore[union-attr]
        assert aggregation.capacity <= 2048
        assert aggregation.contributions.capacity <= 2048
        aggregation.encoder.kept = -(10**6)
        aggregation.sweep(list)
        assert aggregation.encoder.held <= 1100
        session.run(once=True)
        rows = [row for batch in session.queries["q"].results() for row in batch.to_pylist()]
        assert all(row["m"] == f"word {row['k']}" and row["d"] == 1 for row in rows if row["_op"] == "+")
        assert sum(row["_op"] == "+" for row in rows) == 20_000


# ---- the parts


def test_sums_of_distinct_values_follow_first_and_last_occurrence() -> None:
    kept = Distinct(FloatSums(True, DOUBLE, ValueEncoder()), False, DOUBLE, ValueEncoder())
    kept.reserve(4)
    codes = np.array([1, 1, 1, 2], np.int64)
    values, valid = ValueEncoder().encode(pa.array([2.0, 2.0, 5.0, None]), DOUBLE)

    def read(function: str) -> list[object]:
        return list(kept.read(function, np.array([1, 2]), Issues()).to_pylist())

    kept.change(codes, values, valid, 1)
    assert (read("sum"), read("avg")) == ([7.0, None], [3.5, None])
    kept.change(codes[:1], values[:1], valid[:1], -1)
    assert read("sum") == [7.0, None]
    kept.change(codes[1:2], values[1:2], valid[1:2], -1)
    assert (read("sum"), read("stddev")) == ([5.0, None], [None, None])
    assert kept.values.held == 1


def test_a_doubtful_sum_is_computed_anew_from_live_rows() -> None:
    epochs: list[list[Row]] = [[(0, 1e300), (0, 1e150), (1, 1.5), (1, 1e-200)], [(2.5, 0.25)], [(2.6, 0.5)]]
    found = run("SELECT SUM(x) AS t FROM s [RANGE 2 SECONDS]", "x DOUBLE", epochs)
    assert [row[0] for row in found] == [1e300, 1.5, 1.75, 2.25]


def test_expiry_hands_out_everything_once_and_in_time() -> None:
    rng = Random(8)
    queue, held, now = ExpiryQueue(), {}, 0
    for ticket in range(0, 4000, 8):
        keys = np.array([now + rng.randrange(500) for _ in range(8)], np.int64)
        held.update(dict(zip(range(ticket, ticket + 8), keys.tolist(), strict=True)))
        queue.push(keys, np.arange(ticket, ticket + 8))
        now += rng.randrange(8)
        assert queue.next == min(held.values())
        due = sorted(t for t, key in held.items() if key < now)
        assert sorted(queue.pop(now).tolist()) == due
        for t in due:
            del held[t]
        assert len(queue) == len(held)
        assert len(queue.runs) <= 12


def test_dictionary_is_the_same_after_a_restart() -> None:
    one = Dictionary(2)
    rows = np.array([(i % 700, i % 3) for i in range(2100)], np.int64)
    codes = one.codes(rows)
    one.release(np.unique(codes)[::3])
    other = Dictionary(2)
    other.restore(one.live(), one.keys[one.live()])
    assert other.find(rows).tolist() == one.find(rows).tolist()
    assert other.held == one.held
    assert len(np.unique(other.codes(rows))) == len(np.unique(codes))


def test_touched_codes_are_given_once() -> None:
    touched = Touched()
    touched.note(np.array([5, 3, 5]), 10)
    touched.note(np.array([3, 900]), 1000)
    assert touched.take().tolist() == [5, 3, 900]
    assert touched.take().tolist() == []


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (BIGINT, [3, None, -(2**63), 2**63 - 1, 0]),
        (DOUBLE, [1.5, None, float("-inf"), -2.5, 0.0, float("inf")]),
        (BOOLEAN, [True, None, False]),
        (DATE, [datetime(2024, 1, 2).date(), None, datetime(1950, 1, 2).date()]),
        (STRING, ["b", None, "", "a", "ab", "longer than eight bytes", "ä"]),
        (decimal(20, 3), [Decimal("1.5"), None, Decimal("-1.501"), Decimal("0"), Decimal("12345678901234567.891")]),
    ],
)
def test_words_and_back(kind: DataType, values: list[object]) -> None:
    encoder = ValueEncoder()
    array = pa.array(values, kind.arrow)
    codes, valid = encoder.encode(array, kind)
    assert encoder.decode(codes, valid, kind).to_pylist() == array.to_pylist()
    there = [(v, int(c)) for v, c in zip(values, codes, strict=True) if v is not None]
    if kind not in (STRING, decimal(20, 3)):
        assert sorted(there, key=lambda p: p[0]) == sorted(there, key=lambda p: p[1])  # type: ignore[arg-type, return-value]
    other = ValueEncoder()
    other.restore(encoder.ids(), *encoder.strings(encoder.ids()), 0)
    assert other.decode(codes, valid, kind).to_pylist() == array.to_pylist()
    assert other.encode(array, kind)[0].tolist() == codes.tolist()


def test_strings_are_forgotten_between_restarts_too() -> None:
    """A shard is restored again and again, each time after some strings: those that nothing names do not pile up."""
    encoder, held = ValueEncoder(), []
    for part in range(12):
        codes, _ = encoder.encode(pa.array([f"{part} {n}" for n in range(20_000)]), STRING)
        if encoder.is_full:
            encoder.sweep([codes])
        state, blocks = TextBlocks(encoder).snapshot("texts")
        encoder = ValueEncoder()
        TextBlocks(encoder).restore(state, lambda name, blocks=blocks: blocks[name]())  # type: ignore[misc]
        held.append(encoder.held)
    assert max(held) <= 2 * 20_000 + 65_536 + 20_000
    assert encoder.decode(codes[:3], np.ones(3, np.bool_), STRING).to_pylist() == ["11 0", "11 1", "11 2"]


@pytest.mark.parametrize(
    ("emit", "wanted"), [("", [(1, 1.999999), (2, 2.5)]), (" EMIT EVERY 1 SECOND", [(1, 1.0), (2, 2.0)])]
)
def test_a_dropped_query_speaks_up_to_its_last_instant(emit: str, wanted: list[Row]) -> None:
    with Session() as session:
        session.execute("CREATE STREAM s (ts TIMESTAMP, x INT) WITH (time = 'ts')")
        session.execute(f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [UNBOUNDED]{emit}")
        for at in (1.0, 2.0):
            session.push("s", [{"ts": BEGIN + timedelta(seconds=at), "x": 1}])
            session.step()
        session.pipeline.stop_query(
            "q", int((BEGIN + timedelta(seconds=2.5) - datetime(1970, 1, 1)).total_seconds() * SECOND)
        )
        standing = session.queries["q"]
        session.push("s", [{"ts": BEGIN + timedelta(seconds=at), "x": 1} for at in (3.0, 4.0)])
        session.step()
        rows = [row for batch in standing.results() for row in batch.to_pylist()]
        assert [(row["n"], (row["_ts"] - BEGIN).total_seconds()) for row in rows if row["n"]] == wanted
