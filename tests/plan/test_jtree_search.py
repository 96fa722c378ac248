"""The front door: outcomes, bounds, runner-up, methods, refused arguments."""

from __future__ import annotations

from itertools import pairwise

import pytest

from eddyline.errors import PlanProblem
from eddyline.plan.tree.cost import UnitCosts
from eddyline.plan.tree.join_graph import JoinGraph, JoinInput
from eddyline.plan.tree.jtree.search import METHODS, search


def chain(streams: int, rate: float = 20.0, selectivity: float = 0.05) -> JoinGraph:
    names = "abcdefgh"[:streams]
    joins = [(one, two, selectivity) for one, two in pairwise(names)]
    return JoinGraph.of([JoinInput.over_time(name, rate, 5.0) for name in names], joins)


@pytest.mark.parametrize("method", METHODS)
def test_one_and_two_inputs(method):
    assert str(search(chain(1), cpu_budget=1, memory_budget=1e6, method=method).tree) == "a"
    two = search(chain(2), cpu_budget=1, memory_budget=1e6, method=method)
    assert (two.outcome, str(two.tree)) == ("mjoin", "(a b)")
    assert search(chain(2), cpu_budget=1, memory_budget=10, method=method).bound == "memory"
    assert search(chain(2), cpu_budget=1e-9, memory_budget=1e6, method=method).bound == "cpu"


def test_the_four_outcomes():
    # Storing is dear: the mjoin uses less of both.
    assert search(chain(3), UnitCosts(1, 1, 1), 1e9, 1e9).outcome == "mjoin"
    graph = chain(3, selectivity=0.2)
    cheap_stores = UnitCosts(0, 0, 1)
    mjoin = search(graph, cheap_stores, 1e12, 1e9, "mjoin")
    assert search(graph, cheap_stores, mjoin.cpu * 0.99, 1e9).outcome == "bjtree"
    none = search(graph, cheap_stores, mjoin.cpu * 0.99, mjoin.memory)
    assert (none.outcome, none.tree) == ("none", None)
    expensive = JoinGraph.of(
        [JoinInput.over_time(name, rate, 5) for name, rate in zip("ABCD", (50, 100, 100, 100), strict=True)],
        [("A", "B", 0.1), ("A", "C", 0.05), ("A", "D", 1.0), ("B", "C", 0.02), ("C", "D", 0.001)],
    )
    assert search(expensive, UnitCosts(1, 1, 1), 6000, 2500).outcome == "jtree"


def test_runner_up_is_another_tree():
    choice = search(chain(4), cpu_budget=1, memory_budget=1e6)
    assert choice.runner_up is not None and choice.runner_up.tree != choice.tree


def test_the_same_input_gives_the_same_choice():
    first, second = (search(chain(6), cpu_budget=0.5, memory_budget=5000) for _ in range(2))
    assert (first.tree, first.cpu, first.runner_up) == (second.tree, second.cpu, second.runner_up)


def test_bjtree_search_looks_for_one_between_least_cpu_and_least_memory():
    choice = search(chain(5), cpu_budget=1e6, memory_budget=1e9, method="bjtree")
    assert choice.outcome == "bjtree"
    assert search(chain(5), cpu_budget=1e6, memory_budget=100, method="bjtree").bound == "memory"


def test_a_table_takes_part():
    graph = JoinGraph.of([*chain(2).inputs, JoinInput.table("t", 50)], [("a", "b", 0.05), ("b", "t", 0.02)])
    choice = search(graph, cpu_budget=1, memory_budget=1e6)
    assert sorted(choice.nearest.tree.leaves) == ["a", "b", "t"]


@pytest.mark.parametrize("arguments", [{"method": "luck"}, {"cpu_budget": -1.0}, {"memory_budget": float("nan")}])
def test_refused_arguments(arguments):
    with pytest.raises(PlanProblem):
        search(chain(3), **arguments)


def test_zero_budgets_are_exceeded_without_harm():
    choice = search(chain(4), cpu_budget=0, memory_budget=0)
    assert choice.outcome == "none" and choice.bound == "cpu"
