"""`eddyline query add | drop | list` against a job that runs on Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.errors import UserError
from eddyline.language import bind_script
from eddyline.runtime.spark.job.driver import SparkDriver
from tests.spark.material import write_files
from tests.spark.running import layout_of
from tests.spark.test_following import wait
from tests.spark.test_job import results, same_rows

pytestmark = pytest.mark.spark

PAIRS = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 20 MILLISECONDS], b [RANGE 20 MILLISECONDS] WHERE a.{0} = b.{0}"


def started(spark, folder: Path, more: str = "") -> SparkDriver:
    declared = "(k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts', format='parquet', path='{}')"
    job = bind_script(
        "".join(f"CREATE STREAM {name} {declared.format(folder / name)};" for name in "ab")
        + f"CREATE QUERY by_k AS {PAIRS.format('k')}; CREATE QUERY late_a AS SELECT v FROM a; {more}"
    )
    driver = SparkDriver(spark, layout_of(spark, job, folder / "ck", 2), out=str(folder / "out"))
    driver.add_queries(job.catalog)
    driver.start()
    return driver


def listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, int | None, int | None]]:
    capsys.readouterr()
    assert main(["query", "list", "--json", "--job", str(folder / "ck")]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {line["query"]: (line["state"], line["start"], line["stop"]) for line in lines}


def feed(folder: Path, driver: SparkDriver, number: int) -> None:
    """A hundred rows of both streams, one per millisecond and stream; until they have been read."""
    before = driver.progress.rows_in.get("a", 0), driver.progress.rows_in.get("b", 0)
    for name in "ab":
        write_files(folder / name, [f"{number}.parquet"], 100, first=100 * number)
    wait(
        lambda: (
            (driver.progress.rows_in.get("a", 0), driver.progress.rows_in.get("b", 0))
            == (before[0] + 100, before[1] + 100)
        )
    )


def pairs(key: str, after: float, until: float) -> list[tuple[int, int]]:
    from tests.spark.material import rows

    whole = pa.concat_tables([rows(100 * number, 100) for number in range(5)]).to_pylist()
    kept = [row for row in whole if after < row["v"]]
    return [
        (x["v"], y["v"])
        for x in kept
        for y in kept
        if x[key] == y[key] and abs(x["v"] - y["v"]) <= 20 and max(x["v"], y["v"]) <= until
    ]  # fmt: skip


def test_queries_of_a_running_job(spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "more.sql").write_text(
        f"CREATE QUERY by_v AS {PAIRS.format('v')}; CREATE SINK side FOR by_v WITH (format='parquet', path='{tmp_path}/side');"
        "CREATE QUERY counts AS SELECT k, COUNT(*) AS n FROM b [ROWS 50] GROUP BY k;"
    )
    (tmp_path / "bad.sql").write_text("CREATE QUERY x AS SELECT nothing FROM a")
    job = str(tmp_path / "ck")
    driver = started(spark, tmp_path)
    feed(tmp_path, driver, 0)
    assert main(["query", "add", str(tmp_path / "bad.sql"), "--job", job]) == 2
    # Nothing comes at the moment: the record alone makes a batch run.
    assert main(["query", "add", str(tmp_path / "more.sql"), "--job", job]) == 0
    wait(lambda: listed(tmp_path, capsys).get("by_v", ("", 0, 0))[0] == "running")
    assert listed(tmp_path, capsys)["by_v"] == listed(tmp_path, capsys)["counts"] == ("running", 99_000, None)
    feed(tmp_path, driver, 1)
    assert main(["query", "drop", "late_a", "--job", job]) == 0
    wait(lambda: listed(tmp_path, capsys)["late_a"] == ("stopping", None, 199_000))
    driver.stop()
    # The job's file has late_a and not by_v: what was said to the running job holds.
    driver = started(spark, tmp_path, "CREATE QUERY fresh AS SELECT v FROM b;")
    feed(tmp_path, driver, 2)
    wait(lambda: listed(tmp_path, capsys)["late_a"] == ("dropped", None, 199_000))
    assert listed(tmp_path, capsys)["fresh"] == ("running", 199_000, None)
    assert main(["query", "drop", "by_v", "--job", job]) == 0
    wait(lambda: listed(tmp_path, capsys)["by_v"] == ("stopping", 99_000, 299_000))
    feed(tmp_path, driver, 3)
    wait(lambda: listed(tmp_path, capsys)["by_v"] == ("dropped", 99_000, 299_000))
    driver.stop()
    found = results(tmp_path / "out", "by_v")
    assert list(zip(found.column("av").to_pylist(), found.column("bv").to_pylist(), strict=True)) == [
        (v, v) for v in range(100, 300)
    ]
    assert same_rows(parquet.read_table(tmp_path / "side"), found)
    assert results(tmp_path / "out", "late_a").column("v").to_pylist() == list(range(200))
    assert results(tmp_path / "out", "fresh").column("v").to_pylist() == list(range(200, 399))
    base = results(tmp_path / "out", "by_k")
    assert sorted(zip(base.column("av").to_pylist(), base.column("bv").to_pylist(), strict=True)) == sorted(
        pairs("k", -1, 398)
    )
    assert results(tmp_path / "out", "counts").num_rows > 100


def test_a_session_that_runs(spark, tmp_path: Path) -> None:
    for name in "ab":
        write_files(tmp_path / name, ["0.parquet"], 100)
    declared = "(k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts', format='parquet', path='{}')"
    heard: list[pa.Table] = []
    with Session(spark=spark, checkpoint=str(tmp_path / "ck")) as session:
        session.execute(
            "SET shards = 2;" + "".join(f"CREATE STREAM {name} {declared.format(tmp_path / name)};" for name in "ab")
        )
        every = session.query("every", "SELECT v FROM a")
        session.start()
        wait(lambda: session.stats()["rows_in"] == {"a": 100, "b": 100})
        pairs = session.query("pairs", PAIRS.format("v"), jit="off")
        session.on_results("pairs", heard.append)
        with pytest.raises(UserError, match="CPU budget"):
            session.query("large", PAIRS.format("k"), cpu_budget="0.000000001 cores")
        wait(lambda: pairs.start == 99_000)
        session.drop("every")
        wait(lambda: every.stop == 99_000)
        for name in "ab":
            write_files(tmp_path / name, ["1.parquet"], 100, first=100)
        wait(lambda: session.stats()["results"].get("pairs", 0) == 99)
        assert "pairs" in session.stats()["plan"]
    assert pairs.table().column("av").to_pylist() == list(range(100, 199))
    assert pa.concat_tables(heard).num_rows == 99
    assert every.table().column("v").to_pylist() == list(range(100))
