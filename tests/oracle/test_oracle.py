"""The oracle against answers worked by hand: every worked example of SEMANTICS, and aggregates."""

from __future__ import annotations

import math

import pytest

from tests.oracle.aggregation import aggregate_value, apply_changelog, closed_groups, instants, table_at
from tests.oracle.expressions import Agg, Call, Col, Lit, evaluate
from tests.oracle.intake import Epoch, Intake, Stream, intake
from tests.oracle.relational import Emit, Last, Query, Range, Reference, Unbounded, Window, answer

SECOND = 1_000_000


def arrive(*rows: tuple[str, float], order: str = "", lateness: float = 0, closing: bool = True) -> Intake:
    """Rows `(stream, seconds)` in one epoch; each is named after its stream and time (`a@0`)."""
    names = order or "".join(sorted({name for name, _ in rows}))
    streams = [Stream(name, lateness=round(lateness * SECOND)) for name in names]
    values = {
        name: [{"ts": round(t * SECOND), "id": f"{n}@{t:g}", "x": t} for n, t in rows if n == name] for name in names
    }
    return intake(streams, [Epoch(values, closing=closing)], frozenset(names))


def joined(*windows: tuple[str, Window]) -> Query:
    """Every combination of the references, by the names of its rows."""
    references = tuple(Reference(f"r{i}", stream, window) for i, (stream, window) in enumerate(windows))
    return Query(references, (), tuple((r.alias, Col(r.alias, "id", "STRING")) for r in references))


def seconds(n: float) -> Range:
    return Range(round(n * SECOND))


def results(query: Query, taken: Intake) -> list[tuple[object, ...]]:
    return [(*r.values, r.ts / SECOND) for r in answer(query, taken.rows)]


# ---- the worked examples


def test_first_component_to_leave():
    taken = arrive(("a", 0), ("b", 4), ("c", 8))
    assert results(joined(("a", seconds(5)), ("b", seconds(5))), taken) == [("a@0", "b@4", 4)]
    assert results(joined(("b", seconds(5)), ("c", seconds(5))), taken) == [("b@4", "c@8", 8)]
    assert results(joined(("a", seconds(5)), ("b", seconds(5)), ("c", seconds(5))), taken) == []


def test_different_windows():
    query = joined(("a", seconds(10)), ("b", seconds(2)))
    assert results(query, arrive(("a", 0), ("b", 7))) == [("a@0", "b@7", 7)]
    assert results(query, arrive(("b", 7), ("a", 10))) == []


def test_range_is_inclusive():
    query = joined(("a", seconds(5)), ("b", seconds(5)))
    assert results(query, arrive(("a", 0), ("b", 5))) == [("a@0", "b@5", 5)]
    assert results(query, arrive(("a", 0), ("b", 5.000001))) == []


def test_rows():
    query = joined(("t", seconds(10)), ("s", Last(2)))
    taken = arrive(("s", 1), ("s", 2), ("t", 2.5), ("s", 3), ("t", 4))
    assert sorted(results(query, taken), key=str) == [
        ("t@2.5", "s@1", 2.5),
        ("t@2.5", "s@2", 2.5),
        ("t@2.5", "s@3", 3),
        ("t@4", "s@2", 4),
        ("t@4", "s@3", 4),
    ]


def test_different_speeds():
    rows = {"a": [{"ts": t * SECOND} for t in (5, 9, 10, 30)], "b": [{"ts": t * SECOND} for t in (4, 10)]}
    taken = intake([Stream("a"), Stream("b")], [Epoch(rows)], frozenset("ab"))
    assert taken.frontiers == [10 * SECOND]
    assert [(r.stream, r.ts // SECOND) for r in taken.rows] == [("b", 4), ("a", 5), ("a", 9)]
    assert taken.waiting == 3


@pytest.mark.parametrize(
    ("order", "right"),
    [("ts", {("s@2", "t@3", 3.0), ("s@3", "t@3", 3.0)}), ("st", {("s@3", "t@3", 3.0)})],
    ids=["T first", "S first"],
)
def test_ties_with_rows(order, right):
    taken = arrive(("s", 2), ("s", 3), ("t", 3), order=order)
    assert set(results(joined(("s", Last(1)), ("t", Unbounded())), taken)) == right


@pytest.mark.parametrize("order", ["st", "ts"])
def test_ties_with_range_do_not_depend_on_order(order):
    taken = arrive(("s", 3), ("t", 3), order=order)
    assert results(joined(("s", seconds(0)), ("t", seconds(0))), taken) == [("s@3", "t@3", 3)]


# ---- intake


def test_late_is_judged_by_where_the_epoch_began():
    def row(t: float) -> dict[str, int]:
        return {"ts": round(t * SECOND)}

    stream = Stream("a", lateness=2 * SECOND)
    epochs = [
        Epoch({"a": [row(10), row(1)]}),
        Epoch({"a": [row(8), row(7.999999), row(20), row(9)]}),
        Epoch({"a": [row(9)]}, closing=True),
    ]
    taken = intake([stream], epochs, frozenset("a"))
    # The second epoch begins with horizon 8: 8 is in time, just below is late; 9 is below 20 - 2 but came with it.
    assert [v["ts"] / SECOND for _, v in taken.dead["a"]] == [7.999999, 9]
    assert [r.ts // SECOND for r in taken.rows] == [1, 8, 9, 10, 20]
    assert [r.epoch for r in taken.rows] == [0, 1, 1, 1, 2]
    assert taken.frontiers == [8 * SECOND, 18 * SECOND, 20 * SECOND + 1]


def test_a_silent_stream_holds_the_frontier_back_until_it_is_idle():
    rows = {"a": [{"ts": 5}, {"ts": 9}]}
    taken = intake([Stream("a"), Stream("b")], [Epoch(rows)], frozenset("ab"))
    assert (taken.frontiers, taken.rows) == ([None], [])
    late = Epoch({"b": [{"ts": 8}, {"ts": 9}]})
    taken = intake([Stream("a"), Stream("b")], [Epoch(rows, idle=frozenset("b")), late], frozenset("ab"))
    assert taken.frontiers == [9, 9]
    assert taken.dead == {"a": [], "b": [("late", {"ts": 8})]}


def test_a_stream_that_no_query_reads_does_not_hold_the_frontier_back():
    taken = intake([Stream("a"), Stream("b")], [Epoch({"a": [{"ts": 5}], "b": []})], frozenset("a"))
    assert taken.frontiers == [5]


def test_sequence_orders_rows_of_equal_time():
    rows = [{"ts": 1, "n": 3}, {"ts": 1, "n": 1}, {"ts": 0, "n": 9}]
    taken = intake([Stream("a", sequence="n")], [Epoch({"a": rows}, closing=True)], frozenset("a"))
    assert [r.values["n"] for r in taken.rows] == [9, 1, 3]
    assert [(r.number, r.rank) for r in taken.rows] == [(0, 0), (1, 1), (2, 2)]


def test_a_row_without_event_time_is_bad():
    taken = intake([Stream("a")], [Epoch({"a": [{"ts": None}, {"ts": 3}]}, closing=True)], frozenset("a"))
    assert taken.dead["a"] == [("bad", {"ts": None})]
    assert len(taken.rows) == 1


# ---- joins


def test_a_row_meets_itself_under_the_other_reference():
    taken = arrive(("a", 1), ("a", 2))
    assert set(results(joined(("a", seconds(5)), ("a", seconds(5))), taken)) == {
        ("a@1", "a@1", 1.0),
        ("a@1", "a@2", 2.0),
        ("a@2", "a@1", 2.0),
        ("a@2", "a@2", 2.0),
    }


def test_nulls_never_join_and_nan_does():
    rows = [{"ts": 1, "k": None}, {"ts": 2, "k": math.nan}, {"ts": 3, "k": -0.0}]
    taken = intake([Stream("a")], [Epoch({"a": rows}, closing=True)], frozenset("a"))
    key = [Col(alias, "k", "DOUBLE") for alias in "ab"]
    query = Query(
        (Reference("a", "a", Unbounded()), Reference("t", "t", None)),
        (Call("=", (key[0], Col("t", "k", "DOUBLE"))),),
        (("k", key[0]),),
    )
    found = answer(query, taken.rows, {"t": [{"k": None}, {"k": math.nan}, {"k": 0.0}, {"k": 7.0}]})
    assert [r.ts for r in found] == [2, 3]


def test_a_query_sees_only_what_comes_after_its_start():
    taken = arrive(("a", 1), ("a", 2), ("a", 3))
    query = joined(("a", Last(3)), ("a", Last(1)))
    found = answer(query, taken.rows, start=1 * SECOND, stop=2 * SECOND)
    assert [r.values for r in found] == [("a@2", "a@2")]


# ---- aggregates


def counting(
    window: Window, emit: Emit, *outputs: tuple[str, object], group: bool = True, having: object = None
) -> Query:
    groups = (Col("a", "k", "STRING"),) if group else ()
    return Query((Reference("a", "a", window),), (), (*(("k", g) for g in groups), *outputs), groups, having, emit=emit)


ROWS = [("x", 1, 10), ("y", 2, 20), ("x", 4, None), ("x", 9, 5)]


def grouped() -> Intake:
    rows = [{"k": k, "ts": t * SECOND, "v": v} for k, t, v in ROWS]
    return intake([Stream("a")], [Epoch({"a": [row]}) for row in rows] + [Epoch({}, closing=True)], frozenset("a"))


def test_a_window_that_slides_changes_groups():
    query = counting(seconds(3), Emit(), ("n", Agg("COUNT")), ("s", Agg("SUM", Col("a", "v", "BIGINT"))))
    taken = grouped()
    tables = {now: set(table_at(query, taken.rows, None, now * SECOND).values()) for now in (1, 2, 4, 5, 6, 9)}
    assert tables == {
        1: {("x", 1, 10)},
        2: {("x", 1, 10), ("y", 1, 20)},
        4: {("x", 2, 10), ("y", 1, 20)},
        5: {("x", 1, None), ("y", 1, 20)},
        6: {("x", 1, None)},
        9: {("x", 1, 5)},
    }


def test_rows_windows_count_before_filters():
    query = counting(Last(2), Emit(), ("n", Agg("COUNT")), group=False)
    filtered = Query(query.references, (Call("=", (Col("a", "k", "STRING"), Lit("x", "STRING"))),), query.outputs)
    taken = grouped()
    assert [list(table_at(filtered, taken.rows, None, now * SECOND).values()) for now in (0, 1, 2, 4, 9)] == [
        [(n,)] for n in (0, 1, 1, 1, 2)
    ]


def test_without_group_by_there_is_always_one_group():
    value = Col("a", "v", "BIGINT")
    query = counting(
        seconds(1), Emit(), ("n", Agg("COUNT")), ("m", Agg("MAX", value)), ("d", Agg("AVG", value)), group=False
    )
    assert list(table_at(query, grouped().rows, None, 7 * SECOND).values()) == [(0, None, None)]


def test_having_hides_groups():
    having = Call(">", (Agg("COUNT"), Lit(1, "INT")))
    query = counting(seconds(3), Emit(), ("n", Agg("COUNT")), having=having)
    assert set(table_at(query, grouped().rows, None, 4 * SECOND).values()) == {("x", 2)}


def test_instants():
    taken = grouped()
    assert taken.frontiers == [1 * SECOND, 2 * SECOND, 4 * SECOND, 9 * SECOND, 9 * SECOND + 1]
    change = instants(counting(seconds(3), Emit()), taken.rows, taken.frontiers)
    # Nothing is said of the moment before the first row, which is at 1 s.
    assert change == [2 * SECOND - 1, 4 * SECOND - 1, 9 * SECOND - 1, 9 * SECOND]
    every = instants(counting(seconds(3), Emit("every", 3 * SECOND)), taken.rows, taken.frontiers)
    assert every == [3 * SECOND, 6 * SECOND, 9 * SECOND]


def test_on_close_counts_the_whole_bucket_once():
    rows = [{"ts": round(t * SECOND)} for t in (0.1, 0.9, 1.0, 1.2, 2.5)]
    taken = intake([Stream("a")], [Epoch({"a": rows}, closing=True)], frozenset("a"))
    bucket = Call("date_trunc:second", (Col("a", "ts", "TIMESTAMP"),))
    query = Query(
        (Reference("a", "a", seconds(0)),), (), (("b", bucket), ("n", Agg("COUNT"))), (bucket,), emit=Emit("close")
    )
    # The bucket of second 2 is still open at the bounded end.
    assert closed_groups(query, taken.rows, None, taken.frontiers) == [
        (SECOND - 1, (0, 2)),
        (2 * SECOND - 1, (SECOND, 2)),
    ]


def test_distinct_is_group_by_everything():
    rows = [{"ts": i, "k": k} for i, k in enumerate((0.0, -0.0, None, math.nan, None, math.nan))]
    taken = intake([Stream("a")], [Epoch({"a": rows}, closing=True)], frozenset("a"))
    query = Query((Reference("a", "a", Unbounded()),), (), (("k", Col("a", "k", "DOUBLE")),), distinct=True)
    assert len(table_at(query, taken.rows, None, 5)) == 3


@pytest.mark.parametrize(
    ("function", "distinct", "right"),
    [
        ("COUNT", False, 4),
        ("COUNT", True, 3),
        ("SUM", False, 9.0),
        ("SUM", True, 7.0),
        ("AVG", False, 2.25),
        ("MIN", False, 1.0),
        ("MAX", False, 4.0),
        ("STDDEV", False, math.sqrt((0.0625 * 2 + 1.5625 + 3.0625) / 3)),
    ],
)
def test_aggregate_functions(function, distinct, right):
    members = [{"a": {"v": v}} for v in (2.0, 2.0, None, 1.0, 4.0)]
    assert aggregate_value(Agg(function, Col("a", "v", "DOUBLE"), distinct), members) == pytest.approx(right)


def test_nan_is_the_greatest_and_stays_in_sums():
    members = [{"a": {"v": v}} for v in (math.nan, 1.0)]
    value = {f: aggregate_value(Agg(f, Col("a", "v", "DOUBLE")), members) for f in ("MIN", "MAX", "SUM", "STDDEV")}
    assert value["MIN"] == 1.0
    assert all(math.isnan(value[f]) for f in ("MAX", "SUM", "STDDEV"))
    assert aggregate_value(Agg("STDDEV", Col("a", "v", "DOUBLE")), members[1:]) is None


def test_apply_changelog():
    changes = [
        {"k": "x", "n": 1, "_op": "+", "_ts": 1},
        {"k": None, "n": 1, "_op": "+", "_ts": 1},
        {"k": "x", "n": 2, "_op": "+", "_ts": 2},
        {"k": None, "n": None, "_op": "-", "_ts": 3},
    ]
    tables = [sorted((str(r["k"]), r["n"]) for r in apply_changelog(changes, ["k"], t).values()) for t in (0, 1, 2, 3)]
    assert tables == [[], [("None", 1), ("x", 1)], [("None", 1), ("x", 2)], [("x", 2)]]
    with pytest.raises(AssertionError, match="not there"):
        apply_changelog([{"k": "x", "n": None, "_op": "-", "_ts": 1}], ["k"], 1)
    with pytest.raises(AssertionError, match="as it was"):
        apply_changelog([changes[0], {**changes[0], "_ts": 2}], ["k"], 2)


# ---- expressions


@pytest.mark.parametrize(
    ("expression", "right"),
    [
        (Call("and", (Lit(None, "BOOLEAN"), Lit(False, "BOOLEAN"))), False),
        (Call("or", (Lit(None, "BOOLEAN"), Lit(False, "BOOLEAN"))), None),
        (Call("not_in", (Lit(3, "INT"), Lit(1, "INT"), Lit(None, "INT"))), None),
        (Call("//", (Lit(-7, "INT"), Lit(2, "INT"))), -3),
        (Call("%", (Lit(-7, "INT"), Lit(2, "INT"))), -1),
        (Call("/", (Lit(1, "INT"), Lit(0, "INT"))), math.inf),
        (Call("%", (Lit(1, "INT"), Lit(0, "INT"))), None),
        (Call("+", (Lit(2**31 - 1, "INT"), Lit(1, "INT"))), None),
        (Call("+", (Lit(2**31 - 1, "INT"), Lit(1, "BIGINT"))), 2**31),
        (Call("=", (Lit(2**53 + 1, "BIGINT"), Lit(2.0**53, "DOUBLE"))), True),
        (Call("<", (Lit(math.inf, "DOUBLE"), Lit(math.nan, "DOUBLE"))), True),
        (Call("like", (Lit("a.b", "STRING"), Lit("a_b", "STRING"))), True),
    ],
)
def test_scalar_values(expression, right):
    assert evaluate(expression, {}) == right
