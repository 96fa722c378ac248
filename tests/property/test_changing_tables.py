"""Tables that are read again: a combination meets the version at its newest row, embedded, interrupted and over
shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from random import Random

import pytest

from tests.oracle.aggregation import is_aggregate
from tests.property.cliques import under
from tests.property.compare import Outcome, check_case, differences, report
from tests.property.embedded import run_embedded, run_interrupted
from tests.property.specs import Case, TableSpec
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

FIRST = first_seed() + 800_000


def changing_cases(first: int) -> Iterator[tuple[int, Case]]:
    """Random cases whose queries join with a table, and in which that table changes before some epochs."""
    for seed in count(first):
        case, rng = random_case(Random(seed)), Random(seed)
        queries = tuple(q for q in case.queries if not is_aggregate(case.query(q)))
        tables = {t.name for t in case.tables}
        if len(case.arrivals) > 2 and any(r.source in tables for q in queries for r in q.references):
            yield (
                seed,
                replace(
                    case,
                    queries=queries,
                    tables=tuple(_changing(rng, t, len(case.arrivals)) for t in case.tables),
                    pauses=(),
                ),
            )


def _changing(rng: Random, table: TableSpec, epochs: int) -> TableSpec:
    when = sorted(rng.sample(range(1, epochs), rng.randint(1, min(4, epochs - 1))))
    rows = list(table.rows)
    changes = []
    for epoch in when:
        # Some rows go, some come from another row's values.
        rows = [row for row in rows if rng.random() < 0.7]
        for _ in range(rng.randint(0, 3) if table.rows else 0):
            rows.append(tuple(rng.choice(table.rows)[place] for place in range(len(table.columns))))
        changes.append((epoch, tuple(rows)))
    return replace(table, changes=tuple(changes))


@pytest.mark.property
@pytest.mark.parametrize("block", range(2))
def test_engine_equals_oracle(block: int) -> None:
    for seed, case in islice(changing_cases(FIRST + 5000 * block), cases(14)):
        try:
            settings = {
                "jit": ("off", "auto", "exact", "bloom")[seed % 4],
                "route": ("fixed", "lottery")[seed // 4 % 2],
            }
            check_case(under(case, **settings), run_embedded)
        except Exception as problem:
            raise AssertionError(f"seed {seed}") from problem


@pytest.mark.property
def test_shards_equal_oracle() -> None:
    for seed, case in islice(changing_cases(FIRST + 20_000), cases(14)):
        found = differences(case, run_sharded(case, 1 + seed % 5, seed))
        assert not found, f"seed {seed} over {1 + seed % 5} shards\n{report(case, found)}"


@pytest.mark.property
def test_interrupted_sessions_equal_oracle() -> None:
    for seed, case in islice(changing_cases(FIRST + 30_000), cases(6)):
        check_case(case, lambda case, seed=seed: Outcome(run_interrupted(case, Random(seed)), case.dead_letters()))
