"""The life of a job on Spark through many starts of one command, with strikes; and what its results must be.

Answer   `Life` has a folder with a job file, streams of files, a checkpoint and results. A `turn` brings new files,
         starts the command that is always the same, adds and drops queries while it runs, and ends it by SIGTERM once
         everything that came has been committed; a strike may end it sooner. `prepare` does what a start does before
         Spark gets to work. `finish` runs the command to the end of the streams without strikes, and `check` compares
         all results with those of an embedded run over the same files. The job has rows that wait, joins with results
         that are staged, aggregates of both kinds, a static table, and queries that come and go.
Limits   No row is late, so that results do not depend on which files meet in a micro-batch. Linux, as `scenarios`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as parquet

from eddyline import Session
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record, drop_record
from eddyline.runtime.sharded.job.ledger import Ledger
from tests.fault.scenarios import ROOT, end_session
from tests.fault.strike import Plan

ROWS = 300
JOB = """
SET shards = 2;
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP)
  WITH (format='parquet', path='a', time='ts', lateness='20 milliseconds', files_per_batch=1);
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP)
  WITH (format='parquet', path='b', time='ts', lateness='20 milliseconds', files_per_batch=1);
CREATE TABLE names (k BIGINT, name STRING) WITH (format='parquet', path='names.parquet');
CREATE QUERY pairs AS SELECT a.k, a.v AS av, b.v AS bv, a.ts AS at, b.ts AS bt
  FROM a [RANGE 300 MILLISECONDS], b [RANGE 300 MILLISECONDS] WHERE a.k = b.k;
CREATE QUERY per_second AS SELECT date_trunc('second', b.ts) AS second, COUNT(*) AS n, SUM(a.v) AS v
  FROM a [RANGE 50 MILLISECONDS], b [RANGE 50 MILLISECONDS] WHERE a.k = b.k GROUP BY date_trunc('second', b.ts) EMIT ON CLOSE;
CREATE QUERY counts AS SELECT n.name, COUNT(*) AS n, MAX(a.v) AS v FROM a [RANGE 1 SECOND], names n WHERE a.k = n.k GROUP BY n.name;
"""
STAYING = ("pairs", "per_second", "counts")


def coming(number: int) -> str:
    """A query that is added and dropped while the job runs."""
    return f"CREATE QUERY q{number} AS SELECT a.v, a.ts AS at FROM a WHERE a.v % 7 = {number % 7}"


class Life:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = 0
        self.turns = 0
        self.added: list[int] = []
        self.random = np.random.default_rng(7)
        for name in ("a", "b", "marks"):
            (folder / name).mkdir(parents=True)
        (folder / "job.sql").write_text(JOB)
        parquet.write_table(
            pa.table({"k": list(range(5)), "name": [f"name {k}" for k in range(5)]}), folder / "names.parquet"
        )
        self.control = ControlFolder(str(folder / "state"))

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "state")

    def plan(self, *sites: str) -> Plan:
        folders = tuple(str(self.folder / name) for name in ("state", "out"))
        return Plan(folders, str(self.folder / "log"), how="torn", sites=sites, marks=str(self.folder / "marks"))

    # -- turns

    def write_files(self, count: int) -> None:
        for number in range(self.files, self.files + count):
            v = np.arange(number * ROWS, (number + 1) * ROWS)
            for name in "ab":
                ts = np.maximum(v * 1000 - self.random.integers(0, 15_000, ROWS), 0)
                rows = pa.table(
                    {"k": self.random.integers(0, 5, ROWS), "v": v, "ts": pa.array(ts).cast(pa.timestamp("us"))}
                )
                # As a careful writer does it: a file is there whole.
                parquet.write_table(rows, self.folder / f"{name}-new")
                os.rename(self.folder / f"{name}-new", self.folder / name / f"{number:04d}.parquet")
        self.files += count

    def start(self, plan: Plan | None, *more: str) -> subprocess.Popen[bytes]:
        arguments = [
            "run",
            "job.sql",
            "--engine",
            "spark",
            "--master",
            "local[2]",
            "--out",
            "out",
            "--checkpoint",
            "state",
            "--quiet",
        ]
        return self._started(plan, "eddyline.cli", *arguments, *more)

    def prepare(self, plan: Plan) -> bool:
        """Whether the preparations of a start came to their end."""
        process = self._started(plan, "tests.fault.starting")
        assert process.wait(1200) in (0, -signal.SIGKILL), self.said()
        return process.returncode == 0

    def _started(self, plan: Plan | None, *program: str) -> subprocess.Popen[bytes]:
        self.turns += 1
        ours = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        if plan is not None:
            found = plan.environment()
            found["PYTHONPATH"] = os.pathsep.join([found["PYTHONPATH"], ours["PYTHONPATH"]])
            ours |= found
        with open(self.folder / f"said-{self.turns}", "wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", *program],
                cwd=self.folder, stdout=said, stderr=said, env=os.environ | ours, start_new_session=True,
            )  # fmt: skip

    def said(self) -> str:
        return (self.folder / f"said-{self.turns}").read_text()[-4000:]

    def turn(self, plan: Plan | None = None, files: int = 3) -> bool:
        """One start of the command; whether it came to its end by itself."""
        # What an earlier turn left to be read comes first.
        self.write_files(files if self.files == 0 or self.all_is_committed() else 0)
        before, struck = self.committed(), 0 if plan is None else len(plan.struck())
        process = self.start(plan)
        try:
            self.wait(process, lambda: self.committed() > before)
            if process.poll() is None:
                self.change_queries()
            self.wait(process, lambda: self.all_is_committed())
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
                self.wait(process, lambda: False)
            # Spark gives up with a message when the process that lists files is killed, or a worker too often.
            hit = plan is not None and len(plan.struck()) > struck
            gave_up = hit and process.returncode == 1 and "Spark stopped the job" in self.said()
            # The process that lists files may be killed before it answers for the first time.
            gave_up |= hit and process.returncode == 2 and "did not start in time" in self.said()
            assert process.returncode in (0, -signal.SIGKILL) or gave_up, self.said()
        finally:
            end_session(process)
        return process.returncode == 0

    def change_queries(self) -> None:
        if self.added:
            self.control.append(drop_record([f"q{self.added[-1]}"]))
        self.added.append(self.turns)
        self.control.append(add_record(coming(self.turns)))

    def wait(self, process: subprocess.Popen[bytes], condition: Callable[[], bool], seconds: float = 1200.0) -> None:
        """Patience is for crowded machines: a start that takes ten seconds alone may take minutes there."""
        for _ in range(int(seconds / 0.05)):
            if process.poll() is not None or condition():
                return
            time.sleep(0.05)
        raise AssertionError(f"the job does not get on: {self.said()}")

    def committed(self) -> int:
        folder = self.folder / "state" / "commits"
        return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1) if folder.exists() else -1

    def all_is_committed(self) -> bool:
        """Every file, and every change of queries."""
        try:
            offset = json.loads(
                (self.folder / "state" / "offsets" / str(self.committed())).read_text().splitlines()[-1]
            )
        except (OSError, ValueError, IndexError):
            return False
        state = self.control.state()
        on_the_way = [q for q in state["queries"] if q["state"] == "pending"]
        return (
            all(n == self.files for n in offset["files"].values())
            and not self.control.has(state["applied"])
            and not on_the_way
        )

    # -- the end

    def finish(self) -> None:
        process = self.start(None, "--once")
        try:
            self.wait(process, lambda: False)
            assert process.returncode == 0, self.said()
        finally:
            end_session(process)

    def check(self) -> None:
        """All results, against an embedded run."""
        here = os.getcwd()
        os.chdir(self.folder)
        try:
            with Session() as session:
                session.execute(JOB + ";\n".join(coming(number) for number in self.added))
                session.run(once=True, final=False)
                right = {name: query.table() for name, query in session.queries.items()}
        finally:
            os.chdir(here)
        ledger = Ledger.read(self.checkpoint)
        for number in self.added:
            right[f"q{number}"] = self._between(
                right[f"q{number}"], ledger.queries[f"q{number}"].start, ledger.queries[f"q{number}"].stop
            )
        assert all(right[name].num_rows for name in STAYING)
        for name, wanted in right.items():
            found = self.results(name, wanted.schema)
            if name == "counts":
                # Changes are those between two batches: what they leave does not depend on the batches.
                found, wanted = standing(found), standing(wanted)
            assert in_one_order(found).equals(in_one_order(wanted)), (
                f"{name}: {found.num_rows} results, should be {wanted.num_rows}"
            )

    @staticmethod
    def _between(table: pa.Table, start: int | None, stop: int | None) -> pa.Table:
        times = table.column("at").cast(pa.int64())
        if start is not None:
            table = table.filter(compute.greater(times, start))
            times = table.column("at").cast(pa.int64())
        return table if stop is None else table.filter(compute.less_equal(times, stop))

    def results(self, name: str, schema: pa.Schema) -> pa.Table:
        folder = self.folder / "out" / name
        # One by one: a folder that is read as a whole must have files of one schema, and hides doubled names.
        names = sorted(file for file in os.listdir(folder) if not file.startswith(".")) if folder.exists() else []
        return pa.concat_tables([parquet.read_table(folder / file) for file in names] or [schema.empty_table()])


def standing(changes: pa.Table) -> pa.Table:
    """What the changes of an aggregate by name leave: the last value of each group, and none of a group that has
    gone."""
    said = changes.select(["name", "_ts", "_op"]).group_by(["name", "_ts", "_op"]).aggregate([])
    assert said.num_rows == changes.num_rows, "a change is there twice"
    last = {row["name"]: row for row in changes.sort_by("_ts").to_pylist()}
    return pa.Table.from_pylist([row for row in last.values() if row["_op"] == "+"], changes.schema).drop_columns(
        ["_ts"]
    )


def in_one_order(table: pa.Table) -> pa.Table:
    return table.combine_chunks().sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
