"""Filter queries of one stream answered together, against each of them alone."""

from __future__ import annotations

import time
from random import Random

import numpy as np
import pyarrow as pa

from eddyline import Session
from eddyline.language import bind_script
from eddyline.operators.sharing.filter_group import FilterGroup
from eddyline.plan.prepare import prepare
from eddyline.runtime.engine.units.filters import FilterKind
from tests.pace import slowness

WORLD = "CREATE STREAM s (x BIGINT, y DOUBLE, name STRING, ts TIMESTAMP) WITH (time='ts');"


def group_of(*selects: str) -> tuple[FilterGroup, list[str]]:
    job = bind_script(WORLD + "".join(f"CREATE QUERY q{i} AS {text};" for i, text in enumerate(selects)))
    group = FilterGroup("s")
    for query in job.queries:
        lowered = prepare(query)
        group.add(group.free_slot(), query.name, lowered.filters[0], lowered.outputs, -(2**62), None)
    return group, [q.name for q in job.queries]


def columns(rows: int, seed: int = 0) -> tuple[dict[str, pa.Array], np.ndarray]:
    rng = np.random.default_rng(seed)
    names = [None if n == 0 else f"item-{n}" for n in rng.integers(0, 9, rows)]
    ts = np.sort(rng.integers(0, 1000, rows))
    return {
        "x": pa.array(rng.integers(0, 20, rows)),
        "y": pa.array(rng.uniform(0, 1, rows)),
        "name": pa.array(names, pa.string()),
        "ts": pa.array(ts, pa.timestamp("us")),
    }, ts


def taken(
    group: FilterGroup, rows: dict[str, pa.Array], ts: np.ndarray, routes: np.ndarray | None = None
) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for bundle in group.match(rows, ts, routes):
        assert bundle.queries().to_pylist() == [name for name, piece in bundle.pieces() for _ in range(len(piece))]
        for name, piece in bundle.pieces():
            assert name not in found and len(piece)
            found[name] = piece.to_pylist()
    return found


def test_each_query_gets_its_rows_in_order() -> None:
    selects = [
        "SELECT x FROM s WHERE x BETWEEN 3 AND 5",
        "SELECT x FROM s t WHERE t.x > 15 OR t.name IS NULL",
        "SELECT x + 1 AS z, name FROM s WHERE name LIKE 'item-1%'",
        "SELECT x FROM s",
        "SELECT x FROM s WHERE x = 100",
    ]
    group, names = group_of(*selects)
    rows, ts = columns(300)
    found = taken(group, rows, ts)
    for name, select in zip(names, selects, strict=True):
        alone, _ = group_of(select)
        assert found.get(name, []) == taken(alone, rows, ts).get("q0", []), select
    assert len(found["q3"]) == 300 and "q4" not in found
    assert group.counts[:5].tolist() == [len(found.get(name, [])) for name in names]


def test_starts_stops_and_routes() -> None:
    group, _ = group_of("SELECT x FROM s", "SELECT x FROM s WHERE x >= 0")
    rows, ts = columns(200)
    group.remove("q0")
    job = bind_script(WORLD + "CREATE QUERY later AS SELECT x, ts FROM s;")
    lowered = prepare(job.queries[0])
    assert group.free_slot() == 0
    group.add(0, "later", lowered.filters[0], lowered.outputs, 500, 3)
    group.stop("q1", 300)
    routes = np.where(np.arange(200) % 2, np.uint64(8), np.uint64(1)).astype(np.uint64)
    found = taken(group, rows, ts, routes)
    assert len(found["later"]) == sum(1 for i, t in enumerate(ts) if t > 500 and i % 2)
    assert len(found["q1"]) == sum(1 for t in ts if t <= 300)


def test_rows_that_many_want_are_computed_once_and_handed_to_each() -> None:
    group, _ = group_of(*["SELECT x * 2 AS twice, ts FROM s WHERE x > 4"] * 3)
    rows, ts = columns(100)
    found = taken(group, rows, ts)
    assert found["q0"] == found["q1"] == found["q2"]
    assert [row["twice"] for row in found["q0"]] == [2 * x for x in rows["x"].to_pylist() if x > 4]


def test_queries_come_and_go_between_epochs_like_alone() -> None:
    """Random adds and drops: what each query gives is what it gives alone, from its start to its stop."""
    random = Random(4)
    with Session() as session:
        session.execute(WORLD)
        _, ts = columns(900, 7)
        rows, _ = columns(900, 7)
        whole = pa.table({**rows, "ts": pa.array(ts, pa.timestamp("us"))})
        handles = {}
        bounds = {}
        for epoch in range(9):
            for number in range(random.randrange(5)):
                name = f"q{epoch}_{number}"
                low = random.randrange(18)
                handles[name] = session.query(name, f"SELECT x, y FROM s WHERE x >= {low} AND x < {low + 4}")
                bounds[name] = (low, low + 4)
            for name in random.sample(sorted(session.queries), min(len(session.queries), random.randrange(3))):
                session.drop(name)
            session.push("s", whole.slice(epoch * 100, 100))
            session.step()
        session.run(once=True)
        assert any(handle.stop is not None for handle in handles.values())
        for name, handle in handles.items():
            low, high = bounds[name]
            start = -1 if handle.start is None else handle.start
            stop = 10**9 if handle.stop is None else handle.stop
            right = [
                (x, y)
                for x, y, t in zip(rows["x"].to_pylist(), rows["y"].to_pylist(), ts, strict=True)
                if low <= x < high and start < t <= stop
            ]
            assert [(row["x"], row["y"]) for row in handle.table().to_pylist()] == right, name


def test_a_sink_for_all_takes_the_results_of_all() -> None:
    with Session(keep_results=False) as session:
        session.execute(WORLD + "CREATE SINK everything FOR ALL WITH (format='drop')")
        for number in range(50):
            session.query(f"q{number}", f"SELECT x FROM s WHERE x = {number}")
        session.query("named", "SELECT name FROM s WHERE x < 3")
        rows, ts = columns(1000)
        session.push("s", pa.table({**rows, "ts": pa.array(ts, pa.timestamp("us"))}))
        session.run(once=True)
        counted = session.stats()["results"]
        sink = session.driver.delivery.shared["everything"]._inner
        assert sink.count == sum(counted.values()) == 1000 + counted["named"]
        assert not session.driver.delivery.sinks


def test_one_query_more_is_added_in_little_time_and_space() -> None:
    with Session(keep_results=False) as session:
        session.execute(WORLD)
        for number in range(3000):
            session.query(f"q{number}", f"SELECT x FROM s WHERE x >= {number} AND x < {number + 1}")
        group = session.pipeline.kinds.one(FilterKind).units["s"].group
        assert group.nbytes / 3000 < 2000
        began = time.process_time()
        session.query("more", "SELECT x FROM s WHERE x > 5")
        assert time.process_time() - began < 0.05 * slowness()
