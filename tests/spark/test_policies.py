"""A toy policy on shards: rows that it knows to be hopeless are left out and counted, and no answer changes."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.operators.join.registry import ALLOWED
from eddyline.runtime.sharded.shard import engines
from eddyline.settings import Settings
from eddyline.tuning import SchedulingTuning, SharingTuning, Tuning
from tests.operators.hopeless import HOPELESS, Hopeless
from tests.property.compare import plain_rows
from tests.spark.simulated import Simulated

NAME = "tests.operators.hopeless:hopeless"
#: Shared joins of several windows, a self-join over the same keys and a join of three; schedules begin with one row.
TUNING = Tuning(scheduling=SchedulingTuning(least_rows=1, least_batch=2), sharing=SharingTuning(many_queries=4))
PAIR = "SELECT a.v AS x, b.v AS y FROM a [RANGE {0} SECONDS], b [RANGE {0} SECONDS] WHERE a.k = b.k"
QUERIES = {
    **{f"q{n}": PAIR.format(n + 1) for n in range(5)},
    "beside": PAIR.format(2) + " AND a.v <= b.v + 1000",
    "three": "SELECT a.v AS x, c.v AS y FROM a [RANGE 2 SECONDS], b [RANGE 1 SECOND], c [ROWS 50] WHERE a.k = b.k AND b.k = c.k",
}
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, NAME)


def batches() -> list[dict[str, pa.Table]]:
    """Keys that meet, and a third of hopeless ones, which are others in each stream."""
    random = Random(7)
    found = []
    for epoch in range(4):
        tables = {}
        for place, name in enumerate("abc", 1):
            times = sorted(random.randrange(1_000_000) + epoch * 1_000_000 for _ in range(60))
            keys = [
                HOPELESS * place + random.randrange(5) if random.random() < 0.33 else random.randrange(8) for _ in times
            ]
            tables[name] = pa.table([keys, [random.randrange(100) for _ in times], times], schema=SCHEMA)
        found.append(tables)
    return found


def statements(scheduler: str, folder: Path | None = None) -> str:
    made = [f"SET scheduler = '{scheduler}'", "SET replan = 'off'"]
    for name in "abc":
        files = "" if folder is None else f", path = '{folder}/{name}', files_per_batch = 1"
        made.append(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts'{files})")
    return ";\n".join([*made, *(f"CREATE QUERY {name} AS {sql}" for name, sql in QUERIES.items())])


def simulated(path: Path, policies: tuple[str, ...], scheduler: str) -> tuple[dict[str, list[str]], int]:
    """The results, and how many rows the policy has left out on all shards."""
    settings = Settings(policies=policies, tuning=TUNING)
    job = Simulated(statements(scheduler), str(path), 3, Random(1), forgetful=0.0, settings=settings)
    for tables in batches():
        job.run(tables)
    job.run(closing=True)
    found = {name: sorted(map(str, plain_rows([job.table(name)]))) for name in QUERIES}
    mine = engines.known(str(path)).values()
    toys = [group.policy(Hopeless) for engine in mine for group in engine.pipeline.groups.values()]  # type: ignore[attr-defined]
    job.close()
    return found, sum(toy.left_out for toy in toys if toy is not None)


@pytest.mark.parametrize("scheduler", ["lwo", "mqt"])
def test_on_shards_without_spark(scheduler: str, tmp_path: Path) -> None:
    plain, none = simulated(tmp_path / "plain", (), scheduler)
    found, left_out = simulated(tmp_path / "toy", (NAME,), scheduler)
    assert found == plain and all(plain.values())
    assert none == 0 and left_out > 100


@pytest.mark.spark
def test_on_spark_itself(spark: Any, tmp_path: Path) -> None:
    for number, tables in enumerate(batches()):
        for name, table in tables.items():
            (tmp_path / name).mkdir(exist_ok=True)
            parquet.write_table(table, tmp_path / name / f"{number}.parquet")
    found = []
    for policies in ((), (NAME,)):
        with Session(
            Settings(policies=policies, tuning=TUNING, shards=2), spark=spark, checkpoint=str(tmp_path / f"c{policies}")
        ) as session:
            session.execute(statements("mqt", tmp_path))
            session.run(once=True, final=False)
            rows = {name: sorted(map(str, session.queries[name].table().to_pylist())) for name in QUERIES}
            found.append((rows, session.stats()["probes"]))
    (plain, before), (with_toy, after) = found
    assert with_toy == plain and all(plain.values())
    # Rows that the policy leaves out probe nothing.
    assert before - after > 100
