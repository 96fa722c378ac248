"""Any query, any stream, any plan, any epochs: the embedded engine equals the oracle."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.property.compare import check_case
from tests.property.embedded import run_embedded
from tests.property.strategies import random_case
from tests.seeds import first_seed

#: Cases per block; blocks are tests of their own, so that two workers share them and a failure names its seed.
BLOCK = 50
BLOCKS = 400 if os.environ.get("EDDYLINE_SOAK") else 44
FIRST = first_seed()


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_engine_equals_oracle(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        try:
            check_case(random_case(Random(seed)), run_embedded)
        except Exception as problem:
            raise AssertionError(f"random_case(Random({seed}))") from problem
