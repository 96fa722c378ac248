"""Nested data in any query: fields, elements and UNNEST have the answers of the same rows without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from random import Random

import pytest

from tests.property.compare import Outcome, differences, report
from tests.property.embedded import run_embedded, run_interrupted
from tests.property.nested import NestedCase, inside, unnested
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

FIRST = first_seed() + 900_000


def nested_cases(first: int) -> Iterator[tuple[int, NestedCase]]:
    for seed in count(first):
        case = random_case(Random(seed))
        found = unnested(case) if seed % 2 else inside(Random(seed), case)
        if found is not None:
            yield seed, found


def check(seed: int, case: NestedCase, outcome: Outcome) -> None:
    assert case.plain is not None
    # A dead letter has the nested value: of which kinds they are is compared.
    dead = case.plain.dead_letters()
    for stream in case.plain.streams:
        kinds = [
            {reason.split(":")[0] for reason, _ in letters.get(stream.name, [])} for letters in (outcome.dead, dead)
        ]
        assert kinds[0] == kinds[1], f"seed {seed}, stream {stream.name}: {kinds}"
    outcome.dead = dead
    # Derived streams have places of their own among rows of equal time.
    found = [
        line for line in differences(case.plain, outcome) if not (case.unnests and "right but not in the order" in line)
    ]
    assert not found, f"seed {seed}\n{report(case.plain, found)}\n" + ";\n".join(case.statements())


@pytest.mark.property
@pytest.mark.parametrize("block", range(2))
def test_engine_equals_oracle(block: int) -> None:
    for seed, case in islice(nested_cases(FIRST + 5000 * block), cases(24)):
        check(seed, case, run_embedded(case))


@pytest.mark.property
def test_shards_equal_oracle() -> None:
    for seed, case in islice(nested_cases(FIRST + 20_000), cases(16)):
        check(seed, case, run_sharded(case, 1 + seed % 5, seed))


@pytest.mark.property
def test_interrupted_sessions_equal_oracle() -> None:
    for seed, case in islice(nested_cases(FIRST + 30_000), cases(6)):
        assert case.plain is not None
        # A session that is given up loses the time of idle streams.
        case = replace(case, pauses=(), plain=replace(case.plain, pauses=()))
        check(seed, case, Outcome(run_interrupted(case, Random(seed)), case.plain.dead_letters()))
