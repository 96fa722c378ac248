"""Whatever is killed, whenever: afterwards the results are those of an undisturbed run, row for row."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.runtime.sharded.job.ledger import Ledger
from tests.fault.scenarios import Victim, until_done
from tests.seeds import cases, first_seed, is_soak

pytestmark = [pytest.mark.fault, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600 if is_soak() else 2400)]

SEED = first_seed(1)
#: A handful of kills in every run; each of the four kinds of process is killed so often in a soak, 56 times together.
KILLS = cases(4, soak=14)
#: A strike comes after one or two micro-batches: enough files that the job is still there for the last one.
FILES = 2 * KILLS + 4


def script(folder: Path) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) "
        f"WITH (format='parquet', path='{folder}/{name}', time='ts', lateness='20 milliseconds', files_per_batch='1');\n"
        for name in "abc"
    )
    return f"""{streams}
        CREATE QUERY pairs AS SELECT a.v AS av, b.v AS bv FROM a [RANGE 300 MILLISECONDS], b [RANGE 300 MILLISECONDS] WHERE a.k = b.k;
        CREATE QUERY chain AS SELECT a.v AS av, b.v AS bv, c.v AS cv
          FROM a [RANGE 200 MILLISECONDS], b [RANGE 200 MILLISECONDS], c [ROWS 50] WHERE a.k = b.k AND b.v = c.v;
    """


@pytest.fixture
def data(tmp_path: Path) -> Path:
    random = np.random.default_rng(7)
    for name in "abc":
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(FILES):
            v = np.arange(number * 300, (number + 1) * 300)
            # Some rows come later than allowed: which ones are late must not depend on what was killed.
            ts = v * 1000 - np.where(random.random(300) < 0.05, 40_000, random.integers(0, 15_000, 300))
            rows = pa.table(
                {"k": random.integers(0, 40, 300), "v": v, "ts": pa.array(np.maximum(ts, 0)).cast(pa.timestamp("us"))}
            )
            parquet.write_table(rows, tmp_path / "data" / name / f"{number:03d}.parquet")
    return tmp_path / "data"


def victim(tmp_path: Path, data: Path, **config: object) -> Victim:
    made = {"script": script(data), "checkpoint": str(tmp_path / "checkpoint"), "out": str(tmp_path / "out")}
    return Victim(made | {"master": "local[2]", "shards": 2} | config, tmp_path)


def read(folder: Path) -> pa.Table:
    table = pa.concat_tables([parquet.read_table(folder / name) for name in sorted(os.listdir(folder))])
    times = table.column("_ts").combine_chunks().view(pa.int64()).to_numpy()
    assert (times[1:] >= times[:-1]).all()
    return in_one_order(table)


def in_one_order(table: pa.Table) -> pa.Table:
    return table.combine_chunks().sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def undisturbed(data: Path, more: str = "") -> dict[str, pa.Table]:
    """The same micro-batches as epochs: one file of each stream. Which rows are late depends on them."""
    with Session() as session:
        session.execute(re.sub(r"format='parquet', path='[^']*'", "format='memory'", script(data)) + more)
        for number in range(FILES):
            for name in "abc":
                session.push(name, parquet.read_table(data / name / f"{number:03d}.parquet"))
            session.step()
        session.run(once=True, final=False)
        return {name: in_one_order(query.table()) for name, query in session.queries.items()}


def check(tmp_path: Path, right: dict[str, pa.Table]) -> None:
    for name, wanted in right.items():
        found = read(tmp_path / "out" / name)
        assert found.num_rows > 500
        assert found.equals(wanted), f"{name}: {found.num_rows} results, should be {wanted.num_rows}"


@pytest.mark.parametrize("scenario", ["driver", pytest.param("everything", marks=pytest.mark.long)])
def test_a_killed_job_is_continued(scenario: str, data: Path, tmp_path: Path) -> None:
    one = victim(tmp_path, data)
    assert until_done(one, scenario, Random(SEED), times=KILLS) == KILLS
    assert one.starts > KILLS
    check(tmp_path, undisturbed(data))


def test_a_killed_worker_is_replaced(data: Path, tmp_path: Path) -> None:
    one = victim(tmp_path, data, shards=3)
    assert until_done(one, "worker", Random(SEED), times=KILLS) == KILLS
    check(tmp_path, undisturbed(data))


def test_a_killed_executor_is_replaced(data: Path, tmp_path: Path) -> None:
    one = victim(tmp_path, data, master="local-cluster[2,1,1024]")
    assert until_done(one, "executor", Random(SEED), times=KILLS) == KILLS
    check(tmp_path, undisturbed(data))


@pytest.mark.long
def test_a_batch_that_fails_once_leaves_one_copy(data: Path, tmp_path: Path) -> None:
    one = victim(tmp_path, data, fail_once={"pairs": str(tmp_path / "failed")})
    until_done(one, "driver", Random(SEED), times=0)
    assert one.starts == 2 and (tmp_path / "failed").exists()
    check(tmp_path, undisturbed(data))


@pytest.mark.long
def test_a_driver_that_dies_between_preparing_and_starting_a_query(data: Path, tmp_path: Path) -> None:
    """Its sinks, its routes and its place in the ledger are there, the shards do not have it: the next driver starts it
    there."""
    late = "CREATE QUERY late AS SELECT a.v AS av, b.k, a.ts AS at, b.ts AS bt FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.v = b.v;"
    one = victim(tmp_path, data, add=late, die_before_start=str(tmp_path / "died"))
    one.start()
    one.wait(lambda: one.is_done)
    one.kill_all()
    assert json.loads((tmp_path / "died").read_text()) == {"start": ["late"]} and not one.is_done
    assert Ledger.read(str(tmp_path / "checkpoint")).queries["late"].state == "prepared"
    one.start()
    one.wait(lambda: one.is_done)
    assert one.is_done, one.errors()
    one.kill_all()
    start = Ledger.read(str(tmp_path / "checkpoint")).queries["late"].start
    right = undisturbed(data, late)
    times = {name: right["late"].column(name).cast(pa.int64()).to_numpy() for name in ("at", "bt")}
    right["late"] = right["late"].filter(pa.array((times["at"] > start) & (times["bt"] > start)))
    check(tmp_path, right)


@pytest.mark.long
def test_a_source_that_stalls_holds_back_what_it_must_and_no_more(data: Path, tmp_path: Path) -> None:
    (data / "c").rename(data / "away")
    (data / "c").mkdir()
    one = victim(tmp_path, data, finish=str(tmp_path / "finish"))
    one.start()
    one.wait(lambda: one.batches >= 3)
    # While it waits for stream c, power fails.
    one.kill_all()
    one.start()
    one.wait(lambda: one.batches >= 2)
    assert not list((tmp_path / "out" / "pairs").glob("*.parquet")), "without stream c the frontier stands still"
    for file in sorted((data / "away").iterdir()):
        file.rename(data / "c" / file.name)
    (tmp_path / "finish").touch()
    one.wait(lambda: one.is_done)
    assert one.is_done, one.errors()
    one.kill_all()
    check(tmp_path, undisturbed(data))
