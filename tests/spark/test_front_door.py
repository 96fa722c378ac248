"""Sessions on Spark as a PySpark user has them: DataFrames in, DataFrames out, their own settings untouched."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eddyline import Session
from eddyline.errors import BindingProblem, SettingProblem, SourceProblem, Unsupported, UserError
from eddyline.runtime.figures.report import Report
from eddyline.runtime.sharded.job.checkpoint_progress import spark_state
from eddyline.runtime.spark.job import guest
from tests.spark.material import write_files

pytestmark = pytest.mark.spark

SAME = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.v = b.v"


def frame(spark, folder: Path):
    return spark.readStream.schema("k long, v long, ts timestamp").option("maxFilesPerTrigger", 2).parquet(str(folder))


def declared(session: Session, spark, tmp_path: Path) -> None:
    session.stream("a", frame(spark, tmp_path / "a"), time="ts", lateness="10 seconds")
    session.execute(
        f"CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{tmp_path}/b', time='ts', lateness='10 seconds')"
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_files(tmp_path / "a", [f"{i}.parquet" for i in range(4)], 250)
    write_files(tmp_path / "b", ["0.parquet", "1.parquet"], 500)
    return tmp_path


def wait(until: Callable[[], bool], seconds: float = 240.0) -> None:
    limit = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < limit, "it took too long"
        time.sleep(0.05)


def test_a_session_from_start_to_end(spark, data: Path) -> None:
    """A bounded run over a DataFrame and files, everything one can ask afterwards, and a second run that goes on."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    heard: list[tuple[int, int]] = []
    seen: list[Report] = []
    try:
        with Session(spark=spark, checkpoint=str(data / "checkpoint")) as session:
            session.set("shards", 2)
            declared(session, spark, data)
            same = session.query("same", SAME)
            session.execute(
                "CREATE QUERY odd AS SELECT v, ts FROM a WHERE v % 2 = 1; CREATE SINK kept FOR odd WITH (format='memory')"
            )
            session.on_results("odd", lambda table, batch: heard.append((table.num_rows, batch)), numbered=True)
            session.observe(lambda look: seen.append(look()))
            plan = same.explain()
            assert (
                "attribute {a.v, b.v}  share 2" in plan
                and "expected rows per shard" in plan
                and "replication 1" in plan
                and "files of b are read in ranges of row groups; a batch takes what about 2 s need" in plan
            )
            session.run()
            assert same.take().column("av").to_pylist() == list(range(1000)) and same.table().num_rows == 0
            assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
            assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
            assert spark.conf.get("spark.sql.adaptive.enabled") == "false"
            # Instants are instants, whatever the caller's time zone.
            found = session.queries["odd"].to_dataframe()
            assert dict(found.dtypes) == {"v": "bigint", "ts": "timestamp", "_ts": "timestamp"}
            assert found.count() == 500 and found.where("ts = _ts").count() == 500
            assert found.where("unix_micros(_ts) = v * 1000").count() == 500
            assert session.sink("kept").table().num_rows == 500
            assert sum(rows for rows, _ in heard) == 500 and len({batch for _, batch in heard}) == len(heard)
            figures = session.stats()
            assert figures["rows_in"] == {"a": 1000, "b": 1000} and figures["results"] == {"same": 1000, "odd": 500}
            assert len(figures["epoch_seconds"]) == figures["epochs"] >= 2
            assert all(seconds > 0 for seconds in figures["stages"]["addBatch"])
            assert seen[-1].rows_in == 2000 and seen[-1].results == {"same": 1000, "odd": 500}
            assert session.dead_letters("a").num_rows == 0
            # More rows, one of them late; the same session goes on.
            write_files(data / "a", ["8.parquet"], 100, first=20_000)
            write_files(data / "a", ["9.parquet"], 1, first=5)
            session.run()
            assert session.queries["odd"].table().num_rows == 550
            assert session.dead_letters("a").column("v").to_pylist() == ["5"]
            assert session.queries["odd"].to_dataframe().count() == 550
        held = spark_state(str(data / "checkpoint"))
        assert held is not None and [shard.frontier for shard in held.shards] == [20_099_001] * 2
        assert {name for shard in held.shards for name in shard.queries} == {"same", "odd"}
        assert sum(shard.rows for shard in held.shards) == 100 and sum(shard.waiting for shard in held.shards) == 0
        # To a later session they are history.
        later = Session(spark=spark, checkpoint=str(data / "checkpoint"))
        declared(later, spark, data)
        same = later.query("same", SAME)
        assert same.table().num_rows == 0 and same.to_dataframe().count() == 1000
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_results_stream_on(spark, data: Path) -> None:
    """A job in the background, its results read by another streaming query as they come."""
    with Session(spark=spark, out=str(data / "out"), checkpoint=str(data / "checkpoint")) as session:
        session.set("shards", 2)
        session.execute(
            f"CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{data}/b', time='ts')"
        )
        odd = session.query("odd", "SELECT v FROM b WHERE v % 2 = 1")
        further = odd.to_dataframe(streaming=True).groupBy().count()
        counting = further.writeStream.outputMode("complete").format("memory").queryName("counted").start()
        try:
            session.start()
            with pytest.raises(UserError, match="running already"):
                session.run()
            with pytest.raises(Unsupported, match="streams cannot be added"):
                session.execute("CREATE STREAM c (ts TIMESTAMP) WITH (time='ts')")
            # A derived stream and what reads it come and go like queries.
            session.execute("CREATE STREAM d AS SELECT v FROM b WHERE v > 1")
            session.query("even", "SELECT v FROM d WHERE v % 2 = 0")
            wait(lambda: session.stats()["results"].get("odd", 0) >= 499)
            write_files(data / "b", ["2.parquet"], 100, first=1000)
            wait(lambda: session.stats()["results"]["odd"] >= 549)
            wait(lambda: session.stats()["results"]["even"] >= 49)
            session.drop("even")
            session.execute("DROP STREAM d")
            assert "d" not in session.job.catalog.streams
            wait(lambda: [row[0] for row in spark.table("counted").collect()] == [549])
        finally:
            counting.stop()
    assert odd.table().column("v").to_pylist() == list(range(1, 1099, 2))


def test_what_cannot_work_is_said_before_the_start(spark, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingProblem, match="needs a SparkSession"):
        Session(spark="local[2]")  # type: ignore[arg-type]
    with pytest.raises(BindingProblem, match=r"Session\(spark=…\)"):
        Session().stream("a", frame(spark, data / "a"), time="ts")
    session = Session(spark=spark, keep_results=False)
    with pytest.raises(UserError, match="no query"):
        session.run()
    session.stream("a", frame(spark, data / "a"), time="ts")
    with pytest.raises(BindingProblem, match="no repeatable order"):
        session.query("last", "SELECT x.v FROM a [ROWS 3] x, a [RANGE 1 SECOND] y WHERE x.k = y.k")
    assert session.queries == {}
    odd = session.query("odd", "SELECT v FROM a WHERE v % 2 = 1")
    with pytest.raises(UserError, match="keeps no results"):
        odd.to_dataframe()
    with pytest.raises(Unsupported, match="cannot be pushed"):
        session.push("a", [(1, 1, datetime.datetime(2024, 1, 1))])
    with pytest.raises(Unsupported, match="live in its workers"):
        _ = session.pipeline
    session.execute("CREATE STREAM pushed (v BIGINT, ts TIMESTAMP) WITH (time='ts')")
    with pytest.raises(UserError, match="no source on Spark"):
        session.run()
    session.execute(
        "DROP STREAM pushed; CREATE STREAM nowhere (v BIGINT, ts TIMESTAMP) WITH (time='ts', path='no/such/folder')"
    )
    for start in (session.run, session.start):
        with pytest.raises(SourceProblem, match="no/such/folder, from which stream nowhere is read, does not exist"):
            start()
    session.execute("DROP STREAM nowhere")
    session.execute(f"CREATE STREAM odd_form (v BIGINT, ts TIMESTAMP) WITH (time='ts', format='xml', path='{data}')")
    with pytest.raises(SourceProblem, match="xml"):
        session.run()
    # Workers of another version, or that do not see the checkpoint.
    monkeypatch.setattr(guest, "_version", lambda: "0.0.1")
    for answer, message in [
        ([("w1", "0.0.1", True), ("w2", "0.2.0", True)], "workers have eddyline 0.2.0, this program has 0.0.1"),
        ([("w1", "0.0.1", False)], "do not see the checkpoint"),
        (
            RuntimeError("pickle…\nModuleNotFoundError: No module named 'eddyline'\n at java.lang…"),
            "Python of Spark's workers",
        ),
    ]:
        with pytest.raises(SettingProblem, match=message):
            guest.check_workers(_Answering(answer), str(data))  # type: ignore[arg-type]
    guest.check_workers(_Answering([("w1", "", True)]), str(data))  # type: ignore[arg-type]


class _Answering:
    """A session whose workers say this when they are asked."""

    def __init__(self, answer: list[tuple[str, str, bool]] | Exception) -> None:
        self.answer = answer
        self.sparkContext = self
        self.applicationId = str(answer)
        self.defaultParallelism = 1

    def getConf(self) -> dict[str, str]:
        return {}

    def parallelize(self, *_: object) -> _Answering:
        return self

    def map(self, _: object) -> _Answering:
        return self

    def collect(self) -> list[tuple[str, str, bool]]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
