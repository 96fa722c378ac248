"""State is flat over sixteen times the length where punctuations close what is stored: rows are counted, in one process
and on shards."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.language import bind_script
from tests.spark.simulated import Simulated

SECOND = 1_000_000
SCRIPT = """
    CREATE STREAM auctions (item BIGINT, closes TIMESTAMP, ts TIMESTAMP) WITH (time = 'ts', key = 'item');
    CREATE STREAM bids (item BIGINT, price BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE PUNCTUATION sold ON bids (item) FROM auctions (item) AT closes;
    CREATE QUERY joined AS SELECT a.item, b.price FROM auctions AS a, bids AS b WHERE a.item = b.item;
    CREATE QUERY won AS SELECT a.item, max(b.price) AS price FROM auctions AS a, bids AS b WHERE a.item = b.item
        GROUP BY a.item EMIT ON CLOSE
"""
LENGTH, TIMES = 200, 16
#: Rows of a second: items, and bids on each item that is open.
ITEMS, OPEN = 5, 4


def second_of(at: int) -> dict[str, list[dict[str, object]]]:
    """New auctions, and bids on those of the last seconds."""
    mine = [at * ITEMS + n for n in range(ITEMS)]
    auctions: list[dict[str, object]] = [
        {"item": item, "closes": (at + OPEN) * SECOND, "ts": at * SECOND} for item in mine
    ]
    bids: list[dict[str, object]] = [
        {"item": item - ITEMS * back, "price": item % 97, "ts": at * SECOND + 1}
        for back in range(OPEN)
        for item in mine
        if item >= ITEMS * back
    ]
    return {"auctions": auctions, "bids": bids}


def embedded(seconds: int) -> tuple[int, int, int]:
    """Most rows that were stored, bytes of promises at the end, results."""
    session = Session()
    session.execute(SCRIPT)
    for first in range(0, seconds, 20):
        parts = [second_of(at) for at in range(first, first + 20)]
        for name in ("auctions", "bids"):
            session.push(name, [row for part in parts for row in part[name]])
        session.step()
    session.run(once=True)
    stats = session.stats()
    return stats["peak_stored_rows"], session.pipeline.gating.nbytes, stats["results"]["joined"]


def test_one_process_holds_as_many_rows() -> None:
    short, _, few = embedded(LENGTH)
    long, promises, many = embedded(LENGTH * TIMES)
    assert many > 15 * few
    assert long <= 1.2 * short
    # Dense keys are a few intervals, however many there were.
    assert promises < 64_000


@pytest.mark.parametrize("shards", [2])
def test_shards_hold_as_many_rows(shards: int, tmp_path: Path) -> None:
    peaks = []
    for times in (1, TIMES):
        job = Simulated(SCRIPT, str(tmp_path / str(times)), shards, Random(1), forgetful=0.05)
        schemas = {stream.name: stream.schema.arrow for stream in bind_script(SCRIPT).streams}
        for first in range(0, LENGTH * times // 4, 20):
            parts = [second_of(at) for at in range(first, first + 20)]
            job.run(
                {
                    name: pa.Table.from_pylist([row for part in parts for row in part[name]], schemas[name])
                    for name in schemas
                }
            )
        peaks.append(sum(note["statistics"]["peak_stored_rows"] for note in job.driver.progress.notes.values()))
        job.close()
    assert peaks[1] <= 1.2 * peaks[0]
