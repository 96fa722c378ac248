"""Whole jobs on Spark: the same answers as embedded, once, in order, continued where they ended."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import CheckpointProblem, DataProblem
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.layouts import make_layout
from eddyline.settings import Settings
from tests.spark.echo import EchoEngine, echo_schema
from tests.spark.material import SCHEMA, equality, query, stream, write_files
from tests.spark.running import run_script

pytestmark = pytest.mark.spark


def script(folder: Path, files_per_batch: int = 2, more: str = "") -> str:
    def declared(name: str) -> str:
        return (
            f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) "
            f"WITH (format='parquet', path='{folder}/{name}', time='ts', files_per_batch='{files_per_batch}');"
        )

    return f"""
        {declared("a")} {declared("b")} {declared("c")}
        CREATE QUERY pairs AS SELECT a.v AS av, b.v AS bv FROM a [RANGE 20 MILLISECONDS], b [RANGE 50 MILLISECONDS] WHERE a.k = b.k;
        CREATE QUERY chain AS SELECT a.v AS av, b.v AS bv, c.v AS cv
          FROM a [RANGE 30 MILLISECONDS], b [RANGE 30 MILLISECONDS], c [ROWS 20] WHERE a.k = b.k AND b.v = c.v;
        CREATE QUERY latest AS SELECT a.v AS av, b.v AS bv FROM a [NOW], b [PARTITION BY k ROWS 1] WHERE a.k = b.k;
        CREATE QUERY kept AS SELECT a.v AS av, b.v AS bv FROM a [RANGE 5 MILLISECONDS] LEFT JOIN b [RANGE 5 MILLISECONDS] ON a.k = b.k;
        CREATE QUERY alone AS SELECT v FROM a [RANGE 5 MILLISECONDS] WHERE NOT EXISTS (SELECT 1 FROM c [ROWS 3] WHERE c.k = a.k);
        CREATE QUERY counts AS SELECT k, COUNT(*) AS n FROM b [RANGE 20 MILLISECONDS] GROUP BY k EMIT EVERY 10 MILLISECONDS;
        CREATE QUERY counted AS SELECT a.v, counts.n FROM a JOIN LATEST counts ON a.k = counts.k;
        CREATE QUERY odd AS SELECT v FROM a WHERE v % 2 = 1;
        {more}
    """


def embedded(text: str) -> dict[str, pa.Table]:
    with Session() as session:
        session.execute(text)
        session.run(once=True, final=False)
        return {name: q.table() for name, q in session.queries.items()}


def same_rows(left: pa.Table, right: pa.Table) -> bool:
    keys = [(name, "ascending") for name in ["_ts", *(n for n in left.column_names if n != "_ts")]]
    return left.sort_by(keys).equals(right.sort_by(keys))


def in_order(table: pa.Table) -> bool:
    times = table.column("_ts").combine_chunks().view(pa.int64()).to_numpy()
    return bool((times[1:] >= times[:-1]).all())


def results(out: Path, name: str) -> pa.Table:
    return pa.concat_tables([parquet.read_table(out / name / file) for file in sorted(os.listdir(out / name))])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, files in (("a", 5), ("b", 3), ("c", 4)):
        write_files(tmp_path / "data" / name, [f"{i}.parquet" for i in range(files)], 200)
    return tmp_path / "data"


@pytest.mark.parametrize("shards", [2, pytest.param(8, marks=pytest.mark.long)])
def test_spark_answers_as_embedded(spark, data: Path, tmp_path: Path, shards: int) -> None:
    text = script(data)
    job, _ = run_script(spark, text, tmp_path / "checkpoint", tmp_path / "out", shards)
    for name, right in embedded(text).items():
        found = results(tmp_path / "out", name)
        assert right.num_rows > 100
        assert same_rows(found, right), name
        assert in_order(found)
        assert job.progress.results[name] == right.num_rows
    assert job.progress.rows_in == {"a": 1000, "b": 600, "c": 800}
    assert job.progress.closed and job.progress.batches == 3


def test_a_later_run_continues(spark, data: Path, tmp_path: Path) -> None:
    text = script(data)
    for name in ("a", "c"):
        os.rename(data / name / "3.parquet", tmp_path / f"{name}-later.parquet")
    run_script(spark, text, tmp_path / "checkpoint", tmp_path / "out")
    for name in ("a", "c"):
        os.rename(tmp_path / f"{name}-later.parquet", data / name / "9.parquet")
    write_files(data / "b", ["7.parquet", "8.parquet"], 200, first=1000)
    _, again = run_script(spark, text, tmp_path / "checkpoint", tmp_path / "out")
    odd = results(tmp_path / "out", "odd")
    # The rows of a that come below the frontier of the first run are late, none is lost.
    letters = parquet.read_table(tmp_path / "out" / "_dead_letter" / "a")
    assert odd.num_rows + sum(int(v) % 2 for v in letters.column("v").to_pylist()) == 500
    assert letters.num_rows == 200
    assert in_order(odd)
    assert again["odd"].num_rows == 0


def test_an_edited_script(spark, data: Path, tmp_path: Path) -> None:
    run_script(spark, script(data), tmp_path / "checkpoint", tmp_path / "out")
    before = results(tmp_path / "out", "odd")
    write_files(data / "a", ["8.parquet"], 200, first=1000)
    more = "CREATE QUERY even AS SELECT v FROM a WHERE v % 2 = 0;"
    run_script(spark, script(data, more=more), tmp_path / "checkpoint", tmp_path / "out")
    assert results(tmp_path / "out", "even").column("v").to_pylist() == list(range(1000, 1200, 2))
    assert results(tmp_path / "out", "odd").num_rows == before.num_rows + 100
    with pytest.raises(CheckpointProblem, match="another text"):
        run_script(spark, script(data).replace("v % 2 = 1", "v % 2 = 0"), tmp_path / "checkpoint")
    with pytest.raises(CheckpointProblem, match="shards"):
        run_script(spark, script(data), tmp_path / "checkpoint", shards=3)


def test_errors_of_workers_are_one_message(spark, data: Path, tmp_path: Path) -> None:
    write_files(data / "a", ["9.parquet"], 10, first=0)
    with pytest.raises(DataProblem, match="a row of stream a is late"):
        run_script(spark, "SET on_late = 'error';" + script(data, files_per_batch=1), tmp_path / "checkpoint")


def test_bad_files_are_dead_letters(spark, data: Path, tmp_path: Path) -> None:
    (data / "a" / "2b.parquet").write_bytes(b"not parquet")
    job, _ = run_script(spark, script(data), tmp_path / "checkpoint", tmp_path / "out")
    letters = parquet.read_table(tmp_path / "out" / "_dead_letter" / "a")
    assert letters.num_rows == 1 and "2b.parquet" in letters.column("_reason")[0].as_py()
    assert job.progress.bad == {"a": 1}
    assert results(tmp_path / "out", "odd").num_rows == 500


def test_every_row_once_wherever_its_shard_was_last(spark, tmp_path: Path) -> None:
    """The echo engine hands out each row with a number of its shard: numbers must be gapless over all batches."""
    write_files(tmp_path / "a", [f"{i:02d}.parquet" for i in range(12)], 100)
    write_files(tmp_path / "b", ["0.parquet"], 100)
    queries = [query(f"echo_{name}", "a b", equality("a.k", "b.k")) for name in "ab"]
    streams = [stream("a", 0, tmp_path, files_per_batch="1"), stream("b", 1, tmp_path)]
    made = make_layout(spark, str(tmp_path / "checkpoint"), streams, queries, settings=Settings(shards=3))
    job = SparkDriver(spark, made, out=str(tmp_path / "out"), engine=EchoEngine)
    for name in "ab":
        job.add_query(f"echo_{name}", echo_schema(SCHEMA.arrow))
    progress = job.run()
    found = results(tmp_path / "out", "echo_a")
    assert found.column("v").to_pylist() == list(range(1200))
    shards = [note["statistics"]["seen"].get("a", 0) for note in progress.notes.values()]
    assert sorted(found.column("n").to_pylist()) == sorted(n for count in shards for n in range(count))
    assert all(note["statistics"]["closings"] == 1 for note in progress.notes.values())
    assert progress.came_from["nothing"] == 3 and progress.came_from.keys() <= {"nothing", "memory", "state"}
    assert pc.max(found.column("n")).as_py() == max(shards) - 1
