"""Any query over any number of shards, reopened at any moment: the answer is the oracle's."""

from __future__ import annotations

from random import Random

import pytest

from tests.property.compare import differences, report
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

BLOCK = 25
BLOCKS = cases(4)
FIRST = first_seed()


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_shards_equal_oracle(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = random_case(Random(seed))
        found = differences(case, run_sharded(case, 1 + seed % 5, seed))
        assert not found, f"random_case(Random({seed})) over {1 + seed % 5} shards\n{report(case, found)}"
