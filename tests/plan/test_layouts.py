"""The order of fields in an address: runs as blocks have them, and the best of all orders."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import numpy as np
import pytest

from eddyline.kernels.requests.request_blocks import RUN_ROWS, Alone, read_blocks
from eddyline.operators.template.blocks import Fields, clustered
from eddyline.operators.template.search import IndexLayout, PatternLoad
from eddyline.plan.index_choice.layouts import by_weight, run_bits
from eddyline.plan.index_choice.templates import TemplatePrice
from eddyline.plan.tree.budget import SHIPPED_INDEX
from eddyline.tuning import TemplateTuning


@pytest.mark.parametrize("seed", range(30))
def test_runs_are_those_that_a_probe_reads(seed: int) -> None:
    rng, lots = Random(seed), np.random.default_rng(seed)
    columns = rng.randint(1, 4)
    bits, order = tuple(rng.randint(0, 3) for _ in range(columns)), tuple(rng.sample(range(columns), columns))
    keys = lots.integers(0, 30, (columns, 500))
    block = clustered(
        Fields(bits, order=order), keys, np.zeros(500, np.int64), np.arange(500), 0, 500, TemplateTuning()
    )
    fixed = sorted(rng.sample(range(columns), rng.randint(1, columns)))
    asking = Alone(
        np.array(fixed), sum(1 << c for c in fixed), keys[fixed, :1].copy(), np.zeros(1, np.int64), np.full(1, 500)
    )
    room = np.empty(1000, np.int64), np.empty(1000, np.int64)
    done, found, runs, visited = read_blocks(block.line(columns).reshape(1, -1), asking, 0, *room)
    assert (
        done == 1
        and found == sum(bool((keys[fixed, row] == keys[fixed, 0]).all()) for row in range(500))
        and visited >= found
    )
    left = 1 << int(run_bits(np.array([bits]), np.array([order]), fixed)[0])
    assert (runs, visited) == (1, 500) if left * RUN_ROWS > 500 else runs == left


@pytest.mark.parametrize("seed", range(12))
def test_every_order_of_every_configuration_is_priced(seed: int) -> None:
    rng = Random(seed)
    price = TemplatePrice(3, 5, SHIPPED_INDEX)
    values = [rng.choice((2, 7, 2048)) for _ in range(3)]
    patterns = [
        PatternLoad(
            mask, requests := rng.choice((1.0, 50.0, 4000.0)), rng.choice((5e3, 2e5)), rng.choice((1.0, requests))
        )
        for mask in rng.sample(range(1, 8), 3)
    ]
    found = price.best(patterns, values, 1e5)
    caps = [(v - 1).bit_length() for v in values]
    every = [bits for bits in product(*(range(min(cap, 5) + 1) for cap in caps)) if sum(bits) <= 5]
    prices = {
        IndexLayout(bits, order): price.of(patterns, values, IndexLayout(bits, order), 1e5)
        for bits in every
        for order in permutations(range(3))
    }
    assert found.price == pytest.approx(min(prices.values())) and prices[found.layout] == pytest.approx(found.price)
    # The price of a configuration is that of its patterns, each by its cheaper path, and of the addresses of new rows.
    paths = sum(min(price.scanned(p), price.read(p, values, found.layout)) for p in patterns)
    assert found.price == pytest.approx(paths + 1e5 * SHIPPED_INDEX.hash * sum(b > 0 for b in found.layout.bits))


def test_given_bits_keep_their_number_and_change_their_order() -> None:
    price = TemplatePrice(3, 16, SHIPPED_INDEX)
    for column in range(3):
        found = price.best([PatternLoad(1 << column, 1e5, 2e5, 1e5)], [2048] * 3, 2e5, (4, 4, 4))
        assert found.layout.bits == (4, 4, 4) and found.layout.order[-1] == column


def test_many_columns_lie_by_what_is_asked() -> None:
    assert by_weight([(0b00001, 1.0), (0b10000, 5.0), (0b00110, 2.0)], 5).tolist() == [[3, 0, 2, 1, 4]]
    price = TemplatePrice(6, 12, SHIPPED_INDEX)
    found = price.best([PatternLoad(0b100000, 1e5, 2e5, 1e5), PatternLoad(0b000010, 1e3, 2e5, 1e3)], [2048] * 6, 2e5)
    assert found.layout.order[-1] == 5 and found.layout.bits[5] >= 6
    assert found.price < price.of(
        [PatternLoad(0b100000, 1e5, 2e5, 1e5), PatternLoad(0b000010, 1e3, 2e5, 1e3)],
        [2048] * 6,
        IndexLayout((0,) * 6, tuple(range(6))),
        2e5,
    )


def test_a_block_that_an_earlier_configuration_left_is_read_whole() -> None:
    """A column with one bit below fifteen others would have 32,768 runs of two rows in each block."""
    rows = 1 << 16
    keys = np.random.default_rng(5).integers(0, 2048, (3, rows))
    block = clustered(
        Fields((11, 1, 4), order=(1, 0, 2)), keys, np.zeros(rows, np.int64), np.arange(rows), 0, rows, TemplateTuning()
    )
    room = np.empty(2 * rows, np.int64), np.empty(2 * rows, np.int64)
    for column, most in ((1, 1), (0, 16), (2, 1)):
        asking = Alone(
            np.array([column]), 1 << column, keys[[column], :5].copy(), np.zeros(5, np.int64), np.full(5, rows)
        )
        done, found, runs, _ = read_blocks(block.line(3).reshape(1, -1), asking, 0, *room)
        assert (
            done == 5
            and runs <= 5 * most
            and found == sum(int((keys[column] == keys[column, at]).sum()) for at in range(5))
        )
