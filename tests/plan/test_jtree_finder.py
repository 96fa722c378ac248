"""The finder against every tree, priced by counting."""

from __future__ import annotations

import random

import pytest

from eddyline.errors import PlanProblem
from eddyline.plan.tree.cost import UnitCosts
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.jtree.finder import finder
from tests.plan.jtree_oracle import every_tree, price, random_setting
from tests.plan.test_cost import model_of

#: Insert, delete, join, probe, link: as the paper prints them, and about as this engine has them.
PAPER, MEASURED = (2e-7, 2e-7, 2.2e-6), (4e-8, 2e-8, 3e-8, 6e-8, 3e-8)


@pytest.mark.parametrize("costs", [PAPER, MEASURED], ids=["paper", "measured"])
@pytest.mark.parametrize(("streams", "seeds"), [(2, 4), (3, 10), (4, 10), (5, 5)])
def test_the_front_is_the_front_of_all_trees(streams, seeds, costs):
    for seed in range(seeds):
        setting = random_setting(streams, seed)
        model = model_of(*setting, UnitCosts(*costs))
        prices = [price(tree, *setting, *costs) for tree in every_tree(tuple(range(streams)))]
        front = sorted(
            p for p in prices if not any(o[0] < p[0] * (1 - 1e-9) and o[1] < p[1] * (1 - 1e-9) for o in prices)
        )
        found = [model.price_shape(shape) for shape in finder(model, Budgets())]
        for got in found:
            assert any((got.cpu, got.memory) == pytest.approx(p, rel=1e-9) for p in front)
        # Nothing that could ever be wanted is missing: every tree is matched or beaten by a found one.
        for cpu, memory in prices:
            assert any(got.cpu <= cpu * (1 + 1e-9) and got.memory <= memory * (1 + 1e-9) for got in found)


@pytest.mark.parametrize("costs", [PAPER, MEASURED], ids=["paper", "measured"])
@pytest.mark.parametrize("streams", [3, 4, 5])
def test_pruned_by_budgets_it_finds_a_tree_exactly_where_one_qualifies(streams, costs):
    lots = random.Random(streams)
    for seed in range(6):
        setting = random_setting(streams, seed + 50)
        model = model_of(*setting, UnitCosts(*costs))
        prices = [price(tree, *setting, *costs) for tree in every_tree(tuple(range(streams)))]
        for _ in range(10):
            cpu, memory = (
                lots.choice(prices)[0] * lots.choice((0.999, 1.0, 1.001)),
                lots.choice(prices)[1] * lots.choice((0.999, 1.0, 1.001)),
            )
            found = finder(model, Budgets(cpu, memory))
            assert bool(found) == any(c <= cpu * (1 + 1e-9) and m <= memory * (1 + 1e-9) for c, m in prices)
            assert all(Budgets(cpu, memory).fits(model.price_shape(shape)) for shape in found)


def test_binary_trees_only():
    model = model_of(*random_setting(6, 1), UnitCosts())
    assert {model.tree(shape).shape for shape in finder(model, Budgets(), arity=2)} == {"bjtree"}


def test_too_many_inputs_are_refused():
    with pytest.raises(PlanProblem, match="at most 10"):
        finder(model_of(*random_setting(11, 1), UnitCosts()), Budgets())
