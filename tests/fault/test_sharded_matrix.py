"""The crash matrix of the protocol of batches on several shards: the driver dies at every operation that changes a
file, torn writes included, in one process and without Spark.

Results are compared with those of the embedded engine over the same epochs, never with those of the protocol itself:
in a sink in memory, and in result files, of which shards write some and the driver others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.connectors.results.output import shared_writer
from eddyline.errors import CheckpointProblem
from eddyline.runtime.sharded.job.ledger import Ledger
from eddyline.runtime.sharded.shard import engines
from eddyline.runtime.sharded.storage.heads import SEGMENTS, object_name
from eddyline.settings import Settings
from eddyline.tuning import OutputTuning, Tuning
from tests.property.compare import plain_rows
from tests.seeds import cases, first_seed
from tests.spark.simulated import Crash, Simulated

ROWS, BATCHES, LATER = 60, 5, 2
#: Some shards and batches have more results, others fewer.
SHARD_FILE_BYTES = 4500
STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '5 milliseconds'{{}});"
    for name in "ab"
)
QUERIES = """
CREATE QUERY pairs AS SELECT a.v AS x, b.v AS y FROM a [RANGE 60 MILLISECONDS], b [RANGE 60 MILLISECONDS] WHERE a.k = b.k;
CREATE QUERY sums AS SELECT window_end, k, COUNT(*) AS n, SUM(v) AS v FROM a GROUP BY TUMBLE(ts, '50 milliseconds'), k EMIT ON CLOSE;
CREATE QUERY best AS SELECT v, k FROM b QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) <= 2;
CREATE QUERY lone AS SELECT a.v AS x, b.v AS y FROM a [RANGE 20 MILLISECONDS] a LEFT JOIN b [RANGE 20 MILLISECONDS] b ON a.k = b.k;
CREATE QUERY recent AS SELECT k, COUNT(DISTINCT v) AS n, MAX(v) AS v FROM a [RANGE 60 MILLISECONDS] GROUP BY k EMIT EVERY 20 MILLISECONDS;
CREATE QUERY places AS SELECT k, SUM(v) AS v FROM b [PARTITION BY k ROWS 3] GROUP BY k EMIT EVERY 20 MILLISECONDS;
CREATE QUERY before AS SELECT v, lag(v) OVER (PARTITION BY k ORDER BY ts) AS w FROM b;
"""
LATE = "CREATE QUERY late AS SELECT v, k FROM a WHERE v % 3 = 0"
NAMES = ("pairs", "sums", "best", "lone", "recent", "places", "before", "late")


def batches() -> list[dict[str, pa.Table]]:
    """Rows out of order, and some that are late."""
    lots, found = np.random.default_rng(3), []
    for number in range(BATCHES):
        tables = {}
        for name in "ab":
            v = np.arange(number * ROWS, (number + 1) * ROWS)
            back = np.where(lots.random(ROWS) < 0.05, 30_000, lots.integers(0, 4_000, ROWS))
            ts = pa.array(np.maximum(v * 1000 - back, 0)).cast(pa.timestamp("us"))
            tables[name] = pa.table({"k": lots.integers(0, 6, ROWS), "v": v, "ts": ts})
        found.append(tables)
    return found


@pytest.fixture(scope="module")
def right() -> dict[str, list[str]]:
    """The results of one engine, and its dead letters."""
    with Session() as session:
        session.execute(STREAMS.format(*[", format = 'memory'"] * 2) + QUERIES)
        for number, tables in enumerate(batches()):
            if number == LATER:
                session.execute(LATE)
            for name, rows in tables.items():
                session.push(name, rows)
            session.step()
        session.run(once=True, final=False)
        found = {name: in_one_order([session.queries[name].table()]) for name in NAMES}
        found["dead"] = letters([session.dead_letters(name) for name in "ab"])
    assert all(found.values()), {name: len(rows) for name, rows in found.items()}
    return found


def in_one_order(tables: list[pa.Table]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in plain_rows([t for t in tables if t.num_rows]))


def letters(tables: list[pa.Table]) -> list[str]:
    return sorted(f"{row['v']} {row['_reason']}" for row in plain_rows(tables))


class Strikes:
    """Dies at operations with some numbers, counted over the whole life."""

    def __init__(self, *at: int) -> None:
        self.at, self.done, self.said = set(at), 0, ""
        #: Nothing happens any more until the next start.
        self.is_dead = False

    def begin_again(self) -> None:
        # What its threads had still to do is not done.
        shared_writer().wait()
        self.is_dead = False

    def operation(self, kind: str, path: Any) -> bool:
        self.done += 1
        self.said = f"operation {self.done}: {kind} {path}"
        return self.done in self.at


@contextmanager
def striking(strikes: Strikes, folder: Path) -> Iterator[None]:
    """Operations below a folder are counted, and struck: a write after half of it, everything else before it happens."""
    kept = {name: getattr(os, name) for name in ("open", "write", "fsync", "replace", "unlink", "remove", "mkdir")}
    mine: dict[int, str] = {}

    def struck(name: str) -> Any:
        def call(first: Any, *rest: Any, **more: Any) -> Any:
            path = mine.get(first) if isinstance(first, int) else str(first)
            counts = path is not None and path.startswith(str(folder))
            counts &= name != "open" or bool(rest and rest[0] & (os.O_CREAT | os.O_APPEND))
            if counts and strikes.is_dead:
                raise Crash("it is dead already")
            if counts and strikes.operation(name, path):
                strikes.is_dead = True
                if name == "write":
                    kept["write"](first, bytes(rest[0])[: len(rest[0]) // 2])
                raise Crash(strikes.said)
            found = kept[name](first, *rest, **more)
            if name == "open":
                mine[found] = str(first)
            return found

        return call

    for name in kept:
        setattr(os, name, struck(name))
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(os, name, function)


def life(folder: Path, strikes: Strikes, shards: int = 2) -> Simulated:
    """A job from its first statement to the end of its streams; after each crash the same goes on."""
    made: list[Simulated] = []
    with striking(strikes, folder / "ck"):
        while not made:
            try:
                made.append(started(folder / "ck", shards, strikes.begin_again))
            except Crash:
                continue
        job = made[0]
        for number, tables in enumerate(batches()):
            if number == LATER:
                # What a user does, who sees that a command was killed.
                while "late" not in Ledger.read(job.checkpoint).queries:
                    try:
                        job.add(LATE)
                    except Crash:
                        restarted(job)
                    settled(job)
            go_on(job, tables)
            settled(job)
        go_on(job, None)
        ended(job)
    return job


def started(checkpoint: Path, shards: int = 2, begins: Callable[[], object] = lambda: None) -> Simulated:
    """A job of which shards write larger results of a batch as files."""
    tuning = replace(Tuning(), output=OutputTuning(shard_file_bytes=SHARD_FILE_BYTES))
    return Simulated(
        STREAMS.format("", "") + QUERIES,
        str(checkpoint),
        shards,
        Random(1),
        settings=Settings(tuning=tuning),
        out=str(checkpoint / "results"),
        begins=begins,
    )


def ended(job: Simulated) -> None:
    while True:
        try:
            return job.end()
        except Crash:
            restarted(job)


def go_on(job: Simulated, tables: dict[str, pa.Table] | None) -> None:
    """`run` starts the driver again where it dies in a batch; in that start it may die again."""
    before = job.batch
    while job.batch == before:
        try:
            job.run(tables, closing=tables is None)
        except Crash:
            engines.forget(job.checkpoint)
            restarted(job)


def settled(job: Simulated) -> None:
    while True:
        try:
            return job.settle()
        except Crash:
            engines.forget(job.checkpoint)
            restarted(job)


def restarted(job: Simulated) -> None:
    while True:
        try:
            return job.start()
        except Crash:
            continue


def check(job: Simulated, right: dict[str, list[str]], what: str) -> None:
    assert Ledger.read(job.checkpoint).refused == {}
    found = {name: in_one_order([job.table(name)]) for name in NAMES}
    found["dead"] = letters([table for tables in job.dead.values() for table in tables])
    for name in NAMES:
        # Each row is in one file; nothing else is left.
        files = job.files(name)
        assert in_one_order([parquet.read_table(path) for path in files]) == right[name], f"{what}: files of {name}"
        left = {path.name for path in files[0].parent.iterdir()} - {path.name for path in files}
        assert left <= {".places"}, f"{what}: {left}"
    for name, wanted in right.items():
        assert found[name] == wanted, f"{what}: {name} has {len(found[name])} rows, should have {len(wanted)}"
    job.close()


def count(folder: Path, right: dict[str, list[str]]) -> int:
    whole = Strikes()
    check(life(folder, whole), right, "without a crash")
    return whole.done


def test_a_part_of_the_matrix(tmp_path: Path, right: dict[str, list[str]]) -> None:
    operations = count(tmp_path / "whole", right)
    assert operations > 300
    random = Random(first_seed(1))
    for at in sorted(random.sample(range(1, operations + 1), cases(60))):
        strikes = Strikes(at, at + random.randrange(1, 40))
        check(life(tmp_path / str(at), strikes, random.choice((1, 2, 3))), right, f"{at}: {strikes.said}")


@pytest.mark.long
def test_the_whole_matrix(tmp_path: Path, right: dict[str, list[str]]) -> None:
    operations = count(tmp_path / "whole", right)
    for at in range(1, operations + 1):
        strikes = Strikes(at)
        check(life(tmp_path / str(at), strikes), right, str(at))
    print(f"{operations} operations, each struck once")


def struck_after_head(folder: Path) -> Simulated:
    """A job whose driver died between the manifest of a batch and its commit."""
    job = started(folder)
    for tables in batches()[:2]:
        heard = job.heard
        job.run(tables)
    job.batch, job.control_range = job.batch - 1, (heard, job.heard)
    os.unlink(folder / "commits" / str(job.batch))
    return job


def test_a_batch_that_counts_is_delivered_again_without_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = struck_after_head(tmp_path)
    before = job.table("pairs").to_pylist()
    job.start(STREAMS.format("", "") + QUERIES + LATE + ";")
    monkeypatch.setattr("eddyline.runtime.sharded.phases.Phases.step", None)
    job.run(batches()[1])
    assert before and job.table("pairs").to_pylist() == before
    monkeypatch.undo()
    # A query that the job's file has now begins with the next batch.
    job.run(batches()[2])
    job.run(closing=True)
    later = [row["v"] for row in job.table("late").to_pylist()]
    assert later and min(later) >= ROWS
    job.close()


def test_another_input_for_a_batch_that_counts_ends_the_job(tmp_path: Path) -> None:
    """As a power cut leaves it that took `offsets/N`, and not heads/N."""
    job = struck_after_head(tmp_path)
    job.start()
    with pytest.raises(CheckpointProblem, match="batch 1 has another input than when it ran"):
        job.run(batches()[2], closing=True)
    job.close()


def test_old_segments_and_those_of_lost_attempts_go(tmp_path: Path) -> None:
    job = started(tmp_path)
    heads, most = job.driver.batches.heads, 0
    for number in range(140):
        # An attempt that was overtaken, or whose machine was lost.
        heads.objects.write({f"{object_name(0, number, 'lost')}-0": b"nothing"})
        job.run({name: rows.slice(number % ROWS, 3) for name, rows in batches()[0].items()})
        most = max(most, len(heads.objects.names(SEGMENTS)))
    left = heads.objects.names(SEGMENTS)
    needed = {name for batch in (job.batch - 1, job.batch - 2) for name in heads.read(batch).named}  # type: ignore[union-attr]
    lost = [name for name in left if "lost" in name]
    assert needed <= {*left} and {*left} == needed | {*lost}
    assert len(lost) <= 64 and most <= len(needed) + 90
    assert len(heads.objects.names("heads")) == 2
    job.close()
