"""Event patterns against the oracle: random expressions, constraints and streams, in slices, under every setting."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from eddyline.errors import EddylineError
from eddyline.language import Job, parse_script
from eddyline.operators.pattern.book import TraceBook
from eddyline.operators.pattern.config import BookConfig
from eddyline.plan.patterns.patterns import plan_pattern, rules_for
from eddyline.tuning import PatternTuning
from tests.property.patterns import STREAM, Case, random_case
from tests.seeds import cases, first_seed, is_whole

CASES = cases(880, soak=1_760)


def job_of(case: Case) -> Job:
    job = Job()
    for statement in parse_script(STREAM + case.constraints + "".join(map(case.create, case.queries))):
        job.apply(statement)
    return job


def run_book(case: Case, job: Job, mode: str, rng: Random, most: int) -> tuple[dict[str, list[Any]], list[int]]:
    """The results of the queries that can match, and the numbers of rows that are violations."""
    stream = job.streams[0]
    columns = {c.name: c.type for c in stream.schema.columns}
    rules = rules_for(job.queries[0].pattern.book, job.constraints)
    # Every slice is swept where the least number of events is below none; the kernel stops at every event.
    tuning = PatternTuning(
        matches_at_once=most, most_steps=rng.choice((0, 7, 1 << 22)), least_swept=rng.choice((-100, 256))
    )
    book = TraceBook(BookConfig(job.queries[0].pattern.book, columns, rules), tuning=tuning)
    for query in job.queries:
        plan = plan_pattern(replace(query, settings=query.settings.with_option("constraints", mode)), rules)
        book.add(plan.config(columns), query.outputs, -(10**15))
    table = case.table
    ts = np.array([r["ts"] for r in case.rows], np.int64)
    found: dict[str, list[Any]] = {q.name: [] for q in case.queries}
    violations: list[int] = []
    at = 0
    while at < len(ts):
        step = min(len(ts) - at, rng.choice([1, 2, 5, 100]))
        place = np.arange(at, at + step)
        broken = book.take(table.slice(at, step), ts[at : at + step], place, place)
        violations += [] if broken is None else [int(j) for j in broken.column("j").to_pylist()]
        at += step
        frontier = int(ts[at]) if at < len(ts) else int(ts[-1]) + 1
        for name, made in book.advance(frontier).items():
            found[name] += [tuple(r.values()) for m in made for r in m.table.to_pylist()]
        book.purge(frontier)
    return {name: [plain(r) for r in rows] for name, rows in found.items()}, violations


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    *numbers, ts = row
    return (
        *(None if n is None else int(n) for n in numbers),
        (ts - ts.replace(year=1970, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)).microseconds,
    )


def can_match(case: Case, job: Job, number: int = 0) -> bool:
    """Whether SunSAT keeps all of a query, or what it drops cannot match in any trace that is cut from the middle
    either."""
    bound = job.queries[number]
    warned = replace(bound, settings=bound.settings.with_option("unsatisfiable", "warn"))
    plan = plan_pattern(warned, rules_for(bound.pattern.book, job.constraints))
    return not any(conflict.through_required for conflict in plan.dropped.values()) or not any(
        r.kind == "begin" for r in case.rules
    )


@pytest.mark.property
@pytest.mark.parametrize("block", range(4))
def test_answers_are_those_of_the_oracle(block: int) -> None:
    first = first_seed(17_000) + block * CASES // 4
    matched = 0
    for seed in range(first, first + CASES // 4):
        rng = Random(seed)
        case = random_case(rng)
        query, job = case.queries[0], job_of(case)
        if not can_match(case, job):
            continue
        expected = case.answer(query, upto=max(r["ts"] for r in case.rows))
        expected_off = case.answer(query, check=False, upto=max(r["ts"] for r in case.rows))
        for mode in ("prune", "check", "off"):
            try:
                found, violations = run_book(case, job, mode, rng, rng.choice([3, 1000]))
            except EddylineError as problem:
                assert "can never match" in str(problem), f"seed {seed}: {problem}"
                assert not expected, f"seed {seed}: refused, {query.text}\n{case.constraints}\n{case.rows}"
                break
            wanted = expected_off if mode == "off" else expected
            assert found["q0"] == wanted, (
                f"seed {seed} {mode}: {query.text}\n{case.constraints}\n{case.rows}\n{found['q0']}\n{wanted}"
            )
            assert violations == case.violations(), f"seed {seed} {mode}: {case.constraints}\n{case.rows}"
        matched += bool(expected)
    assert matched > CASES // 40 or not is_whole()
