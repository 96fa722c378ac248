"""Templates on Spark: streams of requests, requests of a session and of other processes, REQUEST at the end of a
run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.errors import Unsupported, UserError

pytestmark = pytest.mark.spark

SECOND = 1_000_000


def world(folder: Path) -> str:
    return f"""
SET shards = 2;
CREATE STREAM packets (src STRING, dst STRING, len BIGINT, ts TIMESTAMP)
  WITH (format='parquet', path='{folder}/packets', time='ts', files_per_batch='1');
CREATE TEMPLATE traffic WITH (history = '5 seconds') AS
  SELECT src, dst, SUM(len) AS bytes, COUNT(*) AS n, COUNT(DISTINCT len) AS lengths FROM packets [RANGE 60 SECONDS] GROUP BY src, dst;
CREATE REQUESTS asks (id BIGINT, src STRING, dst STRING, groups STRING, ts TIMESTAMP) FOR traffic
  WITH (format='parquet', path='{folder}/asks', time='ts', group_by='groups', files_per_batch='1');
REQUEST n, bytes, lengths FROM traffic GROUP BY ();
REQUEST dst, n FROM traffic [RANGE 20 SECONDS] WHERE src = 'a1' GROUP BY dst;
"""


def write(folder: Path, number: int, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    parquet.write_table(table, folder / ".hidden")
    os.rename(folder / ".hidden", folder / f"{number:03d}.parquet")


def feed(folder: Path, number: int) -> None:
    """A hundred packets of a hundred seconds, and ten requests among them."""
    rng, first = Random(number), number * 100
    times = pa.array([(first + i) * SECOND for i in range(100)], pa.timestamp("us"))
    columns = {"src": [f"a{rng.randrange(4)}" for _ in range(100)], "dst": [f"b{rng.randrange(5)}" for _ in range(100)]}
    write(
        folder / "packets", number, pa.table({**columns, "len": [rng.randrange(50) for _ in range(100)], "ts": times})
    )
    chosen = [(f"a{rng.randrange(5)}" if i % 2 else None, f"b{rng.randrange(5)}" if i % 3 else None) for i in range(10)]
    groups = [("src", None, "", "src, dst")[rng.randrange(4)] for _ in range(10)]
    asked = pa.array([(first + 9 + 10 * i) * SECOND for i in range(10)], pa.timestamp("us"))
    table = {"id": [number * 10 + i for i in range(10)], "src": [s for s, _ in chosen], "dst": [d for _, d in chosen]}
    write(folder / "asks", number, pa.table({**table, "groups": pa.array(groups, pa.string()), "ts": asked}))


def rows(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def embedded(folder: Path) -> tuple[pa.Table, list[pa.Table]]:
    with Session(out=str(folder / "embedded"), overwrite=True) as session:
        session.execute(world(folder))
        session.run()
        answers = [parquet.read_table(folder / "embedded" / "_requests" / f"{n}.parquet") for n in (1, 2)]
        return session.queries["asks"].table(), answers


def wait(until: Callable[[], bool], seconds: float = 240.0) -> None:
    limit = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < limit, "it took too long"
        time.sleep(0.05)


@pytest.mark.long
def test_a_bounded_run_equals_the_embedded_one(spark, tmp_path: Path) -> None:
    for number in range(3):
        feed(tmp_path, number)
    out = tmp_path / "out"
    with Session(spark=spark, checkpoint=str(tmp_path / "ck"), out=str(out)) as session:
        texts = session.execute(
            world(tmp_path) + "EXPLAIN TEMPLATE traffic; EXPLAIN REQUEST n FROM traffic WHERE src = 'a1';"
        )
        assert "attribute {packets.src + packets.dst}  share 2" in texts[0]
        with pytest.raises(UserError, match="does not run"):
            session.request("n FROM traffic")
        session.run()
        found = session.queries["asks"].table()
    right, answers = embedded(tmp_path)
    assert rows(found) == rows(right) and found.num_rows > 30
    for number, answer in enumerate(answers, 1):
        assert rows(parquet.read_table(out / "_requests" / f"{number}.parquet")) == rows(answer)
    assert not (out / "traffic").exists()


def test_requests_from_a_streaming_dataframe(spark, tmp_path: Path) -> None:
    for number in range(2):
        feed(tmp_path, number)
    frame = spark.readStream.schema("id BIGINT, src STRING, dst STRING, groups STRING, ts TIMESTAMP").parquet(
        str(tmp_path / "asks")
    )
    statements = [part for part in world(tmp_path).split(";\n") if "REQUEST" not in part]
    with Session(spark=spark, checkpoint=str(tmp_path / "ck")) as session:
        session.execute(";\n".join(statements))
        asks = session.requests("asks", "traffic", frame, time="ts", group_by="groups")
        session.run()
        found = asks.table()
    assert rows(found) == rows(embedded(tmp_path)[0]) and found.num_rows > 20


def test_a_running_job_is_asked_and_a_crash_repeats_nothing(
    spark, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    feed(tmp_path, 0)
    checkpoint = str(tmp_path / "ck")
    session = Session(spark=spark, checkpoint=checkpoint, out=str(tmp_path / "out"))
    session.execute(world(tmp_path))
    session.start()
    try:
        wait(lambda: session.stats()["frontier"] is not None)
        ask = "n FROM traffic GROUP BY ()"
        assert session.request(ask, timeout=240).to_pylist() == [
            {"n": 60, "_ts": datetime(1970, 1, 1, 0, 1, 38, 999999)}
        ]
        many = session.request([ask, "src, n FROM traffic WHERE dst = 'b1' GROUP BY src"], as_of="1970-01-01 00:01:35")
        assert many[0].to_pylist()[0]["n"] == 61 and sum(many[1].column("n").to_pylist()) < 61
        with pytest.raises(UserError, match="too old"):
            session.request(ask, as_of="1970-01-01 00:00:35")
        with pytest.raises(Unsupported, match="while the job runs"):
            session.execute("DROP REQUESTS asks;")
        capfdbinary.readouterr()
        assert main(["request", "--job", checkpoint, ask, "--format", "jsonl", "--timeout", "60"]) == 0
        assert json.loads(capfdbinary.readouterr().out)["n"] == 60
        assert main(["request", "--job", checkpoint, "n FROM trafic"]) == 2
    finally:
        session._runner.abandon()
    with Session(spark=spark, checkpoint=checkpoint, out=str(tmp_path / "out")) as again:
        again.execute(world(tmp_path))
        feed(tmp_path, 1)
        again.start()
        wait(lambda: (again.stats()["frontier"] or 0) >= 190 * SECOND)
    # A job that is stopped answers at the last moment before its frontier.
    answer = parquet.read_table(tmp_path / "out" / "_requests" / "1.parquet").to_pylist()
    assert [(row["n"], row["_ts"]) for row in answer] == [(60, datetime(1970, 1, 1, 0, 3, 18, 999999))]
    with Session(spark=spark, checkpoint=checkpoint, out=str(tmp_path / "out")) as last:
        last.execute(world(tmp_path))
        last.run()
    right, answers = embedded(tmp_path)
    assert rows(parquet.read_table(tmp_path / "out" / "asks")) == rows(right)
    assert rows(parquet.read_table(tmp_path / "out" / "_requests" / "1.parquet")) == rows(answers[0])
