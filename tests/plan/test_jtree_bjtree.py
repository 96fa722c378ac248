"""Binary trees: the best one for few inputs, a good one for many."""

from __future__ import annotations

import pytest

from eddyline.plan.tree.cost import UnitCosts
from eddyline.plan.tree.jtree.bjtree import _merged, _weight, best_bjtree
from tests.plan.jtree_oracle import every_tree, price, random_setting
from tests.plan.test_cost import model_of


def is_binary(tree) -> bool:
    return isinstance(tree, int) or (len(tree) == 2 and all(map(is_binary, tree)))


@pytest.mark.parametrize("by", ["cpu", "memory"])
@pytest.mark.parametrize("streams", [2, 3, 4, 5])
def test_the_best_of_all_binary_trees(streams, by):
    for seed in range(4):
        setting = random_setting(streams, seed)
        model = model_of(*setting, UnitCosts())
        prices = [
            price(tree, *setting, 2e-7, 2e-7, 2.2e-6) for tree in every_tree(tuple(range(streams))) if is_binary(tree)
        ]
        got = model.price_shape(best_bjtree(model, by))
        if by == "cpu":
            assert got.cpu == pytest.approx(min(cpu for cpu, _ in prices))
        else:
            assert got.memory == pytest.approx(min(memory for _, memory in prices))


def test_merging_comes_near_the_best():
    for seed in range(10):
        model = model_of(*random_setting(8, seed), UnitCosts())
        best = model.price_shape(best_bjtree(model)).cpu
        assert best * (1 - 1e-9) <= model.price_shape(_merged(model, _weight(model, "cpu"))).cpu <= best * 1.5


def test_many_inputs_give_a_binary_tree():
    model = model_of(*random_setting(20, 1), UnitCosts())
    assert model.tree(best_bjtree(model)).shape == "bjtree"
