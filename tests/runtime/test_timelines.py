"""Time without strangers: every query follows the streams that it reads, and no others."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from eddyline import Session
from eddyline.errors import DataProblem
from eddyline.testing.clocks import MovedClock
from tests.oracle.intake import Epoch, Stream, intake
from tests.spark.simulated import Simulated

SECOND = 1_000_000
STREAM = "CREATE STREAM {} (k BIGINT, ts TIMESTAMP) WITH (time='ts'{})"
PAIRS = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k"


def rows(*seconds: float) -> list[tuple[int, int]]:
    return [(1, int(s * SECOND)) for s in seconds]


def seconds(query: object) -> list[float]:
    return [ts.timestamp() for ts in query.take().column("_ts").to_pylist()]  # type: ignore[attr-defined]


def test_a_filter_answers_at_once_whatever_a_stranger_waits_for() -> None:
    with Session() as session:
        for name in "ab":
            session.execute(STREAM.format(name, ""))
        filtered = session.query("filtered", "SELECT k FROM a WHERE k > 0")
        session.push("a", rows(1, 2))
        session.step()
        assert filtered.take().num_rows == 1
        session.query("stranger", PAIRS)
        session.query("silent", "SELECT COUNT(*) AS n FROM b [RANGE 1 HOUR]")
        session.push("a", rows(3, 4))
        session.step()
        assert filtered.table().num_rows == 2
        stats = session.stats()
        assert (
            stats["frontiers"] == {"filtered": 4 * SECOND, "stranger": None, "silent": None}
            and stats["frontier"] is None
        )


@pytest.mark.parametrize("shards", [1, 3])
def test_a_filter_on_shards_answers_at_once_whatever_a_stranger_waits_for(shards: int, tmp_path: Path) -> None:
    import pyarrow as pa

    def table(*at: float) -> pa.Table:
        return pa.table({"k": [1] * len(at), "ts": pa.array([int(s * SECOND) for s in at], pa.timestamp("us"))})

    text = ";\n".join(
        [STREAM.format("a", ""), STREAM.format("b", ""), "CREATE QUERY filtered AS SELECT k FROM a WHERE k > 0"]
    )
    job = Simulated(text, str(tmp_path / "ck"), shards, Random(3))
    job.run({"a": table(1, 2)})
    assert job.table("filtered").num_rows == 1
    job.add(f"CREATE QUERY stranger AS {PAIRS}")
    job.settle()
    job.run({"a": table(3, 4)})
    assert job.table("filtered").num_rows == 3
    assert job.driver.progress.frontiers == {"a": 4 * SECOND, "a+b": None}
    job.run({"b": table(5)})
    job.run(closing=True)
    assert job.table("filtered").num_rows == 4
    # It began at 2, the newest of a: b had not spoken.
    assert job.table("stranger").num_rows == 2
    job.close()


def test_a_row_that_some_queries_have_passed_counts_for_the_others() -> None:
    clock = MovedClock()
    session = Session(clock=clock)
    session.execute(STREAM.format("a", ""))
    session.execute(STREAM.format("b", ", idle='10 seconds', lateness='5 seconds'"))
    pairs, last = session.query("pairs", PAIRS), session.query("last", "SELECT COUNT(*) AS n FROM b [ROWS 3]")
    all_b = session.query("all_b", "SELECT ts AS t FROM b")
    session.push("a", rows(1))
    session.push("b", rows(1, 8))
    session.step()
    clock.advance(20)
    session.push("a", rows(20))
    session.step()
    assert session.stats()["frontiers"] == {"pairs": 20 * SECOND, "last": 3 * SECOND, "all_b": 3 * SECOND}
    session.push("b", rows(6, 21))
    session.step()
    (letter,) = session.dead_letters("b").to_pylist()
    assert letter["_reason"].startswith("late") and "pairs" in letter["_reason"] and "all_b" not in letter["_reason"]
    session.run(once=True)
    assert seconds(all_b) == [1, 6, 8, 21]
    assert sorted((r["x"].timestamp(), r["y"].timestamp()) for r in pairs.table().to_pylist()) == [
        (x, y) for x in (1, 20) for y in (1, 8, 21)
    ]
    assert [row["n"] for row in last.table().to_pylist() if row["_op"] == "+"][-1] == 3
    assert session.stats()["late"] == {"a": 0, "b": 1}


def test_a_row_that_any_query_misses_stops_the_job_where_late_rows_are_errors() -> None:
    clock = MovedClock()
    session = Session(clock=clock)
    session.execute("SET on_late = 'error'")
    session.execute(STREAM.format("a", ""))
    session.execute(STREAM.format("b", ", idle='10 seconds'"))
    session.query("pairs", PAIRS)
    session.query("all_b", "SELECT ts AS t FROM b")
    session.push("a", rows(1))
    session.push("b", rows(1))
    session.step()
    clock.advance(20)
    session.push("a", rows(20))
    session.step()
    session.push("b", rows(6))
    with pytest.raises(DataProblem, match="late"):
        session.step()


def test_starts_and_stops_follow_the_streams_of_the_query() -> None:
    with Session() as session:
        for name in "abc":
            session.execute(STREAM.format(name, ""))
        session.push("a", rows(1, 50))
        session.push("b", rows(7))
        session.query("first", "SELECT ts AS t FROM a")
        session.step()
        of_b, of_c = session.query("of_b", "SELECT ts AS t FROM b"), session.query("of_c", "SELECT ts AS t FROM c")
        both = session.query("both", PAIRS)
        assert (of_b.start, of_c.start, both.start) == (7 * SECOND, None, 50 * SECOND)
        session.push("b", rows(8, 9))
        session.push("c", rows(3))
        session.step()
        session.drop("of_b")
        assert of_b.stop == 9 * SECOND
        session.push("b", rows(10))
        session.step()
        # Its own stream has passed the stop; that the others have not is nothing to it.
        assert "of_b" not in session.pipeline.queries and seconds(of_b) == [8, 9]
        session.run(once=True)
        assert seconds(of_c) == [3]


def test_the_end_moves_each_query_past_its_own_streams() -> None:
    with Session() as session:
        for name in "ab":
            session.execute(STREAM.format(name, ""))
        session.query("of_a", "SELECT COUNT(*) AS n FROM a [RANGE 5 SECONDS]")
        session.query("of_b", "SELECT ts AS t FROM b")
        session.push("a", rows(1, 2))
        session.push("b", rows(100))
        session.run(once=True)
        assert session.stats()["frontiers"] == {"of_a": 2 * SECOND + 1, "of_b": 100 * SECOND + 1}


@pytest.mark.parametrize("seed", range(12))
def test_after_every_epoch_each_query_has_delivered_what_it_would_have_delivered_alone(seed: int) -> None:
    """Streams pause, fall idle and come back, with rows out of order."""
    rng = Random(seed)
    names = "abc"
    lateness = {name: rng.choice((0, 0, 4)) for name in names}
    texts = {f"all_{n}": f"SELECT ts AS t FROM {n}" for n in names}
    for n, m in ("ab", "bc", "ac"):
        windows = [rng.choice(("RANGE 9 SECONDS", "ROWS 3", "UNBOUNDED")) for _ in range(2)]
        texts[n + m] = f"SELECT x.ts AS t, y.ts AS u FROM {n} [{windows[0]}] x, {m} [{windows[1]}] y WHERE x.k = y.k"
        texts[f"n_{n}{m}"] = f"SELECT COUNT(*) AS n FROM {n} [ROWS 4] x, {m} [RANGE 6 SECONDS] y WHERE x.k = y.k"
    texts["abc"] = (
        "SELECT x.ts AS t FROM a [RANGE 9 SECONDS] x, b [ROWS 5] y, c [RANGE 9 SECONDS] z WHERE x.k = y.k AND y.k = z.k"
    )
    chosen = dict(rng.sample(sorted(texts.items()), 6))
    moment = dict.fromkeys(names, 0.0)
    epochs: list[tuple[float, dict[str, list[tuple[int, int]]]]] = []
    for _ in range(14):
        arriving = {}
        for name in names:
            if rng.random() < 0.6:
                moment[name] = max(moment[name], max(moment.values()) - rng.choice((0, 5, 20))) + rng.random() * 4
                at = [moment[name] - rng.random() * rng.choice((0, 3, 8)) for _ in range(rng.randint(1, 4))]
                arriving[name] = [(rng.randint(1, 2), int(max(t, 0.0) * SECOND)) for t in at]
        epochs.append((rng.choice((0.0, 1.0, 12.0)), arriving))

    def played(queries: dict[str, str]) -> dict[str, list[list[str]]]:
        clock = MovedClock()
        session = Session(clock=clock)
        for name in names:
            session.execute(STREAM.format(name, f", idle='10 seconds', lateness='{lateness[name]} seconds'"))
        handles = {name: session.query(name, text) for name, text in queries.items()}
        delivered: dict[str, list[list[str]]] = {name: [] for name in queries}
        for pause, arriving in epochs:
            clock.advance(pause)
            for name, pushed in arriving.items():
                session.push(name, pushed)
            session.step()
            for name, handle in handles.items():
                delivered[name].append(sorted(str(row) for row in handle.take().to_pylist()))
        session.run(once=True)
        for name, handle in handles.items():
            delivered[name].append(sorted(str(row) for row in handle.take().to_pylist()))
        return delivered

    together = played(chosen)
    assert any(any(found) for found in together.values())
    for name, text in chosen.items():
        assert together[name] == played({name: text})[name], name
    # What a query over one stream gives in the end is what the oracle says.
    heard = dict.fromkeys(names, 0.0)
    now, told = 0.0, []
    for pause, arriving in epochs:
        now += pause
        heard |= dict.fromkeys(arriving, now)
        idle = frozenset(name for name in names if now - heard[name] >= 10)
        told.append(
            Epoch({name: [{"k": k, "ts": ts} for k, ts in pushed] for name, pushed in arriving.items()}, idle=idle)
        )
    streams = [Stream(name, lateness=lateness[name] * SECOND) for name in names]
    for name in chosen:
        if name.startswith("all_"):
            right = intake(streams, [*told, Epoch({}, closing=True)], frozenset(name[-1]))
            assert sum(map(len, together[name])) == len(right.rows)
