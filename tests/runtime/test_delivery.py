"""What an embedded session hands over: nothing lost between threads, nothing after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import UserError

STREAM = "CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time='ts');"
QUERY = "CREATE QUERY all_bids AS SELECT item FROM bids;"
#: Two windows over one join: its results are released in portions, before their epoch ends.
PAIRS = """
CREATE QUERY near AS SELECT x.item AS a, y.item AS b FROM bids [RANGE 1 SECOND] x, bids [RANGE 1 SECOND] y WHERE x.item = y.item;
CREATE QUERY far AS SELECT x.item AS a, y.item AS b FROM bids [RANGE 1 MINUTE] x, bids [RANGE 1 MINUTE] y WHERE x.item = y.item;
"""


def rows(*seconds: float) -> list[tuple[int, float, int]]:
    return [(int(second), 150.0, int(second * 1_000_000)) for second in seconds]


def items(out: Path, query: str = "all_bids") -> list[int]:
    return [
        item
        for path in sorted((out / query).glob("*.parquet"))
        for item in parquet.read_table(path).column(0).to_pylist()
    ]


# -- two threads push, one takes


@pytest.mark.parametrize(
    "total", [10_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])]
)
def test_two_threads_push_and_one_takes(total: int) -> None:
    """Results come with every epoch of 5 rows while this thread takes them as fast as it can: none is lost, none comes
    twice."""
    session = Session()
    session.set("epoch_rows", 5)
    session.stream("bids", pa.schema([("item", pa.int64()), ("ts", pa.timestamp("us"))]), time="ts")
    taken = session.query("all_bids", "SELECT item FROM bids")
    numbers = np.arange(total)
    lock = threading.Lock()
    given = iter(range(0, total, 5))

    def push() -> None:
        while True:
            with lock:
                start = next(given, None)
                if start is None:
                    return
                part = numbers[start : start + 5]
                session.push("bids", pa.table({"item": part, "ts": pa.array(part, pa.timestamp("us"))}))

    session.start()
    threads = [threading.Thread(target=push) for _ in range(2)]
    for thread in threads:
        thread.start()
    found: list[int] = []
    began = time.monotonic()
    # A machine may be slow: what counts is that results still come.
    limit = began + 300
    while len(found) < total - 1 and time.monotonic() < limit:
        for batch in taken.results():
            found += batch.column(0).to_pylist()
            limit = time.monotonic() + 300
    session.stop()
    print(f"{len(found):,} results of {total:,} rows in {time.monotonic() - began:.0f} s", flush=True)
    # The newest row waits for the frontier.
    assert found == list(range(total - 1))


# -- a callback that raises


class Broken(Exception):
    pass


def failing(times: list[int]) -> Callable[[pa.Table], None]:
    """A callback that raises at the calls with these numbers."""
    calls = iter(range(1 << 30))

    def called(table: pa.Table) -> None:
        if next(calls) in times:
            raise Broken("the callback is broken")

    return called


def opened(tmp_path: Path, sql: str = STREAM + QUERY) -> Session:
    session = Session(out=str(tmp_path / "out"), checkpoint=str(tmp_path / "state"))
    session.execute("SET checkpoint_seconds = 0;" + sql)
    return session


def test_a_failed_hand_over_fails_the_epoch_and_every_later_call(tmp_path: Path) -> None:
    session = opened(tmp_path)
    session.on_results("all_bids", failing([1]))
    session.push("bids", rows(1, 2))
    session.step()
    session.push("bids", rows(3))
    with pytest.raises(UserError, match="could not be handed over") as told:
        session.step()
    assert isinstance(told.value.__cause__, Broken)
    for call in (
        session.step,
        session.run,
        session.start,
        session.stop,
        lambda: list(session.queries["all_bids"].results()),
    ):
        with pytest.raises(UserError, match="could not be handed over"):
            call()
    with pytest.raises(UserError, match="could not be handed over"):
        session.push("bids", rows(4))
    # The next run from the checkpoint begins with the epoch that failed.
    again = opened(tmp_path)
    again.push("bids", rows(3, 4))
    again.run()
    assert items(tmp_path / "out") == [1, 2, 3, 4]


def test_a_failure_in_the_background_is_repeated(tmp_path: Path) -> None:
    session = opened(tmp_path)
    session.on_results("all_bids", failing([1]))
    session.push("bids", rows(1, 2))
    session.step()
    session.start()
    session.push("bids", rows(3))
    limit = time.monotonic() + 240
    while session.driver.failure is None and time.monotonic() < limit:
        time.sleep(0.01)
    for _ in range(3):
        with pytest.raises(UserError, match="could not be handed over"):
            session.step_pending()
    for _ in range(2):
        with pytest.raises(UserError, match="could not be handed over"):
            session.stop()
    again = opened(tmp_path)
    again.push("bids", rows(3, 4))
    again.run()
    assert items(tmp_path / "out") == [1, 2, 3, 4]


def test_results_released_before_their_epoch_ends_fail_it_too(tmp_path: Path) -> None:
    """The first of two windows has been handed out when the callback of the other raises."""

    def run(broken: bool) -> tuple[list[int], list[int]]:
        session = opened(tmp_path, STREAM + PAIRS)
        session.driver.save()
        heard: list[int] = []
        session.on_results("near", lambda table: heard.append(len(table)))
        session.on_results("far", failing([0] if broken else []))
        seconds = np.arange(3_000) / 100
        numbers = pa.array(np.arange(3_000) % 7)
        bids = pa.table(
            {
                "item": numbers,
                "price": pa.array(seconds),
                "ts": pa.array((seconds * 1e6).astype(int), pa.timestamp("us")),
            }
        )
        session.push("bids", bids)
        if broken:
            with pytest.raises(UserError, match="could not be handed over"):
                session.run()
            with pytest.raises(UserError, match="could not be handed over"):
                session.stop()
        else:
            session.run()
        return heard, items(tmp_path / "out", "near")

    heard, written = run(broken=True)
    assert heard and not written
    heard, written = run(broken=False)
    # Callbacks may get results twice, files have each once.
    assert sum(heard) == len(written) > 0


def test_an_observer_that_raises_fails_the_epoch(tmp_path: Path) -> None:
    session = opened(tmp_path)

    def observer(look: object) -> None:
        raise Broken("nothing to see")

    session.push("bids", rows(1, 2))
    session.step()
    session.observe(observer)
    session.push("bids", rows(3))
    with pytest.raises(Broken):
        session.step()
    with pytest.raises(Broken):
        session.stop()
    again = opened(tmp_path)
    again.push("bids", rows(3, 4))
    again.run()
    assert items(tmp_path / "out") == [1, 2, 3, 4]


def test_dead_letters_that_cannot_be_written_fail_the_epoch(tmp_path: Path) -> None:
    session = opened(tmp_path)
    session.push("bids", rows(5))
    session.step()
    (tmp_path / "out" / "_dead_letter").write_text("a file, where a folder should be")
    session.push("bids", rows(1))
    with pytest.raises(UserError, match="cannot be made"):
        session.step()
    with pytest.raises(UserError, match="cannot be made"):
        session.stop()


def test_interrupted_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    session = opened(tmp_path)

    def interrupted(table: pa.Table) -> None:
        raise KeyboardInterrupt

    session.on_results("all_bids", interrupted)
    session.push("bids", rows(1, 2))
    with pytest.raises(KeyboardInterrupt):
        session.step()
    with pytest.raises(UserError, match="interrupted"):
        session.stop()


def test_a_session_that_was_stopped_takes_no_rows() -> None:
    session = Session()
    session.execute(STREAM + QUERY)
    session.push("bids", rows(1))
    session.run(final=False)
    session.stop(final=False)
    with pytest.raises(UserError, match="has ended"):
        session.push("bids", rows(2))


# -- DROP and CREATE under one name


def write(path: Path, *seconds: int) -> None:
    path.mkdir()
    ts = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us"))
    parquet.write_table(pa.table({"item": pa.array(list(seconds), pa.int64()), "ts": ts}), path / "1.parquet")


@pytest.mark.parametrize("running", [False, True])
def test_a_stream_that_is_created_again_is_another(tmp_path: Path, running: bool) -> None:
    write(tmp_path / "one", 1, 2)
    write(tmp_path / "two", 7, 8, 9)
    stream = "CREATE STREAM s (item BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{}', time='ts');"
    session = Session()
    session.execute(stream.format(tmp_path / "one"))
    session.execute("CREATE QUERY q AS SELECT item FROM s;")
    if running:
        session.step()
        session.step()
        session.execute("DROP QUERY q;")
        with pytest.raises(UserError, match="still has results to give"):
            session.execute("DROP STREAM s;")
        # The end of the run has passed the stop of the query: it has gone.
        session.driver.step(closing=True)
    else:
        session.execute("DROP QUERY q;")
    session.execute("DROP STREAM s;")
    session.execute(stream.format(tmp_path / "two"))
    session.execute("CREATE QUERY q AS SELECT item FROM s;")
    session.run()
    assert session.queries["q"].table().column("item").to_pylist() == [7, 8, 9]


def test_a_pushed_stream_that_is_created_again_has_other_columns() -> None:
    session = Session()
    session.execute(STREAM)
    session.push("bids", rows(1))
    session.execute("DROP STREAM bids; CREATE STREAM bids (name STRING, ts TIMESTAMP) WITH (time='ts');")
    session.execute("CREATE QUERY q AS SELECT name FROM bids;")
    session.push("bids", [("a", 1)])
    session.run()
    assert session.queries["q"].table().column("name").to_pylist() == ["a"]


def test_a_table_that_is_created_again_is_another(tmp_path: Path) -> None:
    for name, vat in (("one", 1.0), ("two", 2.0)):
        parquet.write_table(pa.table({"item": [1], "vat": [vat]}), tmp_path / f"{name}.parquet")
    table = "CREATE TABLE t (item BIGINT, vat DOUBLE) WITH (format='parquet', path='{}');"
    query = "CREATE QUERY q AS SELECT t.vat FROM bids [RANGE 1 MINUTE] b, t WHERE b.item = t.item;"
    session = Session()
    session.execute(STREAM + table.format(tmp_path / "one.parquet") + query)
    session.push("bids", [(1, 0.0, 1)])
    session.step()
    session.execute("DROP QUERY q;")
    session.driver.step(closing=True)
    session.execute("DROP TABLE t;" + table.format(tmp_path / "two.parquet") + query)
    session.push("bids", [(1, 0.0, 5)])
    session.run()
    assert session.queries["q"].table().column("vat").to_pylist() == [2.0]


def test_a_dropped_sink_gets_nothing_more(tmp_path: Path) -> None:
    session = Session()
    session.execute(STREAM + QUERY)
    session.execute(
        "CREATE SINK one FOR all_bids WITH (format='memory'); CREATE SINK whole FOR ALL WITH (format='memory');"
    )
    session.push("bids", rows(1, 2))
    session.step()
    one, whole = session.sink("one"), session.sink("whole")
    session.execute("DROP SINK one; DROP SINK whole;")
    session.push("bids", rows(3, 4))
    session.run()
    assert one.table().num_rows == whole.table().num_rows == 1


def test_sinks_for_all_get_nothing_of_a_query_that_is_tried() -> None:
    session = Session()
    session.execute("""
        CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory');
        CREATE SINK whole FOR ALL WITH (format = 'memory');
        CREATE QUERY kept AS SELECT k FROM a WHERE k > 0;
        CREATE QUERY pairs AS SELECT x.k FROM a [RANGE 5 SECONDS] x, a [RANGE 5 SECONDS] y WHERE x.k = y.k
    """)
    session.push("a", [(1, 1_000_000)])
    session.step()
    session.execute("""
        CREATE QUERY tried WITH (lease = '30') AS SELECT k FROM a WHERE k > 1;
        CREATE QUERY tried_pairs WITH (lease = '30') AS
            SELECT x.k FROM a [RANGE 5 SECONDS] x, a [RANGE 5 SECONDS] y WHERE x.k = y.k AND x.k > 1
    """)
    session.push("a", [(2, 2_000_000), (3, 3_000_000)])
    session.run(once=True)
    assert session.stats()["results"] == {"kept": 3, "pairs": 3, "tried": 2, "tried_pairs": 2}
    found = session.sink("whole").table()
    assert sorted(zip(found["_query"].to_pylist(), found["k"].to_pylist(), strict=True)) == [
        (query, k) for query in ("kept", "pairs") for k in (1, 2, 3)
    ]


def test_a_query_that_is_added_again_has_no_callbacks_of_the_one_before() -> None:
    session = Session()
    session.execute(STREAM + QUERY)
    heard: list[int] = []
    session.on_results("all_bids", lambda table: heard.extend(table.column(0).to_pylist()))
    session.push("bids", rows(1, 2))
    session.step()
    session.execute("DROP QUERY all_bids;")
    session.driver.step(closing=True)
    session.execute(QUERY)
    session.push("bids", rows(5, 6))
    session.run()
    assert heard == [1, 2]
    assert session.queries["all_bids"].table().column(0).to_pylist() == [5, 6]


@pytest.mark.parametrize("name", ["a" * 300, "ä" * 150])
def test_names_that_cannot_be_folders_are_refused(name: str) -> None:
    session = Session()
    session.execute(STREAM)
    with pytest.raises(UserError, match="too long"):
        session.query(name, "SELECT item FROM bids")
    for bad in ("a/b", "..", "a.b", 'say "x"', "_dead_letter", ""):
        with pytest.raises(UserError, match="cannot name"):
            session.query(bad, "SELECT item FROM bids")
