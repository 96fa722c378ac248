"""Event patterns in whole jobs: epochs of any size, restarts from checkpoints, queries that come and go, shards that
crash."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from eddyline.errors import EddylineError
from eddyline.session import Session
from tests.memory import folder_of_a_case
from tests.property.patterns import STREAM, Case, random_case
from tests.property.test_patterns import can_match, job_of, plain
from tests.seeds import cases, first_seed, is_whole
from tests.spark.simulated import Simulated

CASES = cases(120)


def statements(case: Case, names: set[str]) -> str:
    return STREAM + case.constraints + "".join(case.create(q) for q in case.queries if q.name in names)


def drawn(seed: int) -> tuple[Random, Case] | None:
    """A case with two queries, both of which can match."""
    rng = Random(seed)
    case = random_case(rng, queries=2)
    try:
        job = job_of(case)
        if not all(can_match(case, job, number) for number in range(len(case.queries))):
            return None
        with Session() as session:
            session.execute(statements(case, {"q0", "q1"}))
    except EddylineError as problem:
        assert "can never match" in str(problem), f"seed {seed}: {problem}"
        return None
    return rng, case


def taken(session: Session, found: dict[str, list[Any]]) -> None:
    for name, query in session.queries.items():
        found.setdefault(name, []).extend(plain(tuple(r.values())) for r in query.take().to_pylist())


@pytest.mark.property
def test_epochs_restarts_and_queries_that_come() -> None:
    for seed in range(first_seed(17_200), first_seed(17_200) + CASES):
        made = drawn(seed)
        if made is None:
            continue
        rng, case = made
        rows, found, dead = case.rows, {}, 0
        upto = max(r["ts"] for r in rows)
        added_after = rng.choice([None, rng.randrange(len(rows))])
        cuts = sorted({0, len(rows), *(rng.randrange(len(rows)) for _ in range(3))})
        start = None
        with folder_of_a_case() as folder:
            names = {"q0", "q1"} if added_after is None else {"q0"}
            checkpoint = str(Path(folder) / "ck")
            for first, stop in pairwise(cuts):
                session = Session(checkpoint=checkpoint)
                session.execute(statements(case, names))
                session.set("checkpoint_seconds", 0)
                for at in range(first, stop):
                    if added_after is not None and at >= added_after and "q1" not in names:
                        session.step_pending()
                        session.execute(case.create(case.queries[1]))
                        names.add("q1")
                        start = max((r["ts"] for r in rows[:at]), default=None)
                    session.push("s", [rows[at]])
                    if rng.random() < 0.5:
                        session.step_pending()
                if stop == len(rows):
                    session.run(once=True, final=False)
                else:
                    session.step_pending()
                    session.stop()
                taken(session, found)
                dead += len(session.dead_letters("s"))
        assert found["q0"] == case.answer(case.queries[0], upto=upto), f"seed {seed}: {case}"
        if "q1" in names:
            assert found["q1"] == case.answer(case.queries[1], start=start, upto=upto), f"seed {seed}: {start} {case}"
        assert dead == len(case.violations()), f"seed {seed}: {case}"


@pytest.mark.property
def test_shards_that_crash() -> None:
    for seed in range(first_seed(17_400), first_seed(17_400) + CASES):
        made = drawn(seed)
        if made is None:
            continue
        rng, case = made
        with folder_of_a_case() as folder:
            job = Simulated(statements(case, {"q0", "q1"}), folder, rng.choice([1, 2, 3, 5]), rng)
            table, at = case.table, 0
            while at < len(table):
                step = rng.choice([1, 3, 20])
                job.run({"s": table.slice(at, step)}, crashes=0.2)
                at += step
            job.run(closing=True, crashes=0.2)
            for query in case.queries:
                found = [plain(tuple(r.values())) for r in job.sinks[query.name].table().to_pylist()]
                expected = case.answer(query, upto=max(r["ts"] for r in case.rows))
                assert found == expected, f"seed {seed} {query.name}: {case}\n{found}\n{expected}"
            numbers = sorted(int(j) for t in job.dead.get("s", []) for j in t.column("j").to_pylist())
            assert numbers == case.violations(), f"seed {seed}: {case}"


@pytest.mark.property
def test_queries_that_go_and_come_again() -> None:
    dropped = 0
    for seed in range(first_seed(17_600), first_seed(17_600) + CASES):
        made = drawn(seed)
        if made is None:
            continue
        rng, case = made
        rows = case.rows
        upto = max(r["ts"] for r in rows)
        gone, again = sorted(rng.sample(range(1, len(rows) + 1), 2))
        with Session() as session:
            session.execute(statements(case, {"q0", "q1"}))
            first, second = session.queries["q1"], None
            stop = start = upto
            for at, row in enumerate(rows):
                if at in (gone, again):
                    session.step_pending()
                if at == gone:
                    session.drop("q1")
                    stop = max(r["ts"] for r in rows[:at])
                if at == again:
                    # The name is free again once the last result is out.
                    session.execute(case.create(replace(case.queries[1], name="q2")))
                    second = session.queries["q2"]
                    start = max(r["ts"] for r in rows[:at])
                session.push("s", [row])
                if rng.random() < 0.5:
                    session.step_pending()
            session.run(once=True, final=False)
            before, after = (results_of(handle) for handle in (first, second))
            other = results_of(session.queries["q0"])
        assert other == case.answer(case.queries[0], upto=upto), f"seed {seed}: {case}"
        whole = case.answer(case.queries[1], upto=upto)
        assert before == [row for row in whole if gone >= len(rows) or row[-1] <= stop], f"seed {seed}: {stop} {case}"
        if second is not None:
            assert after == case.answer(case.queries[1], start=start, upto=upto), f"seed {seed}: {start} {case}"
        dropped += before != whole
    assert dropped > CASES // 40 or not is_whole()


def test_results_of_two_shards_at_one_time_are_in_the_order_of_arrival(tmp_path: Path) -> None:
    """The shard of k = 0 has had one row and that of k = 1 three when both rows of time 1 are there."""
    rows = [(1, "E", 0), (1, "E", 0), (1, "B", 1), (0, "B", 1), (1, "E", 3)]
    table = pa.table(
        {
            "k": [k for k, *_ in rows],
            "type": [t for _, t, _ in rows],
            "ts": pa.array([ts for *_, ts in rows], pa.timestamp("us")),
        }
    )
    stream = "CREATE STREAM s (k BIGINT, type STRING, ts TIMESTAMP) WITH (time = 'ts');"
    job = Simulated(
        f"{stream} CREATE QUERY q AS EVENT B FROM s TYPE type PARTITION BY k RETURN k;", str(tmp_path), 5, Random(0)
    )
    for at in range(len(table)):
        job.run({"s": table.slice(at, 1)})
    job.run(closing=True)
    assert job.table("q").column("k").to_pylist() == [1, 0]
    job.close()


@pytest.mark.property
def test_queries_that_come_and_go_on_shards_that_crash() -> None:
    cut = later = 0
    for seed in range(first_seed(17_800), first_seed(17_800) + CASES // 2):
        made = drawn(seed)
        if made is None:
            continue
        rng, case = made
        table, upto = case.table, max(r["ts"] for r in case.rows)
        come, gone = sorted(rng.sample(range(1, len(table) + 1), 2))
        with folder_of_a_case() as folder:
            job = Simulated(statements(case, {"q0"}), folder, rng.choice([1, 2, 3, 5]), rng)
            at = 0
            for end in (come, gone, len(table)):
                while at < end:
                    step = min(rng.choice([1, 3, 20]), end - at)
                    job.run({"s": table.slice(at, step)}, crashes=0.2)
                    at += step
                if end == come:
                    job.add(case.create(case.queries[1]))
                elif end == gone:
                    job.drop("q1")
                job.settle(crashes=0.2)
            job.run(closing=True, crashes=0.2)
            _, start, stop = job.listed()["q1"]
            found = [[plain(tuple(r.values())) for r in job.sinks[q.name].table().to_pylist()] for q in case.queries]
            job.close()
        whole = case.answer(case.queries[1], start=start, upto=upto)
        expected = [row for row in whole if stop is None or row[-1] <= stop]
        assert found == [case.answer(case.queries[0], upto=upto), expected], f"seed {seed}: {start} to {stop} {case}"
        cut += expected != whole
        later += start is not None and len(whole) < len(case.answer(case.queries[1], upto=upto))
    assert (cut and later) or not is_whole(), (cut, later)


def results_of(handle: Any) -> list[tuple[Any, ...]]:
    return [] if handle is None else [plain(tuple(r.values())) for r in handle.take().to_pylist()]
