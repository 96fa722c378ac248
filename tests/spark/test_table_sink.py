"""Sinks of every format on Spark: files once per batch, Spark's own writers where Spark has them, refusals before the
start."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import SourceProblem, UserError
from eddyline.runtime.spark.output import table_sink
from eddyline.runtime.spark.output.table_sink import TableSink
from tests.spark.material import write_files

TIMES = pa.array([1_000_000, 2_000_000], pa.timestamp("us"))


@pytest.mark.spark
def test_every_sink_gets_every_result(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "a", [f"{i}.parquet" for i in range(4)], 100)
    out = tmp_path / "out"
    seen: list[int] = []
    with Session(spark=spark, checkpoint=str(tmp_path / "checkpoint"), keep_results=False) as session:
        session.execute(f"""
            SET shards = 2; SET output_files = 'each';
            CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP)
              WITH (format='parquet', path='{tmp_path}/a', time='ts', files_per_batch='1');
            CREATE QUERY odd AS SELECT v FROM a WHERE v % 2 = 1;
            CREATE QUERY even AS SELECT v, k FROM a WHERE v % 2 = 0;
            CREATE SINK as_parquet FOR odd WITH (format='parquet', path='{out}/parquet');
            CREATE SINK as_csv FOR odd WITH (format='csv', path='{out}/csv');
            CREATE SINK as_json FOR odd WITH (format='json', path='{out}/json');
            CREATE SINK as_orc FOR odd WITH (format='orc', path='{out}/orc', "orc.compress"='ZLIB');
            CREATE SINK in_memory FOR odd WITH (format='memory');
            CREATE SINK everything FOR ALL WITH (format='jsonl', path='{out}/all');
            CREATE SINK everything_orc FOR ALL WITH (format='orc', path='{out}/all_orc');
        """)
        session.on_results("odd", lambda table: seen.extend(table.column("v").to_pylist()))
        assert [w for w in session.warnings if "as_orc (orc) cannot take back" in w]
        session.run()
        odd = list(range(1, 400, 2))
        assert session.stats()["epochs"] == 4
        assert parquet.read_table(out / "parquet").column("v").to_pylist() == odd == seen
        assert len(list((out / "parquet").glob("*.parquet"))) >= 4
        assert (
            sorted(
                v for file in (out / "csv").glob("*.csv") for v in pyarrow.csv.read_csv(file).column("v").to_pylist()
            )
            == odd
        )
        lines = [
            json.loads(line)
            for file in sorted((out / "json").glob("*.jsonl"))
            for line in file.read_text().splitlines()
        ]
        assert [line["v"] for line in lines] == odd and lines[0]["_ts"].startswith("1970-01-01")
        found = spark.read.orc(f"{out}/orc")
        assert sorted(row.v for row in found.collect()) == odd and dict(found.dtypes)["_ts"] == "timestamp"
        assert session.sink("in_memory").table().column("v").to_pylist() == odd
        whole = [
            json.loads(line) for file in sorted((out / "all").glob("*.jsonl")) for line in file.read_text().splitlines()
        ]
        assert sorted(line["v"] for line in whole) == list(range(400))
        assert {line["_query"] for line in whole} == {"odd", "even"}
        assert spark.read.orc(f"{out}/all_orc").groupBy("_query").count().count() == 2
        # A callback that fails stops the job, with its own words.
        write_files(tmp_path / "a", ["9.parquet"], 100, first=400)
        session.on_results("even", lambda table: 1 / 0)
        with pytest.raises(UserError, match="could not be handed over") as stopped:
            session.run()
        assert "ZeroDivisionError" in stopped.value.detail and isinstance(stopped.value.__cause__, ZeroDivisionError)
        # What Spark does not have is said when it is declared, with what brings it.
        for statement, message in [
            ("CREATE SINK s FOR odd WITH (format='delta', path='x')", "--packages io.delta:delta-spark"),
            (
                "CREATE SINK s FOR odd WITH (format='kafka', topic='t', servers='h:9092')",
                f"spark-sql-kafka-0-10_2.13:{spark.version}",
            ),
            ("CREATE SINK s FOR odd WITH (format='xls', path='x')", "formats are parquet, csv, jsonl, memory"),
            ("CREATE SINK s FOR odd WITH (format='orc')", "format = 'orc', path"),
        ]:
            with pytest.raises(SourceProblem) as refused:
                session.execute(statement)
            assert message in refused.value.hint
            assert "s" not in session.job.catalog.sinks


class _Writer:
    """Stands in for a session whose writers we do not have: notes what is asked of it."""

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []
        self.rows: list[dict[str, object]] = []

    def createDataFrame(self, table: pa.Table) -> _Writer:
        self.rows = table.to_pylist()
        self.said = []
        return self

    @property
    def write(self) -> _Writer:
        return self

    def __getattr__(self, name: str):
        def call(*values: object) -> _Writer:
            self.said.append((name, *values))
            return self

        return call


def test_delta_is_told_the_batch_and_which_job_it_is(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id": "one-of-a-kind"}')
    writer = _Writer()
    sink = TableSink(writer, "s", {"format": "delta", "path": "/table", "delta.option": "1"}, str(tmp_path))
    sink.write(7, pa.table({"v": [1, 2], "_ts": TIMES}))
    sink.write(7, pa.table({"w": [3, 4], "_ts": TIMES}))
    sink.flush(7)
    assert len(writer.rows) == 4 and writer.rows[0]["_ts"].tzinfo is not None
    assert ("option", "txnAppId", "one-of-a-kind-s") in writer.said and ("option", "txnVersion", "7") in writer.said
    assert ("option", "delta.option", "1") in writer.said and writer.said[-1] == ("save", "/table")
    writer.rows = []
    sink.flush(7)
    assert writer.rows == []


def test_kafka_gets_a_json_text_per_result(tmp_path: Path) -> None:
    writer = _Writer()
    sink = TableSink(writer, "s", {"format": "kafka", "topic": "hits", "servers": "h:9092", "key": "v"}, str(tmp_path))
    sink.write(1, pa.table({"v": [1, 2], "_ts": TIMES}))
    sink.flush(1)
    assert [row["key"] for row in writer.rows] == ["1", "2"]
    assert json.loads(writer.rows[1]["value"])["v"] == 2
    assert ("option", "kafka.bootstrap.servers", "h:9092") in writer.said and ("option", "topic", "hits") in writer.said
    assert writer.said[-1] == ("save",)


def test_kafka_may_repeat_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from eddyline.language.catalog import DeclaredSink

    monkeypatch.setattr(table_sink, "data_source_is_there", lambda spark, name: True)
    assert "twice" in (
        table_sink.check_sink(None, DeclaredSink("s", "q", {"format": "kafka", "topic": "t", "servers": "h"})) or ""
    )
    assert table_sink.check_sink(None, DeclaredSink("s", "q", {"format": "delta", "path": "/x"})) is None
    with pytest.raises(SourceProblem, match="has no topic"):
        table_sink.check_sink(None, DeclaredSink("s", "q", {"format": "kafka", "servers": "h"}))
