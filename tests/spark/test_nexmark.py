"""NEXMark on Spark: the answer of every query equals a batch computation in DuckDB over the same files.

Some of the queries in every run, the others with `-m long`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eddyline.connectors.generators.draws import GeneratorShape
from eddyline.connectors.generators.generate import nexmark
from tests.spark.running import run_script
from tests.test_nexmark import QUERIES, check

#: A chain behind punctuations. Every query runs in this process in `tests/test_nexmark.py`.
USUAL = ("q4",)
CASES = [pytest.param(path, id=path.stem, marks=() if path.stem in USUAL else pytest.mark.long) for path in QUERIES]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark")
    nexmark(str(folder / "data"), GeneratorShape(rate=500, seconds=60, files=2), extra=20)
    return folder


@pytest.mark.parametrize("path", CASES)
def test_answers_on_spark_are_those_of_duckdb(
    spark: SparkSession, path: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    # One file of each stream is a micro-batch.
    text = path.read_text().replace("format = 'parquet', path", "format = 'parquet', files_per_batch = 1, path")
    text = text.replace(
        "format = 'parquet', files_per_batch = 1, path = 'data/side", "format = 'parquet', path = 'data/side"
    )
    _, found = run_script(spark, text, tmp_path / "checkpoint")
    check(path.stem, found[path.stem], data, open_end=True)
