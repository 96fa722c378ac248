"""Gates are never visible: with a record beside every row that says nothing, every case has the oracle's answer."""

from __future__ import annotations

from itertools import count, islice
from random import Random

import pytest

from eddyline.runtime.engine.records.kinds import ALLOWED
from tests.property.compare import check_case
from tests.property.embedded import run_embedded
from tests.property.strategies import random_case
from tests.property.test_aggregates import Blocks, restarted
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

FIRST = first_seed(400_000)
CASES = cases(12)


@pytest.fixture(autouse=True)
def gates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, "tests.runtime.noted:Silent")


@pytest.mark.property
@pytest.mark.parametrize("idle", [False, True])
def test_in_one_process_with_restarts(idle: bool) -> None:
    drawn = ((seed, random_case(Random(seed))) for seed in count(FIRST + 1_000 * idle))
    for seed, case in islice(((seed, case) for seed, case in drawn if any(case.idle()) == idle), CASES):
        blocks, rng = Blocks(), Random(seed)
        try:
            check_case(
                case,
                lambda case, b=blocks, r=rng: run_embedded(
                    case, lambda s: restarted(s, b) if r.random() < 0.3 else None
                ),
            )
        except Exception as problem:
            raise AssertionError(f"random_case(Random({seed})) behind gates") from problem


@pytest.mark.property
@pytest.mark.parametrize("idle", [False, True])
def test_on_shards(idle: bool) -> None:
    drawn = ((seed, random_case(Random(seed))) for seed in count(FIRST + 2_000 + 1_000 * idle))
    for seed, case in islice(((seed, case) for seed, case in drawn if any(case.idle()) == idle), CASES):
        try:
            check_case(case, lambda case, seed=seed: run_sharded(case, 1 + seed % 4, seed))
        except Exception as problem:
            raise AssertionError(f"random_case(Random({seed})) behind gates on {1 + seed % 4} shards") from problem
