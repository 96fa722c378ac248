"""Results in Python: what is taken is gone, what is looked at stays, and what nothing takes is counted."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

from eddyline import EddylineWarning, Query, Session
from eddyline.errors import SettingProblem
from eddyline.settings import Settings
from eddyline.tuning import OutputTuning, Tuning

STREAM = "CREATE STREAM bids (item BIGINT, ts TIMESTAMP) WITH (time = 'ts')"
NOON = 1_704_110_400_000_000


def opened(settings: Settings | None = None, **options: bool) -> tuple[Session, Query]:
    session = Session(settings, **options)  # type: ignore[arg-type]
    session.execute(STREAM)
    return session, session.query("all_bids", "SELECT item FROM bids")


def push(session: Session, *items: int) -> None:
    session.push("bids", {"item": list(items), "ts": [NOON + item for item in items]})


def items(found: object) -> list[int]:
    return pa.table(found).column("item").to_pylist()


def test_what_is_looked_at_stays_and_what_is_taken_is_gone() -> None:
    session, query = opened()
    assert len(query) == 0 and query
    push(session, 1, 2, 3)
    assert items(query.table()) == items(query.table()) == items(query) == items(query.to_pandas()) == [1, 2]
    assert [row["item"] for row in query] == [row["item"] for row in query] == [1, 2] and len(query) == 2
    assert duckdb.sql("SELECT sum(item) FROM query").fetchall() == [(3,)]
    assert items(query.take()) == [1, 2]
    assert items(query.take()) == items(query.table()) == [] and len(query) == 0 and query
    push(session, 4)
    assert items(query.table()) == [3]
    assert [batch.column("item").to_pylist() for batch in query.results()] == [[3]]
    session.run()
    assert items(query.take()) == [4] and list(query.results()) == []


def test_a_query_says_its_state_and_what_is_counted_of_it() -> None:
    session, query = opened()
    assert repr(query) == "<Query all_bids: no rows yet>" and "(no rows yet)" in query._repr_html_()
    session.push("bids", [(1, NOON), ("x", NOON), (2, NOON + 1)])
    session.step()
    session.push("bids", [(0, NOON - 1)])
    session.step()
    said = "at rest, 1 results, 2 dead letters of its streams"
    assert repr(query) == f"<Query all_bids: {said}>" and f"({said})" in query._repr_html_()
    session.start()
    assert repr(query).startswith("<Query all_bids: running, ")
    session.stop()
    session.drop("all_bids")
    assert repr(query) == "<Query all_bids: dropped>"


def test_batches_come_while_a_job_runs_in_the_background() -> None:
    session, query = opened()

    async def follow() -> list[int]:
        found: list[int] = []
        session.start()
        push(session, 1)
        async for batch in query:
            found += batch.column("item").to_pylist()
            if found[-1] < 5:
                push(session, found[-1] + 2)
            else:
                # Rows that wait for the frontier stay.
                await asyncio.to_thread(session.stop, final=False)
        return found

    async def after() -> list[int]:
        return [item async for batch in query for item in batch.column("item").to_pylist()]

    push(session, 0)
    found = asyncio.run(asyncio.wait_for(follow(), 60))
    assert found == [0, 1, 2, 3, 4, 5]
    assert len(query) == 0 and asyncio.run(after()) == []


def test_results_that_nothing_takes_are_counted_and_warned_of_once() -> None:
    session, query = opened(replace(Settings(), tuning=Tuning(output=OutputTuning(kept_rows=3))))
    push(session, 1, 2, 3)
    session.step()
    assert session.stats()["kept_results"] == {"all_bids": 2} and session.stats()["dropped_results"] == {}
    push(session, 4, 5)
    with pytest.warns(EddylineWarning, match=r"query all_bids: 4 rows .* query.take\(\) .* SET keep_results = n"):
        session.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        push(session, 6, 7)
        session.step()
        assert items(query.take()) == [1, 2, 3, 4, 5, 6]
    assert session.stats()["kept_results"] == {}


def test_the_oldest_results_go_where_the_setting_says_so() -> None:
    session = Session()
    session.execute(f"{STREAM}; SET keep_results = 3")
    few = session.query("few", "SELECT item FROM bids")
    every = session.query("every", "SELECT item FROM bids", keep_results="none")
    for first in range(0, 12, 4):
        push(session, *range(first, first + 4))
        session.step()
    assert items(few.table()) == [8, 9, 10] and len(few) == 3
    assert items(every.table()) == list(range(11))
    assert session.stats()["dropped_results"] == {"few": 8}
    with pytest.raises(SettingProblem, match="SET keep_results does not take 0"):
        session.execute("SET keep_results = 0")


def test_a_query_can_be_pushed_to_a_stream() -> None:
    session, query = opened()
    push(session, 1, 2, 3)
    other, found = opened()
    other.execute("CREATE STREAM results (item BIGINT, _ts TIMESTAMP) WITH (time = '_ts')")
    again = other.query("again", "SELECT item FROM results")
    assert other.push("results", query) == 2
    other.run()
    assert items(again.table()) == [1, 2] and len(query) == 2 and len(found) == 0
