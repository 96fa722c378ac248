"""Queries that come to a Spark job and go, through crashes of its driver: Spark is played, everything else is real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import CheckpointProblem, PlanProblem
from eddyline.runtime.control.control_record import add_record, drop_record
from eddyline.runtime.sharded.ingest.control import write_control
from eddyline.runtime.sharded.job.ledger import CONTROL, NOTES, Ledger, LedgerEntry
from eddyline.runtime.sharded.job.roster import created_queries
from eddyline.runtime.sharded.shard import engines
from eddyline.state.sealed import sealed, unsealed
from tests.spark.simulated import Simulated

JOB = """
CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts');
CREATE STREAM t (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts');
CREATE QUERY base AS SELECT s.v AS sv, t.v AS tv FROM s [RANGE 3 SECONDS], t [RANGE 3 SECONDS] WHERE s.k = t.k;
"""
BY_V = "CREATE QUERY by_v AS SELECT s.k AS sk, t.k AS tk FROM s [RANGE 3 SECONDS], t [RANGE 3 SECONDS] WHERE s.v = t.v;"

Open = Callable[..., Simulated]


def rows(*values: tuple[int, int, int]) -> pa.Table:
    k, v, ts = zip(*values, strict=True)
    return pa.table({"k": k, "v": v, "ts": pa.array([t * 1_000_000 for t in ts], pa.timestamp("us"))})


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def begin(text: str = JOB, shards: int = 3, seed: int = 0) -> Simulated:
        return Simulated(text, str(tmp_path / "ck"), shards, Random(seed))

    return begin


def both(job: Simulated, first: int, last: int, keys: int = 2) -> None:
    job.run({name: rows(*((i % keys, i % 3, i) for i in range(first, last))) for name in "st"})


def test_a_query_with_another_routing_comes_and_goes(opened: Open) -> None:
    job = opened()
    both(job, 0, 5)
    job.add(BY_V)
    job.settle()
    assert job.listed()["by_v"] == ("running", 4_000_000, None)
    both(job, 5, 9)
    job.drop("by_v")
    job.settle()
    # Rows at the stop wait for the frontier: the query still owes their results.
    assert job.listed()["by_v"] == ("stopping", 4_000_000, 8_000_000)
    both(job, 9, 14)
    assert job.listed()["by_v"] == ("dropped", 4_000_000, 8_000_000)
    job.run(closing=True)
    expected = sorted(
        (a % 2, b % 2, max(a, b) * 1_000_000)
        for a in range(5, 9)
        for b in range(5, 9)
        if a % 3 == b % 3 and abs(a - b) <= 3
    )
    found = job.table("by_v")
    assert (
        sorted(zip(*(found.column(c).cast(pa.int64()).to_pylist() for c in ("sk", "tk", "_ts")), strict=True))
        == expected
    )
    pairs = [(a, b) for a in range(14) for b in range(14) if a % 2 == b % 2 and abs(a - b) <= 3]
    assert job.table("base").num_rows == len(pairs)
    assert "by_v" not in job.driver.delivery.schemas and "by_v" not in job.driver.roster.layout.by_name


def test_a_bad_record_is_refused_and_the_job_runs_on(opened: Open) -> None:
    job = opened()
    both(job, 0, 5)
    job.add("CREATE QUERY x AS SELECT nothing FROM s")
    job.add(BY_V + "CREATE SINK bad FOR by_v WITH (format='nonsense', path='x')")
    job.add("CREATE QUERY cheap WITH (cpu_budget = '0.000000001 cores') AS " + BY_V.split(" AS ", 1)[1])
    job.drop("nobody")
    job.settle()
    assert sorted(job.folder.state()["refused"]) == ["0", "1", "2", "3"]
    assert set(job.listed()) == {"base"}
    assert set(job.driver.delivery.schemas) == {"base"}
    both(job, 5, 9)


def test_a_job_over_its_budget_is_refused_before_it_runs(opened: Open) -> None:
    with pytest.raises(PlanProblem, match="CPU budget"):
        opened(JOB.replace("CREATE QUERY base", "SET cpu_budget = '0.000000001 cores'; CREATE QUERY base"))


def test_a_name_is_free_when_its_query_has_gone(opened: Open) -> None:
    job = opened()
    both(job, 0, 5)
    job.add("CREATE QUERY q AS SELECT v FROM s WHERE k = 0")
    job.settle()
    both(job, 5, 9)
    job.drop("q")
    job.settle()
    job.add("CREATE QUERY q AS SELECT v FROM s WHERE k = 1")
    job.settle()
    assert "still has results" in job.folder.state()["refused"]["2"]
    both(job, 9, 12)
    job.add("CREATE QUERY q AS SELECT k, v FROM s WHERE k = 1")
    job.sinks.pop("q")
    job.settle()
    assert job.listed()["q"] == ("running", 11_000_000, None)
    both(job, 12, 14)
    job.run(closing=True)
    assert job.table("q").to_pydict()["v"] == [13 % 3]


def test_a_restart_with_an_edited_job(opened: Open) -> None:
    job = opened()
    both(job, 0, 5)
    job.add(BY_V)
    job.settle()
    edited = JOB.replace("base", "other") + "CREATE QUERY third AS SELECT v FROM t;"
    job.start(edited)
    job.settle()
    # What was added to the running job stays; what the file no longer has is dropped, with what it still owes.
    states = job.listed()
    assert states["by_v"] == ("running", 4_000_000, None)
    assert states["base"] == ("stopping", None, 4_000_000)
    assert states["third"] == states["other"] == ("running", 4_000_000, None)
    with pytest.raises(CheckpointProblem, match="still has results"):
        job.start(JOB)
    both(job, 5, 9)
    assert job.listed()["base"] == ("dropped", None, 4_000_000)
    job.run(closing=True)
    assert job.table("base").num_rows == len(
        [1 for a in range(5) for b in range(5) if a % 2 == b % 2 and abs(a - b) <= 3]
    )
    assert job.table("third").column("v").to_pylist() == [i % 3 for i in range(5, 9)]
    with pytest.raises(CheckpointProblem, match="another text"):
        job.start(edited.replace("SELECT v FROM t", "SELECT k FROM t"))
    with pytest.raises(CheckpointProblem, match="stream t"):
        job.start(edited.replace("CREATE STREAM t (k BIGINT, v BIGINT", "CREATE STREAM t (k BIGINT, v DOUBLE"))
    # Put back later it is a new query of its old name.
    job.start(edited + JOB.splitlines()[3])
    job.settle()
    assert job.listed()["base"] == ("running", 8_000_000, None)


def test_what_was_dropped_by_name_stays_dropped(opened: Open) -> None:
    job = opened()
    both(job, 0, 5)
    job.drop("base")
    job.settle()
    both(job, 5, 9)
    job.run()
    assert job.listed()["base"][0] == "dropped"
    job.start()
    both(job, 9, 12)
    job.run(closing=True)
    assert job.listed()["base"][0] == "dropped" and "base" not in Ledger.read(job.checkpoint).routed


def test_records_that_were_written_while_nobody_ran(opened: Open) -> None:
    job = opened()
    both(job, 0, 5)
    job.add(BY_V)
    job.drop("base")
    job.start()
    both(job, 5, 9)
    assert job.listed()["by_v"] == ("running", 4_000_000, None)
    assert job.listed()["base"] == ("dropped", None, 4_000_000)


def test_rows_windows_begin_to_count_and_cease(opened: Open) -> None:
    """A stream is counted on all shards only while a ROWS window reads it."""
    job = opened()
    both(job, 0, 5)
    job.add("CREATE QUERY last AS SELECT s.v AS sv, t.v AS tv FROM s [ROWS 2], t [ROWS 2] WHERE s.k = t.k")
    job.settle()
    both(job, 5, 9)
    job.drop("last")
    job.settle()
    both(job, 9, 14)
    both(job, 14, 16)
    job.run(closing=True)
    # A row of s comes before that of t of the same time: it meets the two before.
    met = [(n, m) for n in range(5, 9) for m in (n - 1, n - 2)] + [(m, n) for n in range(5, 9) for m in (n, n - 1)]
    expected = [(a % 3, b % 3) for a, b in met if min(a, b) >= 5 and a % 2 == b % 2]
    assert sorted(zip(*(job.table("last").column(c).to_pylist() for c in ("sv", "tv")), strict=True)) == sorted(
        expected
    )
    assert job.table("base").num_rows == len(
        [1 for a in range(16) for b in range(16) if a % 2 == b % 2 and abs(a - b) <= 3]
    )


THREE = """
CREATE STREAM a (x BIGINT, y BIGINT, n BIGINT, ts TIMESTAMP) WITH (time='ts');
CREATE STREAM b (x BIGINT, y BIGINT, n BIGINT, ts TIMESTAMP) WITH (time='ts');
CREATE STREAM c (x BIGINT, y BIGINT, n BIGINT, ts TIMESTAMP) WITH (time='ts');
CREATE QUERY q WITH (jit = 'off'{}) AS SELECT a.n AS n, b.n AS m, c.n AS o
  FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND] WHERE a.x = b.x AND a.y = c.y;
"""


def flipping(job: Simulated, epochs: int, crashes: float = 0.0) -> list[list[str]]:
    """Selectivities turn round in the middle; the trees of all shards after every batch."""
    lots, trees = np.random.default_rng(3), []
    for epoch in range(epochs):
        rare, often = (50, 20_000) if epoch >= epochs // 2 else (20_000, 50)
        number = np.arange(epoch * 1000, (epoch + 1) * 1000)
        ts = pa.array(number * 500).cast(pa.timestamp("us"))
        job.run(
            {
                name: pa.table(
                    {"x": lots.integers(0, rare, 1000), "y": lots.integers(0, often, 1000), "n": number, "ts": ts}
                )
                for name in "abc"
            },
            crashes=crashes,
        )
        kept = [engine.pipeline for engine in engines.known(job.checkpoint).values()]  # type: ignore[attr-defined]
        # After a crash there may be none in memory: then nothing has changed since.
        trees.append([str(group.tree) for pipeline in kept for group in pipeline.groups.values()] or trees[-1])
    job.run(closing=True)
    return trees


def test_one_decision_for_all_shards(opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    job = opened(THREE.format(""), shards=2)
    trees = flipping(job, 20)
    assert all(len(set(shards)) == 1 for shards in trees), "all shards run the same tree after every batch"
    moves = job.driver.roster.replanning.migrations
    assert [(move["from"], move["to"]) for move in moves] == [("(a b c)", "((a b) c)"), ("((a b) c)", "((a c) b)")]
    assert moves[0]["epoch"] < 10 < moves[1]["epoch"] <= 20
    assert all(move["seconds"] > 0 and "costs" in move["reason"] and move["rows_rebuilt"] > 0 for move in moves)
    fixed = Simulated(THREE.format(", replan = 'off'"), str(tmp_path / "fixed"), 2, Random(1))
    flipping(fixed, 20)
    assert fixed.driver.roster.replanning.migrations == []
    assert job.table("q").num_rows > 1000 and sorted(job.table("q").to_pylist(), key=str) == sorted(
        fixed.table("q").to_pylist(), key=str
    )


def test_plans_are_the_same_after_a_crash(opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    job = opened(THREE.format(""), shards=2, seed=5)
    trees = flipping(job, 20, crashes=0.3)
    assert all(len(set(shards)) == 1 for shards in trees)
    assert trees[9][0] == "((0, 1), 2)" and trees[-1][0] == "((0, 2), 1)"


def test_a_silent_stream_holds_no_query_back(opened: Open) -> None:
    job = opened(JOB.replace("CREATE STREAM t (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts'", "CREATE STREAM t (k BIGINT, v BIGINT, "
                             "ts TIMESTAMP) WITH (time='ts', idle='1 second'"))  # fmt: skip
    job.run({"s": rows(*((0, i, i) for i in range(5)))})
    job.add("CREATE QUERY ones AS SELECT v FROM s; " + BY_V)
    job.settle()
    job.run({"s": rows(*((0, i, i) for i in range(5, 9)))})
    # A query over s alone has no use for t; those over both wait.
    assert job.table("ones").column("v").to_pylist() == [5, 6, 7]
    assert job.driver.progress.waiting >= 9 and job.driver.progress.frontiers == {"s+t": None, "s": 8_000_000}
    write_control(job.checkpoint, {"idle": ["t"]})
    job.settle()
    # The heartbeat alone moves the frontier; the row at it waits.
    assert job.table("ones").column("v").to_pylist() == [5, 6, 7]
    assert job.driver.progress.frontier == 8_000_000 and job.driver.progress.waiting >= 1
    job.drop("ones")
    job.settle()
    job.run({"s": rows((0, 9, 9), (0, 10, 10))})
    assert job.listed()["ones"] == ("dropped", 4_000_000, 8_000_000)
    assert job.table("ones").column("v").to_pylist() == [5, 6, 7, 8]
    # It speaks again: what lies below the frontier is late, the rest is answered.
    job.run({"t": rows((0, 9, 9), (0, 10, 10), (0, 12, 12)), "s": rows((0, 12, 12))})
    job.run(closing=True)
    assert job.dead["t"][0].num_rows == 1
    assert sorted(job.table("by_v").column("_ts").cast(pa.int64()).to_pylist()) == [10_000_000, 12_000_000]


def test_state_of_another_form_is_refused(opened: Open) -> None:
    job = opened()
    both(job, 0, 5)
    job.header(0).write_bytes(sealed(unsealed(job.header(0).read_bytes()) | {"format": 99}))
    engines.forget(job.checkpoint)
    with pytest.raises(CheckpointProblem, match="format 99"):
        both(job, 5, 9)


@pytest.mark.parametrize("what", ["header", "block"])
def test_a_changed_byte_in_the_state_of_a_shard_is_noticed(opened: Open, what: str) -> None:
    job = opened()
    both(job, 0, 5)
    header, *blocks = job.driver.batches.heads.read(job.batch - 1).state[0]
    path = Path(job.driver.batches.heads.objects.path(header if what == "header" else blocks[0]))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    engines.forget(job.checkpoint)
    with pytest.raises(CheckpointProblem, match="is damaged") as refused:
        both(job, 5, 9)
    assert str(path) in refused.value.message and "of shard 0" in refused.value.detail


def test_the_names_of_new_queries_are_read_from_statements_not_from_words() -> None:
    sql = "CREATE QUERY \"Mine\" AS SELECT v AS other FROM t; CREATE SINK old FOR mine WITH (format='memory')"
    assert created_queries(add_record(sql)) == {"mine"}
    assert created_queries(drop_record(["mine"])) == created_queries(add_record("CREATE QUERY")) == set()


def test_queries_that_have_gone_take_bounded_space(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path), shards=2, refused={})
    for number in range(3 * NOTES):
        ledger.refuse(number, "no")
    for number in range(3 * NOTES):
        entry = LedgerEntry(
            "SELECT 1", "CREATE QUERY", origin=CONTROL, dropped_by=CONTROL, state="dropped", gone=number, final=True
        )
        ledger.queries[f"q{number}"] = entry
    ledger.queries["of_the_job"] = LedgerEntry("SELECT 1", dropped_by=CONTROL, state="dropped", gone=1, final=True)
    ledger.queries["runs"] = LedgerEntry("SELECT 1", origin=CONTROL)
    ledger.forget_oldest()
    left = set(ledger.queries)
    assert left == {"of_the_job", "runs", *(f"q{number}" for number in range(2 * NOTES, 3 * NOTES))}
    assert (
        ledger.queries["runs"].text
        and not ledger.queries[f"q{2 * NOTES}"].text
        and min(map(int, ledger.refused)) == 2 * NOTES
    )
