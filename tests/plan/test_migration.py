"""When a running plan is left for another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eddyline.language import bind_script
from eddyline.plan.prepare import prepare
from eddyline.plan.tree.cost import CostModel, UnitCosts
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.jtree.tree import JTree
from eddyline.plan.tree.migration import Migration, Running, assess, decide, running_price
from eddyline.plan.tree.statistics import EdgeSeen, GroupStatistics, ReferenceSeen, graph_of

JOB = bind_script("""
    CREATE STREAM a (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM c (y BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE QUERY q AS SELECT a.x FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS] WHERE a.x = b.x AND a.y = c.y
""")
LOWERED = prepare(JOB.queries[0])
COSTS = UnitCosts(insert=1e-7, delete=1e-7, join=1e-6, probe=1e-6)
AB_THEN_C, AC_THEN_B = ((0, 1), 2), ((0, 2), 1)


def seen(ab: float, ac: float) -> GroupStatistics:
    """A thousand rows per second of each stream, with these selectivities."""
    edges = {(0, 1): EdgeSeen(ab * 1e6, 1e6), (0, 2): EdgeSeen(ac * 1e6, 1e6)}
    return GroupStatistics(10.0, tuple(ReferenceSeen(10_000, 10_000, 10_000, 1_000_000) for _ in range(3)), edges)


def running(tree: object, left: Budgets | None = None) -> Running:
    return Running(LOWERED, tree, (), JOB.catalog.streams, COSTS, LOWERED.windows, left or Budgets())  # type: ignore[arg-type]


def test_stays_while_the_tree_is_the_best_one() -> None:
    assert decide(seen(1e-5, 1e-2), running(AB_THEN_C)) is None


def test_moves_when_selectivities_flip() -> None:
    found = decide(seen(1e-2, 1e-5), running(AB_THEN_C))
    assert found is not None and found.tree == AC_THEN_B and not found.urgent
    assert found.before > 1.5 * found.after
    assert found.reason.startswith("((a c) b) costs ")


def test_a_small_gain_is_not_worth_it() -> None:
    assert decide(seen(1.2e-4, 1e-4), running(AB_THEN_C)) is None


def test_a_broken_budget_is_urgent() -> None:
    _, best = assess(seen(1e-3, 1e-5), running(AB_THEN_C))
    found = decide(seen(1e-3, 1e-5), running(AB_THEN_C, Budgets(None, 1.2 * best.price.memory)))
    assert found is not None and found.urgent and "fits" in found.reason


def test_where_nothing_fits_the_nearest_is_taken() -> None:
    found = decide(seen(1e-3, 1e-5), running(AB_THEN_C, Budgets(None, 1000.0)))
    assert found is not None and not found.urgent and "comes nearest" in found.reason
    assert (
        decide(
            seen(1e-3, 1e-5), replace(running(AB_THEN_C, Budgets(None, 1000.0)), tree=found.tree, orders=found.orders)
        )
        is None
    )


def test_shards_together_decide_as_one() -> None:
    one = seen(1e-2, 1e-5)
    alone, together = decide(one, running(AB_THEN_C)), decide(one + one, running(AB_THEN_C))
    assert alone is not None and together is not None and alone.tree == together.tree
    assert together.before == pytest.approx(2 * alone.before)


def test_stale_probe_orders_cost_what_they_cost() -> None:
    graph = graph_of(LOWERED, JOB.catalog.streams, seen(1e-5, 1e-2))
    model, tree = CostModel(graph, COSTS), JTree.parse("(a b c)")
    good = (((0, 1, 2), ((1, 2), (0, 2), (0, 1))),)
    bad = (((0, 1, 2), ((2, 1), (0, 2), (0, 1))),)
    assert running_price(model, tree, good, LOWERED).cpu == pytest.approx(model.price(tree).cpu)
    assert running_price(model, tree, bad, LOWERED).cpu > running_price(model, tree, good, LOWERED).cpu
    assert running_price(model, tree, (), LOWERED) == model.price(tree)


def test_a_record_travels() -> None:
    move = Migration(((0, 1), 2, 3), (((0, 1, 2, 3), ((1, 2), (2, 0), (0, 1))),), "because", 2.0, 1.0, True)
    assert Migration.from_document(move.to_document()) == move
