"""Just-in-time joins under histories made to suspend and resume: every mode and control equals the oracle and the plain join."""

from __future__ import annotations

import os
from random import Random

import pytest

from eddyline.operators.join import edge
from tests.property.cliques import CONTROLS, MODES, clique_case, colliding, paced, under
from tests.property.compare import differences, report
from tests.property.embedded import run_embedded
from tests.property.specs import expected
from tests.property.strategies import random_case

BLOCK = 25
BLOCKS = int(os.environ.get("EDDYLINE_DEMAND_BLOCKS", "24"))
FIRST = int(os.environ.get("EDDYLINE_FIRST_SEED", "0"))


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
def test_keys_that_hash_alike() -> None:
    for seed in range(FIRST + 200, FIRST + 260):
        case = paced(clique_case(Random(90_000 + seed)))
        case = colliding(case, *(("x_ac", "x_bc"), ("x_ab", "x_ac"), ("x_ab", "x_bc"))[seed % 3])
        changed = under(case, jit=MODES[seed // 2 % 2], jit_control=CONTROLS[seed % 4])
        found = differences(case, run_embedded(changed))
        assert not found, f"clique_case(Random({90_000 + seed})), colliding\n{report(changed, found)}"


@pytest.mark.property
@pytest.mark.parametrize("block", range(4))
def test_edges_that_change_their_minds(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `auto` deciding after very few rows, edges start and stop listening in the middle of a history."""
    monkeypatch.setattr(edge, "_ENOUGH", 1)
    monkeypatch.setattr(edge, "_LITTLE", 0.05)
    monkeypatch.setattr(edge, "_LONGEST_PAUSE", 2)
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = clique_case(Random(80_000 + seed))
        changed = under(case, jit="auto", jit_control=CONTROLS[seed % 4])
        found = differences(case, run_embedded(changed))
        assert not found, f"clique_case(Random({80_000 + seed}))\n{report(changed, found)}"


@pytest.mark.property
@pytest.mark.parametrize("block", range(6))
def test_any_query_with_demand(block: int) -> None:
    """Tables, aggregates, self-joins, strings, residual conditions, late rows: as the engine's own property test has them."""
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = random_case(Random(50_000 + seed))
        changed = under(case, jit=("exact", "bloom")[seed % 2], jit_control=CONTROLS[seed % 4])
        found = differences(case, run_embedded(changed))
        assert not found, f"random_case(Random({50_000 + seed}))\n{report(changed, found)}"
