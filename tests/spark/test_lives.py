"""Sharing is never visible on shards either: queries come and go, drivers die, and each answers as if it ran alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.runtime.control.control import ControlFolder
from tests.memory import folder_of_a_case
from tests.oracle.intake import Values
from tests.oracle.relational import answer
from tests.property.cliques import CONTROLS, MODES, clique_case, under
from tests.property.compare import Outcome, _answers, _dead_letters, canonical, differences, plain_rows, report
from tests.property.lives import Life, lived, random_lives
from tests.property.specs import Case, Expected
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed, is_whole
from tests.spark.simulated import Simulated, run_simulated

BLOCK = cases(8)
BLOCKS = cases(2)
FIRST = first_seed()


def statement(life: Life, settings: str) -> str:
    return f"CREATE QUERY {life.spec.name} WITH (plan = '{life.spec.plan}', probe = '{life.spec.probe}'{settings}) AS {life.spec.select()}"


class RunningJob(Protocol):
    """What plays a job: Spark, or the simulation."""

    def add(self, sql: str) -> None: ...

    def drop(self, *names: str) -> None: ...

    def settle(self, *, crashes: float = 0.0) -> None: ...

    def move_some(self) -> int: ...

    def run(
        self, rows: Mapping[str, pa.Table] | None = None, *, closing: bool = False, crashes: float = 0.0
    ) -> None: ...

    def listed(self) -> dict[str, tuple[str, int | None, int | None]]: ...

    def table(self, name: str) -> pa.Table: ...

    def letters(self, stream: str) -> list[tuple[str, Values]]: ...

    def close(self) -> None: ...


#: Statements and an empty folder to a job that runs.
Begin = Callable[[str, Path], RunningJob]


def check_lives(case: Case, lives: Sequence[Life], settings: str, begin: Begin, crashes: float = 0.0) -> None:
    """Add and drop queries before their epochs; compare each with its own answer over the instants that the job
    says."""
    with folder_of_a_case() as directory:
        for table in case.tables:
            parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
        declared = [*(s.statement() for s in case.streams), *(t.statement(directory) for t in case.tables)]
        first = [statement(life, settings) for life in lives if life.added == 0]
        job = begin(";\n".join([*declared, *first]), Path(directory))
        for number, epoch in enumerate([*case.epochs(), {}]):
            added = [life for life in lives if life.added == number and number]
            dropped = [life for life in lives if life.dropped == number]
            if added:
                job.add(";\n".join(statement(life, settings) for life in added))
            if dropped:
                job.drop(*(life.spec.name for life in dropped))
            if added or dropped:
                job.settle(crashes=crashes)
            job.move_some()
            job.run({stream: case.arrow_rows(stream, rows) for stream, rows in epoch.items() if rows}, crashes=crashes)
        job.run(closing=True)
        assert not ControlFolder(f"{directory}/ck").state()["refused"]
        listed = job.listed()
        results = {life.spec.name: plain_rows([job.table(life.spec.name)]) for life in lives}
        dead = {stream.name: job.letters(stream.name) for stream in case.streams}
        job.close()
    # Each once, by the shard that keeps its books, whatever the routes were when it came.
    found = _dead_letters(case, Outcome(dead=dead), Expected(dead=case.dead_letters()))
    for life in lives:
        query = case.query(life.spec)
        _, start, stop = listed[life.spec.name]
        rows = [
            canonical([row[name] for name in (*(n for n, _ in query.outputs), "_ts")])
            for row in results[life.spec.name]
        ]
        gone_unseen = life.dropped is not None and stop is None
        right = (
            []
            if gone_unseen
            else answer(query, case.intake(life.spec).rows, case.table_values(), start=start, stop=stop)
        )
        wrong = _answers(life.spec.name, [(r.newest, canonical([*r.values, r.ts])) for r in right], rows)
        if wrong:
            found += [*wrong, f"  added before epoch {life.added}, dropped before {life.dropped}: {start} to {stop}"]
    assert not found, report(case, found)


def simulated(shards: int, seed: int) -> Begin:
    return lambda text, folder: Simulated(text, str(folder / "ck"), shards, Random(seed))


SETTINGS = (
    "",
    ", route = 'lottery'",
    ", jit = 'exact'",
    ", jit = 'bloom', route = 'lottery'",
    ", scheduler = 'lwo'",
    ", share = 'off'",
)


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_each_query_answers_as_if_it_ran_alone(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case, lives = random_lives(Random(seed), (1, 3, 8, 20))
        lives = [life if life.dropped != life.added else replace(life, dropped=None) for life in lives]
        settings, shards, crashes = SETTINGS[seed % len(SETTINGS)], 1 + seed % 5, (0.0, 0.5)[seed % 2]
        try:
            check_lives(case, lives, settings, simulated(shards, seed), crashes)
        except Exception as problem:
            raise AssertionError(
                f"random_lives(Random({seed})) over {shards} shards{settings}, crashes {crashes}\n{problem}"
            ) from problem


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_plan_changes_and_crashes_never_change_the_answer(block: int) -> None:
    moves: list[int] = []
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = random_case(Random(60_000 + seed))
        found = differences(case, run_simulated(case, 1 + seed % 5, Random(seed), (0.0, 0.4)[seed % 2], moves))
        assert not found, (
            f"random_case(Random({60_000 + seed})) over {1 + seed % 5} shards, Random({seed})\n{report(case, found)}"
        )
    # Two cases may have no join at all.
    assert not is_whole() or sum(moves) > BLOCK


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_suspended_rows_survive_restarts_and_plan_changes(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = clique_case(Random(seed))
        changed = under(case, jit=MODES[seed % 3], jit_control=CONTROLS[seed % 4])
        found = differences(
            case, run_simulated(changed, 1 + seed % 4, Random(seed), (0.0, 0.4)[seed % 2], [] if seed % 3 else None)
        )
        assert not found, (
            f"clique_case(Random({seed})) over {1 + seed % 4} shards, Random({seed})\n{report(changed, found)}"
        )


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_aggregates_come_and_go_as_embedded(block: int) -> None:
    """Any queries, added and dropped between the same epochs in both runtimes: the same changes."""
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case, rng = random_case(Random(seed)), Random(seed)
        last = len(case.epochs())
        added = [rng.randint(0, last) for _ in case.queries]
        dropped = [rng.randint(first + 1, last + 1) if rng.random() < 0.4 else None for first in added]
        lives = [Life(spec, *times) for spec, *times in zip(case.queries, added, dropped, strict=True)]
        with folder_of_a_case() as directory:
            for table in case.tables:
                parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
            # One query per stream stays for ever, so that the frontier does not depend on who else is there.
            staying = [f"CREATE QUERY all_{s.name} AS SELECT {s.time} AS t FROM {s.name}" for s in case.streams]
            declared = [
                *(s.statement() for s in case.streams),
                *(t.statement(directory) for t in case.tables),
                *staying,
            ]
            job = Simulated(";\n".join(declared), f"{directory}/ck", 1 + seed % 4, Random(seed))
            found = _comings_and_goings(case, lives, job, (0.0, 0.3)[seed % 2])
        right, _ = lived(case, lives, staying=staying)
        for life in lives:
            name = life.spec.name
            assert found[name] == _comparable(right[name]), (
                f"random_case(Random({seed})), {life}\n{report(case, [name])}"
            )


def _comings_and_goings(case: Case, lives: Sequence[Life], job: Simulated, crashes: float) -> dict[str, list[str]]:
    for number, epoch in enumerate([*case.epochs(), {}]):
        added = [statement(life, "") for life in lives if life.added == number]
        dropped = [life.spec.name for life in lives if life.dropped == number]
        if added:
            job.add(";\n".join(added))
        if dropped:
            job.drop(*dropped)
        job.settle(crashes=crashes)
        job.run({stream: case.arrow_rows(stream, rows) for stream, rows in epoch.items() if rows}, crashes=crashes)
    job.run(closing=True)
    job.close()
    return {life.spec.name: _comparable(plain_rows([job.table(life.spec.name)])) for life in lives}


def _comparable(rows: list[Values]) -> list[str]:
    """Without the order of results of equal time, and without the last digits of sums."""
    return sorted(
        repr({k: float(f"{v:.9g}") if isinstance(v, float) else v for k, v in sorted(row.items())}) for row in rows
    )
