"""A standalone cluster on this machine, a master and two workers: programs and the command bring jobs to it as the page
on Spark says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pyspark
import pytest

from eddyline.cli.__main__ import main
from eddyline.runtime.spark.job.java import suitable_java
from tests.fault.scenarios import ROOT, end_session

pytestmark = [pytest.mark.fault, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

BIN = Path(pyspark.__file__).parent / "bin"

PROGRAM = """
import os
from pyspark.sql import SparkSession
from eddyline import Session

spark = SparkSession.builder.getOrCreate()
session = Session(spark=spark, checkpoint="state", out="out")
session.execute(open("job.sql").read())
session.run()
daemons = spark.sparkContext.parallelize(range(8), 8).map(lambda _: os.getppid()).distinct()
print("shards", session.stats()["shards"], "on", daemons.count())
spark.stop()
"""

JOB = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='a', time='ts', files_per_batch=1);
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='b', time='ts', files_per_batch=1);
CREATE QUERY pairs AS SELECT a.v AS av, b.v AS bv FROM a [RANGE 300 MILLISECONDS], b [RANGE 300 MILLISECONDS] WHERE a.k = b.k;
CREATE QUERY per_second AS SELECT date_trunc('second', b.ts) AS second, COUNT(*) AS n, SUM(a.v) AS v
  FROM a [RANGE 300 MILLISECONDS], b [RANGE 300 MILLISECONDS] WHERE a.k = b.k GROUP BY date_trunc('second', b.ts) EMIT ON CLOSE;
"""


def environment() -> dict[str, str]:
    ours = {
        "JAVA_HOME": suitable_java(),
        "SPARK_HOME": str(BIN.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT / "src"),
    }
    return os.environ | ours | {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster with two executors of one core each."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, kind: str, *more: str) -> Path:
        log = tmp_path / f"{name}.log"
        command = [
            str(BIN / "spark-class"),
            f"org.apache.spark.deploy.{kind}",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            *more,
        ]
        with open(log, "wb") as out:
            started.append(
                subprocess.Popen(
                    command, stdout=out, stderr=out, env=environment(), cwd=tmp_path, start_new_session=True
                )
            )
        return log

    try:
        url = said(start("master", "master.Master", "--port", "0"), r"spark://127\.0\.0\.1:\d+")
        for name in ("one", "two"):
            folder = ["--work-dir", str(tmp_path / name)]
            said(
                start(name, "worker.Worker", "--cores", "1", "--memory", "1g", *folder, url),
                "Successfully registered with master",
            )
        yield url
    finally:
        for process in started:
            end_session(process)


def said(log: Path, words: str, seconds: float = 240.0) -> str:
    for _ in range(int(seconds / 0.1)):
        found = re.search(words, log.read_text())
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} does not say {words}:\n{log.read_text()}")


def write(folder: Path, numbers: range) -> None:
    random = np.random.default_rng(numbers.start)
    for name in "ab":
        (folder / name).mkdir(exist_ok=True)
        for number in numbers:
            v = np.arange(number * 500, (number + 1) * 500)
            rows = {"k": random.integers(0, 40, 500), "v": v, "ts": pa.array(v * 1000).cast(pa.timestamp("us"))}
            parquet.write_table(pa.table(rows), folder / name / f"{number}.parquet")


def test_a_program_by_spark_submit_and_the_command_go_on_with_one_checkpoint(
    master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sql").write_text(JOB)
    (tmp_path / "program.py").write_text(PROGRAM)
    write(tmp_path, range(3))
    python = [f"spark.pyspark.{who}={sys.executable}" for who in ("python", "driver.python")]
    submit = [str(BIN / "spark-submit"), "--master", master, "--conf", python[0], "--conf", python[1], "program.py"]
    done = subprocess.run(submit, env=environment(), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert "shards 2 on 2" in done.stdout
    write(tmp_path, range(3, 5))
    run = ["run", "job.sql", "--once", "--quiet"]
    command = [
        sys.executable,
        "-m",
        "eddyline.cli",
        *run,
        "--engine",
        "spark",
        "--master",
        master,
        "--out",
        "out",
        "--checkpoint",
        "state",
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert main([*run, "--no-final", "--out", "right"]) == 0
    for name in ("pairs", "per_second"):
        found, right = (parquet.read_table(tmp_path / folder / name) for folder in ("out", "right"))
        by = [(column, "ascending") for column in right.column_names]
        assert len(right) >= 2 and found.sort_by(by).equals(right.sort_by(by)), name
