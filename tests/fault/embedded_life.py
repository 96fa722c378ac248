"""The life of an embedded job through several runs of one command, and what its results must be.

Answer   `Life` has a folder with a job file, two streams of files, a checkpoint and results. It begins with the `first`
         files. At `change` a query is left out of the file, one is dropped and one added by control records, epochs
         have another size, and further files have come. `arrive` is what happens between a failure and the next start:
         more files, and yet another size of epochs. The job has rows that wait, joins over both kinds of window,
         aggregates of all kinds, and rows that cannot be read. `expected` are the results of a life without failures.
Limits   No row is late, so that results do not depend on epochs; an EMIT ON CHANGE is compared by the table that its
         changes make.
"""

from __future__ import annotations

import csv
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record, drop_record
from tests.fault.forked import Runs
from tests.fault.strike import EVERY, Operation, Plan, operations

STREAMS = """
CREATE STREAM a (k BIGINT, s STRING, ts TIMESTAMP) WITH (format='parquet', path='a', time='ts', lateness='6 seconds');
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='csv', path='b', time='ts', lateness='3 seconds');
SET checkpoint_seconds = 0;
"""
QUERIES = {
    "pairs": "SELECT a.k, a.s, b.v, a.ts AS at, b.ts AS bt FROM a [RANGE 20 SECONDS], b [ROWS 15] WHERE a.k = b.k",
    "closed": "SELECT date_trunc('minute', b.ts) AS minute, COUNT(*) AS n, COUNT(DISTINCT v) AS d FROM b"
    " GROUP BY date_trunc('minute', b.ts) EMIT ON CLOSE",
    "every": "SELECT a.s, COUNT(*) AS n, MAX(a.k) AS k FROM a [RANGE 30 SECONDS] GROUP BY a.s EMIT EVERY 10 SECONDS",
    "change": "SELECT b.k, SUM(b.v) AS v FROM a [RANGE 20 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k GROUP BY b.k EMIT ON CHANGE",
    "omitted": "SELECT a.k, a.ts AS at FROM a WHERE a.k % 3 = 0",
    "dropped": "SELECT b.k, b.ts AS bt FROM b WHERE b.k % 2 = 0",
}
ADDED = "CREATE QUERY added AS SELECT b.k, b.v, b.ts AS bt FROM b WHERE b.k % 2 = 1"
COMMAND = ("run", "job.sql", "--once", "--out", "results", "--checkpoint", "state", "--quiet")
#: Where what recovery reads is written, and what it removes.
FOLDERS = ("state", "results")


class Life:
    def __init__(self, folder: Path, runs: Runs, small: bool = True) -> None:
        self.folder = folder
        self.runs = runs
        #: Whether results leave an epoch in pieces, into several files.
        self.small = small

    # -- circumstances

    def first(self, rows: int = 90) -> None:
        for name in ("a", "b"):
            (self.folder / name).mkdir(parents=True)
        self._job(QUERIES, 60)
        self._files(0, 0, rows)

    def change(self, rows: int = 90) -> None:
        self._job({name: text for name, text in QUERIES.items() if name != "omitted"}, 90)
        control = ControlFolder(str(self.folder / "state"))
        control.append(add_record(ADDED))
        control.append(drop_record(["dropped"]))
        self._files(2, 3600, rows)
        self._files(3, 3700, rows)

    def arrive(self, rows: int = 50) -> None:
        job = self.folder / "job.sql"
        text = job.read_text()
        job.write_text(text.replace("epoch_rows = 60", "epoch_rows = 41").replace("epoch_rows = 90", "epoch_rows = 70"))
        if (self.folder / "a" / "2.parquet").exists():
            self._files(4, 7200, rows)
        else:
            self._files(1, 200, rows)

    def _job(self, queries: dict[str, str], epoch_rows: int) -> None:
        text = "".join(f"CREATE QUERY {name} AS {query};\n" for name, query in queries.items())
        # Results go into files at once, or are gathered and wait in the checkpoint: both in one life.
        output = "each" if "omitted" in queries else "auto"
        (self.folder / "job.sql").write_text(
            f"{STREAMS}SET epoch_rows = {epoch_rows};\nSET output_files = '{output}';\n{text}"
        )

    def _files(self, number: int, second: int, rows: int) -> None:
        rng = np.random.default_rng(number)
        ts = {name: np.sort(rng.integers(0, 80_000_000, rows)) + 1_000_000 * second for name in "ab"}
        # Out of order by less than the lateness: rows wait, none is late.
        mixed = ts["a"] - rng.integers(0, 5_000_000, rows)
        columns = {
            "k": rng.integers(0, 12, rows),
            "s": [f"t{i}" for i in rng.integers(0, 4, rows)],
            "ts": pa.array(mixed, pa.timestamp("us")),
        }
        parquet.write_table(pa.table(columns), self.folder / "a" / f"{number}.parquet")
        with open(self.folder / "b" / f".{number}", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["k", "v", "ts"])
            for at, (k, v) in enumerate(zip(rng.integers(0, 12, rows), rng.integers(0, 9, rows), strict=True)):
                writer.writerow([k, "no number" if at % 50 == 49 else v, np.datetime64(int(ts["b"][at]), "us")])
        (self.folder / "b" / f".{number}").rename(self.folder / "b" / f"{number}.csv")

    # -- runs

    def run(self, plan: Plan | None = None, seconds: float | None = None) -> tuple[int, str]:
        code, said = self.runs.run(self.folder, *COMMAND, plan=plan, seconds=seconds, small=self.small)
        # Each run warns of the first row that cannot be read.
        warned = "warning: a row of stream "
        return code, "".join(line for line in said.splitlines(keepends=True) if not line.startswith(warned))

    def ends_well(self) -> None:
        code, said = self.run()
        assert code == 0, said

    def plan(self, at: int = 0, how: str = "kill") -> Plan:
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        return Plan(tuple(str(self.folder / name) for name in FOLDERS), str(log), at, how)

    def walk(self, how: str, midway: Callable[[], None], strikes: int) -> list[str]:
        """Start the command again and again; each start is struck at the first place that was not struck before, until
        one ends well.

        After so many strikes something else happens.

        Returns:
            what each start that failed by itself has said.
        """
        said = []
        marks = self.folder / "marks"
        marks.mkdir(exist_ok=True)
        plan = replace(self.plan(how=how), log=str(self.folder / "walk"), sites=EVERY, marks=str(marks))
        begun = len(list(marks.iterdir()))
        while True:
            before = len(list(marks.iterdir()))
            if before == begun + strikes:
                midway()
            code, words = self.run(plan)
            if code == 0:
                assert before >= begun + strikes, "too few places for what happens midway"
                return said
            assert len(list(marks.iterdir())) > before, f"{code}: {words}"
            if code != -signal.SIGKILL:
                assert code == 2, words
                said.append(words)

    def operations(self, log: str = "log") -> list[Operation]:
        """Those of the last run with a plan, or of all walks."""
        return operations(self.folder / log)

    def kept(self, folder: Path) -> Path:
        """A copy of everything, from which it can be put back: paths belong to a checkpoint."""
        shutil.copytree(self.folder, folder)
        return folder

    def put_back(self, folder: Path) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(folder, self.folder)

    # -- results

    def results(self) -> dict[str, object]:
        found: dict[str, object] = {}
        out = self.folder / "results"
        for path in [
            *(p for p in sorted(out.iterdir()) if p.name != "_dead_letter"),
            *sorted((out / "_dead_letter").iterdir()),
        ]:
            assert not [name for name in path.iterdir() if name.name.startswith(".")], "what an interrupted write left"
            rows = parquet.read_table(path).to_pylist()
            if path.name == "change":
                found[path.name] = _table_of(rows)
            else:
                found[path.name] = sorted(tuple(map(str, row.values())) for row in rows)
        return found


def _table_of(changes: list[dict[str, object]]) -> dict[object, object]:
    """What a table is after its changes, by group."""
    table: dict[object, object] = {}
    for row in changes:
        if row["_op"] == "+":
            table[row["k"]] = row["v"]
        else:
            del table[row["k"]]
    return table


def expected(folder: Path, runs: Runs) -> dict[str, object]:
    life = Life(folder, runs, small=False)
    life.first()
    life.arrive()
    life.ends_well()
    life.change()
    life.arrive()
    life.ends_well()
    return life.results()
