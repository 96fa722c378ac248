"""The cost model against the paper's equations, and against counting."""

from __future__ import annotations

import pytest

from eddyline.errors import PlanProblem
from eddyline.plan.tree.cost import CostModel, UnitCosts, probe_orders
from eddyline.plan.tree.join_graph import JoinGraph, JoinInput
from eddyline.plan.tree.jtree.tree import JTree
from tests.plan.jtree_oracle import every_tree, price, random_setting, text

# The symbols of the paper's Table 1; the numbers are parameter set 1.
LA, LB, LC = 20.0, 20.0, 20.0
SAB, SBC = 0.05, 0.5
W = 5.0
CI, CD, CJ = 2e-7, 3e-7, 2.2e-6
SABC = SAB * SBC


def three_streams(la=LA, lb=LB, lc=LC, sab=SAB, sbc=SBC, w=W) -> CostModel:
    inputs = [JoinInput.over_time(alias, rate, w) for alias, rate in zip("ABC", (la, lb, lc), strict=True)]
    return CostModel(JoinGraph.of(inputs, [("A", "B", sab), ("B", "C", sbc)]), UnitCosts(CI, CD, CJ))


def test_equation_1_cpu_of_one_origin():
    # Only A speaks: B and C are as large, and silent.
    inputs = [JoinInput.over_time("A", LA, W), JoinInput.table("B", LB * W), JoinInput.table("C", LC * W)]
    model = CostModel(JoinGraph.of(inputs, [("A", "B", SAB), ("B", "C", SBC)]), UnitCosts(CI, CD, CJ))
    expected = LA * (CI + CD) + LA * LB * SAB * W * CJ + LA * LB * SAB * LC * SBC * W**2 * CJ
    assert model.price(JTree.parse("(A B C)")).cpu == pytest.approx(expected, rel=1e-12)


def test_equation_2_cpu_of_the_mjoin():
    expected = (
        (LA + LB + LC) * (CI + CD)
        + LB * LC * SBC * W * CJ
        + 3 * LA * LB * LC * SABC * W**2 * CJ
        + 2 * LA * LB * SAB * W * CJ
    )
    assert three_streams().price(JTree.parse("(A B C)")).cpu == pytest.approx(expected, rel=1e-12)


def test_equation_3_memory_of_the_mjoin():
    assert three_streams().price(JTree.parse("(A B C)")).memory == LA * W + LB * W + LC * W


def test_equation_4_cpu_of_the_bjtree():
    expected = (LA + LB + LC) * (CI + CD) + 3 * LA * LB * LC * SABC * W**2 * CJ + 2 * LA * LB * SAB * W * (CJ + CI + CD)
    assert three_streams().price(JTree.parse("((A B) C)")).cpu == pytest.approx(expected, rel=1e-12)


def test_equation_5_memory_of_the_bjtree():
    expected = LA * W + LB * W + LC * W + LA * LB * SAB * W**2
    assert three_streams().price(JTree.parse("((A B) C)")).memory == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("la", "sab"), [(20.0, 0.05), (200.0, 0.4)])
def test_equations_6_and_7_say_which_tree_uses_less_cpu(la, sab):
    model = three_streams(la=la, sab=sab)
    recompute = LB * LC * SBC * W * CJ
    maintain = 2 * la * LB * sab * W * (CI + CD)
    mjoin = model.price(JTree.parse("(A B C)")).cpu
    bjtree = model.price(JTree.parse("((A B) C)")).cpu
    # The equations take the probe orders of the paper's Figure 4: C meets B first, A and B meet each other.
    if la * sab <= LC * SBC:
        assert mjoin - bjtree == pytest.approx(recompute - maintain, rel=1e-9)
    else:
        # B now meets C first, which saves the difference of the two first probes.
        saved = LB * (la * sab - LC * SBC) * W * CJ
        assert mjoin - bjtree == pytest.approx(recompute - maintain - saved, rel=1e-9)


def test_the_printed_constants_give_a_third_of_a_cpu_for_set_2():
    model = CostModel(three_streams(20, 20, 50, 0.02, 0.5, 15).graph, UnitCosts())
    assert model.price(JTree.parse("(A B C)")).cpu == pytest.approx(0.31, abs=0.01)


@pytest.mark.parametrize("streams", [2, 3, 4])
@pytest.mark.parametrize(("probe", "link"), [(0.0, 0.0), (3e-7, 0.0), (3e-7, 1e-7)])
def test_every_tree_costs_what_counting_says(streams, probe, link):
    for seed in range(6):
        rates, rows, selectivity = random_setting(streams, seed)
        model = model_of(rates, rows, selectivity, UnitCosts(2e-7, 3e-7, 2e-6, probe, link))
        for tree in every_tree(tuple(range(streams))):
            got = model.price(JTree.parse(text(tree)))
            assert (got.cpu, got.memory) == pytest.approx(
                price(tree, rates, rows, selectivity, 2e-7, 3e-7, 2e-6, probe, link), rel=1e-9
            )


def model_of(rates, rows, selectivity, costs: UnitCosts) -> CostModel:
    inputs = [
        JoinInput.over_rows(f"s{place}", rate, held) for place, (rate, held) in enumerate(zip(rates, rows, strict=True))
    ]
    joins = [(f"s{one}", f"s{two}", selectivity[one][two]) for one in range(len(rates)) for two in range(one)]
    return CostModel(JoinGraph.of(inputs, joins), costs)


def test_probe_orders_follow_the_smallest_partial_result():
    graph = three_streams().graph
    assert probe_orders(graph, JTree.parse("(A B C)")) == ((1, 2), (0, 2), (1, 0))
    assert probe_orders(graph, JTree.parse("((A B) C)")) == ((1,), (0,))


def test_the_lower_bounds_hold_for_every_tree():
    for seed in range(10):
        rates, rows, selectivity = random_setting(4, seed)
        model = model_of(rates, rows, selectivity, UnitCosts())
        for tree in every_tree((0, 1, 2, 3)):
            got = model.price(JTree.parse(text(tree)))
            assert got.cpu >= model.least_cpu * (1 - 1e-12)
            assert got.memory >= model.least_memory


def test_a_tree_over_other_inputs_is_refused():
    with pytest.raises(PlanProblem, match="leaves out C"):
        three_streams().price(JTree.parse("(A B)"))
    with pytest.raises(PlanProblem, match="names D"):
        three_streams().price(JTree.parse("(A B C D)"))


def test_an_empty_window_and_a_silent_stream_have_finite_prices():
    inputs = [JoinInput.over_time("a", 10, 0), JoinInput.over_time("b", 0, 5), JoinInput.over_time("c", 10, 5)]
    model = CostModel(JoinGraph.of(inputs, [("a", "b", 0.0)]), UnitCosts())
    for tree in ("(a b c)", "((a b) c)", "(a (b c))"):
        got = model.price(JTree.parse(tree))
        assert 0 < got.cpu < 1 and got.memory == pytest.approx(50)


def test_unit_costs_are_checked():
    with pytest.raises(PlanProblem):
        UnitCosts(insert=-1)
    with pytest.raises(PlanProblem, match="no unit cost produce"):
        UnitCosts.from_document({"produce": 1})
    with pytest.raises(PlanProblem):
        UnitCosts.from_document({"join": "cheap"})
