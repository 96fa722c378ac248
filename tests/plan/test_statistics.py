"""From declarations, assumptions and observations to a join graph."""

from __future__ import annotations

import pytest

from eddyline.language import bind_script
from eddyline.model.window import Range
from eddyline.plan.lower import Lowered
from eddyline.plan.prepare import prepare
from eddyline.plan.tree.statistics import (
    ASSUMED_RATE,
    ASSUMED_SPAN,
    EdgeSeen,
    GroupStatistics,
    ReferenceSeen,
    Sources,
    graph_of,
    is_declared,
    join_pairs,
)

WORLD = """
    CREATE STREAM fast (x BIGINT, y BIGINT, s STRING, ts TIMESTAMP) WITH (time = 'ts', rate = 200, distinct_x = 50, distinct_s = 4);
    CREATE STREAM slow (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = 10, distinct_x = 500);
    CREATE STREAM mute (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE TABLE t (x BIGINT) WITH (format = 'parquet', path = 't.parquet');
"""


def lowered_of(select: str) -> tuple[Lowered, Sources]:
    job = bind_script(f"{WORLD} CREATE QUERY q AS {select}")
    return prepare(job.queries[0]), {**job.catalog.streams, **job.catalog.tables}


def test_rates_windows_and_keys_as_declared() -> None:
    graph = graph_of(
        *lowered_of("SELECT a.x FROM fast [RANGE 5 SECONDS] a, slow [ROWS 30] b, mute c WHERE a.x = b.x AND b.y = c.y")
    )
    inputs = {one.alias: one for one in graph.inputs}
    assert (inputs["a"].rate, inputs["a"].rows) == (200, 1000)
    assert (inputs["b"].rate, inputs["b"].rows) == (10, 30)
    assert (inputs["c"].rate, inputs["c"].rows) == (ASSUMED_RATE, ASSUMED_RATE * ASSUMED_SPAN)
    edges = {(edge.left, edge.right): edge.selectivity for edge in graph.edges}
    # The side with more values decides; without a declaration a row finds one partner in the fuller window.
    assert edges["a", "b"] == pytest.approx(1 / 500)
    assert (
        edges["c", "b"] if ("c", "b") in edges else edges["b", "c"] == pytest.approx(1 / (ASSUMED_RATE * ASSUMED_SPAN))
    )
    assert graph.unit == "bytes"


def test_filters_lower_rates_and_predicates_multiply() -> None:
    graph = graph_of(
        *lowered_of(
            "SELECT a.x FROM fast [RANGE 5 SECONDS] a, slow [RANGE 5 SECONDS] b "
            "WHERE a.x = b.x AND a.y < b.y AND a.s = 'p' AND b.y IS NOT NULL"
        )
    )
    inputs = {one.alias: one for one in graph.inputs}
    assert inputs["a"].rate == pytest.approx(200 / 4)
    assert inputs["b"].rate == pytest.approx(10 * 0.95)
    assert graph.edges[0].selectivity == pytest.approx(1 / 500 / 3)


def test_two_references_hold_one_store() -> None:
    graph = graph_of(
        *lowered_of(
            "SELECT a.x FROM fast [RANGE 5 SECONDS] a, fast [RANGE 1 SECOND] b, t WHERE a.x = b.x AND a.x = t.x"
        )
    )
    bytes_of = {one.alias: one.row_bytes for one in graph.inputs}
    assert bytes_of["a"] > 0 and bytes_of["b"] == 0
    assert next(one for one in graph.inputs if one.alias == "t").rate == 0


def test_what_was_seen_wins() -> None:
    lowered, sources = lowered_of(
        "SELECT a.x FROM fast [RANGE 5 SECONDS] a, slow [ROWS 30] b, mute c WHERE a.x = b.x AND b.y = c.y"
    )
    places = {alias: position for position, alias in enumerate(lowered.aliases)}
    references = [ReferenceSeen()] * 3
    references[places["a"]] = ReferenceSeen(seen=4000, wanted=1000, live=50, bytes=5000)
    references[places["b"]] = ReferenceSeen(seen=100, wanted=50, live=15, bytes=1500)
    references[places["c"]] = ReferenceSeen(seen=70, wanted=70, live=700, bytes=70000)
    pair = tuple(sorted((places["a"], places["b"])))
    seen = GroupStatistics(10.0, tuple(references), {pair: EdgeSeen(30, 1000)})
    inputs = {one.alias: one for one in graph_of(lowered, sources, seen).inputs}
    assert (inputs["a"].rate, inputs["a"].rows, inputs["a"].row_bytes) == (100, 500, 100)
    assert inputs["b"].rows == pytest.approx(15), "half of the last 30 rows pass the filter"
    assert inputs["c"].rows == 700, "what an unbounded window holds now"
    edges = {frozenset((edge.left, edge.right)): edge.selectivity for edge in graph_of(lowered, sources, seen).edges}
    assert edges[frozenset("ab")] == pytest.approx(0.03)
    wider = graph_of(lowered, sources, seen, tuple(Range(7_000_000) for _ in range(3)))
    assert {one.alias: one.rows for one in wider.inputs}["a"] == pytest.approx(700)


def test_shards_add_up_to_the_mean_shard() -> None:
    lowered, sources = lowered_of("SELECT a.x FROM fast [RANGE 5 SECONDS] a, slow [RANGE 5 SECONDS] b WHERE a.x = b.x")
    one = GroupStatistics(
        10.0, (ReferenceSeen(100, 100, 50, 500), ReferenceSeen(200, 200, 90, 900)), {(0, 1): EdgeSeen(5, 1000)}
    )
    both = one + one
    assert both.shards == 2
    assert graph_of(lowered, sources, both) == graph_of(lowered, sources, one)


def test_older_counts_fade_and_sizes_do_not() -> None:
    old = GroupStatistics(10.0, (ReferenceSeen(100, 100, 50, 500),), {(0, 1): EdgeSeen(8, 1000)})
    new = GroupStatistics(10.0, (ReferenceSeen(300, 200, 70, 900),), {(0, 1): EdgeSeen(0, 1000)})
    mixed = new.after(old, 0.5)
    assert mixed.references[0] == ReferenceSeen(350, 250, 70, 900)
    assert (mixed.seconds, mixed.edges[0, 1]) == (15.0, EdgeSeen(4, 1500))
    assert new.after(None, 0.5) is new
    assert GroupStatistics.from_document(mixed.to_document()) == mixed


def test_nothing_found_is_not_never() -> None:
    lowered, sources = lowered_of("SELECT a.x FROM fast [RANGE 5 SECONDS] a, slow [RANGE 5 SECONDS] b WHERE a.x = b.x")
    seen = GroupStatistics(10.0, (ReferenceSeen(9, 9, 9, 9), ReferenceSeen(9, 9, 9, 9)), {(0, 1): EdgeSeen(0, 1000)})
    assert graph_of(lowered, sources, seen).edges[0].selectivity == pytest.approx(0.0005)
    few = GroupStatistics(10.0, seen.references, {(0, 1): EdgeSeen(0, 10)})
    assert graph_of(lowered, sources, few).edges[0].selectivity == pytest.approx(1 / 500)


def test_pairs_and_declarations() -> None:
    lowered, sources = lowered_of(
        "SELECT a.x FROM mute a, mute b, mute c WHERE a.x = b.x AND b.y < c.y AND a.x + b.x = c.x"
    )
    assert join_pairs(lowered) == ((0, 1), (1, 2))
    assert not is_declared(lowered, sources)
    assert is_declared(*lowered_of("SELECT a.x FROM mute a, slow b WHERE a.x = b.x"))
