"""First rows and earlier rows on Spark: what the embedded engine answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.material import write_files
from tests.spark.running import run_script
from tests.spark.test_job import embedded, in_order, results, same_rows, script

pytestmark = pytest.mark.spark

MORE = """
    CREATE QUERY tops AS SELECT window_end, k, COUNT(*) AS n, ARG_MAX(v, ts) AS newest FROM a
      GROUP BY TUMBLE(ts, '10 milliseconds'), k ORDER BY n DESC LIMIT 2;
    CREATE QUERY once AS SELECT k, v FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) = 1;
    CREATE QUERY every AS SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS place FROM b [RANGE 20 MILLISECONDS]
      QUALIFY place <= 2 EMIT EVERY 10 MILLISECONDS;
    CREATE QUERY steps AS SELECT k, v - LAG(v) OVER (PARTITION BY k ORDER BY ts) AS step FROM c;
"""


@pytest.mark.long
def test_spark_answers_as_embedded(spark, tmp_path: Path) -> None:
    for name in "abc":
        write_files(tmp_path / "data" / name, ["0.parquet", "1.parquet"], 150)
    text = script(tmp_path / "data", files_per_batch=1, more=MORE)
    run_script(spark, text, tmp_path / "checkpoint", tmp_path / "out", shards=3)
    right = embedded(text)
    for name in ("tops", "every", "steps"):
        found = results(tmp_path / "out", name)
        assert same_rows(found, right[name]) and in_order(found) and len(found), name
    firsts = results(tmp_path / "out", "once")
    keys = firsts.column("k").to_pylist()
    assert len(keys) == len(set(keys)) and set(firsts.column("_op").to_pylist()) == {"+"}
    assert firsts.select(["k", "v"]).sort_by("k").equals(right["once"].select(["k", "v"]).sort_by("k"))
