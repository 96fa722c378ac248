"""Random cases on Spark itself: the same answers as the oracle, micro-batch by micro-batch."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.property.compare import differences, report
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed
from tests.spark.running import run_case

#: Every run; as many again are among the tests that take long.
CASES = cases(4)
FIRST = first_seed()


@pytest.mark.spark
@pytest.mark.property
@pytest.mark.parametrize(
    "seed", [pytest.param(FIRST + at, marks=pytest.mark.long if at >= CASES else ()) for at in range(2 * CASES)]
)
def test_spark_equals_oracle(spark, seed: int) -> None:
    # Real time passes here: no stream falls idle.
    case = replace(random_case(Random(seed)), pauses=())
    shards = 1 + seed % 4
    found = differences(case, run_case(spark, case, shards))
    assert not found, f"random_case(Random({seed})) over {shards} shards\n{report(case, found)}"
