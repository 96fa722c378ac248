"""Probe orders: exact for few children, near for many."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from eddyline.plan.tree.jtree.mjoin import EXACT_CHILDREN, _beam, chain_sums, chains


def random_node(children: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    lots = np.random.default_rng(seed)
    cross = np.log(np.where(lots.random((children, children)) < 0.6, lots.uniform(0.001, 1, (children, children)), 1.0))
    cross = np.triu(cross, 1)
    return np.log(lots.uniform(1, 200, children)), cross + cross.T


def spent(order: tuple[int, ...], log_rows: np.ndarray, log_cross: np.ndarray) -> float:
    """Sizes of the partial results along an order, origin first; the last result is not partial."""
    total = 0.0
    for count in range(2, len(order)):
        done = list(order[:count])
        total += np.exp(
            log_rows[done].sum()
            + sum(log_cross[one, two] for place, one in enumerate(done) for two in done[place + 1 :])
        )
    return total


@pytest.mark.parametrize("children", [2, 3, 4, 5, 6])
def test_exact_orders_are_the_best_of_all(children):
    for seed in range(5):
        log_rows, log_cross = random_node(children, seed)
        sums, orders = chains(log_rows, log_cross)
        for origin in range(children):
            others = [child for child in range(children) if child != origin]
            best = min(spent((origin, *order), log_rows, log_cross) for order in permutations(others))
            assert sums[origin] == pytest.approx(best)
            assert spent((origin, *orders[origin]), log_rows, log_cross) == pytest.approx(best)


def test_a_batch_is_the_same_as_one_by_one():
    nodes = [random_node(5, seed) for seed in range(4)]
    batch = chain_sums(np.array([node[0] for node in nodes]), np.array([node[1] for node in nodes]))
    for line, node in zip(batch, nodes, strict=True):
        assert line == pytest.approx(chains(*node)[0])


def test_the_beam_comes_near_the_best():
    ratios = []
    for seed in range(20):
        log_rows, log_cross = random_node(EXACT_CHILDREN, seed)
        exact = chains(log_rows, log_cross)[0]
        wide = _beam(log_rows[None], log_cross[None], 6)[0][0]
        assert (wide >= exact * (1 - 1e-9)).all()
        ratios.append(wide.sum() / exact.sum())
    assert max(ratios) < 1.05


@pytest.mark.parametrize("children", [EXACT_CHILDREN + 1, 14, 20])
def test_orders_of_many_children_are_orders(children):
    log_rows, log_cross = random_node(children, 3)
    sums, orders = chains(log_rows, log_cross)
    greedy = chain_sums(log_rows[None], log_cross[None], width=1)[0]
    for origin, order in enumerate(orders):
        assert sorted((origin, *order)) == list(range(children))
        assert spent((origin, *order), log_rows, log_cross) == pytest.approx(sums[origin])
    assert sums.sum() <= greedy.sum() * (1 + 1e-9)
