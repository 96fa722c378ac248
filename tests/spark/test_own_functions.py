"""Functions of one's own on Spark itself: code with a place is imported by workers, code without one travels."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from eddyline import Session
from tests.spark.material import write_files

pytestmark = pytest.mark.spark


def test_functions_reach_workers(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["0.parquet", "1.parquet"], 200)
    write_files(tmp_path / "b", ["0.parquet"], 200)
    answers = {}
    for engine in (None, spark):
        with Session(spark=engine, checkpoint=str(tmp_path / ("embedded" if engine is None else "spark"))) as session:
            session.set("shards", 2)
            for name in ("a", "b"):
                session.execute(
                    f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) "
                    f"WITH (format = 'parquet', path = '{tmp_path}/{name}', time = 'ts', lateness = '10 seconds')"
                )
            session.execute("CREATE FUNCTION half(x BIGINT) RETURNS BIGINT AS 'tests.property.functions:half'")
            session.function("third", lambda x: pc.divide(x, 3), ["BIGINT"], "BIGINT")
            # The join is on calls: what places rows in shards computes them too.
            query = session.query(
                "q",
                "SELECT a.v AS av, b.v AS bv, half(b.v) AS h FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE third(a.v) = third(b.v)",
            )
            session.run(once=True)
            answers[engine is None] = sorted(map(str, query.table().to_pylist()))
            failed = session.stats()["null_results"]
            assert set(failed) == {"half"}
    assert answers[True] and answers[True] == answers[False]
    for file in (tmp_path / "spark").rglob("*"):
        assert file.is_dir() or b"cloudpickle" not in file.read_bytes()
