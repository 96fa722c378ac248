"""Positioned records on shards: packers find them, packets carry them, gates hold them, whatever the batches and
crashes."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from eddyline.errors import Unsupported
from eddyline.model.records.records import Records
from eddyline.runtime.engine.records.kinds import ALLOWED
from eddyline.runtime.sharded.job.saying import say, say_now
from tests.property.compare import plain_rows
from tests.runtime.noted import NAME, struck
from tests.runtime.test_records import SECOND, Row, epochs, random_rows, run, statements
from tests.spark.running import check_removed
from tests.spark.simulated import Simulated


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, NAME)


def columns(job: Simulated, stream: str, rows: list[Row]) -> pa.Table:
    layout = job.driver.layout
    return pa.Table.from_pylist(rows, layout.streams[layout.numbers[stream]].schema.arrow)


def gates(job: Simulated) -> list[dict[str, Any]]:
    """The gates of stream `a` in the committed state of the shards."""
    return [header["pipeline"]["gates"]["a"] for header in job.headers()]


@pytest.mark.parametrize("seed", range(8))
def test_shards_take_out_what_one_engine_does(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    lateness = random.choice([0, 2, 4])
    text = statements(lateness, sequence=seed % 4 == 3)
    rows = {"a": random_rows(random, 60, lateness, True), "b": random_rows(random, 60, lateness, False)}
    kept, lost = struck(rows["a"], ("ts", "id") if seed % 4 == 3 else ("ts",))
    wanted, _, _ = run(random, text, {"a": kept, "b": rows["b"]})
    job = Simulated(text, str(tmp_path), 1 + seed % 3, random)
    for epoch in epochs(random, rows):
        job.run({name: columns(job, name, mine) for name, mine in epoch.items() if mine}, crashes=0.2)
    job.run(closing=True)
    for name, results in wanted.items():
        assert sorted(map(str, plain_rows([job.table(name)]))) == sorted(map(str, results)), name
    letters = job.letters("a")
    assert sorted(values["id"] for _, values in letters) == sorted(row["id"] for row in lost)
    assert {reason for reason, _ in letters} <= {"violation: struck"}
    # Each note is counted on one shard, however many hear of it.
    counted = sum(gate["came"].get("note", 0) for gate in gates(job))
    assert counted == sum(row["note"] is not None for row in rows["a"])
    job.close()


def test_what_a_statement_says_reaches_every_shard_once(tmp_path: Path) -> None:
    text = "CREATE STREAM a (k BIGINT, id BIGINT, note STRING, ts TIMESTAMP) WITH (time = 'ts'); CREATE QUERY one AS SELECT id FROM a"
    job = Simulated(text, str(tmp_path), 2, Random(1))
    said = [Records.one("a", "note", 2 * SECOND, {"k": 1, "note": "strike"}, once="statement 1")]
    for _ in range(2):
        say(str(tmp_path), said)
    for n in range(6):
        job.run(
            {"a": columns(job, "a", [{"k": k, "id": 10 * n + k, "note": None, "ts": n * SECOND} for k in (0, 1)])},
            crashes=0.2,
        )
    job.run(closing=True)
    assert sorted(row["id"] for row in plain_rows([job.table("one")])) == [0, 1, 10, 11, 20, 21, 30, 40, 50]
    assert len(job.letters("a")) == 3
    assert sum(gate["came"]["note"] for gate in gates(job)) == 1
    job.close()


def test_what_is_said_while_a_job_runs(tmp_path: Path) -> None:
    """A stream with a note column is whole on every shard; of another one that a ROWS window reads nothing can be said
    any more."""
    job = Simulated(statements(0), str(tmp_path), 2, Random(1))
    for n in range(4):
        job.run({"a": columns(job, "a", [{"k": k, "id": 10 * n + k, "note": None, "ts": n * SECOND} for k in (0, 1)])})
        if n == 1:
            say_now(job.driver.layout, [Records.one("a", "note", 2 * SECOND, {"k": 1, "note": "strike"})])
    with pytest.raises(Unsupported, match="nothing can be said of stream b"):
        say_now(job.driver.layout, [Records.one("b", "note", 2 * SECOND, {"k": 1, "note": "strike"})])
    job.run(closing=True)
    assert [values["id"] for _, values in job.letters("a")] == [31]
    job.close()


@pytest.mark.spark
@pytest.mark.long
def test_on_spark_itself(spark: Any, tmp_path: Path) -> None:
    random = Random(5)
    rows = {"a": random_rows(random, 90, 2, True), "b": random_rows(random, 90, 2, False)}
    kept, lost = struck(rows["a"])
    wanted, _, _ = run(random, statements(2), {"a": kept, "b": rows["b"]})
    check_removed(spark, tmp_path, statements(2, folder=str(tmp_path)), rows, wanted, lost)
