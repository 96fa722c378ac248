"""The two-layer search against the finder, and the places where the printed algorithms give up too early."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from time import process_time

import pytest

from eddyline.plan.tree.cost import CostModel, Price, UnitCosts
from eddyline.plan.tree.join_graph import JoinGraph, JoinInput
from eddyline.plan.tree.jtree.bjtree import best_bjtree
from eddyline.plan.tree.jtree.candidates import Budgets, Candidates
from eddyline.plan.tree.jtree.search import search
from eddyline.plan.tree.jtree.state_removal import state_removal
from eddyline.plan.tree.jtree.state_selection import state_selection
from eddyline.plan.tree.jtree.tree import JTree
from eddyline.plan.tree.jtree.two_layer import two_layer
from tests.pace import slowness
from tests.plan.jtree_oracle import every_tree, price, random_setting
from tests.plan.test_cost import model_of

SETTINGS = Path(__file__).parents[2] / "bench" / "papers" / "qualified-plans" / "random_settings.py"


def random_settings():
    """The benchmark's module: its folder is named after the paper and is no package."""
    if "random_settings" not in sys.modules:
        spec = importlib.util.spec_from_file_location("random_settings", SETTINGS)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["random_settings"] = module
        spec.loader.exec_module(module)
    return sys.modules["random_settings"]


def graph_of(rates: str, joins: str) -> JoinGraph:
    inputs = [
        JoinInput.over_time(alias, float(rate), 5) for alias, rate in zip("ABCDEFGH", rates.split(), strict=False)
    ]
    return JoinGraph.of(inputs, [(pair[0], pair[1], float(pair[2:])) for pair in joins.split()])


EXPENSIVE_STORES = graph_of("50 100 100 100", "AB.1 AC.05 AD1 BC.02 CD.001")


def test_a_bjtree_above_the_cpu_budget_does_not_end_the_search():
    model = CostModel(EXPENSIVE_STORES, UnitCosts(1, 1, 1))
    assert model.price_shape(best_bjtree(model)) == Price(8000, 4500)
    choice = search(EXPENSIVE_STORES, UnitCosts(1, 1, 1), 6000, 2500)
    assert (choice.outcome, str(choice.tree), choice.cpu, choice.memory) == ("jtree", "(A B (C D))", 5625, 2000)


def test_a_merge_above_the_memory_budget_does_not_end_state_selection():
    graph = graph_of("10 10 50 100", "AD.2 BD.2 CD.05")
    model = CostModel(graph, UnitCosts(1, 1, 10))
    # The most promising pair saves CPU and needs too much memory: printed Algorithm 3 takes it and gives up.
    promising = model.price(JTree.parse("((A D) B C)"))
    mjoin = model.price(JTree.parse("(A B C D)"))
    assert promising.cpu < mjoin.cpu
    candidates = Candidates(model, Budgets(mjoin.cpu * 0.98, promising.memory - 1))
    found = state_selection(candidates)
    assert found is not None and str(model.tree(found.shape)) == "((A B) C D)"
    assert all(candidate.price.memory <= candidates.budgets.memory_limit for candidate in candidates.seen.values())


def test_state_removal_ends_at_the_mjoin():
    model = model_of(*random_setting(7, 3), UnitCosts())
    candidates = Candidates(model, Budgets(cpu=0.0, memory=0.0))
    assert state_removal(candidates, best_bjtree(model)) is None
    shapes = {model.tree(candidate.shape).shape for candidate in candidates.seen.values()}
    assert shapes == {"bjtree", "jtree", "mjoin"} and len(candidates.seen) == 6


@pytest.mark.parametrize("kind", ["fixed", "between", "edge"])
@pytest.mark.parametrize("streams", [3, 4, 5, 6, 7])
def test_a_tree_is_found_wherever_the_finder_finds_one(streams, kind):
    tally = random_settings().tally(streams, kind, settings=15)
    assert tally.missed == []
    assert tally.found == tally.exists


def test_the_same_with_eight_streams():
    tally = random_settings().tally(8, "edge", settings=6)
    assert tally.found == tally.exists == 6


@pytest.mark.parametrize("streams", [4, 5])
def test_without_a_cpu_budget_the_least_cpu_within_memory(streams):
    for seed in range(6):
        setting = random_setting(streams, seed + 9)
        model = model_of(*setting, UnitCosts())
        prices = [price(tree, *setting, 2e-7, 2e-7, 2.2e-6) for tree in every_tree(tuple(range(streams)))]
        for memory in (None, model.least_memory * 1.5, model.least_memory * 20):
            choice = search(model.graph, UnitCosts(), None, memory)
            assert choice.cpu == pytest.approx(min(c for c, m in prices if memory is None or m <= memory))


@pytest.mark.parametrize("streams", [3, 4, 5])
def test_on_none_the_tree_that_exceeds_least(streams):
    for seed in range(6):
        setting = random_setting(streams, seed + 20)
        model = model_of(*setting, UnitCosts())
        prices = [price(tree, *setting, 2e-7, 2e-7, 2.2e-6) for tree in every_tree(tuple(range(streams)))]
        for cpu, memory in (
            (model.least_cpu * 0.8, model.least_memory * 1.1),
            (model.least_cpu * 1.01, model.least_memory * 0.7),
        ):
            least = min(max(c / cpu, m / memory) for c, m in prices)
            for method in ("two-layer", "finder"):
                choice = search(model.graph, UnitCosts(), cpu, memory, method)
                assert choice.outcome == "none" and choice.tree is None
                assert choice.excess == pytest.approx(least - 1)
                assert choice.bound == ("cpu" if choice.cpu / cpu >= choice.memory / memory else "memory")


def test_twenty_streams_in_half_a_second_even_where_nothing_is_found():
    module = random_settings()
    for seed in range(3):
        graph = module.random_graph(20, seed)
        model = CostModel(graph, UnitCosts())
        cheapest = search(graph, UnitCosts(), None, model.least_memory * 5)
        started = process_time()
        search(graph, UnitCosts(), max(cheapest.cpu * 0.999, model.least_cpu), model.least_memory * 5)
        assert process_time() - started < 0.5 * slowness()


def test_many_streams_never_get_a_tree_outside_the_budgets():
    module = random_settings()
    found = 0
    for streams in (9, 12, 14, 16):
        model = CostModel(module.random_graph(streams, 1), UnitCosts())
        for seed in range(3):
            budgets = module.drawn_budgets(model, "between", seed)
            candidate = two_layer(Candidates(model, budgets))
            if candidate is not None:
                found += 1
                tree = model.tree(candidate.shape)
                assert sorted(tree.leaves) == sorted(model.graph.aliases)
                assert budgets.fits(CostModel(model.graph, UnitCosts()).price(tree))
    assert found > 0
