"""A pipeline that is written down and opened again, after queries have come and gone: rows older than a query never
count for it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pytest

from eddyline.language import bind_script
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.recovery.snapshot import restore, saved_queries, take_snapshot

STREAMS = """
CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts');
CREATE STREAM t (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts');
"""
PAIRS = "SELECT s.ts AS st, t.ts AS tt FROM s [RANGE 90 SECONDS], t [RANGE 90 SECONDS] WHERE s.k = t.k"


class Kept:
    """A pipeline and its blocks; a block that was written once is not written again."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self.job = bind_script(STREAMS + "".join(f"CREATE QUERY {name} AS {text};" for name, text in queries.items()))
        self.queries = {query.name: query for query in self.job.queries}
        self.blocks: dict[str, pa.Table] = {}
        self.pipeline = Pipeline(self.job.streams)
        self.header = "null"

    def step(self, first: int, last: int) -> dict[str, list[pa.Table]]:
        rows = {
            "k": [0] * (last - first),
            "v": [i % 3 for i in range(first, last)],
            "ts": pa.array([i * 1_000_000 for i in range(first, last)], pa.timestamp("us")),
        }
        made = self.pipeline.step(Epoch({name: Arrival(pa.table(rows)) for name in "st"})).results
        self.save()
        return made

    def save(self) -> None:
        taken = take_snapshot(self.pipeline)
        self.header = json.dumps(taken.header)
        self.blocks = {
            name: self.blocks[name] if name in self.blocks else block() for name, block in taken.blocks.items()
        }

    def add(self, name: str) -> None:
        newest = self.pipeline.newest(self.queries[name])
        assert newest is not None
        self.pipeline.add_query(self.queries[name], start=newest)
        self.save()

    def open_again(self) -> None:
        header = json.loads(self.header)
        self.pipeline = Pipeline(self.job.streams)
        for name, saved in saved_queries(header).items():
            self.pipeline.add_query(self.queries[name], saved["start"], saved["slot"])
        restore(self.pipeline, header, self.blocks.__getitem__)


@pytest.mark.parametrize("where", ["", " AND s.v = t.v", " AND s.v >= 0"])
def test_a_query_that_came_after_the_last_row_was_written(where: str) -> None:
    kept = Kept({"alone": PAIRS, "later": PAIRS + where})
    kept.pipeline.add_query(kept.queries["alone"])
    kept.step(0, 20)
    kept.step(20, 23)
    kept.add("later")
    kept.open_again()
    (found,) = kept.step(23, 26)["later"]
    # 25 waits for the frontier; 22 and all before it are older than the query.
    seen = [
        (a.second, b.second)
        for a, b in zip(found.column("st").to_pylist(), found.column("tt").to_pylist(), strict=True)
    ]
    expected = [(23, 23), (24, 23), (23, 24), (24, 24)]
    assert sorted(seen) == sorted(expected if "v = " not in where else [(23, 23), (24, 24)])


def test_a_slot_that_was_given_to_another() -> None:
    kept = Kept(
        {
            "stays": PAIRS + " AND s.v >= 1",
            "goes": PAIRS + " AND s.v <= 1 AND t.v <= 1",
            "comes": PAIRS + " AND t.v < 2",
        }
    )
    for name in ("stays", "goes"):
        kept.pipeline.add_query(kept.queries[name])
    slot = kept.pipeline.queries["goes"].slot
    kept.step(0, 20)
    kept.pipeline.stop_query("goes", kept.pipeline.newest(kept.queries["goes"]))
    kept.step(20, 23)
    assert "goes" not in kept.pipeline.queries
    kept.add("comes")
    assert kept.pipeline.queries["comes"].slot == slot
    kept.open_again()
    (found,) = kept.step(23, 26)["comes"]
    assert {at.second for name in ("st", "tt") for at in found.column(name).to_pylist()} <= {23, 24}


def test_a_join_that_comes_again_has_no_lineage_of_the_one_before() -> None:
    kept = Kept({"one": PAIRS + " AND s.v >= 1", "other": PAIRS + " AND t.v >= 1", "again": PAIRS})
    for name in ("one", "other"):
        kept.pipeline.add_query(kept.queries[name])
    kept.step(0, 20)
    kept.step(500, 501)
    assert not any(stream.store.extent for stream in kept.pipeline.stores())
    for name in ("one", "other"):
        kept.pipeline.drop_query(name)
    kept.add("again")
    kept.step(501, 510)
    kept.open_again()
    (found,) = kept.step(510, 513)["again"]
    # The newest rows are 509, which waited, 510 and 511; each meets all rows of the other stream from 501 on, and they
    # it.
    assert len(found) == sum(2 * (at - 501) + 1 for at in (509, 510, 511))


def test_more_queries_than_a_word_has_bits() -> None:
    """Segments from a run in which all slots fitted into 64 bits are read into wider lineage."""
    kept = Kept({f"q{i}": f"{PAIRS} AND s.v >= {i % 4}" for i in range(70)})
    for i in range(60):
        kept.pipeline.add_query(kept.queries[f"q{i}"])
    kept.step(0, 20)
    for i in range(60, 70):
        kept.add(f"q{i}")
    kept.open_again()
    made = kept.step(20, 23)
    for i in range(60, 70):
        assert all(at.second >= 20 for table in made[f"q{i}"] for at in table.column("st").to_pylist())


def test_columns_that_nobody_stored_before() -> None:
    kept = Kept(
        {"narrow": PAIRS, "wide": "SELECT s.v AS sv FROM s [RANGE 90 SECONDS], t [RANGE 90 SECONDS] WHERE s.v = t.v"}
    )
    kept.pipeline.add_query(kept.queries["narrow"])
    kept.step(0, 20)
    kept.add("wide")
    kept.open_again()
    (found,) = kept.step(20, 23)["wide"]
    assert found.column("sv").to_pylist() == [20 % 3, 21 % 3]


def test_rows_that_wait_have_names_of_their_own() -> None:
    """Chunks that wait are merged when there are many: what they become is not what any of them was."""
    kept = Kept({"alone": PAIRS})
    kept.pipeline.add_query(kept.queries["alone"])

    def rows(second: int) -> Arrival:
        return Arrival(pa.table({"k": [0], "v": [0], "ts": pa.array([second * 1_000_000], pa.timestamp("us"))}))

    for at in range(40):
        # The other stream lags behind: rows of this one wait, one chunk per epoch.
        kept.pipeline.step(Epoch({"s": rows(1000 + at), "t": rows(at)}))
        kept.save()
    (timeline,) = kept.pipeline.timelines.values()
    assert len(timeline.queues["s"].chunks) < 40
    kept.open_again()
    (timeline,) = kept.pipeline.timelines.values()
    assert len(timeline.queues["s"]) == 40
