"""The embedded driver over several runs, in silence, and over many epochs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.runtime.figures.epoch_times import NEWEST
from eddyline.testing.clocks import MovedClock

JOB = """
CREATE STREAM s (item BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{data}', time='ts');
CREATE QUERY q AS SELECT item FROM s;
"""


def write(folder: Path, name: int, *seconds: int) -> None:
    folder.mkdir(exist_ok=True)
    ts = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us"))
    parquet.write_table(pa.table({"item": pa.array(list(seconds), pa.int64()), "ts": ts}), folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def once(work: Path) -> None:
    session = Session(out=str(work / "out"), checkpoint=str(work / "state"))
    session.execute(JOB.format(data=work / "data"))
    session.run(once=True)


def following(work: Path, wanted: int) -> None:
    """Follow the files until so many results have been made in all, then stop."""
    session = Session(out=str(work / "out"), checkpoint=str(work / "state"), follow=True)
    session.execute(JOB.format(data=work / "data"))
    session.start()
    limit = time.monotonic() + 240
    while session.pipeline.queries["q"].results < wanted and time.monotonic() < limit:
        time.sleep(0.01)
    session.stop()


def results(work: Path) -> list[int]:
    return [
        item
        for path in sorted((work / "out/q").glob("*.parquet"))
        for item in parquet.read_table(path).column(0).to_pylist()
    ]


def test_once_then_follow_then_once(tmp_path: Path) -> None:
    write(tmp_path / "data", 1, 1, 2, 3)
    once(tmp_path)
    assert results(tmp_path) == [1, 2, 3]
    write(tmp_path / "data", 2, 4, 5, 6)
    following(tmp_path, 5)
    # The stream is open: its newest row waits.
    assert results(tmp_path) == [1, 2, 3, 4, 5]
    write(tmp_path / "data", 3, 7, 8)
    once(tmp_path)
    assert results(tmp_path) == list(range(1, 9))
    write(tmp_path / "data", 4, 9)
    once(tmp_path)
    once(tmp_path)
    assert results(tmp_path) == list(range(1, 10))


def test_two_streams_are_both_open_again(tmp_path: Path) -> None:
    """In the second run one stream has new rows and the other will have some later: the first waits for it."""
    streams = f"""
        CREATE STREAM a (item BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{tmp_path}/a', time='ts');
        CREATE STREAM b (item BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{tmp_path}/b', time='ts');
        CREATE QUERY q AS SELECT a.item FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.item = b.item;
    """
    write(tmp_path / "a", 1, 1, 2)
    write(tmp_path / "b", 1, 1, 2)
    first = Session(checkpoint=str(tmp_path / "state"))
    first.execute(streams)
    first.run(once=True)
    write(tmp_path / "a", 2, 10, 20)
    second = Session(checkpoint=str(tmp_path / "state"), follow=True)
    second.execute(streams)
    second.step()
    second.step()
    assert second.pipeline.frontier == 2_000_001
    write(tmp_path / "b", 2, 10, 20)
    limit = time.monotonic() + 240
    while second.pipeline.frontier == 2_000_001 and time.monotonic() < limit:
        time.sleep(0.05)
        second.step()
    assert second.queries["q"].table().column(0).to_pylist() == [10]


def test_pushed_streams_are_open_again(tmp_path: Path) -> None:
    def session() -> Session:
        found = Session(out=str(tmp_path / "out"), checkpoint=str(tmp_path / "state"))
        found.execute(
            "CREATE STREAM s (item BIGINT, ts TIMESTAMP) WITH (time='ts'); CREATE QUERY q AS SELECT item FROM s;"
        )
        return found

    def rows(*seconds: int) -> list[tuple[int, int]]:
        return [(second, second * 1_000_000) for second in seconds]

    first = session()
    first.push("s", rows(1, 2))
    first.run(once=True)
    second = session()
    second.push("s", rows(3, 4))
    second.step()
    second.push("s", rows(5))
    second.step()
    second.stop()
    assert results(tmp_path) == [1, 2, 3, 4]
    third = session()
    third.push("s", rows(6))
    third.run(once=True)
    assert results(tmp_path) == [1, 2, 3, 4, 5, 6]


class CountingClock(MovedClock):
    """Stops the session after so many naps."""

    def __init__(self, naps: int) -> None:
        super().__init__()
        self.left = naps
        self.session: Session

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.left -= 1
        if self.left <= 0:
            self.session.ask_to_stop()


@pytest.mark.parametrize("silent", ["never came", "came once"])
def test_a_silent_stream_costs_one_epoch(silent: str) -> None:
    """`b` falls idle after 5 seconds: one epoch moves the frontier, then the driver naps for six minutes."""
    clock = CountingClock(naps=18_000)
    clock.session = session = Session(clock=clock)
    session.execute("""
        CREATE STREAM a (item BIGINT, ts TIMESTAMP) WITH (time='ts');
        CREATE STREAM b (item BIGINT, ts TIMESTAMP) WITH (time='ts', idle='5 seconds');
        CREATE QUERY q AS SELECT a.item FROM a;
        CREATE QUERY r AS SELECT b.item FROM b;
    """)
    session.push("a", [(n, n * 1_000_000) for n in (1, 2, 3, 4)])
    if silent == "came once":
        session.push("b", [(1, 1_500_000)])
    session.run(once=False)
    assert session.queries["q"].table().column(0).to_pylist() == [1, 2, 3]
    assert session.driver.epoch == 2
    assert clock.now() - session.driver.began > 359


def test_a_stream_that_wakes_costs_the_epoch_of_its_rows() -> None:
    clock = MovedClock()
    session = Session(clock=clock)
    session.execute("""
        CREATE STREAM a (item BIGINT, ts TIMESTAMP) WITH (time='ts');
        CREATE STREAM b (item BIGINT, ts TIMESTAMP) WITH (time='ts', idle='5 seconds');
        CREATE QUERY q AS SELECT a.item FROM a;
        CREATE QUERY r AS SELECT b.item FROM b;
    """)
    turns = []

    def nap(seconds: float) -> None:
        clock.advance(seconds)
        turns.append(session.driver.epoch)
        if len(turns) == 1_000:
            session.push("b", [(9, 9_000_000)])
        if len(turns) == 3_000:
            session.ask_to_stop()

    clock.sleep = nap  # type: ignore[method-assign]
    session.push("a", [(1, 1_000_000), (2, 2_000_000)])
    session.run(once=False)
    # Rows of a; b is idle; rows of b; b is idle again.
    assert session.driver.epoch == 4


def test_times_of_epochs_are_kept_in_bounded_space() -> None:
    session = Session()
    session.execute(
        "CREATE STREAM s (item BIGINT, ts TIMESTAMP) WITH (time='ts'); CREATE QUERY q AS SELECT item FROM s;"
    )
    for _ in range(NEWEST + 100):
        session.step()
    figures = session.stats()
    assert figures["epochs"] == figures["epoch_times"]["count"] == NEWEST + 100
    assert len(figures["epoch_seconds"]) == NEWEST
    assert figures["epoch_times"]["max"] >= figures["epoch_times"]["p99"] >= figures["epoch_times"]["median"] > 0
    assert figures["epoch_times"]["sum"] >= sum(figures["epoch_seconds"])


def test_many_dropped_queries_leave_bounded_marks(tmp_path: Path) -> None:
    session = Session(checkpoint=str(tmp_path / "state"))
    session.execute(
        "CREATE STREAM s (item BIGINT, ts TIMESTAMP) WITH (time='ts'); CREATE QUERY q AS SELECT item FROM s;"
    )
    session.step()
    for n in range(1_500):
        session.query(f"q{n}", "SELECT item FROM s")
        session.drop(f"q{n}")
    marks = session.driver.roster.marks()
    assert len(marks["dropped"]) == 1_000
    assert "q1499" in marks["dropped"]
    assert threading.active_count() < 20


def ends(call: Callable[[], None]) -> bool:
    """Whether a call comes back within a minute; one that does not goes on in a thread that the process does not wait
    for."""
    thread = threading.Thread(target=call, name="called", daemon=True)
    thread.start()
    thread.join(240)
    return not thread.is_alive()


def test_a_stop_right_after_the_start_is_not_lost() -> None:
    for _ in range(30):
        session = Session()
        session.execute("CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.query("q", "SELECT k FROM a")
        session.start()
        assert ends(session.stop), "the stop came before the run had begun, and was forgotten"
        assert not [thread for thread in threading.enumerate() if thread.name == "eddyline"]


def test_a_run_that_was_asked_to_stop_before_it_began_stops(tmp_path: Path) -> None:
    session = Session(follow=True)
    session.execute(f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'csv', path = '{tmp_path}')")
    session.query("q", "SELECT k FROM a")
    session.ask_to_stop()
    assert ends(lambda: session.run(once=False)), "the run follows its files, although it was asked to stop"


def test_a_checkpoint_right_after_a_start_keeps_what_was_taken_of_a_file(tmp_path: Path) -> None:
    """A control record makes a driver save before it has read: rows that an earlier process took of the file do not
    come again."""
    times = pa.array(range(0, 10_000_000, 1_000_000), pa.timestamp("us"))
    parquet.write_table(pa.table({"k": range(10), "ts": times}), tmp_path / "a.parquet")

    def opened() -> Session:
        session = Session(checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out"))
        session.execute(f"""
            SET checkpoint_seconds = 0; SET epoch_rows = 3;
            CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', path = '{tmp_path}/a.parquet');
            CREATE QUERY q AS SELECT k FROM a
        """)
        return session

    for work in (lambda session: session.step(), lambda session: session.driver.save()):
        session = opened()
        work(session)
        session._runner.abandon()
    opened().run(once=True)
    assert parquet.read_table(tmp_path / "out" / "q").column("k").to_pylist() == list(range(10))


def test_results_have_what_was_pushed_however_small_epochs_are() -> None:
    with Session() as session:
        session.execute(
            "SET epoch_rows = 2; CREATE STREAM s (item BIGINT, ts TIMESTAMP) WITH (time = 'ts'); CREATE QUERY q AS SELECT item FROM s"
        )
        session.push("s", [(number, number * 1_000_000) for number in range(10)])
        # The newest row waits for the frontier.
        assert session.queries["q"].table().column("item").to_pylist() == list(range(9))
