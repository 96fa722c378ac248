"""Grouped filters against one query, one row at a time, and against DuckDB."""

from __future__ import annotations

import math
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import Fault
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, decimal
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.operators.sharing.column_keys import TextKeys
from eddyline.operators.sharing.grouped_filter import GroupedFilter
from eddyline.operators.sharing.predicates import MOST_BOXES, boxes_of
from eddyline.tuning import SharingTuning
from tests.oracle.kernels_sharing import as_sets, matches
from tests.seeds import cases

DAY = 86_400_000_000
TYPES: dict[str, DataType] = {
    "i": INT,
    "b": BIGINT,
    "d": DOUBLE,
    "s": STRING,
    "t": TIMESTAMP,
    "day": DATE,
    "flag": BOOLEAN,
}
#: Few enough that predicates and rows meet often, with all the corners.
POOLS: dict[str, list[object]] = {
    "i": [-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1],
    "b": [-(2**63), -5, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1],
    "d": [-math.inf, -1.5, -0.0, 0.0, 0.5, 1.0, 2.0**53, math.inf, math.nan],
    "s": ["", "a", "ab", "ab\0", "abc", "abcdefgh", "abcdefghi", "b", "é", "zz", "a_c", "a%c"],
    "t": [-(10 * DAY), 0, 1, DAY, DAY + 1, 2 * DAY],
    "day": [-10, 0, 1, 2],
    "flag": [True, False],
}


def call(function: str, *args: Expression) -> Call:
    return Call(function, args, BOOLEAN)


def col(name: str, alias: str = "x") -> ColumnRef:
    return ColumnRef(alias, name, TYPES[name])


def lit(value: object, kind: DataType) -> Literal:
    return Literal(value, kind)


def both(*parts: Expression) -> Expression:
    whole = parts[0]
    for part in parts[1:]:
        whole = call("and", whole, part)
    return whole


def either(*parts: Expression) -> Expression:
    whole = parts[0]
    for part in parts[1:]:
        whole = call("or", whole, part)
    return whole


def batch(rows: list[dict[str, object]]) -> dict[str, pa.Array]:
    plain = {"t": pa.int64(), "day": pa.int32()}
    return {
        name: pa.array([row[name] for row in rows], plain.get(name, kind.arrow)).cast(kind.arrow)
        for name, kind in TYPES.items()
    }


def pairs(filters: GroupedFilter, rows: list[dict[str, object]]) -> list[tuple[int, int]]:
    slots, places = filters.match_pairs(batch(rows), len(rows))
    return list(zip(slots.tolist(), places.tolist(), strict=True))


ROWS = st.fixed_dictionaries({name: st.one_of(st.none(), st.sampled_from(pool)) for name, pool in POOLS.items()})


@st.composite
def simple(draw: st.DrawFn) -> Expression:
    """One condition on one column, most of which can be grouped."""
    name = draw(st.sampled_from(sorted(TYPES)))
    kind, column = TYPES[name], col(name)
    value = st.builds(
        lit, st.one_of(st.sampled_from(POOLS[name]), st.sampled_from([*POOLS[name], None])), st.just(kind)
    )
    needle: Expression = column
    if name in ("i", "b") and draw(st.booleans()):
        needle = Call("cast", (column,), DOUBLE)
        value = st.builds(lit, st.sampled_from(POOLS["d"]), st.just(DOUBLE))
    elif name == "day" and draw(st.booleans()):
        needle = Call("cast", (column,), TIMESTAMP)
        value = st.builds(lit, st.sampled_from(POOLS["t"]), st.just(TIMESTAMP))
    shape = draw(st.sampled_from(["compare", "compare", "flipped", "in", "null", "like", "same", "odd", "plain"]))
    comparison = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    if shape == "flipped":
        return call(comparison, draw(value), needle)
    if shape == "in":
        return call("in", needle, *draw(st.lists(value, min_size=1, max_size=12)))
    if shape == "null":
        return call(draw(st.sampled_from(["is_null", "is_not_null"])), needle)
    if shape == "like":
        pattern = draw(st.sampled_from(["a%", "ab%%", "%", "", "abc", "%c", "a_c", "abcdefgh%", "é%"]))
        return call("like", col("s"), lit(pattern, STRING))
    if shape == "same":
        return call("is_not_distinct", needle, draw(value))
    if shape == "odd":
        remainder = Call("%", (col("i"), lit(draw(st.integers(2, 3)), INT)), INT)
        return draw(
            st.sampled_from(
                [call("=", remainder, lit(1, INT)), call("<", col("t"), Call("cast", (col("day"),), TIMESTAMP))]
            )
        )
    if shape == "plain":
        return draw(st.sampled_from([col("flag"), lit(True, BOOLEAN), lit(None, BOOLEAN)]))
    return call(comparison, needle, draw(value))


PREDICATES = st.recursive(
    simple(),
    lambda inner: st.one_of(
        st.builds(lambda e: call("not", e), inner),
        st.builds(both, inner, inner),
        st.builds(either, inner, inner, inner),
        st.builds(both, inner, inner, inner),
    ),
    max_leaves=8,
)


@pytest.mark.property
@settings(max_examples=cases(150), deadline=None)
@given(
    st.lists(st.one_of(st.none(), PREDICATES), min_size=1, max_size=12),
    st.lists(ROWS, min_size=1, max_size=12),
    st.sets(st.integers(0, 11)),
    st.lists(PREDICATES, max_size=3),
    st.sampled_from([0, 10**6]),
)
def test_every_slot_gets_the_rows_for_which_its_predicate_is_true(
    predicates: list[Expression | None],
    rows: list[dict[str, object]],
    dropped: set[int],
    later: list[Expression],
    ranges_per_row: int,
) -> None:
    # 0: always looked up in trees; many: always in the sorted batch.
    filters = GroupedFilter(tuning=SharingTuning(ranges_per_row=ranges_per_row))
    wanted: dict[int, Expression | None] = {}
    for slot, predicate in enumerate(predicates):
        filters.add(slot, predicate, "x")
        wanted[slot] = predicate
    assert pairs(filters, rows) == matches(wanted, rows)
    for slot in dropped & wanted.keys():
        filters.remove(slot)
        del wanted[slot]
    free = sorted(set(range(20)) - wanted.keys())
    for slot, predicate in zip(free, later, strict=False):
        filters.add(slot, predicate, "x")
        wanted[slot] = predicate
    expected = matches(wanted, rows)
    assert pairs(filters, rows) == expected
    asked = np.array(sorted(wanted, reverse=True)[:5], np.int64)
    lineage = filters.match_lineage(batch(rows), len(rows), asked)
    bits = as_sets(lineage.tolist())
    assert bits == [{i for i, slot in enumerate(asked.tolist()) if (slot, row) in expected} for row in range(len(rows))]
    assert as_sets(filters.match_lineage(batch(rows), len(rows)).tolist()) == [
        {s for s, r in expected if r == row} for row in range(len(rows))
    ]


@pytest.mark.parametrize("rows", [1, 7, 300, 5000])
@pytest.mark.parametrize("kind", ["range", "equality", "two columns", "texts", "mixture"])
def test_thousands_of_queries(kind: str, rows: int) -> None:
    random = np.random.default_rng(5)
    x, y = random.random(rows), random.integers(0, 500, rows)
    texts = np.array([f"item-{n:05d}" for n in range(700)])[random.integers(0, 700, rows)]
    data = {"d": pa.array(x), "b": pa.array(y), "s": pa.array(texts)}
    filters, expected = GroupedFilter(), []
    for slot in range(2000):
        shape = ["range", "equality", "two columns", "texts"][slot % 4] if kind == "mixture" else kind
        low, value, text = random.random(), int(random.integers(0, 500)), f"item-{random.integers(0, 700):05d}"
        inside = both(call(">=", col("d"), lit(low, DOUBLE)), call("<", col("d"), lit(low + 0.01, DOUBLE)))
        predicate, mask = {
            "range": (inside, (x >= low) & (x < low + 0.01)),
            "equality": (call("=", col("b"), lit(value, BIGINT)), y == value),
            "two columns": (both(inside, call("<", col("b"), lit(value, BIGINT))), (x >= low) & (x < low + 0.01) & (y < value)),
            "texts": (either(call("=", col("s"), lit(text, STRING)), call("like", col("s"), lit(text[:-1] + "%", STRING))),
                      np.char.startswith(texts, text[:-1])),
        }[shape]  # fmt: skip
        filters.add(slot, predicate, "x")
        expected += [(slot, int(row)) for row in np.flatnonzero(mask)]
    for start in range(0, 2000, 3):
        filters.remove(start)
    expected = [pair for pair in expected if pair[0] % 3]
    slots, found = filters.match_pairs(data, rows)
    assert list(zip(slots.tolist(), found.tolist(), strict=True)) == expected
    for slot in range(2000):
        if slot % 3 and slot % 50:
            filters.remove(slot)
    slots, found = filters.match_pairs(data, rows)
    assert list(zip(slots.tolist(), found.tolist(), strict=True)) == [pair for pair in expected if pair[0] % 50 == 0]


def test_queries_added_between_small_batches_are_seen_at_once() -> None:
    filters, wanted = GroupedFilter(), {}
    rows = [dict.fromkeys(TYPES) | {"b": value} for value in (3, 40, 700)]
    for slot in range(900):
        wanted[slot] = both(call(">=", col("b"), lit(slot, BIGINT)), call("<=", col("b"), lit(slot + 3, BIGINT)))
        filters.add(slot, wanted[slot], "x")
        if slot % 60 == 0 or slot in (40, 700):
            assert pairs(filters, rows) == matches(wanted, rows)


def test_texts_that_leave_no_room_between_labels() -> None:
    filters, wanted = GroupedFilter(), {}
    rows = [dict.fromkeys(TYPES) | {"s": "b" * n + "a"} for n in range(0, 120, 7)]
    for slot in range(120):
        # Each bound lies between the last one and "c": the free space halves every time.
        wanted[slot] = call(
            ["<", "<=", ">", ">=", "="][slot % 5], col("s"), lit("b" * slot + "a" if slot else "c", STRING)
        )
        filters.add(slot, wanted[slot], "x")
    assert pairs(filters, rows) == matches(wanted, rows)


SQL = [
    (call("<", col("d"), lit(math.nan, DOUBLE)), "d < 'nan'::DOUBLE"),
    (call(">", col("d"), lit(1e308, DOUBLE)), "d > 1e308"),
    (call("=", col("d"), lit(-0.0, DOUBLE)), "d = -0.0::DOUBLE"),
    (call("not", call("in", col("d"), lit(0.5, DOUBLE), lit(math.nan, DOUBLE))), "d NOT IN (0.5, 'nan'::DOUBLE)"),
    (call("not", call("in", col("i"), lit(0, INT), lit(None, INT))), "i NOT IN (0, NULL)"),
    (call("not", call("is_not_distinct", col("i"), lit(1, INT))), "i IS DISTINCT FROM 1"),
    (call(">=", Call("cast", (col("b"),), DOUBLE), lit(2.0**53, DOUBLE)), "b::DOUBLE >= 9007199254740992::DOUBLE"),
    (call("=", Call("cast", (col("b"),), DOUBLE), lit(2.0**53, DOUBLE)), "b::DOUBLE = 9007199254740992::DOUBLE"),
    (call("<", Call("cast", (col("b"),), DOUBLE), lit(math.nan, DOUBLE)), "b::DOUBLE < 'nan'::DOUBLE"),
    (call("like", col("s"), lit("ab%", STRING)), "s LIKE 'ab%'"),
    (call("not", call("like", col("s"), lit("ab%", STRING))), "s NOT LIKE 'ab%'"),
    (call(">", col("s"), lit("b", STRING)), "s > 'b'"),
    (call("<=", col("s"), lit("abcdefgh", STRING)), "s <= 'abcdefgh'"),
    (
        call("<=", Call("cast", (col("day"),), TIMESTAMP), lit(DAY + 1, TIMESTAMP)),
        "day::TIMESTAMP <= make_timestamp(86400000001)",
    ),
    (call("not", either(call("<", col("i"), lit(1, INT)), call("is_null", col("s")))), "NOT (i < 1 OR s IS NULL)"),
    (call("not", col("flag")), "NOT flag"),
]


def test_many_texts_are_added_at_once_and_have_the_keys_of_texts_added_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    letters = [b"", b"\0", b"a", b"aaaaaaaa", b"aaaaaaaa\0", b"aaaaaaaab", b"\xc3\xa9"]

    def drawn(count: int) -> list[bytes]:
        return [letters[rng.integers(len(letters))] + b"%d" % rng.integers(500) for _ in range(count)] + letters

    first, second, single = drawn(5), drawn(300), TextKeys()
    for bound in {*first, *second}:
        single.add([bound])
    together = TextKeys()
    together.add(first)
    known = sorted(set(first))
    before = together.labels_of(known)
    together.relabelling()
    # One insertion moves all bounds that are there.
    monkeypatch.delattr(TextKeys, "_insert")
    together.add(second)
    change = together.relabelling()
    assert change is not None and [part.tolist() for part in change] == [
        before.tolist(),
        together.labels_of(known).tolist(),
    ]
    assert np.diff(together.labels).min() >= 2 and together.labels.size == single.labels.size
    asked = pa.array(sorted({bound.decode() for bound in drawn(400)}, key=str.encode), pa.string())
    keys = [one.keys(asked) for one in (together, single)]
    # Equal labels, and equal places between two labels.
    places = [
        (np.searchsorted(one.labels, found), np.isin(found, one.labels))
        for one, found in zip((together, single), keys, strict=True)
    ]
    assert (
        (places[0][0] == places[1][0]).all()
        and (places[0][1] == places[1][1]).all()
        and places[0][1].any()
        and not places[0][1].all()
    )


def test_what_duckdb_says() -> None:
    random = np.random.default_rng(11)
    rows = [
        {name: [*pool, None][random.integers(0, len(pool) + 1)] for name, pool in POOLS.items()} for _ in range(400)
    ]
    filters = GroupedFilter()
    for slot, (predicate, _) in enumerate(SQL):
        filters.add(slot, predicate, "x")
    table = pa.table(batch(rows) | {"row": pa.array(range(400))})
    with duckdb.connect() as connection:
        connection.register("given", table)
        expected = [
            (slot, row)
            for slot, (_, sql) in enumerate(SQL)
            for (row,) in connection.sql(f"SELECT row FROM given WHERE {sql} ORDER BY row").fetchall()
        ]
    assert pairs(filters, rows) == expected


def test_decimals_are_grouped_by_their_digits() -> None:
    price, wide = ColumnRef("x", "p", decimal(10, 2)), decimal(14, 4)
    filters = GroupedFilter()
    filters.add(0, call(">=", price, lit(Decimal("1.50"), decimal(10, 2))), "x")
    filters.add(1, call("<", Call("cast", (price,), wide), lit(Decimal("1.5001"), wide)), "x")
    filters.add(2, call("=", price, lit(Decimal("-0.01"), decimal(10, 2))), "x")
    values = pa.array([Decimal("1.49"), Decimal("1.50"), Decimal("1.51"), Decimal("-0.01"), None], pa.decimal128(10, 2))
    slots, rows = filters.match_pairs({"p": values}, 5)
    assert list(zip(slots.tolist(), rows.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 3), (2, 3)]


def test_slices_and_chunks_are_read_where_they_begin() -> None:
    filters = GroupedFilter()
    filters.add(0, call("=", col("b"), lit(2, BIGINT)), "x")
    filters.add(1, call("=", col("s"), lit("two", STRING)), "x")
    filters.add(2, col("flag"), "x")
    whole = {
        "b": pa.array([2, 1, None, 2]),
        "s": pa.array(["two", "one", None, "two"]),
        "flag": pa.array([True, False, None, True]),
    }
    slots, rows = filters.match_pairs({name: values.slice(1) for name, values in whole.items()}, 3)
    assert list(zip(slots.tolist(), rows.tolist(), strict=True)) == [(0, 2), (1, 2), (2, 2)]
    chunks = {name: pa.chunked_array([values.slice(0, 1), values.slice(1)]) for name, values in whole.items()}
    slots, rows = filters.match_pairs(chunks, 4)
    assert list(zip(slots.tolist(), rows.tolist(), strict=True)) == [(0, 0), (0, 3), (1, 0), (1, 3), (2, 0), (2, 3)]


def test_an_expression_that_no_column_set_can_say_is_kept_once() -> None:
    filters = GroupedFilter()
    odd = {alias: call("=", Call("%", (col("i", alias), lit(2, INT)), INT), lit(1, INT)) for alias in ("x", "y")}
    filters.add(0, odd["x"], "x")
    filters.add(1, both(odd["y"], call(">", col("i", "y"), lit(2, INT))), "y")
    filters.add(2, call("not", odd["x"]), "x")
    assert len(filters._table.expressions) == 2
    assert filters.columns() == {"i"}
    rows = [dict.fromkeys(TYPES) | {"i": value} for value in (1, 2, 3, None)]
    assert pairs(filters, rows) == [(0, 0), (0, 2), (1, 2), (2, 1)]
    filters.remove(2)
    filters.remove(0)
    assert len(filters._table.expressions) == 1
    assert pairs(filters, rows) == [(1, 2)]


def test_a_predicate_with_too_many_boxes_stays_an_expression() -> None:
    halves = [either(call("<>", col("i"), lit(n, INT)), call("<>", col("b"), lit(n, BIGINT))) for n in range(8)]
    boxes = boxes_of(both(*halves), "x")
    assert [(len(box.sets), len(box.rest)) for box in boxes] == [(0, 1)]
    assert 2 ** len(halves) > MOST_BOXES


def test_ors_over_one_column_are_one_box_however_many() -> None:
    wanted = either(*(call("=", col("i"), lit(2 * n, INT)) for n in range(3000)))
    (box,) = boxes_of(wanted, "x")
    assert len(box.sets["i"].spans) == 3000


def test_contradictions_have_no_box_and_tautologies_no_condition() -> None:
    assert boxes_of(both(call("<", col("i"), lit(1, INT)), call(">", col("i"), lit(1, INT))), "x") == []
    assert boxes_of(lit(None, BOOLEAN), "x") == []
    assert boxes_of(None, "x")[0].sets == {}


def test_slots_are_used_once_at_a_time() -> None:
    filters = GroupedFilter()
    filters.add(3, None, "x")
    with pytest.raises(Fault, match="slot 3 is in use"):
        filters.add(3, None, "x")
    filters.remove(3)
    with pytest.raises(Fault, match="slot 3 is not in use"):
        filters.remove(3)
    filters.add(3, call("is_null", col("i")), "x")
    assert 3 in filters
    assert 2 not in filters


def test_nothing_in_nothing_out() -> None:
    filters = GroupedFilter()
    assert filters.match_pairs({}, 3)[0].size == 0
    assert filters.match_lineage({}, 3, np.empty(0, np.int64)).tolist() == [[0], [0], [0]]
    filters.add(0, call("=", col("b"), lit(1, BIGINT)), "x")
    assert filters.match_pairs({"b": pa.array([], pa.int64())}, 0)[0].size == 0
    assert filters.match_lineage({"b": pa.array([], pa.int64())}, 0).shape == (0, 1)


def test_ten_thousand_queries_take_less_than_two_kilobytes_each() -> None:
    filters = GroupedFilter()
    for slot in range(10_000):
        low = slot / 10_000
        filters.add(
            slot, both(call(">=", col("d"), lit(low, DOUBLE)), call("<", col("d"), lit(low + 1e-4, DOUBLE))), "x"
        )
    filters.match_pairs({"d": pa.array([0.5])}, 1)
    filters.match_pairs({"d": pa.array(np.linspace(0, 1, 1000))}, 1000)
    assert filters.nbytes / 10_000 < 400


@pytest.mark.parametrize("column", ["b", "d", "s"])
@pytest.mark.parametrize("nulls", [0.0, 0.1])
def test_slots_that_the_ends_of_a_batch_decide_are_sorted_out(column: str, nulls: float) -> None:
    """Most of a thousand ranges miss the batch as a whole, some cover it; asked one by one they answer the same."""
    rng = np.random.default_rng(3)
    kind, change = TYPES[column], {"b": int, "d": float, "s": lambda n: f"{int(n):06d}"}[column]
    sieving, plain = (GroupedFilter(None, SharingTuning(), sorts_out) for sorts_out in (True, False))
    for slot in range(1000):
        low = int(rng.integers(0, 100_000))
        ends = lit(change(low), kind), lit(change(low + int(rng.choice([10, 1_000, 60_000]))), kind)
        predicate = both(call(">=", col(column), ends[0]), call("<", col(column), ends[1]))
        if slot % 7 == 0:
            predicate = either(predicate, call("is_null", col(column)))
        if slot % 11 == 0:
            predicate = either(predicate, call("=", col(column), lit(change(50_000), kind)))
        for filters in (sieving, plain):
            filters.add(slot, predicate, "x")
    for _ in range(12):
        start, rows = int(rng.integers(0, 99_000)), int(rng.integers(40, 400))
        values = [None if rng.random() < nulls else change(int(n)) for n in rng.integers(start, start + 1_000, rows)]
        given = {column: pa.array(values, kind.arrow)}
        found, expected = (filters.match_pairs(given, rows) for filters in (sieving, plain))
        assert (found[0] == expected[0]).all() and (found[1] == expected[1]).all()
        assert (sieving.match_lineage(given, rows) == plain.match_lineage(given, rows)).all()
    assert plain.slots_skipped == plain.slots_passed == 0
    if not nulls:
        assert sieving.slots_skipped > 2_000 and sieving.slots_passed > 200


@pytest.mark.parametrize(
    ("rows", "share", "asks"),
    [(1_024, 0.9, False), (2_048, 0.5, False), (2_048, 0.9, True), (20_480, 0.2, False), (20_480, 0.4, True)],
)
def test_stretches_are_asked_where_batches_are_large_and_many_rows_are_missed(
    rows: int, share: float, asks: bool
) -> None:
    filters = GroupedFilter()
    for slot in range(20):
        filters.add(
            slot,
            both(call(">=", col("b"), lit(slot * 10, BIGINT)), call("<", col("b"), lit(slot * 10 + 10, BIGINT))),
            "x",
        )
    missed = np.repeat(np.arange(rows // 64) < share * rows // 64, 64)
    values = np.arange(rows) % 200 + np.where(missed, 1_000, 0)
    slots, _ = filters.match_pairs({"b": pa.array(values)}, rows)
    assert len(slots) == np.count_nonzero(~missed) and filters._worth.is_on == asks


@pytest.mark.parametrize("seed", range(8))
def test_stretches_that_no_slot_wants_are_left_out(seed: int) -> None:
    """Partitions of a batch, most of which lie beyond all ranges of a column that every slot names: the same pairs as
    without a look."""
    rng = np.random.default_rng(seed)
    sieving, plain = (
        GroupedFilter(None, SharingTuning(ranges_per_row=4 if seed % 2 else 32), sorts_out)
        for sorts_out in (True, False)
    )
    sieving._worth.is_open = False
    for slot in range(400):
        low, least = int(rng.integers(0, 100_000)), float(rng.random())
        predicate: Expression = both(
            call(">=", col("b"), lit(low, BIGINT)), call("<", col("b"), lit(low + 2_000, BIGINT))
        )
        if slot % 3 == 0:
            predicate = both(predicate, call(">", col("d"), lit(least, DOUBLE)))
        if slot % 5 == 0:
            predicate = either(predicate, call("=", col("b"), lit(low // 2, BIGINT)))
        if slot % 7 == 0:
            # No set of values: an expression that is tested row by row.
            predicate = both(predicate, call("<", Call("%", (col("b"), lit(7, BIGINT)), BIGINT), lit(3, BIGINT)))
        if seed == 3 and slot == 399:
            predicate = call(">", col("d"), lit(0.5, DOUBLE))
        for filters in (sieving, plain):
            filters.add(slot, predicate, "x")
    for turn in range(6):
        starts = rng.integers(0, 99_000, 30) + np.where(rng.random(30) < 0.8, 10_000_000, 0)
        values = np.concatenate([rng.integers(start, start + 900, int(rng.integers(1, 200))) for start in starts])
        if turn == 4:
            values = values + 20_000_000
        nulls = rng.random(len(values)) < (0.01 if turn == 5 else 0)
        given_ = {"b": pa.array(values, mask=nulls), "d": pa.array(rng.random(len(values)))}
        found, expected = (filters.match_pairs(given_, len(values)) for filters in (sieving, plain))
        assert (found[0] == expected[0]).all() and (found[1] == expected[1]).all() and len(found[0]) == len(expected[0])
        assert (sieving.match_lineage(given_, len(values)) == plain.match_lineage(given_, len(values))).all()
        if turn == 1:
            for filters in (sieving, plain):
                filters.remove(17)
                filters.add(17, call("=", col("b"), lit(int(values[0]), BIGINT)), "x")
