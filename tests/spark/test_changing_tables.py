"""Tables that are read again on Spark: the driver's part with shards simulated, and one job on Spark itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.runtime.sharded.ingest.control import next_control
from eddyline.runtime.sharded.job.ledger import tables_folder
from eddyline.runtime.sharded.job.static_table import files_of
from tests.spark.simulated import Simulated

SECOND = 1_000_000


def write(folder: Path, rate: int) -> None:
    # Under another name first: a table may be read at any moment.
    parquet.write_table(pa.table({"k": [0, 1, 2], "rate": [rate, rate, rate]}), folder / "_rates.parquet")
    (folder / "_rates.parquet").replace(folder / "rates.parquet")


def orders(*at: int) -> pa.Table:
    return pa.table(
        {
            "k": [second % 3 for second in at],
            "v": list(at),
            "ts": pa.array([s * SECOND for s in at]).cast(pa.timestamp("us")),
        }
    )


def text(folder: Path, refresh: str, stream: str) -> str:
    return f"""
        CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP) WITH ({stream}, time = 'ts', lateness = '5 seconds');
        CREATE TABLE rates (k BIGINT, rate BIGINT) WITH (format = 'parquet', path = '{folder}/rates.parquet', refresh = '{refresh}');
        CREATE QUERY q AS SELECT s.v AS v, r.rate AS rate FROM s, rates r WHERE s.k = r.k;
    """


@pytest.mark.parametrize("crashes", [0.0, 0.6])
def test_all_shards_change_at_the_same_instant(tmp_path: Path, crashes: float) -> None:
    write(tmp_path, 0)
    job = Simulated(text(tmp_path, "1 hour", "format = 'memory'"), str(tmp_path / "ck"), 3, Random(7))
    try:
        right = []
        for number in range(8):
            first = 10 * number
            # The last two seconds of each batch wait for the next one, and meet the version that was there when they
            # came.
            job.run({"s": orders(*range(first, first + 10))}, crashes=crashes)
            right += [(v, number) for v in range(first, first + 10)]
            write(tmp_path, number + 1)
            refreshing = job.driver.roster.refreshing
            refreshing.reading.begin([refreshing.tables["rates"].table], resumed=True)
            job.settle(crashes=crashes)
        job.run(closing=True)
        assert sorted((row["v"], row["rate"]) for row in job.table("q").to_pylist()) == right
        assert len(files_of(tables_folder(str(tmp_path / "ck")), "rates")) <= 5
    finally:
        job.close()


def test_files_that_vanish_or_are_half_written_leave_the_old_version_on_all_shards(tmp_path: Path) -> None:
    write(tmp_path, 0)
    job = Simulated(text(tmp_path, "1 hour", "format = 'memory'"), str(tmp_path / "ck"), 3, Random(3))
    file = tmp_path / "rates.parquet"
    whole = file.read_bytes()
    try:
        right = []
        for number, found in enumerate((None, whole[: len(whole) // 2], b"", whole)):
            file.unlink(missing_ok=True)
            if found is not None:
                file.write_bytes(found)
            refreshing = job.driver.roster.refreshing
            refreshing.reading.begin([refreshing.tables["rates"].table], resumed=True)
            job.settle(crashes=0.3)
            job.run({"s": orders(*range(10 * number, 10 * number + 10))}, crashes=0.3)
            right += [(v, 0) for v in range(10 * number, 10 * number + 10)]
            said = [note["statistics"]["further"]["tables"]["rates"] for note in job.driver.progress.notes.values()]
            problems = {one["problem"] for one in said}
            assert len(said) == 3 and len(problems) == 1
            assert ("rates.parquet" in problems.pop()) == (found is not whole)
        job.run(closing=True)
        assert sorted((row["v"], row["rate"]) for row in job.table("q").to_pylist()) == right
    finally:
        job.close()


@pytest.mark.spark
def test_a_job_on_spark_reads_a_table_again(spark, tmp_path: Path) -> None:
    write(tmp_path, 1)
    (tmp_path / "s").mkdir()
    parquet.write_table(orders(1, 2, 3, 20), tmp_path / "s" / "0.parquet")
    with Session(spark=spark, checkpoint=str(tmp_path / "ck")) as session:
        session.set("shards", 2)
        session.execute(text(tmp_path, "1 second", f"format = 'parquet', path = '{tmp_path}/s'"))
        session.start()
        found: list[tuple[int, int]] = []

        def wait_for(holds: Callable[[], bool]) -> None:
            limit = time.monotonic() + 240
            while not holds():
                assert time.monotonic() < limit, found
                time.sleep(0.1)
                found.extend((row["v"], row["rate"]) for row in session.queries["q"].take().to_pylist())

        wait_for(lambda: (3, 1) in found)
        write(tmp_path, 2)
        wait_for(lambda: session.stats()["tables"]["rates"]["since"] == 20 * SECOND)
        # The order at 20 waits; it meets the version that was there when it came.
        parquet.write_table(orders(21, 40), tmp_path / "s" / "1.parquet")
        wait_for(lambda: (21, 2) in found)
    assert sorted(found) == [(1, 1), (2, 1), (3, 1), (20, 1), (21, 2)]


def test_a_look_that_finds_nothing_new_writes_no_record(tmp_path: Path) -> None:
    write(tmp_path, 0)
    job = Simulated(text(tmp_path, "1 hour", "format = 'memory'"), str(tmp_path / "ck"), 2, Random(5))
    folder = str(tmp_path / "ck")
    try:
        refreshing = job.driver.roster.refreshing

        def looked() -> int:
            """How many records a look writes."""
            before = next_control(folder)
            refreshing.reading.begin([refreshing.tables["rates"].table], resumed=True)
            job.driver.roster.request_batch()
            return next_control(folder) - before

        job.run({"s": orders(*range(10))})
        assert [looked() for _ in range(3)] == [0, 0, 0]
        whole = (tmp_path / "rates.parquet").read_bytes()
        (tmp_path / "rates.parquet").write_bytes(b"")
        assert [looked() for _ in range(3)] == [1, 0, 0]
        # The same rows again: the record tells the shards that the problem is over.
        (tmp_path / "rates.parquet").write_bytes(whole)
        assert [looked() for _ in range(3)] == [1, 0, 0]
        job.settle()
        assert {
            note["statistics"]["further"]["tables"]["rates"]["problem"] for note in job.driver.progress.notes.values()
        } == {""}
    finally:
        job.close()


def test_versions_that_come_faster_than_batches_are_all_there(tmp_path: Path) -> None:
    write(tmp_path, 0)
    job = Simulated(text(tmp_path, "1 hour", "format = 'memory'"), str(tmp_path / "ck"), 2, Random(5))
    refreshing = job.driver.roster.refreshing
    try:
        right = []
        for number in range(5):
            first = 10 * number
            job.run({"s": orders(*range(first, first + 10))})
            right += [(v, 10 * number) for v in range(first, first + 10)]
            for more in range(1, 11):
                # Before the batch that reads the records, the one at hand ends.
                write(tmp_path, 10 * number + more)
                refreshing.reading.begin([refreshing.tables["rates"].table], resumed=True)
                job.driver.roster.request_batch()
                if more == 5:
                    refreshing.after_batch(job.driver.progress.notes)
            job.settle()
        job.run(closing=True)
        assert sorted((row["v"], row["rate"]) for row in job.table("q").to_pylist()) == right
        assert len(files_of(tables_folder(str(tmp_path / "ck")), "rates")) <= 25
    finally:
        job.close()


@pytest.mark.spark
@pytest.mark.parametrize("changes", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_bounded_run_ends_although_batches_take_longer_than_the_period(spark, tmp_path: Path, changes: bool) -> None:
    write(tmp_path, 1)
    (tmp_path / "s").mkdir()
    for number in range(2):
        parquet.write_table(orders(*range(10 * number, 10 * number + 10)), tmp_path / "s" / f"{number}.parquet")
    for rows in (20, 10):
        with Session(spark=spark, checkpoint=str(tmp_path / "ck")) as session:
            session.set("shards", 2)
            session.execute(text(tmp_path, "1 millisecond", f"format = 'parquet', path = '{tmp_path}/s'"))
            batches: list[object] = []

            def note(
                look: object, session: Session = session, batches: list[object] = batches, rows: int = rows
            ) -> None:
                batches.append(look)
                if changes:
                    write(tmp_path, 1000 * rows + len(batches))
                if len(batches) > 12:
                    session.ask_to_stop()

            session.observe(note)
            session.run()
            assert len(batches) <= 5
            assert len(session.queries["q"].table()) == rows
        parquet.write_table(orders(*range(20, 30)), tmp_path / "s" / "2.parquet")
