"""Heralds on shards: every shard gets them and knows the numbers of all rows; violators are counted once."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from eddyline.errors import Unsupported
from eddyline.language import bind_script
from eddyline.model.records.herald import KIND, TEXT
from eddyline.model.records.records import Records
from eddyline.runtime.sharded.job.saying import say, say_now
from eddyline.settings import Settings
from eddyline.tuning import Tuning, ZoneTuning
from tests.property.compare import plain_rows
from tests.runtime.heralding import SECOND, judged, random_rows, statements
from tests.runtime.test_records import epochs, run
from tests.spark.running import check_removed
from tests.spark.simulated import Simulated

SMALL_ZONES = Settings(tuning=Tuning(zones=ZoneTuning(rows=8, least_rows=2)))


def columns(job: Simulated, stream: str, rows: list[dict[str, Any]]) -> pa.Table:
    layout = job.driver.layout
    return pa.Table.from_pylist(rows, layout.streams[layout.numbers[stream]].schema.arrow)


@pytest.mark.parametrize("seed", range(10))
def test_shards_remove_the_violators_that_one_engine_does(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    lateness = random.choice([0, 2, 4])
    # Without a query over ROWS the stream is divided among the shards.
    text = "\n".join(line for line in statements(lateness).splitlines() if seed % 2 or "ROWS" not in line)
    rows = {"a": random_rows(random, 70, lateness, True), "b": random_rows(random, 70, lateness, False)}
    kept, lost = judged(rows["a"])
    wanted, _, _ = run(random, text, {"a": kept, "b": rows["b"]})
    job = Simulated(text, str(tmp_path), (1, 2, 3, 5)[seed // 2 % 4], random, settings=SMALL_ZONES)
    for epoch in epochs(random, rows):
        job.run({name: columns(job, name, mine) for name, mine in epoch.items() if mine}, crashes=0.2)
    job.run(closing=True)
    for name, results in wanted.items():
        assert sorted(map(str, plain_rows([job.table(name)]))) == sorted(map(str, results)), name
    letters = job.letters("a")
    assert sorted(values["id"] for _, values in letters) == sorted(row["id"] for row in lost)
    assert all(reason.startswith("violation: herald") for reason, _ in letters)
    job.close()


TWO = """
    CREATE STREAM a (v BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM b (v BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    HERALD a WHERE v < 50 FOR 7 ROWS AT TIMESTAMP '1970-01-01 00:00:00';
    CREATE QUERY equal AS SELECT a.v AS v FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.v = b.v;
"""


def test_a_number_of_rows_is_heralded_in_the_file_and_a_span_of_time_at_any_time(tmp_path: Path) -> None:
    """The statement makes the rows of a counted: every shard has some of them and knows their numbers. The rows of b
    are not."""
    job = Simulated(TWO, str(tmp_path), 3, Random(1))
    for _ in range(2):
        say(str(tmp_path), bind_script(TWO).records)
    for second in range(6):
        rows = [{"v": 10 * n + second, "ts": second * SECOND} for n in range(10)]
        job.run({name: columns(job, name, rows) for name in "ab"}, crashes=0.2)
        layout = job.driver.layout
        if second == 2:
            with pytest.raises(Unsupported, match="no number of rows of stream b can be heralded"):
                say_now(layout, [Records.one("b", KIND, 3 * SECOND, {TEXT: "v < 50 FOR 7 ROWS"})])
            say_now(layout, [Records.one("b", KIND, 3 * SECOND, {TEXT: "v < 50 FOR 1 SECONDS"})])
            say_now(layout, [Records.one("a", KIND, 4 * SECOND, {TEXT: "v < 50 FOR 7 ROWS"})])
    job.run(closing=True)
    # The first seven rows after a place: of ten that come together, 50 and 60 break the herald; a span of a second
    # holds five of them.
    assert sorted(int(values["v"]) for _, values in job.letters("a")) == [51, 55, 61, 65]
    assert sorted(int(values["v"]) for _, values in job.letters("b")) == [54, 64, 74, 84, 94]
    assert len(plain_rows([job.table("equal")])) == 60 - 9
    job.close()


@pytest.mark.spark
@pytest.mark.long
def test_heralds_on_spark_itself(spark: Any, tmp_path: Path) -> None:
    random = Random(5)
    rows = {"a": random_rows(random, 90, 2, True), "b": random_rows(random, 90, 2, False)}
    kept, lost = judged(rows["a"])
    wanted, _, _ = run(random, statements(2), {"a": kept, "b": rows["b"]})
    check_removed(spark, tmp_path, statements(2, folder=str(tmp_path)), rows, wanted, lost)
