"""Plans that follow what is seen, budgets that hold for the job, and one decision for several shards."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.errors import PlanProblem
from eddyline.plan.tree.migration import Migration, decide
from eddyline.plan.tree.statistics import GroupStatistics
from eddyline.settings import Settings

QUERY = "SELECT a.n AS n, b.n AS m, c.n AS o FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND] WHERE a.x = b.x AND a.y = c.y"
EPOCH, EPOCHS = 500, 24


@pytest.fixture(autouse=True)
def shipped_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def declare(session: Session, options: str = "") -> None:
    for name in "abc":
        session.execute(
            f"CREATE STREAM {name} (x BIGINT, y BIGINT, n BIGINT, ts TIMESTAMP) WITH (time = 'ts'{options})"
        )


def push(
    session: Session, epoch: int, flip: bool, lots: np.random.Generator, names: str = "abc", rows: int = EPOCH
) -> None:
    """An epoch in which a and b hardly ever meet and a and c often do, or the other way round."""
    rare, often = 20_000, 50
    x, y = (often, rare) if flip else (rare, often)
    for name in names:
        number = np.arange(epoch * rows, (epoch + 1) * rows)
        ts = pa.array(number * 1000).cast(pa.timestamp("us"))
        keys = {"x": pa.array(lots.integers(0, x, rows)), "y": pa.array(lots.integers(0, y, rows))}
        session.push(name, pa.table({**keys, "n": pa.array(number), "ts": ts}))


def flipping_run(**options: str) -> tuple[Counter[tuple[int, ...]], dict[str, Any]]:
    lots = np.random.default_rng(3)
    with Session() as session:
        declare(session)
        query = session.query("q", QUERY, jit="off", **options)
        for epoch in range(EPOCHS):
            push(session, epoch, epoch >= EPOCHS // 2, lots)
            session.step()
        session.run()
        rows = query.table().to_pydict()
        return Counter(zip(rows["n"], rows["m"], rows["o"], strict=True)), session.stats()


def test_the_plan_follows_a_flip_and_the_answer_does_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "eddyline.planner"):
        followed, stats = flipping_run()
    fixed, still = flipping_run(replan="off")
    assert followed == fixed and len(followed) > 1000
    assert still["migrations"] == []
    moves = stats["migrations"]
    assert [(move["from"], move["to"]) for move in moves] == [("(a b c)", "((a b) c)"), ("((a b) c)", "((a c) b)")]
    assert moves[0]["epoch"] < EPOCHS // 2 < moves[1]["epoch"] <= EPOCHS // 2 + 10
    assert all(
        move["seconds"] > 0 and "costs" in move["reason"] and move["cpu_before"] > move["cpu_after"] for move in moves
    )
    assert moves[1]["rows_rebuilt"] > 0 and moves[1]["queries"] == ["q"]
    assert len([record for record in caplog.records if " to ((a " in record.getMessage()]) == 2
    plan = stats["plan"]["q"].splitlines()
    assert "tree: ((a c) b)" in plan and any(line.startswith("runner-up: ") for line in plan)
    work = [run["probes"] + run["partials_produced"] for run in (stats, still)]
    for plan in ("((a b) c)", "((a c) b)"):
        given, run = flipping_run(plan=plan)
        assert given == followed and run["migrations"] == []
        work.append(run["probes"] + run["partials_produced"])
    assert work[0] < min(work[1:])


def test_small_epochs_are_not_looked_at() -> None:
    with Session() as session:
        declare(session)
        session.query("q", QUERY)
        lots = np.random.default_rng(3)
        for epoch in range(5):
            push(session, epoch, False, lots, rows=10)
            session.step()
        assert session.pipeline.planner.seen() == {}


def test_what_is_seen_is_what_is_there() -> None:
    lots = np.random.default_rng(5)
    with Session() as session:
        declare(session)
        session.query("q", QUERY + " AND a.n % 2 = 0 AND b.y < c.x", replan="on", jit="off")
        for epoch in range(6):
            push(session, epoch, False, lots, rows=1000)
            session.step()
        (seen,) = session.pipeline.planner.seen().values()
    a, b, _ = seen.references
    assert a.wanted / seen.seconds == pytest.approx(500, rel=0.05) and a.wanted / a.seen == pytest.approx(0.5, rel=0.05)
    assert b.wanted / seen.seconds == pytest.approx(1000, rel=0.05) and b.live == pytest.approx(1000, rel=0.05)
    assert seen.edges[0, 2].matched / seen.edges[0, 2].pairs == pytest.approx(1 / 50, rel=0.1)
    assert seen.edges[0, 1].matched / seen.edges[0, 1].pairs < 1e-3
    assert seen.edges[1, 2].matched / seen.edges[1, 2].pairs == pytest.approx(1.0, abs=0.05)


def test_one_decision_for_two_shards() -> None:
    lots = np.random.default_rng(3)
    shards = [Session(), Session()]
    for session in shards:
        declare(session)
        session.query("q", QUERY, jit="off")
        session.pipeline.planner.autonomous = False
        for epoch in range(4):
            push(session, epoch, False, lots)
            session.step()
    planners = [session.pipeline.planner for session in shards]
    assert all(planner.migrations == [] for planner in planners)
    (signature,) = planners[0].seen()
    records = [GroupStatistics.from_document(planner.seen()[signature].to_document()) for planner in planners]
    migration = decide(records[0] + records[1], planners[0].running(signature))
    assert migration is not None
    for session, planner in zip(shards, planners, strict=True):
        planner.carry_out(signature, Migration.from_document(migration.to_document()))
        assert "tree: ((a b) c)" in session.explain("q")
        session.stop()


def test_budgets_hold_for_the_job() -> None:
    with Session() as session:
        declare(session, ", rate = 1000, distinct_x = 1000, distinct_y = 1000")
        session.execute("SET memory_budget = '300 KB'")
        session.query("one", "SELECT a.n FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.x = b.x")
        session.query("same", "SELECT b.n FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.x = b.x AND a.y = b.y")
        assert session.pipeline.queries.keys() == {"one", "same"}, (
            "two joins over the same streams hold their stores once"
        )
        with pytest.raises(PlanProblem, match="query more fits the memory budget"):
            session.query("more", "SELECT c.n FROM b [RANGE 1 SECOND], c [RANGE 3 SECONDS] WHERE b.x = c.x")


def test_a_job_that_outgrows_its_budget_goes_on_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    lots = np.random.default_rng(3)
    with Session() as session, caplog.at_level(logging.WARNING, "eddyline.planner"):
        declare(session, ", rate = 1")
        session.query("q", QUERY, jit="off", memory_budget="20 KB")
        for epoch in range(4):
            push(session, epoch, False, lots)
            session.step()
        session.run()
    assert "no plan fits the memory budget any more" in caplog.text


def test_queries_that_share_a_join_move_together() -> None:
    lots = np.random.default_rng(3)
    with Session() as session:
        declare(session)
        queries = [
            session.query("q", QUERY, jit="off"),
            session.query("p", QUERY.replace("c [RANGE 1 SECOND]", "c [RANGE 2 SECONDS]"), jit="off"),
        ]
        for epoch in range(6):
            push(session, epoch, False, lots)
            session.step()
            if epoch == 4:
                session.drop("q")
        session.run()
        (move,) = session.stats()["migrations"]
        assert move["queries"] == ["q", "p"]
        assert queries[1].table().num_rows > 0


def test_a_restart_continues_with_the_plan_that_was_moved_to(tmp_path: Path) -> None:
    lots = np.random.default_rng(3)
    checkpoint = str(tmp_path / "checkpoint")
    # Not closed properly: what counts is the checkpoint after the last epoch.
    session = Session(Settings(checkpoint_seconds=0), checkpoint=checkpoint)
    declare(session)
    session.query("q", QUERY, jit="off")
    for epoch in range(8):
        push(session, epoch, False, lots)
        session.step()
    (watch,) = session.pipeline.planner.watches.values()
    moves = session.stats()["migrations"]
    assert [move["to"] for move in moves] == ["((a b) c)"] and watch.seen is not None

    def again(**options: str) -> Session:
        started = Session(Settings(checkpoint_seconds=0), checkpoint=checkpoint)
        declare(started)
        started.query("q", QUERY, jit="off", **options)
        return started

    session._runner.abandon()
    other = again(replan="off")
    assert "tree: (a b c)" in other.stats()["plan"]["q"].splitlines()
    other._runner.abandon()
    restarted = again()
    (kept,) = restarted.pipeline.planner.watches.values()
    assert kept.group.tree == watch.group.tree and kept.group.config.orders == watch.group.config.orders
    assert kept.seen == watch.seen and (kept.samples, kept.quiet_until) == (watch.samples, watch.quiet_until)
    assert restarted.stats()["migrations"] == moves
    # What was seen fades by the same rule as without the restart: the flip is followed as quickly.
    for epoch in range(8, 20):
        push(restarted, epoch, True, lots)
        restarted.step()
    assert [move["to"] for move in restarted.stats()["migrations"]] == ["((a b) c)", "((a c) b)"]
