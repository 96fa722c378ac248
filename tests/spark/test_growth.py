"""Many micro-batches cost no more than few: memory of driver, workers and JVM, folders, and time per batch.

Time is that of the processors (driver, JVM and workers together). Other processes on the same cores make every
instruction slower: the time of a fixed piece of work after every batch is printed beside it, and says whether the
machine was quiet.
"""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import monotonic, sleep, thread_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.language import bind_script
from eddyline.runtime.figures.memory import resident_bytes
from eddyline.runtime.sharded.front.figures import job_report
from eddyline.runtime.sharded.job.progress import StreamProgress
from eddyline.runtime.sharded.output.delivery import Delivered
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.layouts import make_layout
from tests.spark.material import write_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{0}/a', time='ts', files_per_batch=1);
CREATE QUERY pairs AS SELECT x.v AS xv, y.v AS yv FROM a [RANGE 20 MILLISECONDS] x, a [RANGE 20 MILLISECONDS] y WHERE x.k = y.k;
CREATE QUERY per_second AS SELECT date_trunc('second', ts) AS second, COUNT(*) AS n FROM a GROUP BY date_trunc('second', ts) EMIT ON CLOSE;
CREATE QUERY changes AS SELECT k, COUNT(*) AS n FROM a [RANGE 20 MILLISECONDS] GROUP BY k;
"""
ROWS = 10
#: Versions of state that Spark keeps; its default is 100.
KEPT = 40
#: Batches after which Spark's own lists (progress, jobs, stages, SQL executions, versions of state) are full: the
#: longest has 64 entries.
FULL = 64
#: The heap at rest after the last batch, by that after the first `FULL` batches.
HEAP = 1.1
#: Files of a checkpoint at rest: offsets and commits of the batches that Spark keeps, and as many changes of state.
FILES = 22 * KEPT


@dataclass
class Measured:
    """Per batch."""

    driver: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    #: Processor time of a fixed piece of work.
    rounds: list[float] = field(default_factory=list)
    #: (files, bytes) of the checkpoint without the list of files that were read, which has a line for each.
    folders: list[tuple[int, int]] = field(default_factory=list)
    #: What the JVM holds at rest once Spark's bounded lists are full, and after the last batch.
    heap: list[int] = field(default_factory=list)

    def tenths(self, name: str) -> tuple[float, float]:
        """The medians of the second tenth and of the last one."""
        values = getattr(self, name)
        tenth = len(values) // 10
        return median(values[tenth : 2 * tenth]), median(values[-tenth:])

    def by_tenths(self, name: str) -> list[float]:
        values = getattr(self, name)
        tenth = len(values) // 10
        return [round(median(values[at : at + tenth]), 5) for at in range(0, 10 * tenth, tenth)]


def grown(spark, folder: Path, batches: int, text: str = JOB) -> tuple[Measured, SparkDriver]:
    """A job over files that are there."""
    job = bind_script(text.format(folder))
    layout = make_layout(spark, str(folder / "ck"), job.streams, job.queries, settings=replace(job.settings, shards=2))
    found = Measured()
    jvm = spark.sparkContext._gateway.proc.pid
    spent = [processor_seconds(jvm)]

    def told(delivered: Delivered, progress: StreamProgress) -> None:
        found.driver.append(resident_bytes())
        found.workers.append(progress.worker_bytes[-1])
        spent.append(processor_seconds(jvm))
        found.seconds.append(spent[-1] - spent[-2])
        found.rounds.append(a_round())
        found.folders.append(size(folder / "ck"))
        if len(found.seconds) == max(FULL, batches // 10):
            found.heap.append(heap_at_rest(spark))
        elif len(found.seconds) == batches and found.heap:
            found.heap.append(heap_at_rest(spark, HEAP * found.heap[0]))
            found.folders[-1] = size_at_rest(folder / "ck")
        # What was spent on looking is not the batch's.
        spent[-1] = processor_seconds(jvm)

    driver = SparkDriver(spark, layout, out=None, on_batch=told)
    driver.add_queries(job.catalog)
    driver.run()
    assert len(found.seconds) >= batches
    return found, driver


def heap_at_rest(spark, enough: float = 0) -> int:
    """Bytes that the JVM holds while no batch runs, when the collector finds nothing more.

    Threads of Spark let go of what has ended some time later: the cleaner of broadcasts after a collection, state after
    a minute. A fast machine has run hundreds of batches by then. So a heap above `enough` gets three minutes: what
    leaks stays for longer. The data frame of a batch stays in the JVM, with its plan, until Python has collected the
    object that stands for it.
    """
    gc.collect()
    runtime, least, rounds = spark._jvm.java.lang.Runtime.getRuntime(), sys.maxsize, 0
    until = monotonic() + 180
    while rounds < 4 or (least > enough > 0 and monotonic() < until):
        spark._jvm.java.lang.System.gc()
        held = runtime.totalMemory() - runtime.freeMemory()
        rounds = 0 if held < 0.99 * least else rounds + 1
        least = min(least, held)
        sleep(0.25)
    return least


def size_at_rest(folder: Path) -> tuple[int, int]:
    """What is there once Spark has removed old state, which it does once a minute: a fast machine has run hundreds of
    batches by then."""
    until = monotonic() + 180
    while size(folder)[0] > FILES and monotonic() < until:
        sleep(1)
    return size(folder)


def a_round() -> float:
    """The processor time of a fixed piece of work: some of it in Python, some of it in memory."""
    began = thread_time()
    sum({number: str(number) for number in range(20_000)})
    np.sort(np.random.default_rng(1).random(100_000))
    return thread_time() - began


def processor_seconds(jvm: int) -> float:
    """What this process, the JVM and everything below it have used, ended children included."""
    of = {jvm, os.getpid()}
    parents: dict[int, tuple[int, int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry)] = (int(fields[1]), sum(map(int, fields[11:15])))
    for _ in range(4):
        of |= {pid for pid, (parent, _) in parents.items() if parent in of}
    return sum(ticks for pid, (_, ticks) in parents.items() if pid in of) / os.sysconf("SC_CLK_TCK")


def size(folder: Path) -> tuple[int, int]:
    count = total = 0
    for path, folders, names in os.walk(folder):
        if Path(path).name == "eddyline":
            folders[:] = [name for name in folders if name != "files"]
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
                count += 1
            except FileNotFoundError:
                continue
    return count, total


def check_memory(found: Measured, driver: SparkDriver) -> None:
    for name in ("driver", "workers"):
        early, late = found.tenths(name)
        assert late <= 1.05 * early, f"{name}: {early:,.0f} bytes in the second tenth, {late:,.0f} in the last"
    early, late = found.heap
    assert late <= HEAP * early, (
        f"heap at rest: {early:,} bytes after {FULL} batches or a tenth, {late:,} after the last"
    )
    assert (
        found.folders[-1][0] <= FILES and len(os.listdir(Path(driver.layout.checkpoint) / "eddyline" / "standing")) <= 5
    )
    figures = job_report(driver).as_json()
    newest = min(1000, figures["epochs"])
    assert len(figures["epoch_seconds"]) == len(figures["worker_bytes"]) == len(figures["stages"]["addBatch"]) == newest
    assert figures["epoch_times"]["count"] == figures["epochs"]


@pytest.fixture(autouse=True)
def few_versions(spark):
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", str(KEPT))
    yield
    spark.conf.unset("spark.sql.streaming.minBatchesToRetain")


@pytest.mark.long
def test_a_hundred_micro_batches(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "a", [f"{number:05d}.parquet" for number in range(110)], ROWS)
    found, driver = grown(spark, tmp_path, 110)
    check_memory(found, driver)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_two_thousand_micro_batches(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "a", [f"{number:05d}.parquet" for number in range(2000)], ROWS)
    found, driver = grown(spark, tmp_path, 2000)
    print(
        {name: found.by_tenths(name) for name in ("driver", "workers", "seconds", "rounds")},
        found.folders[200::200],
        found.heap,
    )
    check_memory(found, driver)
    early, late = found.tenths("seconds")
    assert late <= 1.05 * early, (
        f"{early:.3f} s of processor time per batch in the second tenth, {late:.3f} s in the last"
    )
    # Folders come to rest: what the last half adds is nothing.
    assert found.folders[-1][0] <= 1.05 * max(files for files, _ in found.folders[:1000])


AUCTIONS = """
CREATE STREAM auctions (item BIGINT, closes TIMESTAMP, ts TIMESTAMP)
    WITH (format='parquet', path='{0}/auctions', time='ts', key='item', files_per_batch=1);
CREATE STREAM bids (item BIGINT, price BIGINT, remark STRING, ts TIMESTAMP)
    WITH (format='parquet', path='{0}/bids', time='ts', files_per_batch=1);
CREATE PUNCTUATION sold ON bids (item) FROM auctions (item) AT closes;
CREATE QUERY won AS SELECT a.item, max(b.price) AS price, max(b.remark) AS remark FROM auctions AS a, bids AS b WHERE a.item = b.item
    GROUP BY a.item EMIT ON CLOSE;
CREATE QUERY dear AS SELECT a.item, b.remark FROM auctions AS a, bids AS b WHERE a.item = b.item AND b.price = 9999;
"""
#: Per second, which is a file: auctions, each open for four seconds, and bids on all that are open.
OPENED, BIDS = 200, 20_000


def write_auctions(folder: Path, seconds: int) -> None:
    for name in ("auctions", "bids"):
        (folder / name).mkdir()
    for at in range(seconds):
        rng = np.random.default_rng(at)
        items, now = np.arange(at * OPENED, (at + 1) * OPENED), at * 1_000_000
        ts = pa.array(now + np.arange(OPENED)).cast(pa.timestamp("us"))
        closes = pa.array(np.full(OPENED, now + 4_000_000)).cast(pa.timestamp("us"))
        parquet.write_table(
            pa.table({"item": items, "closes": closes, "ts": ts}), folder / "auctions" / f"{at:05d}.parquet"
        )
        numbers = rng.integers(0, 10_000, BIDS)
        bids = {
            "item": np.maximum(items[0] - rng.integers(0, 3 * OPENED, BIDS), 0),
            "price": numbers,
            "remark": [f"a bid with a text of its own, number {number} of second {at}" for number in numbers.tolist()],
            "ts": pa.array(now + OPENED + np.arange(BIDS)).cast(pa.timestamp("us")),
        }
        parquet.write_table(pa.table(bids), folder / "bids" / f"{at:05d}.parquet")


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_memory_is_flat_over_sixteen_times_the_length_where_punctuations_close(spark, tmp_path: Path) -> None:
    """A join without windows, and groups with texts; a worker warms up for some batches."""
    length, times = 8, 16
    write_auctions(tmp_path, length * times)
    found, driver = grown(spark, tmp_path, length * times, AUCTIONS)
    rows = job_report(driver).as_json()["peak_stored_rows"]
    early, late = median(found.workers[length // 2 : length]), median(found.workers[-length:])
    print(
        f"workers: {early / 1e6:.0f} MB after {length} batches, {late / 1e6:.0f} MB after {length * times}; at most {rows:,} rows stored"
    )
    print([round(size / 1e6) for size in found.workers])
    assert late <= 1.2 * early
    assert rows <= 2 * 6 * (BIDS + OPENED)
    assert found.tenths("driver")[1] <= 1.05 * found.tenths("driver")[0]
