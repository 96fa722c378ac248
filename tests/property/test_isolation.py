"""Sharing is never visible: among many queries that come and go, each answers as if it ran alone."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from eddyline import Session
from eddyline.settings import Settings
from eddyline.tuning import SchedulingTuning, SharingTuning, Tuning
from tests.oracle.intake import Intake
from tests.oracle.relational import answer
from tests.property.compare import _answers, aggregate_differences, canonical, report
from tests.property.lives import COUNTS, Life, is_aggregate_spec, lived, random_lives
from tests.property.specs import Case, streams_of
from tests.seeds import cases, first_seed

#: Cases per block; a failure names its seed.
BLOCK = 6
BLOCKS = cases(4)
FIRST = first_seed()


def check_lives(case: Case, lives: Sequence[Life], base: Settings | None = None, **options: str) -> None:
    results, instants = lived(case, lives, base, **options)
    found = []
    taken: dict[frozenset[str], Intake] = {}
    for life in lives:
        name = life.spec.name
        query, (start, stop) = case.query(life.spec), instants[name]
        read = streams_of(life.spec)
        if read not in taken:
            taken[read] = case.intake(life.spec)
        gone_unseen = life.dropped is not None and stop is None
        if is_aggregate_spec(life.spec):
            seen = Intake() if gone_unseen else taken[read]
            wrong = aggregate_differences(case, life.spec, seen, results[name], start, stop, life.added)
        else:
            rows = [
                canonical([row[column] for column in (*(n for n, _ in query.outputs), "_ts")]) for row in results[name]
            ]
            right = [] if gone_unseen else answer(query, taken[read].rows, case.table_values(), start=start, stop=stop)
            wrong = _answers(name, [(r.newest, canonical([*r.values, r.ts])) for r in right], rows)
        if wrong:
            found += [*wrong, f"  added before epoch {life.added}, dropped before {life.dropped}: {start} to {stop}"]
    assert not found, f"{options}\n" + report(case, found)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_each_query_answers_as_if_it_ran_alone(block: int) -> None:
    """Every case under all three schedulers; over the cases with both routes, with demand and without, with few queries
    made one by one."""
    schedules = SchedulingTuning(least_rows=1, least_batch=2)
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case, lives = random_lives(Random(seed), (200,) if seed % 20 == 7 else COUNTS, aggregates=True)
        for turn, scheduler in enumerate(("lwo", "swf", "mqt"), seed):
            tuning = Tuning(scheduling=schedules, sharing=SharingTuning(many_queries=2 if turn % 4 == 0 else 8))
            options = {
                "scheduler": scheduler,
                "route": ("fixed", "lottery")[turn % 2],
                "jit": ("off", "exact")[turn // 2 % 2],
                "seed": str(seed),
            }
            try:
                check_lives(case, lives, Settings(tuning=tuning), **options)
            except Exception as problem:
                raise AssertionError(f"seed {seed}, {options}\n{problem}") from problem


@pytest.mark.parametrize("window", ["RANGE 100 SECONDS", "ROWS 9", "UNBOUNDED"])
def test_a_longer_window_that_has_gone_keeps_nothing_alive(window: str) -> None:
    """Partial results are stored with the longest window of all queries; a query that stays must not see them longer
    than its own."""
    with Session() as session:
        session.execute("CREATE STREAM s (k BIGINT, kind STRING, ts TIMESTAMP) WITH (time='ts')")
        text = "SELECT a.k FROM s [{0}] a, s [{0}] b, s [{0}] c WHERE a.k = b.k AND b.k = c.k"
        text += " AND a.kind = 'a' AND b.kind = 'b' AND c.kind = 'c'"
        short = session.query("short", text.format("RANGE 5 SECONDS"), plan="((b c) a)")
        session.query("long", text.format(window), plan="((b c) a)")
        session.push("s", [(1, "b", 10_000_000), (1, "c", 10_000_000)])
        session.step()
        session.push("s", [(2, "d", 12_000_000)])
        session.drop("long")
        session.step()
        assert "long" not in session.pipeline.queries
        session.push("s", [(1, "a", 16_000_000), (2, "d", 17_000_000)])
        session.run(once=True, final=False)
        assert short.table().num_rows == 0
