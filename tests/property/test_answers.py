"""Any query, any stream, any plan, any epochs: the embedded engine equals the oracle, also when it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from random import Random

import pytest

from tests.property.compare import Outcome, check_case
from tests.property.embedded import run_embedded, run_interrupted
from tests.property.specs import Case, maybe_ended
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed

#: Cases per block; blocks are tests of their own, so that two workers share them and a failure names its seed.
BLOCK = 50
#: With the cases of `test_aggregates.py`, which the same generator draws, a whole run compares 1,100 cases with the
#: oracle, and a round of a soak 20,200.
BLOCKS = cases(20, soak=400)
#: Interrupted cases in a block; each of them writes checkpoints and files.
INTERRUPTED = 4
FIRST = first_seed()


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_engine_equals_oracle(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        try:
            check_case(maybe_ended(random_case(Random(seed)), seed), run_embedded)
        except Exception as problem:
            raise AssertionError(f"random_case(Random({seed}))") from problem


def _released_early(first: int) -> Iterator[tuple[int, Case]]:
    """Cases with several windows over one join, by seed; a session that is given up loses the time of idle streams."""
    for seed in count(first):
        case = random_case(Random(seed))
        if case.scheduler is not None:
            yield seed, maybe_ended(replace(case, pauses=()), seed)


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(4, soak=40)))
def test_results_that_are_released_early_are_written_once(block: int) -> None:
    """Sessions are given up between two checkpoints: what has been released and written since the last one is not
    written twice."""
    for seed, case in islice(_released_early(FIRST + 500_000 + 1_000 * block), INTERRUPTED):
        try:
            # Dead letters are not the subject here.
            check_case(case, lambda case, seed=seed: Outcome(run_interrupted(case, Random(seed)), case.dead_letters()))
        except Exception as problem:
            raise AssertionError(f"random_case(Random({seed})), interrupted") from problem
