"""Nested data on Spark itself: the answers are those of the embedded engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from tests.runtime.test_nested import COLUMNS, rows, table

pytestmark = pytest.mark.spark


def test_answers_are_those_of_the_embedded_engine(spark, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for number in range(2):
        parquet.write_table(table(rows(120, 4)).slice(60 * number, 60), tmp_path / "s" / f"{number}.parquet")
    answers = {}
    for engine in (None, spark):
        with Session(spark=engine, checkpoint=str(tmp_path / ("embedded" if engine is None else "spark"))) as session:
            session.set("shards", 2)
            session.execute(f"""
                CREATE STREAM s ({COLUMNS}) WITH (time = 'ts', format = 'parquet', path = '{tmp_path}/s');
                CREATE QUERY joined AS SELECT a.id AS id, a.place AS place, b.items AS items
                  FROM s [RANGE 9 SECONDS] a, s [RANGE 9 SECONDS] b
                  WHERE a.xs[1] = b.xs[1] AND a.place.city = b.place.city;
                CREATE QUERY each_item AS SELECT o.id, i.sku, i.price FROM s o, UNNEST(o.items) AS i WHERE i.qty > 0;
                CREATE TABLE t ({COLUMNS}) WITH (format = 'parquet', path = '{tmp_path}/s/0.parquet');
                CREATE QUERY each_element AS SELECT o.id, t.id AS other, x FROM s o, t, UNNEST(t.xs) AS x WHERE o.id = x
            """)
            session.run(once=True, final=False)
            answers[engine is None] = {
                name: sorted(map(str, session.queries[name].table().to_pylist()))
                for name in ("joined", "each_item", "each_element")
            }
    assert all(answers[True].values())
    assert answers[True] == answers[False]
