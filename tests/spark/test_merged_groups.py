"""Groups whose parts lie on several shards: merged when their bucket closes, the results are those of one place, bit
for bit."""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.language import bind_script
from eddyline.plan.shards.routing import Record
from eddyline.plan.shards.shares import route_all
from tests.oracle.expressions import Agg, Call, Col, Expression, Lit, type_of
from tests.oracle.intake import Values
from tests.oracle.relational import Emit, Range
from tests.property.compare import differences, report
from tests.property.embedded import run_embedded
from tests.property.specs import Case, QuerySpec
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed
from tests.spark.sharded import case_layout, run_sharded
from tests.spark.simulated import Simulated

CASES = cases(40)
FIRST = first_seed(900_000)
#: In microseconds.
UNITS = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000}


def closing_case(seed: int) -> Case:
    """A random case whose queries count, add up and compare, bucket by bucket."""
    rng = Random(seed)
    case = random_case(rng)
    stamps = [row[[name for name, _ in s.columns].index(s.time)] for s in case.streams for row in _rows(case, s.name)]
    times = [ts for ts in stamps if ts is not None]
    span = max(times, default=0) - min(times, default=0)
    unit = next((name for name, size in reversed(UNITS.items()) if span // size >= 3), "microsecond")
    return replace(case, queries=tuple(_closing(rng, case, spec, unit) for spec in case.queries))


def _rows(case: Case, stream: str) -> list[tuple]:
    return [row for epoch in case.arrivals for name, rows in epoch if name == stream for row in rows]


def _closing(rng: Random, case: Case, spec: QuerySpec, unit: str) -> QuerySpec:
    columns = [Col(r.alias, name, kind) for r in spec.references for name, kind in case.source(r.source).columns]
    streams = [r for r in spec.references if r.window is not None]
    moving = rng.choice(streams)
    if len(streams) > 1 and not isinstance(moving.window, Range):
        # In a join a bucket closes by the RANGE of its reference.
        closing = replace(moving, window=Range(3 * UNITS[unit]))
        spec = replace(spec, references=tuple(closing if r is moving else r for r in spec.references))
    time = Col(moving.alias, case.source(moving.source).time, "TIMESTAMP")
    buckets = (
        Call(f"date_trunc:{unit}", (time,)),
        Call("//", (Call("epoch_us", (time,)), Lit(3 * UNITS[unit], "BIGINT"))),
        Call(f"date_trunc:{unit}", (Call("+", (time, Lit(UNITS[unit] // 2 + 1, "INTERVAL"))),)),
    )
    times = tuple(
        Col(r.alias, case.source(r.source).time, "TIMESTAMP") for r in spec.references if r.window is not None
    )
    groups: list[Expression] = [rng.choice(buckets)]
    groups += rng.sample(columns, rng.choice((0, 0, 1)))
    aggregates = [_aggregate(rng, columns, times) for _ in range(rng.randint(1, 4))]
    having = (
        Call(rng.choice((">", "<=", "<>")), (Agg("COUNT"), Lit(rng.choice((0, 1, 2)), "INT")))
        if rng.random() < 0.3
        else None
    )
    outputs = [(f"g{i}", e) for i, e in enumerate(dict.fromkeys(groups))] + [
        (f"m{i}", e) for i, e in enumerate(aggregates)
    ]
    return replace(
        spec,
        outputs=tuple(outputs),
        group_by=tuple(dict.fromkeys(groups)),
        having=having,
        distinct=False,
        emit=Emit("close"),
    )


def _aggregate(rng: Random, columns: list[Col], times: tuple[Col, ...]) -> Expression:
    column = rng.choice(columns)
    kinds = ["COUNT"] + ["MIN", "MAX"] * (type_of(column) != "BOOLEAN")
    if type_of(column).split("(")[0] in ("INT", "BIGINT", "DOUBLE", "DECIMAL"):
        kinds += ["SUM", "AVG", "STDDEV"] if "38" not in column.type else ["SUM", "AVG"]
    if rng.random() < 0.15:
        return Agg(rng.choice(("ARG_MIN", "ARG_MAX")), rng.choice(columns), by=column, times=times)
    return (
        Agg("COUNT")
        if rng.random() < 0.2
        else Agg(kind := rng.choice(kinds), column, kind not in ("MIN", "MAX") and rng.random() < 0.3)
    )


def exactly(rows: list[Values]) -> Counter:
    """Rows in a form in which equal means the same bits; every NaN alike."""
    return Counter(
        tuple(
            (name, "nan" if v != v else struct.pack("d", v)) if isinstance(v, float) else (name, v)
            for name, v in row.items()
        )
        for row in rows
    )


@pytest.mark.property
def test_shards_that_keep_parts_give_what_one_pipeline_gives() -> None:
    merged = closed = 0
    for seed in range(FIRST, FIRST + CASES):
        case, shards = closing_case(seed), 2 + seed % 4
        routings = case_layout(replace(case, tables=()), shards, ".").routing.routings if not case.tables else {}
        found, alone = run_sharded(case, shards, seed), run_embedded(case)
        for name, rows in alone.results.items():
            said = f"closing_case({seed}), {name}\n{case.statements()}"
            assert exactly(found.results[name]) == exactly(rows), said
            stamps = [row["_ts"] for row in found.results[name]]
            assert stamps == sorted(stamps), said
            if name in routings and routings[name].merged:
                merged, closed = merged + 1, closed + len(rows)
        wrong = differences(case, found)
        assert not wrong, report(case, wrong)
    assert merged > CASES // 3 and closed > CASES, "the cases say little"


JOB = """
CREATE STREAM s (k BIGINT, v DOUBLE, w DECIMAL(12,2), name STRING, ts TIMESTAMP) WITH (time='ts'{format});
CREATE STREAM t (k BIGINT, ts TIMESTAMP) WITH (time='ts'{format});
CREATE QUERY whole AS
  SELECT date_trunc('second', s.ts) AS sec, COUNT(*) AS n, COUNT(v) AS nv, SUM(v) AS sv, AVG(v) AS av, STDDEV(v) AS dv, SUM(w) AS sw,
         SUM(k) AS sk, MIN(name) AS lo, MAX(name) AS hi, MIN(w) AS lw, MAX(v) - MIN(v) AS span,
         COUNT(DISTINCT name) AS dn, SUM(DISTINCT k) AS dk, AVG(DISTINCT v) AS da, STDDEV(DISTINCT v) AS dd, SUM(DISTINCT w) AS dw
  FROM s GROUP BY date_trunc('second', s.ts) EMIT ON CLOSE;
CREATE QUERY pairs AS
  SELECT date_trunc('second', t.ts) AS sec, s.name, COUNT(*) AS n, SUM(s.v) AS v
  FROM s [RANGE 300 MILLISECONDS], t [RANGE 300 MILLISECONDS] WHERE s.k = t.k
  GROUP BY date_trunc('second', t.ts), s.name HAVING COUNT(*) > 3 EMIT ON CLOSE;
"""


def batches() -> list[dict[str, pa.Table]]:
    """Values that add up to nothing but their last digits, and others that are missing."""
    random = np.random.default_rng(5)
    made = []
    for number in range(6):
        ts = np.arange(number * 400, (number + 1) * 400)
        large = random.choice([1e17, -1e17, 0.1, 3e-5, math.pi], 400)
        s = {
            "k": random.integers(0, 20, 400),
            "v": pa.array(large, mask=random.random(400) < 0.1),
            "w": pa.array(random.integers(-(10**9), 10**9, 400))
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(21, 2))
            .cast(pa.decimal128(12, 2)),
            "name": [None if i % 7 == 0 else f"name {i % 5}" for i in random.integers(0, 100, 400)],
        }
        t = {"k": random.integers(0, 20, 400)}
        made.append(
            {
                name: pa.table(columns | {"ts": pa.array(ts * 2_500).cast(pa.timestamp("us"))})
                for name, columns in (("s", s), ("t", t))
            }
        )
    return made


def alone() -> dict[str, list[Values]]:
    with Session() as session:
        session.execute(JOB.format(format=", format='memory'"))
        for batch in batches():
            for name, rows in batch.items():
                session.push(name, rows)
            session.step()
        session.run(once=True, final=False)
        return {name: query.table().to_pylist() for name, query in session.queries.items()}


@pytest.mark.parametrize("seed", range(3))
def test_merged_through_crashes_and_lost_workers(seed: int, tmp_path: Path) -> None:
    job = Simulated(JOB.format(format=""), str(tmp_path / "ck"), 3, Random(seed))
    assert all(routing.merged and routing.cells == 3 for routing in job.driver.layout.routing.routings.values())
    for batch in batches():
        job.run(batch, crashes=0.3)
    job.run(closing=True, crashes=0.3)
    for name, rows in alone().items():
        assert len(rows) >= 4 and exactly(job.table(name).to_pylist()) == exactly(rows)
    # What is counted are results, not the parts that shards send.
    assert job.driver.progress.results["whole"] <= 6
    job.close()


@pytest.mark.spark
@pytest.mark.long
def test_merged_on_spark(spark, tmp_path: Path) -> None:
    from tests.spark.running import run_script

    for number, batch in enumerate(batches()):
        for name, rows in batch.items():
            (tmp_path / name).mkdir(exist_ok=True)
            parquet.write_table(rows, tmp_path / name / f"{number}.parquet")
    text = JOB.format(format=", format='parquet', files_per_batch=1, path='?'")
    for name in "st":
        text = text.replace("'?'", f"'{tmp_path / name}'", 1)
    driver, found = run_script(spark, text, tmp_path / "checkpoint")
    assert all(routing.merged and routing.cells == 2 for routing in driver.layout.routing.routings.values())
    for name, rows in alone().items():
        assert exactly(found[name].to_pylist()) == exactly(rows)
        assert driver.progress.results[name] == len(rows)


def test_a_query_with_merged_groups_comes_and_goes(tmp_path: Path) -> None:
    text = JOB.format(format="")
    job = Simulated(text[: text.index("CREATE QUERY pairs")], str(tmp_path / "ck"), 2, Random(1))
    given = batches()
    job.run(given[0])
    job.add(text[text.index("CREATE QUERY pairs") :])
    job.settle()
    job.run(given[1])
    job.run(given[2])
    job.drop("pairs")
    job.settle()
    for batch in given[3:]:
        job.run(batch)
    assert job.listed()["pairs"][0] == "dropped"
    # It came at the end of the first second and went before the end of the third.
    assert job.listed()["pairs"][1:] == (997_500, 2_997_500)
    found = job.table("pairs")
    assert set(found.column("_ts").cast(pa.int64()).to_pylist()) == {2_299_999}
    with Session() as session:
        session.execute(text[: text.index("CREATE QUERY pairs")].replace("time='ts'", "time='ts', format='memory'"))
        for number, batch in enumerate(given):
            for name, rows in batch.items():
                session.push(name, rows)
            session.step()
            if number == 0:
                kept = session.query(
                    "pairs", text[text.index("SELECT", text.index("CREATE QUERY pairs")) :].rstrip().rstrip(";")
                )
            if number == 2:
                right = kept.table
                session.drop("pairs")
        assert exactly(found.to_pylist()) == exactly(right().to_pylist())
    job.close()


def test_what_cannot_be_computed_is_counted(tmp_path: Path) -> None:
    """In arguments by the shards, in outputs where the parts are merged."""
    text = JOB.format(format="")
    query = """CREATE QUERY q AS SELECT date_trunc('second', ts) AS sec, SUM(k + 9223372036854775800) AS huge, SUM(1 // (k % 2)) AS odd
               FROM s GROUP BY date_trunc('second', ts) EMIT ON CLOSE;"""
    job = Simulated(text[: text.index("CREATE QUERY whole")] + query, str(tmp_path / "ck"), 3, Random(2))
    with Session() as session:
        session.execute(
            (text[: text.index("CREATE QUERY whole")]).replace("time='ts'", "time='ts', format='memory'") + query
        )
        for batch in batches():
            job.run(batch)
            for name, rows in batch.items():
                session.push(name, rows)
            session.step()
        session.run(once=True, final=False)
        job.run(closing=True)
        right = session.stats()["null_results"]
        assert exactly(job.table("q").to_pylist()) == exactly(session.queries["q"].table().to_pylist())
    assert len(right) >= 1 and job.driver.progress.null_results == right
    job.close()


def routed(text: str, shards: int = 4, records: dict[str, Record] | None = None):
    job = bind_script("CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts', format='memory');" + text)
    return route_all(job.queries, ["s"], {}, shards, records).routings["q"]


def test_groups_are_merged_only_where_that_helps_and_can_be_done() -> None:
    bucket = "date_trunc('second', ts)"
    assert routed(
        f"CREATE QUERY q AS SELECT {bucket} AS b, COUNT(*) AS n FROM s GROUP BY {bucket} EMIT ON CLOSE;"
    ).merged
    keyed = routed(
        f"CREATE QUERY q AS SELECT {bucket} AS b, k, COUNT(*) AS n FROM s GROUP BY {bucket}, k EMIT ON CLOSE;"
    )
    assert not keyed.merged and keyed.cells == 4 and "groups" not in keyed.explain()
    assert routed(
        f"CREATE QUERY q AS SELECT {bucket} AS b, COUNT(DISTINCT v) AS n FROM s GROUP BY {bucket} EMIT ON CLOSE;"
    ).merged
    sliding = routed("CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND];")
    assert not sliding.merged and sliding.cells == 1 and "only EMIT ON CLOSE merges them" in sliding.explain()


def test_a_checkpoint_of_the_first_release_keeps_its_routing() -> None:
    """It was written when every group lived in one shard: its rows lie where that put them."""
    text = "CREATE QUERY q AS SELECT date_trunc('second', ts) AS b, COUNT(*) AS n FROM s GROUP BY date_trunc('second', ts) EMIT ON CLOSE;"
    old = routed(text, records={"q": Record([0, 4], {"s": 0})})
    assert not old.merged and str(old.axes[0]) == "{date_trunc('second', s.ts)}"
