"""Functions of one's own in any query: embedded, interrupted and over shards the answer is the oracle's."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.property.compare import Outcome, check_case, differences, report
from tests.property.embedded import run_embedded, run_interrupted
from tests.property.functions import with_functions
from tests.property.specs import Case
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

FIRST = first_seed() + 700_000
BLOCK = cases(12)


def case_of(seed: int) -> Case:
    return with_functions(Random(seed), random_case(Random(seed)))


@pytest.mark.property
@pytest.mark.parametrize("block", range(2))
def test_engine_equals_oracle(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        try:
            check_case(case_of(seed), run_embedded)
        except Exception as problem:
            raise AssertionError(f"case_of({seed})") from problem


@pytest.mark.property
def test_shards_equal_oracle() -> None:
    for seed in range(FIRST + 1000, FIRST + 1000 + BLOCK):
        case = case_of(seed)
        found = differences(case, run_sharded(case, 1 + seed % 5, seed))
        assert not found, f"case_of({seed}) over {1 + seed % 5} shards\n{report(case, found)}"


@pytest.mark.property
def test_interrupted_sessions_equal_oracle() -> None:
    for seed in range(FIRST + 2000, FIRST + 2000 + cases(4)):
        case = replace(case_of(seed), pauses=())
        check_case(case, lambda case, seed=seed: Outcome(run_interrupted(case, Random(seed)), case.dead_letters()))
