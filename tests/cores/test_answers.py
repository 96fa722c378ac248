"""Random cases on two and three cores: the same answers as the oracle, epoch by epoch, and whichever process dies."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from eddyline.language import bind_script
from eddyline.runtime.cores import runner
from tests.cores.jobs import kill_some
from tests.property import worlds
from tests.property.compare import differences, report
from tests.property.embedded import run_embedded
from tests.property.specs import Case
from tests.property.strategies import random_case
from tests.property.world_flow import random_world
from tests.property.world_runs import straight
from tests.seeds import cases, first_seed
from tests.spark.conducted import own_processes

#: Every run; the others are among the tests that take long.
CASES = cases(8)
FIRST = first_seed(9)


class Shared:
    """The processes of all tests: starting them costs."""

    def __init__(self, fleeting: str | None = None) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(own_processes(), name)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "OwnProcesses", Shared)


def case_of(seed: int) -> Case:
    # Tables are changed through the one driver that has them; no run over cores ends its streams.
    case = random_case(Random(seed))
    tables = tuple(replace(table, changes=()) for table in case.tables)
    return replace(case, tables=tables, final=False)


@pytest.mark.property
@pytest.mark.parametrize(
    "at", [pytest.param(at, marks=pytest.mark.long if at >= CASES else ()) for at in range(8 * CASES)]
)
def test_cores_equal_the_oracle(at: int) -> None:
    seed, random = FIRST + at, Random(FIRST + at)
    case = case_of(seed)
    strikes = (lambda session: kill_some(random)) if at % 4 == 3 else None
    found = differences(case, run_embedded(case, strikes, cores=2 + at % 2))
    assert not found, f"case_of({seed}) on {2 + at % 2} cores\n{report(case, found)}"


#: Worlds cost more.
WORLDS = cases(4)


@pytest.mark.property
@pytest.mark.parametrize(
    "at", [pytest.param(at, marks=pytest.mark.long if at >= WORLDS else ()) for at in range(8 * WORLDS)]
)
def test_a_world_is_the_same_on_cores(at: int) -> None:
    world = random_world(first_seed(3_000_009) + at)
    queries = bind_script(";\n".join(world.statements(frozenset(query.name for query in world.queries)))).queries
    right, given = straight(world, ends=False), straight(world, 4, cores=2 + at % 2, ends=False)
    found = worlds.differences(world, {query.name: query for query in queries}, right, given)
    assert not found, "\n".join([f"random_world({world.seed}) on {2 + at % 2} cores", *found])
