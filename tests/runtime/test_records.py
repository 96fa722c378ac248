"""Positioned records through the embedded engine: they stand at their places among the rows, whatever the epochs and
restarts."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.language import bind_script
from eddyline.model.records.records import AFTER_ALL, BEFORE_ALL, Records
from eddyline.operators.stream.record_queue import RecordQueue, rows_before
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.records.kinds import ALLOWED, Splitting
from eddyline.runtime.engine.timeline import Timeline
from eddyline.runtime.recovery.snapshot import restore, take_snapshot
from eddyline.settings import Settings
from tests.property.compare import plain_rows
from tests.runtime.noted import NAME, struck

SECOND = 1_000_000
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, NAME)


def statements(lateness: int, sequence: bool = False, folder: str | None = None) -> str:
    """Streams and queries; with a folder, the streams are files in it, one per batch."""
    with_ = f"time = 'ts', lateness = '{lateness} seconds'"
    files = "" if folder is None else f", path = '{folder}/a', files_per_batch = 1"
    return f"""
        CREATE STREAM a (k BIGINT, id BIGINT, note STRING, ts TIMESTAMP) WITH ({with_}{files}{", sequence = 'id'" if sequence else ""});
        CREATE STREAM b (k BIGINT, id BIGINT, ts TIMESTAMP) WITH ({with_}{files.replace("/a'", "/b'")});
        CREATE QUERY one AS SELECT id, k FROM a WHERE k >= 0;
        CREATE QUERY two AS SELECT a.id AS x, b.id AS y FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k;
        CREATE QUERY last AS SELECT a.id AS x, b.id AS y FROM a [ROWS 4], b [ROWS 3] WHERE a.k = b.k;
    """


def random_rows(random: Random, count: int, lateness: int, notes: bool) -> list[Row]:
    """Rows that are not late, with notes among them; ids are places in the source, or for a `sequence` a shuffle of
    them."""
    rows = []
    for place in range(count):
        ts = place // 3 + random.randint(0, lateness)
        note = random.choice(["strike", "nothing"]) if notes and random.random() < 0.15 else None
        rows.append({"k": random.randrange(12), "id": place, **({"note": note} if notes else {}), "ts": ts * SECOND})
    return rows


def table(pipeline: Pipeline, stream: str, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, pipeline.intakes[stream].stream.schema.arrow)


def epochs(random: Random, rows: dict[str, list[Row]]) -> Iterator[dict[str, list[Row]]]:
    """Both streams in step, in epochs of random sizes."""
    done, end = 0, max(map(len, rows.values()))
    while done < end:
        size = random.randint(1, 12)
        yield {name: mine[done : done + size] for name, mine in rows.items()}
        done += size


def run(
    random: Random, text: str, rows: dict[str, list[Row]], restarts: float = 0.0, settings: Settings | None = None
) -> tuple[dict[str, list[Row]], list[Row], Pipeline]:
    """Results per query and dead letters of `a`."""
    job = bind_script(text, settings)

    def fresh() -> Pipeline:
        pipeline = Pipeline(job.streams, job.settings)
        for query in job.queries:
            pipeline.add_query(query)
        return pipeline

    pipeline = fresh()
    results: dict[str, list[Row]] = {query.name: [] for query in job.queries}
    dead: list[Row] = []
    splitting = Splitting(job.streams)
    for epoch in [*epochs(random, rows), None]:
        arrivals = {}
        for name, mine in (epoch or {}).items():
            part, records, bad = splitting.split(pipeline.intakes[name].stream, table(pipeline, name, mine))
            arrivals[name] = Arrival(part, bad, records=tuple(records))
        outcome = pipeline.step(Epoch(arrivals, closing=epoch is None))
        for name, tables in outcome.results.items():
            results[name] += plain_rows(tables)
        dead += plain_rows(outcome.dead.get("a", []))
        if random.random() < restarts:
            snapshot = take_snapshot(pipeline)
            blocks = {name: make() for name, make in snapshot.blocks.items()}
            pipeline = fresh()
            restore(pipeline, snapshot.header, blocks.__getitem__)
    return results, dead, pipeline


@pytest.mark.parametrize("seed", range(24))
def test_a_record_stands_at_its_place_whatever_the_epochs_and_restarts(seed: int) -> None:
    random = Random(seed)
    lateness = random.choice([0, 0, 2, 4])
    text = statements(lateness, sequence=seed % 4 == 3)
    rows = {"a": random_rows(random, 90, lateness, True), "b": random_rows(random, 90, lateness, False)}
    if seed % 4 == 3:
        for row, other in zip(rows["a"], random.sample(range(90), 90), strict=True):
            row["id"] = other
    kept, lost = struck(rows["a"], ("ts", "id") if seed % 4 == 3 else ("ts",))
    found, dead, pipeline = run(random, text, rows, restarts=0.3)
    wanted, none, _ = run(random, text, {"a": kept, "b": rows["b"]})
    assert not none and found == wanted
    assert sorted(row["id"] for row in dead) == sorted(row["id"] for row in lost)
    assert {row["_reason"] for row in dead} <= {"violation: struck"}
    gate = pipeline.gating.gates["a"]
    notes = sum(row["note"] is not None for row in rows["a"])
    assert gate.counts.came == ({"note": notes} if notes else {})
    assert pipeline.intakes["a"].violations == len(lost) and pipeline.intakes["a"].late == 0


def test_units_see_records_before_the_rows_that_follow_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, Any]] = []
    kept = Timeline._run

    def spy(self: Timeline, part: Any, units: Any, outcome: Any, note_peak: Any) -> None:
        if self.name == "a+b":
            marks = [
                (rank, 0, f"note {k}")
                for one in part.records.get("a", [])
                for k, rank in zip(one.records.body["k"].to_pylist(), one.ranks.tolist(), strict=True)
            ]
            marks += [
                (r, 1, f"{s}{i}")
                for s in part.tables
                for i, r in zip(part.tables[s]["id"].to_pylist(), part.ranks[s].tolist(), strict=True)
            ]
            seen.extend(sorted(marks))
        kept(self, part, units, outcome, note_peak)

    monkeypatch.setattr(Timeline, "_run", spy)
    rows = {
        "a": [
            {"k": 1, "id": 0, "note": None, "ts": 0},
            {"k": 7, "id": 1, "note": "nothing", "ts": SECOND},
            {"k": 1, "id": 2, "note": None, "ts": SECOND},
        ],
        "b": [{"k": 1, "id": 0, "ts": 0}, {"k": 1, "id": 1, "ts": SECOND}, {"k": 1, "id": 2, "ts": SECOND}],
    }
    for seed in range(3):
        seen.clear()
        run(Random(seed), statements(0), rows)
        assert [text for _, _, text in seen] == ["a0", "b0", "note 7", "a2", "b1", "b2"]


def test_records_that_come_below_the_frontier_stand_at_it_and_a_gate_opens_for_rows_that_wait() -> None:
    job = bind_script(
        "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '5 seconds'); CREATE QUERY q AS SELECT k FROM a;"
    )
    pipeline = Pipeline(job.streams, job.settings)
    pipeline.add_query(job.queries[0])
    rows = [{"k": 1, "ts": n * SECOND} for n in range(10)]
    first = pipeline.step(Epoch({"a": Arrival(table(pipeline, "a", rows))}))
    assert len(plain_rows(first.results["q"])) == 4 and pipeline.waiting == 6
    late = Records.one("a", "note", 0, {"k": 1, "note": "strike"}, once="said once")
    second = pipeline.step(Epoch({}, closing=True, records=(late, late)))
    assert plain_rows(second.results["q"]) == [] and len(plain_rows(second.dead["a"])) == 6
    assert pipeline.gating.gates["a"].counts.late == {"note": 1}
    assert pipeline.gating.announced == {"said once"}


def test_a_pushed_record_stands_right_after_the_newest_row() -> None:
    with Session() as session:
        session.execute("CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '10 seconds')")
        session.query("q", "SELECT k, ts FROM a")
        session.push("a", [(1, 5 * SECOND)])
        stream = session.job.catalog.stream("a")
        session._runner.push_record(stream, "note", {"k": 1, "note": "strike"})
        # Before the record in event time, although it comes later; after it; after it, at the same time.
        session.push("a", [(1, 4 * SECOND), (1, 6 * SECOND), (1, 5 * SECOND), (2, 7 * SECOND)])
        session.run(once=True)
        assert [row["ts"].second for row in session.queries["q"].table().to_pylist()] == [4, 5, 7]
        assert session.dead_letters("a").num_rows == 2


def test_places_among_rows_against_sorting() -> None:
    random = Random(3)
    for _ in range(200):
        rows = sorted((random.randrange(6), number) for number in range(random.randrange(12)))
        places = [
            (random.randrange(7), random.choice([BEFORE_ALL, AFTER_ALL, random.randrange(14)]))
            for _ in range(random.randrange(1, 6))
        ]
        records = Records(
            "a",
            "note",
            np.array([p[0] for p in places]),
            np.array([p[1] for p in places]),
            pa.table({"x": [0] * len(places)}),
        )
        ts, number = np.array([r[0] for r in rows], np.int64), np.array([r[1] for r in rows], np.int64)
        found = rows_before(records, ts, number)
        assert found.tolist() == [sum(row < place for row in rows) for place in places]
        stream = bind_script("CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')").streams[0]
        queue = RecordQueue(stream)
        queue.receive(records)
        released = [
            place for batch in queue.release(4) for place in zip(batch.ts.tolist(), batch.number.tolist(), strict=True)
        ]
        assert released == sorted(place for place in places if place[0] < 4)
        kept = Records.from_table(records.table())
        assert kept.number.tolist() == records.number.tolist() and kept.body.equals(records.body)
        assert Records.from_document(records.document()).body.equals(records.body)
