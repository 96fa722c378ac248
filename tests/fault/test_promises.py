"""kill -9 with punctuations in flight: nothing is lost, nothing is repeated, neither results nor finished values nor
violations.

The embedded engine is killed at operations on files that recovery reads: in every run at some of them, in the long run
at each. On Spark the whole session is killed at random moments; `tests/spark/test_promises.py` has crashes of shards
and drivers in every run.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.fault.forked import Runs
from tests.fault.scenarios import Victim, until_done
from tests.fault.strike import Plan, operations

pytestmark = pytest.mark.fault

SECOND = 1_000_000
ITEMS, FILES = 60, 4
COMMAND = ("run", "job.sql", "--once", "--out", "results", "--checkpoint", "state", "--quiet")
FOLDERS = ("state", "results", "ended")


def script(folder: str, batch: str = "") -> str:
    return f"""
        CREATE STREAM auctions (item BIGINT, closes TIMESTAMP, ts TIMESTAMP)
            WITH (time = 'ts', key = 'item', path = '{folder}auctions'{batch});
        CREATE STREAM bids (item BIGINT, price BIGINT, done BOOLEAN, ts TIMESTAMP)
            WITH (time = 'ts', punctuation = 'done', lateness = '1 second', path = '{folder}bids'{batch});
        CREATE PUNCTUATION sold ON bids (item) FROM auctions (item) AT closes;
        PUNCTUATE bids WHERE item = 5 AT TIMESTAMP '1970-01-01 00:00:09';
        SET purge = 'eager';
        CREATE QUERY joined WITH (propagate = 'on') AS SELECT a.item, b.price FROM auctions AS a, bids AS b WHERE a.item = b.item;
        CREATE SINK ended FOR joined WITH (path = '{folder}ended', punctuation = 'closed');
        CREATE QUERY won AS SELECT a.item, count(*) AS n, max(b.price) AS price FROM auctions AS a, bids AS b WHERE a.item = b.item
            GROUP BY a.item EMIT ON CLOSE;
    """


def write_streams(folder: Path) -> None:
    """An auction a second, open for eight; bids on items that are open, a few after the end, and ends that come before
    that."""
    rng = np.random.default_rng(5)
    auctions = [{"item": n, "closes": (n + 8) * SECOND, "ts": n * SECOND} for n in range(ITEMS)]
    bids: list[dict[str, object]] = []
    for at in range(6 * ITEMS):
        second = at // 6
        item = max(0, second - int(rng.integers(0, 10)))
        bids.append(
            {
                "item": item,
                "price": int(rng.integers(1, 99)),
                "done": None,
                "ts": second * SECOND + int(rng.integers(0, SECOND)),
            }
        )
        if rng.random() < 0.05:
            bids.append({"item": item, "price": None, "done": True, "ts": second * SECOND + SECOND - 1})
    schemas = {
        "auctions": pa.schema([("item", pa.int64()), ("closes", pa.timestamp("us")), ("ts", pa.timestamp("us"))]),
        "bids": pa.schema(
            [("item", pa.int64()), ("price", pa.int64()), ("done", pa.bool_()), ("ts", pa.timestamp("us"))]
        ),
    }
    for name, rows in (("auctions", auctions), ("bids", bids)):
        (folder / name).mkdir(parents=True)
        for number in range(FILES):
            part = rows[len(rows) * number // FILES : len(rows) * (number + 1) // FILES]
            parquet.write_table(pa.Table.from_pylist(part, schemas[name]), folder / name / f"{number}.parquet")


def everything(out: Path, sink: Path) -> dict[str, list[tuple[str, ...]]]:
    """All results, finished values and dead letters, sorted."""
    folders = [
        out / "joined",
        out / "joined" / "_punctuations",
        out / "won",
        *sorted((out / "_dead_letter").iterdir()),
        sink,
    ]
    found = {}
    for folder in folders:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".parquet")
        rows = [tuple(map(str, row.values())) for path in files for row in parquet.read_table(path).to_pylist()]
        found[str(folder.relative_to(out.parent))] = sorted(rows)
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("promises") / "base"
    write_streams(folder)
    (folder / "job.sql").write_text(f"{script('')}\nSET epoch_rows = 60;\nSET checkpoint_seconds = 0;\n")
    return folder


def lived(base: Path, folder: Path, runs: Runs, at: int) -> tuple[dict[str, list[tuple[str, ...]]], int]:
    """A life that is killed before its operation of this number (0: never), and how many operations it had.

    The report is written by the clock: a life may end a few operations before the number that another one reached.
    """
    shutil.copytree(base, folder)
    plan = Plan(tuple(str(folder / name) for name in FOLDERS), str(folder / "log"), at)
    code, said = runs.run(folder, *COMMAND, plan=plan)
    count = len(operations(folder / "log"))
    assert code == (-signal.SIGKILL if 0 < at <= count else 0), said
    if at:
        code, said = runs.run(folder, *COMMAND)
        assert code == 0, said
    found = everything(folder / "results", folder / "ended")
    shutil.rmtree(folder)
    return found, count


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(12, marks=pytest.mark.timeout(3600)),
        pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(7200)]),
    ],
)
def test_the_embedded_engine_is_killed(share: int, base: Path, tmp_path: Path, runs: Runs) -> None:
    wanted, count = lived(base, tmp_path / "whole", runs, 0)
    assert all(wanted.values()) and len(wanted["results/joined/_punctuations"]) >= ITEMS - 10
    assert count > 60
    for at in range(1, count - 10, max(1, count // share) if share > 1 else 1):
        assert lived(base, tmp_path / "life", runs, at)[0] == wanted, f"killed before operation {at}"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_everything_on_spark_is_killed(base: Path, tmp_path: Path, runs: Runs) -> None:
    wanted, _ = lived(base, tmp_path / "whole", runs, 0)
    write_streams(tmp_path / "data")
    text = script(f"{tmp_path}/data/", ", files_per_batch = '1'")
    config = {
        "script": text,
        "checkpoint": str(tmp_path / "checkpoint"),
        "out": str(tmp_path / "results"),
        "master": "local[2]",
        "shards": 2,
    }
    struck = until_done(Victim(config, tmp_path), "everything", Random(1), 2)
    assert struck >= 1
    found = everything(tmp_path / "results", tmp_path / "data" / "ended")
    found["ended"] = found.pop("data/ended")
    assert found == wanted
