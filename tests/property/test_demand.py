"""Just-in-time joins under histories made to suspend and resume: every mode and control equals the oracle and the plain
join."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.settings import Settings
from eddyline.tuning import DemandTuning, Tuning
from tests.property.cliques import CONTROLS, MODES, SECOND, clique_case, colliding, column, paced, under
from tests.property.compare import differences, report
from tests.property.embedded import run_embedded
from tests.property.specs import expected
from tests.property.strategies import random_case
from tests.property.test_aggregates import run_restarted
from tests.property.test_migration import run_migrating
from tests.seeds import cases, first_seed

BLOCK = 20
BLOCKS = cases(8, soak=14)
FIRST = first_seed()


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_cliques_under_every_control(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = clique_case(Random(seed))
        truth = expected(case)
        plain = run_embedded(under(case, jit="off"))
        assert not differences(case, plain, truth), f"jit off, clique_case(Random({seed}))"
        mode = MODES[seed % len(MODES)]
        for control in (CONTROLS[seed % 4], CONTROLS[(seed + 1 + seed // 4 % 3) % 4]):
            changed = under(case, jit=mode, jit_control=control)
            found = differences(case, run_embedded(changed), truth)
            assert not found, f"clique_case(Random({seed})) under {mode}, {control}\n{report(changed, found)}"


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(4)))
def test_one_join_of_all_inputs(block: int) -> None:
    """An mjoin admits only rows with partners everywhere: probe orders as planned or drawn by lot, one query or
    several."""
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = clique_case(Random(60_000 + seed))
        case = replace(case, queries=tuple(replace(query, plan="mjoin") for query in case.queries))
        changed = under(
            case,
            jit=MODES[seed % 3],
            route=("lottery", "fixed")[seed % 2],
            scheduler=("lwo", "swf", "mqt")[seed // 2 % 3],
        )
        found = differences(case, run_embedded(changed))
        assert not found, f"clique_case(Random({60_000 + seed})) as mjoin\n{report(changed, found)}"


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(2)))
def test_restarts_in_the_middle(block: int) -> None:
    """What is suspended is not in a checkpoint: it follows from the rows."""
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = clique_case(Random(30_000 + seed))
        changed = under(case, jit=("exact", "bloom")[seed % 2], jit_control=CONTROLS[seed // 2 % 4])
        found = differences(case, run_restarted(changed))
        assert not found, f"clique_case(Random({30_000 + seed})), restarted\n{report(changed, found)}"


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(3)))
def test_other_trees_in_the_middle(block: int) -> None:
    moves: list[int] = []
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = clique_case(Random(40_000 + seed))
        changed = under(
            case,
            jit=("exact", "bloom")[seed % 2],
            jit_control=CONTROLS[seed // 2 % 4],
            route=("fixed", "lottery")[seed // 8 % 2],
        )
        found = differences(case, run_migrating(changed, Random(seed), moves))
        assert not found, f"clique_case(Random({40_000 + seed})), migrating\n{report(changed, found)}"
    assert sum(moves) > BLOCK


@pytest.mark.property
@pytest.mark.parametrize("plan", ["((a b) c)", pytest.param("mjoin", marks=pytest.mark.long)])
def test_epochs_of_a_hundred_thousand_rows(plan: str) -> None:
    rng = np.random.default_rng(9)
    made = {}
    epochs = [
        {
            name: pa.table(
                {
                    **{column(name, other): rng.integers(0, 600, 34_000) for other in "abc" if other != name},
                    "ts": (epoch * 100 * SECOND + np.sort(rng.integers(0, 100 * SECOND, 34_000))).astype(
                        "datetime64[us]"
                    ),
                }
            )
            for name in "abc"
        }
        for epoch in range(2)
    ]
    for jit in ("off", "exact", "bloom", "auto"):
        with Session() as session:
            session.set("jit", jit)
            session.set("epoch_rows", 100_000)
            session.set("plan", plan)
            for name in "abc":
                columns = ", ".join(f"{column(name, other)} BIGINT" for other in "abc" if other != name)
                session.execute(f"CREATE STREAM {name} ({columns}, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')")
            window = "[RANGE 20 SECONDS]"
            session.execute(
                f"CREATE QUERY q AS SELECT a.ts AS ta, b.ts AS tb, c.ts AS tc FROM a {window}, b {window}, c {window} "
                "WHERE a.x_ab = b.x_ab AND a.x_ac = c.x_ac AND b.x_bc = c.x_bc"
            )
            for epoch in epochs:
                for name, rows in epoch.items():
                    session.push(name, rows)
                session.step()
            session.run(once=True)
            made[jit] = session.queries["q"].table().sort_by([(name, "ascending") for name in ("ta", "tb", "tc")])
    assert made["off"].num_rows > 1_000
    assert all(table.equals(made["off"]) for table in made.values())


@pytest.mark.property
def test_keys_that_hash_alike() -> None:
    for seed in range(FIRST + 200, FIRST + 200 + cases(60)):
        case = paced(clique_case(Random(90_000 + seed)))
        case = colliding(case, *(("x_ac", "x_bc"), ("x_ab", "x_ac"), ("x_ab", "x_bc"))[seed % 3])
        changed = under(case, jit=MODES[seed // 2 % 2], jit_control=CONTROLS[seed % 4])
        found = differences(case, run_embedded(changed))
        assert not found, f"clique_case(Random({90_000 + seed})), colliding\n{report(changed, found)}"


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(4)))
def test_edges_that_change_their_minds(block: int) -> None:
    """With `auto` deciding after very few rows, edges start and stop listening in the middle of a history."""
    hasty = Settings(tuning=Tuning(demand=DemandTuning(enough=1, fixed=0.0, longest_pause=2)))
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = clique_case(Random(80_000 + seed))
        changed = under(case, jit="auto", jit_control=CONTROLS[seed % 4])
        found = differences(case, run_embedded(changed, settings=hasty))
        assert not found, f"clique_case(Random({80_000 + seed}))\n{report(changed, found)}"


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(4, soak=6)))
def test_any_query_with_demand(block: int) -> None:
    """Tables, aggregates, self-joins, strings, residual conditions, late rows: as the engine's own property test has
    them."""
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = random_case(Random(50_000 + seed))
        changed = under(case, jit=("exact", "bloom")[seed % 2], jit_control=CONTROLS[seed % 4])
        found = differences(case, run_embedded(changed))
        assert not found, f"random_case(Random({50_000 + seed}))\n{report(changed, found)}"
