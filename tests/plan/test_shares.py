"""Routing: every combination meets in exactly one cell, and shares are the best integers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import PlanProblem
from eddyline.model.datatypes import BIGINT, BOOLEAN
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Expression
from eddyline.model.query import BoundQuery, OutputColumn, Reference
from eddyline.model.window import UNBOUNDED
from eddyline.plan.shards.axes import Axis
from eddyline.plan.shards.routing import Record, Route
from eddyline.plan.shards.share_choice import choose_shares, load
from eddyline.plan.shards.shares import route, route_all
from tests.seeds import cases


def column(name: str) -> ColumnRef:
    alias, _, plain = name.partition(".")
    return ColumnRef(alias, plain, BIGINT)


def equal(left: str, right: str) -> Call:
    return Call("=", (column(left), column(right)), BOOLEAN)


def query(references: str, *where: Call, group_by: tuple[Expression, ...] = (), name: str = "q") -> BoundQuery:
    """`references` is 'a b c', or 'stream:alias'; a name in capitals is a static table."""
    found = tuple(
        Reference(alias, stream, None if stream.isupper() else UNBOUNDED)
        for stream, _, alias in (
            word.rpartition(":") if ":" in word else (word, "", word) for word in references.split()
        )
    )
    outputs: tuple[OutputColumn, ...] = tuple(OutputColumn(str(g), g) for g in group_by)
    if group_by:
        outputs += (OutputColumn("n", Aggregate("count", None, False, BIGINT)),)
    return BoundQuery(name, found, where, outputs, group_by=group_by)


def shards_of(one: Route, rows: dict[str, np.ndarray], first_row: int = 0) -> np.ndarray:
    hashes = [[rows[key.column] for key in keys if isinstance(key, ColumnRef)] for keys in one.keys]
    return one.shards_of(hashes, first_row, len(next(iter(rows.values()))))


def test_a_common_key_sends_every_row_once() -> None:
    routing = route(query("a b c", equal("a.k", "b.k"), equal("b.k", "c.j")), {}, 8)
    assert [axis.share for axis in routing.axes] == [8]
    assert {r.replication for r in routing.routes.values()} == {1}
    assert routing.rows_per_shard == pytest.approx(3 / 8)


def test_a_chain_over_different_columns_is_a_grid() -> None:
    routing = route(query("a b c", equal("a.x", "b.x"), equal("b.y", "c.y")), {}, 6)
    assert sorted(axis.share for axis in routing.axes) == [2, 3]
    assert routing.routes["b"].replication == 1
    assert sorted((routing.routes["a"].replication, routing.routes["c"].replication)) == [2, 3]


def test_the_small_side_of_a_cross_product_is_copied() -> None:
    routing = route(query("big small"), {"big": 1000.0, "small": 1.0}, 4)
    assert routing.routes["big"].replication == 1
    assert routing.routes["small"].replication == 4


def test_rates_decide_which_attribute_is_cut() -> None:
    routing = route(query("a b c", equal("a.x", "b.x"), equal("b.y", "c.y")), {"a": 1.0, "b": 100.0, "c": 100.0}, 4)
    assert routing.routes["a"].replication == 4
    assert routing.routes["b"].replication == routing.routes["c"].replication == 1


def test_equalities_through_a_static_table_count_and_the_table_has_no_axis() -> None:
    routing = route(query("a T b", equal("a.x", "T.x"), equal("T.x", "b.z")), {}, 4)
    assert [axis.share for axis in routing.axes] == [4]
    assert set(routing.axes[0].keys) == {"a", "b"}


def test_a_filter_spreads_rows_evenly_by_number() -> None:
    routing = route(query("a"), {}, 4)
    found = shards_of(routing.routes["a"], {"x": np.zeros(10, np.int64)}, first_row=3)
    assert found.ravel().tolist() == [3, 0, 1, 2, 3, 0, 1, 2, 3, 0]


def test_groups_live_in_one_cell() -> None:
    grouped = route(query("a b", equal("a.x", "b.x"), group_by=(column("a.g"),)), {}, 4)
    assert [str(axis) for axis in grouped.axes] == ["{a.g}"]
    assert grouped.routes["b"].replication == 4
    by_key = route(query("a b", equal("a.x", "b.x"), group_by=(column("b.x"),)), {}, 4)
    assert by_key.routes["a"].replication == by_key.routes["b"].replication == 1
    both_sides = query("a b", equal("a.x", "b.x"), group_by=(Call("+", (column("a.g"), column("b.g")), BIGINT),))
    assert route(both_sides, {}, 4).cells == 1


def test_a_query_of_few_cells_is_silent_elsewhere() -> None:
    whole = query("a b", group_by=(Call("+", (column("a.g"), column("b.g")), BIGINT),))
    routing = route(whole, {}, 4, first=2)
    assert [routing.uses(shard) for shard in range(4)] == [False, False, True, False]
    assert shards_of(routing.routes["a"], {"g": np.arange(5)}).ravel().tolist() == [2] * 5


def test_two_references_of_one_stream_have_two_routes() -> None:
    self_join = query("s:l s:r", equal("l.x", "r.y"))
    table = route_all([self_join], ["s"], {}, 4)
    assert len(table.routes["s"]) == 2
    assert table.bits("q") == {"l": 0, "r": 1}


def test_aliases_and_the_order_of_conditions_do_not_matter() -> None:
    one = query("s:a t:b u:c", equal("a.x", "b.x"), equal("a.z", "b.z"), equal("b.y", "c.y"), name="one")
    other = query("u:p s:q t:r", equal("r.y", "p.y"), equal("r.z", "q.z"), equal("r.x", "q.x"), name="other")
    table = route_all([one, other], ["s", "t", "u"], {}, 6)
    assert {name: len(found) for name, found in table.routes.items()} == {"s": 1, "t": 1, "u": 1}


def test_equal_routes_are_one_and_crowds_fall_back_to_one_shard() -> None:
    same = [query("a b", equal("a.k", "b.k"), name=f"same{i}") for i in range(100)]
    assert len(route_all(same, ["a", "b"], {}, 4).routes["a"]) == 1
    crowd = [query("a b", equal(f"a.k{i}", f"b.k{i}"), name=f"q{i}") for i in range(100)]
    table = route_all(crowd, ["a", "b"], {}, 4)
    assert len(table.routes["a"]) == 63
    assert [table.routings[f"q{i}"].cells for i in (0, 61, 62, 99)] == [4, 4, 1, 1]


def test_a_record_pins_the_shares() -> None:
    chain = query("a b c", equal("a.x", "b.x"), equal("b.y", "c.y"))
    old = route(chain, {"a": 5.0}, 6, first=1)
    again = route(chain, {"a": 0.01, "c": 50.0}, 6, record=Record(old.record(), {}))
    assert again.routes == old.routes
    with pytest.raises(PlanProblem):
        route(chain, {}, 2, record=Record(old.record(), {}))


def test_recorded_queries_keep_their_bits_and_others_fill_the_gaps() -> None:
    first, second, third = (query("a b", equal(f"a.{c}", f"b.{c}"), name=c) for c in "xyz")
    old = route_all([first, second], ["a", "b"], {}, 4)
    new = route_all([third, second], ["a", "b"], {}, 4, {"y": old.record("y")})
    assert new.bits("y") == old.bits("y") == {"a": 1, "b": 1}
    assert new.bits("z") == {"a": 0, "b": 0}
    alone = route_all([second], ["a", "b"], {}, 4, {"y": old.record("y")})
    assert alone.routes["a"][0] is None


def test_explain_names_attributes_shares_replication_and_load() -> None:
    text = route(
        query("a b c", equal("a.x", "b.x"), equal("b.y", "c.y")), {"a": 10.0, "b": 10.0, "c": 10.0}, 4
    ).explain()
    assert text.splitlines() == [
        "shards: 4 of 4",
        "  attribute {a.x, b.x}  share 2",
        "  attribute {b.y, c.y}  share 2",
        "  a: replication 2, 10 rows/s",
        "  b: replication 1, 10 rows/s",
        "  c: replication 2, 10 rows/s",
        "  expected rows per shard: 12.5/s",
    ]


@settings(max_examples=cases(60), deadline=None)
@given(st.lists(st.sets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=3), st.integers(1, 24), st.data())
def test_no_shares_are_better(classes: list[set[str]], shards: int, data: st.DataObject) -> None:
    axes = [Axis(dict.fromkeys(sorted(c), ())) for c in classes]
    rates = {alias: data.draw(st.sampled_from([0.1, 1.0, 7.0, 100.0])) for alias in "abcd"}
    chosen = choose_shares(axes, rates, shards)
    assert math.prod(chosen) <= shards
    best = min(
        load([Axis(axis.keys, share) for axis, share in zip(axes, shares, strict=True)], rates)
        for shares in itertools.product(range(1, shards + 1), repeat=len(axes))
        if math.prod(shares) <= shards
    )
    assert load([Axis(axis.keys, share) for axis, share in zip(axes, chosen, strict=True)], rates) == pytest.approx(
        best
    )


@settings(max_examples=cases(120), deadline=None)
@given(st.data())
def test_every_combination_meets_in_exactly_one_cell(data: st.DataObject) -> None:
    aliases = "abcd"[: data.draw(st.integers(1, 4))]
    keys = [f"{alias}.{name}" for alias in aliases for name in "xy"]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(keys), st.sampled_from(keys)), max_size=5))
    conditions = tuple(equal(l, r) for l, r in pairs if l[0] != r[0])
    shards = data.draw(st.integers(1, 12))
    rates = {alias: data.draw(st.sampled_from([1.0, 30.0])) for alias in aliases}
    group = tuple(column(k) for k in data.draw(st.lists(st.sampled_from(keys), max_size=2, unique=True)))
    routing = route(
        query(" ".join(aliases), *conditions, group_by=group), rates, shards, first=data.draw(st.integers(0, 11))
    )
    seed = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = {alias: {name: seed.integers(0, 3, 6) for name in "xy"} for alias in aliases}
    cells = {alias: shards_of(routing.routes[alias], rows[alias]) for alias in aliases}
    for alias in aliases:
        assert all(len(set(places)) == routing.routes[alias].replication for places in cells[alias].tolist())
    groups: dict[tuple[int, ...], set[int]] = {}
    for combination in itertools.product(range(6), repeat=len(aliases)):
        at = dict(zip(aliases, combination, strict=True))
        if all(
            rows[l.ref][l.column][at[l.ref]] == rows[r.ref][r.column][at[r.ref]]
            for l, r in (c.args for c in conditions)  # type: ignore[union-attr]
        ):
            met = set.intersection(*(set(cells[alias][at[alias]].tolist()) for alias in aliases))
            assert len(met) == 1
            groups.setdefault(tuple(int(rows[g.ref][g.column][at[g.ref]]) for g in group), set()).update(met)
    assert not group or all(len(places) == 1 for places in groups.values())
