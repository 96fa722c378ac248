"""Outer, semi and anti joins equal their definition, in any epochs, with restarts, and on shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.oracle.aggregation import apply_changelog, key_columns
from tests.oracle.expressions import Value
from tests.property.compare import Outcome, canonical, same
from tests.property.embedded import run_embedded
from tests.property.outer import expected_outer, expected_tree, random_outer, random_tree
from tests.property.outer_live import LiveSpec, live_query, live_table, live_tables, random_live
from tests.property.specs import Case, maybe_ended
from tests.property.test_aggregates import Blocks, restarted
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

BLOCK = 20
BLOCKS = cases(4, soak=6)
FIRST = first_seed(1_990_000)


def check(
    case: Case,
    outcome: Outcome,
    label: str,
    truth: Callable[[Case], list[tuple[int, tuple[Value, ...]]]] = expected_outer,
) -> None:
    name = case.queries[0].name
    rows = outcome.results[name]
    found = Counter((row["_ts"], *(same(v) for k, v in row.items() if k != "_ts")) for row in rows)
    expected = Counter((ts, *(same(v) for v in values)) for ts, values in truth(case))
    missing, extra = expected - found, found - expected
    text = "\n".join(case.statements())
    assert not missing and not extra, f"{label}\n{text}\nmissing {dict(missing)}\nextra {dict(extra)}\ncase = {case!r}"
    stamps = [row["_ts"] for row in rows]
    assert stamps == sorted(stamps), label


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_rows_with_and_without_partners(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)
        case = random_outer(rng)
        blocks = Blocks()
        between = (lambda session: restarted(session, blocks)) if rng.random() < 0.4 else None  # noqa: B023
        ended = maybe_ended(case, seed)
        check(ended, run_embedded(ended, between), f"embedded, seed {seed}")
        if rng.random() < 0.5:
            check(case, run_sharded(case, rng.choice((1, 3)), seed), f"sharded, seed {seed}")


@pytest.mark.parametrize("seed", [1990050, 1990116])
def test_rows_without_a_key_are_kept_once_on_all_shards(seed: int) -> None:
    """Outer joins whose references have no common key."""
    case = random_outer(Random(seed))
    check(case, run_sharded(case, 3, seed), f"sharded, seed {seed}")


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(3)))
def test_trees_of_joins(block: int) -> None:
    for seed in range(FIRST + 5_000 + block * BLOCK, FIRST + 5_000 + (block + 1) * BLOCK):
        rng = Random(seed)
        case = random_tree(rng)
        blocks = Blocks()
        between = (lambda session: restarted(session, blocks)) if rng.random() < 0.4 else None  # noqa: B023
        ended = maybe_ended(case, seed)
        check(ended, run_embedded(ended, between), f"embedded, seed {seed}", expected_tree)
        if rng.random() < 0.3:
            check(case, run_sharded(case, rng.choice((1, 3)), seed), f"sharded, seed {seed}", expected_tree)


def check_live(case: Case, outcome: Outcome, label: str) -> None:
    """The changes make the table of every instant of emission, and are emitted at no other."""
    spec: LiveSpec = case.queries[0]  # type: ignore[assignment]
    rows, query, right = outcome.results[spec.name], live_query(spec), live_tables(case)
    names = [query.outputs[at][0] for at in key_columns(query)]
    text = "\n".join(case.statements())
    stamps = [row["_ts"] for row in rows]
    assert stamps == sorted(stamps), label
    for now in set(stamps) - set(right):
        assert spec.emit.kind == "every" and now % spec.emit.period == 0, f"{label}: no instant {now}\n{text}"
        right[now] = live_table(case, spec, now)
    for now in sorted(right):
        made = {key: canonical(row.values()) for key, row in apply_changelog(rows, names, now).items()}
        wanted = {key: canonical(row) for key, row in right[now].items()}
        assert made == wanted, f"{label}: at {now}\n{text}\nmade {made}\nwanted {wanted}\ncase = {case!r}"


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_aggregates_of_live_rows(block: int) -> None:
    for seed in range(FIRST + 9_000 + block * BLOCK, FIRST + 9_000 + (block + 1) * BLOCK):
        rng = Random(seed)
        case = random_live(rng)
        blocks = Blocks()
        between = (lambda session: restarted(session, blocks)) if rng.random() < 0.4 else None  # noqa: B023
        ended = maybe_ended(case, seed)
        check_live(ended, run_embedded(ended, between), f"embedded, seed {seed}")
        if rng.random() < 0.3:
            check_live(case, run_sharded(case, rng.choice((1, 3)), seed), f"sharded, seed {seed}")
