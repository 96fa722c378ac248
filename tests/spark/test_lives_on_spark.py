"""The same on Spark itself: queries come and go, plans change, a driver is stopped and started, each query answers as
if alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.connectors.results.sinks import MemorySink
from eddyline.language import bind_script
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record, drop_record
from eddyline.runtime.sharded.ingest.control import ask_to_stop, forget_stop
from eddyline.runtime.spark.job.driver import SparkDriver
from tests.oracle.intake import Values
from tests.property.compare import plain_rows
from tests.property.lives import random_lives
from tests.spark.running import layout_of
from tests.spark.simulated import move_some
from tests.spark.test_following import wait
from tests.spark.test_lives import check_lives

pytestmark = pytest.mark.spark


class OnSpark:
    """A job that follows files; each call of `run` is one micro-batch."""

    def __init__(self, spark, text: str, folder: Path, shards: int, random: Random) -> None:
        self.spark, self.folder, self.shards, self.random = spark, folder, shards, random
        files = rf"format='parquet', files_per_batch='1', path='{folder}/\1'"
        self.text = re.sub(
            r"CREATE STREAM (\w+) (\(.*?\)) WITH \((.*?)format='memory'", rf"CREATE STREAM \1 \2 WITH (\3{files}", text
        )
        self.control = ControlFolder(str(folder / "ck"))
        self.sinks: dict[str, MemorySink] = {}
        self.epoch = 0
        self.expected: dict[str, int] = {}
        self.drivers: list[SparkDriver] = []
        self.streams = [stream.name for stream in bind_script(self.text).streams]
        for name in self.streams:
            (folder / name).mkdir()
        self.driver = self._driver()
        self.driver.start()

    def _driver(self) -> SparkDriver:
        job = bind_script(self.text)
        driver = SparkDriver(self.spark, layout_of(self.spark, job, self.folder / "ck", self.shards))
        driver.delivery.kept_dead = {}
        self.drivers.append(driver)
        driver.add_queries(job.catalog, lambda name, _: [self.sinks.setdefault(name, MemorySink())])
        return driver

    def add(self, sql: str) -> None:
        self.control.append(add_record(sql))

    def drop(self, *names: str) -> None:
        self.control.append(drop_record(names))

    def settle(self, *, crashes: float = 0.0) -> None:
        wait(lambda: not any(state == "pending" for state, _, _ in self.listed().values()) and self._all_taken(), 60)

    def _all_taken(self) -> bool:
        queries = self.driver.roster.ledger.queries.values()
        return self.driver.roster.ledger.applied == sum(1 for _ in self.control.records(0)) and not any(
            entry.state in ("prepared", "dropping") for entry in queries
        )

    def move_some(self) -> int:
        return move_some(self.driver.roster, self.random)

    def run(self, rows: Mapping[str, pa.Table] | None = None, *, closing: bool = False, crashes: float = 0.0) -> None:
        if closing:
            self.driver.stop()
            self.driver = self._driver()
            self.driver.run()
            return
        # Nothing is taken while files are put down: all of them come in one batch.
        ask_to_stop(str(self.folder / "ck"))
        for name in self.streams:
            if rows and name in rows:
                parquet.write_table(rows[name], self.folder / name / f".{self.epoch}")
                (self.folder / name / f".{self.epoch}").rename(self.folder / name / f"{self.epoch:06d}.parquet")
                self.expected[name] = self.expected.get(name, 0) + rows[name].num_rows
        forget_stop(str(self.folder / "ck"))
        self.epoch += 1
        wait(lambda: all(self._read(name) == rows for name, rows in self.expected.items()), 60)

    def _read(self, name: str) -> int:
        return self.driver.progress.rows_in.get(name, 0) + self.driver.progress.bad.get(name, 0)

    def listed(self) -> dict[str, tuple[str, int | None, int | None]]:
        return {q["query"]: (q["state"], q["start"], q["stop"]) for q in self.control.state()["queries"]}

    def table(self, name: str) -> pa.Table:
        return self.sinks[name].table()

    def letters(self, stream: str) -> list[tuple[str, Values]]:
        return [
            (str(row["_reason"]), {k: v for k, v in row.items() if k != "_reason"})
            for driver in self.drivers
            for row in plain_rows((driver.delivery.kept_dead or {}).get(stream, []))
        ]

    def close(self) -> None:
        return None


@pytest.mark.long
def test_each_query_answers_as_if_it_ran_alone_on_spark(spark) -> None:
    case, lives = random_lives(Random(2057), (12,))
    check_lives(case, lives, ", jit = 'exact'", lambda text, folder: OnSpark(spark, text, folder, 3, Random(7)))
