"""Results that shards write themselves: whole and ordered files, in order where rows are handed over, to every kind of
sink."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.connectors.results.output import result_files
from eddyline.settings import Settings
from eddyline.tuning import OutputTuning, Tuning
from tests.spark.material import write_files

ROWS, FILES = 100, 4


def session_of(spark, tmp_path: Path, **options: object) -> Session:
    tuning = replace(Tuning(), output=OutputTuning(shard_file_bytes=600))
    session = Session(Settings(tuning=tuning), spark=spark, checkpoint=str(tmp_path / "checkpoint"), **options)
    session.execute(f"""
        SET shards = 2;
        CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP)
          WITH (format='parquet', path='{tmp_path}/a', time='ts', files_per_batch='1');
        CREATE QUERY plain AS SELECT v, k FROM a;
        CREATE QUERY ordered WITH (output_order='merged') AS SELECT v, k FROM a;
        CREATE QUERY changes AS SELECT k, COUNT(*) AS n FROM a GROUP BY k;
    """)
    return session


def check_files(folder: Path, batches: int) -> None:
    """Several files per batch, each in order of its times."""
    files = result_files(str(folder))
    assert len({batch for batch, _, _ in files}) == batches < len(files) == len([*(folder / ".places").iterdir()])
    for _, _, path in files:
        times = parquet.read_table(path).column("_ts").cast(pa.int64()).to_numpy()
        assert bool((np.diff(times) >= 0).all())
    assert not (folder / ".landing").exists()


@pytest.mark.spark
@pytest.mark.long
def test_every_sink_gets_what_shards_have_written(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "a", [f"{i}.parquet" for i in range(FILES)], ROWS)
    out, seen = tmp_path / "out", []
    with session_of(spark, tmp_path, out=str(out)) as session:
        session.execute(f"""
            CREATE SINK as_csv FOR plain WITH (format='csv', path='{tmp_path}/csv');
            CREATE SINK as_orc FOR plain WITH (format='orc', path='{tmp_path}/orc');
            CREATE SINK everything FOR ALL WITH (format='jsonl', path='{tmp_path}/all');
        """)
        session.on_results("plain", lambda table: seen.extend(table.column("v").to_pylist()))
        assert "results: large ones in files of each shard" in session.explain("plain")
        assert "results: in one order over all shards" in session.explain("ordered")
        assert "as a changelog must be" in session.explain("changes")
        session.run()
        wanted = [*range(ROWS * FILES)]
        check_files(out / "plain", FILES)
        assert session.queries["plain"].table().column("v").to_pylist() == wanted == seen
        assert session.stats()["results"]["plain"] == len(wanted)
        parts = [parquet.read_table(path).column("v").to_pylist() for _, _, path in result_files(str(out / "ordered"))]
        assert [v for part in parts for v in part] == wanted
        in_csv = [pyarrow.csv.read_csv(path).column("v").to_pylist() for path in (tmp_path / "csv").glob("*.csv")]
        assert sorted(v for part in in_csv for v in part) == wanted and len(in_csv) > FILES
        orc = spark.read.orc(f"{tmp_path}/orc")
        assert sorted(row.v for row in orc.collect()) == wanted and dict(orc.dtypes)["_ts"] == "timestamp"
        assert session.queries["plain"].to_dataframe().count() == len(wanted)
        lines = sum(path.read_text().count('"plain"') for path in (tmp_path / "all").glob("*.jsonl"))
        assert lines == len(wanted)
