"""Aggregates: any query equals the oracle, also when every epoch ends with a restart; sums equal DuckDB's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.runtime.engine.handout import PipelineHooks
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.recovery.snapshot import restore, saved_queries, take_snapshot
from tests.oracle.aggregation import apply_changelog, is_aggregate
from tests.property.compare import Outcome, differences, plain_rows, report
from tests.property.embedded import run_embedded
from tests.property.specs import Case, expected, maybe_ended
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed

BLOCK = 25
BLOCKS = cases(4, soak=8)
#: Far from the seeds of the tests over all queries.
FIRST = first_seed(700_000)


def aggregate_cases(first: int) -> Iterator[tuple[int, Case]]:
    """Random cases with at least one aggregate, by seed."""
    for seed in count(first):
        case = random_case(Random(seed))
        if any(is_aggregate(case.query(q)) for q in case.queries):
            yield seed, case


class Blocks:
    """The blocks of checkpoints, as files would hold them: a name that is there is not written again."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.written = 0

    def save(self, pipeline: Pipeline) -> str:
        snapshot = take_snapshot(pipeline)
        for name, make in snapshot.blocks.items():
            if name not in self.held:
                table = make()
                sink = pa.BufferOutputStream()
                with pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
                self.held[name] = sink.getvalue().to_pybytes()
                self.written += len(table)
        self.held = {name: self.held[name] for name in snapshot.blocks}
        return json.dumps(snapshot.header)

    def load(self, name: str) -> pa.Table:
        return pa.ipc.open_file(self.held[name]).read_all()


def restarted(session: Session, blocks: Blocks) -> None:
    """Put another pipeline in the place of the session's, opened from a snapshot."""
    old = session.driver.pipeline
    header = json.loads(blocks.save(old))
    hooks = PipelineHooks(session.driver.delivery.listening, bundles=True)
    new = Pipeline(session.job.streams, session.job.settings, hooks=hooks)
    for name, rows in old.tables.items():
        new.add_table(old.table_schemas[name], rows)
    for query in session.job.queries:
        known = saved_queries(header)
        new.add_query(query, known[query.name]["start"], known[query.name]["slot"], known)
    restore(new, header, blocks.load)
    roster = session.driver.roster
    session.driver.pipeline = roster.pipeline = new
    own = roster._own
    roster._own = partial(own.func, *own.args[:2], new.queries, *own.args[3:])


def run_restarted(case: Case) -> Outcome:
    """As `run_embedded`, with a restart after every epoch."""
    blocks = Blocks()
    return run_embedded(case, lambda session: restarted(session, blocks))


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_engine_equals_oracle_and_restarts_change_nothing(block: int) -> None:
    for seed, case in islice(aggregate_cases(FIRST + 1000 * block), BLOCK):
        try:
            case = maybe_ended(case, seed)
            truth = expected(case)
            straight, broken = run_embedded(case), run_restarted(case)
            for query in case.queries:
                if is_aggregate(case.query(query)):
                    assert _sorted(straight.results[query.name]) == _sorted(broken.results[query.name])
            for outcome in (straight, broken):
                found = differences(case, outcome, truth)
                assert not found, report(case, found)
        except Exception as problem:
            raise AssertionError(f"random_case(Random({seed}))") from problem


def _sorted(rows: list[dict[str, object]]) -> list[str]:
    """Rows of one instant in any order."""
    return sorted(repr((row["_ts"], row)) for row in rows)


def test_large_sums_with_retraction_equal_duckdb() -> None:
    """Values around 1e9 among others of 1e16 that come and go: what remains agrees to 1e-9 with a sum over the live
    rows."""
    draws = np.random.default_rng(3)
    rows = 6_000
    values = draws.normal(1e9, 1.0, rows) + np.where(draws.random(rows) < 0.02, 1e16, 0.0)
    values[draws.random(rows) < 0.01] = np.nan
    values[draws.random(rows) < 0.005] = np.inf
    table = pa.table(
        {
            "k": draws.integers(0, 12, rows),
            "x": pa.array(values, mask=draws.random(rows) < 0.05),
            "n": draws.integers(-(10**9), 10**9, rows),
            "ts": pa.array(np.sort(draws.integers(0, 60_000_000, rows))).cast(pa.timestamp("us")),
        }
    )
    found, instants = _changes_and_instants(table)
    stamps = np.asarray(table.column("ts").cast(pa.int64()))
    assert len(instants) > 10
    for now in instants:
        live = table.filter(pa.array((stamps <= now) & (now - stamps <= 2_000_000)))
        right = {row[0]: row for row in _duckdb(live)}
        made = {row["k"]: row for row in apply_changelog(found, ["k"], now).values()}
        assert made.keys() == right.keys()
        for k, row in right.items():
            assert (made[k]["c"], made[k]["d"], made[k]["i"]) == row[4:]
            np.testing.assert_allclose(
                [made[k]["s"] or 0.0, made[k]["m"] or 0.0], [row[1] or 0.0, row[2] or 0.0], rtol=1e-9
            )
            if row[3] is not None and np.isfinite(row[3]) and row[3] < 1e6:
                np.testing.assert_allclose(made[k]["v"], row[3], rtol=1e-6)


def _changes_and_instants(table: pa.Table) -> tuple[list[dict[str, object]], list[int]]:
    with Session() as session:
        session.execute("CREATE STREAM s (k BIGINT, x DOUBLE, n BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.execute(
            "CREATE QUERY q AS SELECT k, SUM(x) AS s, AVG(x) AS m, STDDEV(x) AS v, COUNT(x) AS c, COUNT(DISTINCT n % 7) AS d, SUM(n) AS i "
            "FROM s [RANGE 2 SECONDS] GROUP BY k"
        )
        instants = []
        for first in range(0, len(table), 400):
            session.push("s", table.slice(first, 400))
            session.step()
            assert session.pipeline.frontier is not None
            instants.append(session.pipeline.frontier - 1)
        session.run(once=True, final=False)
        return plain_rows(session.queries["q"].results()), instants


def _duckdb(live: pa.Table) -> list[tuple[float, ...]]:
    with duckdb.connect() as connection:
        connection.register("live", live)
        return connection.execute(
            "SELECT k, sum(x), avg(x), stddev_samp(x), count(x), count(DISTINCT n % 7), sum(n)::BIGINT FROM live GROUP BY k"
        ).fetchall()


def test_a_later_session_continues_from_the_checkpoint(tmp_path: Path) -> None:
    """Two sessions on one checkpoint, with files that come in between: the changes of both make the table over the live
    rows."""
    draws = np.random.default_rng(5)
    (tmp_path / "s").mkdir()
    parts = []
    for part in range(4):
        ts = np.sort(draws.integers(0, 30_000_000, 2_000)) + part * 30_000_000
        columns = {
            "k": draws.integers(0, 15, 2_000),
            "x": draws.normal(0.0, 1e9, 2_000),
            "n": draws.integers(0, 99, 2_000),
        }
        parts.append(pa.table({**columns, "ts": pa.array(ts).cast(pa.timestamp("us"))}))
    changes: list[dict[str, object]] = []
    for arriving in ((0,), (1, 2), (3,)):
        for part in arriving:
            parquet.write_table(parts[part], tmp_path / "s" / f"{part}.parquet")
        with Session(checkpoint=str(tmp_path / "checkpoint")) as session:
            session.execute("SET epoch_rows = 300")
            session.execute("SET checkpoint_seconds = 0")
            source = f"format='parquet', path='{tmp_path}/s', time='ts'"
            session.execute(f"CREATE STREAM s (k BIGINT, x DOUBLE, n BIGINT, ts TIMESTAMP) WITH ({source})")
            session.execute(
                "CREATE QUERY q AS SELECT k, SUM(x) AS s, AVG(x) AS m, STDDEV(x) AS v, COUNT(x) AS c, COUNT(DISTINCT n % 7) AS d, "
                "SUM(n) AS i, MIN(x) AS low, MAX(n) AS high FROM s [RANGE 2 SECONDS] GROUP BY k"
            )
            session.run(once=True, final=False)
            changes += plain_rows(session.queries["q"].results())
        now = int(np.asarray(parts[arriving[-1]].column("ts").cast(pa.int64()))[-1])
        made = {row["k"]: row for row in apply_changelog(changes, ["k"], now).values()}
        everything = pa.concat_tables(parts[: arriving[-1] + 1])
        live = everything.filter(pa.array(np.asarray(everything.column("ts").cast(pa.int64())) >= now - 2_000_000))
        assert made.keys() == {row[0] for row in _duckdb(live)}
        for k, total, mean, deviation, *counts in _duckdb(live):
            assert [made[k]["c"], made[k]["d"], made[k]["i"]] == counts
            np.testing.assert_allclose([made[k]["s"], made[k]["m"]], [total, mean], rtol=1e-9)
            assert deviation is None or made[k]["v"] == pytest.approx(deviation, rel=1e-9)
            mine = live.filter(pa.array(np.asarray(live.column("k")) == k))
            assert (made[k]["low"], made[k]["high"]) == (
                min(mine.column("x").to_pylist()),
                max(mine.column("n").to_pylist()),
            )
