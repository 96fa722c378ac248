"""Settings that change between runs on Spark, on one checkpoint: shards go on with the answers of one run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from tests.property.changed_settings import NAMES, QUERIES, answers, differing, job_text, lived, random_epochs
from tests.property.test_changed_settings import FEW, NEVER, random_settings
from tests.seeds import cases, first_seed, some
from tests.spark.simulated import Simulated

FIRST = first_seed(2_320_000)


class Restless(Simulated):
    """Each start of its driver, also after a crash, is one under other settings."""

    folder_of_tables = ""

    def start(self, text: str | None = None) -> None:
        if text is None:
            settings: Mapping[str, object] = random_settings(self.random) if self.random.random() < 0.8 else {}
            text = job_text(tuple(QUERIES), settings, self.folder_of_tables)
        super().start(text)


@pytest.mark.parametrize("number", range(cases(2, soak=20)))
def test_drivers_that_start_again_under_other_settings(tmp_path: Path, number: int) -> None:
    rng = Random(FIRST + number)
    parquet.write_table(NAMES, tmp_path / "names.parquet")
    Restless.folder_of_tables = str(tmp_path)
    epochs = random_epochs(rng, 120, 5)
    right = lived(epochs, [{}] * len(epochs))
    job = Restless("", str(tmp_path / "state"), rng.choice((1, 2, 3)), rng)
    for rows in epochs:
        job.run(rows, crashes=0.3)
        if rng.random() < 0.6:
            job.start()
    job.run(closing=True)
    found = {name: [sink.table()] for name, sink in job.sinks.items()}
    job.close()
    expected = {name: rows for name, rows in answers(right.found).items() if name in found}
    wrong = differing(answers(found), expected)
    assert not wrong, f"seed {FIRST + number}:\n" + "\n".join(wrong)
    assert len(expected) > len(QUERIES) - 2 and sum(map(len, expected.values())) > len(QUERIES)


@pytest.mark.parametrize("name", some(NEVER))
def test_every_value_of_a_setting_between_two_starts(tmp_path: Path, name: str) -> None:
    """A driver starts under the default, then under each value in turn, then under the default again."""
    rng = Random(f"{FIRST} {name}")
    parquet.write_table(NAMES, tmp_path / "names.parquet")
    queries = ("table_of", "three", *rng.sample(FEW, 4))
    starts = [{}, *({name: value} for value in NEVER[name]), {}]
    epochs = random_epochs(rng, 20 * len(starts), len(starts))
    right = lived(epochs, [{}] * len(epochs), queries)
    job = Simulated(job_text(queries, {}, str(tmp_path)), str(tmp_path / "state"), rng.choice((1, 2, 3)), rng)
    for settings, rows in zip(starts, epochs, strict=True):
        job.start(job_text(queries, settings, str(tmp_path)))
        job.run(rows)
    job.run(closing=True)
    found = {query: [sink.table()] for query, sink in job.sinks.items()}
    job.close()
    expected = {query: rows for query, rows in answers(right.found).items() if query in found}
    wrong = differing(answers(found), expected)
    assert not wrong, "\n".join(wrong)
    assert {*queries} <= {*found} and sum(map(len, expected.values())) > len(queries)


JOB = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{0}/a', time='ts');
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{0}/b', time='ts');
CREATE QUERY pairs AS SELECT x.v AS first, y.v AS second FROM a [RANGE 1 HOUR] x, b [RANGE 1 HOUR] y WHERE x.k = y.k AND x.v > 20;
CREATE QUERY last AS SELECT x.v AS first, y.v AS second FROM a [PARTITION BY k ROWS 2] x, b [NOW] y WHERE x.k = y.k AND x.v <> 29;
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_job_on_spark_goes_on_under_other_settings(spark, tmp_path: Path) -> None:
    """Rows of a are stored by the first run; those of b come in the second, under settings that name all joins
    otherwise."""

    def write(stream: str, number: int, rows: list[tuple[int, int, int]]) -> None:
        (tmp_path / stream).mkdir(exist_ok=True)
        columns = {n: pa.array([row[i] for row in rows], pa.int64()) for i, n in enumerate(("k", "v", "ts"))}
        columns["ts"] = columns["ts"].cast(pa.timestamp("s")).cast(pa.timestamp("us"))
        parquet.write_table(pa.table(columns), tmp_path / stream / f"{number}.parquet")

    def run(settings: str) -> None:
        with Session(
            spark=spark, checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out"), keep_results=False
        ) as session:
            session.execute("SET shards = 2;" + settings + JOB.format(tmp_path))
            session.run(once=True, final=False)

    write("a", 0, [(k, v, at) for at, (k, v) in enumerate((k, v) for v in (9, 20, 21, 29, 30) for k in range(3))])
    write("b", 0, [(9, 0, 15)])
    run("")
    write("b", 1, [(k, 100 + k, 20 + k) for k in range(3)])
    run("SET share = 'off'; SET heralds = 'off'; SET jit = 'off'; SET plan = 'bjtree'; SET purge = 'eager';")
    found = {}
    for name in ("pairs", "last"):
        tables = [parquet.read_table(file) for file in sorted((tmp_path / "out" / name).glob("*.parquet"))]
        found[name] = sorted((row["first"], row["second"]) for table in tables for row in table.to_pylist())
    assert found["pairs"] == [(v, 100 + k) for v in (21, 29, 30) for k in range(3)]
    assert found["last"] == [(30, 100 + k) for k in range(3)]
