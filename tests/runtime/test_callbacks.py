"""What functions that are called with results may do to their session: stop it, drop and add queries, push rows,
ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.errors import UserError

STREAMS = """CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts'); CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time = 'ts');
             CREATE TEMPLATE sums AS SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k; SET epoch_rows = 10;"""
#: Results that come at the end of an epoch, and results of a join with two windows, which come while it runs.
QUERIES = {
    "plain": "SELECT k FROM a",
    "near": "SELECT a.k AS k FROM a [RANGE 1 SECONDS], b [RANGE 1 SECONDS] WHERE a.k = b.k",
    "far": "SELECT a.k AS k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k",
}
WAYS = ["run", "run until stopped", "start", "step", "results"]


def made(checkpoint: Path | None = None) -> Session:
    session = Session(checkpoint=None if checkpoint is None else str(checkpoint))
    session.execute(STREAMS)
    for name, text in QUERIES.items():
        session.query(name, text)
    return session


def push(session: Session, first: int = 0, rows: int = 60) -> None:
    for stream in "ab":
        session.push(stream, [(n % 7, (n + 1) * 100_000) for n in range(first, first + rows)])


def carried_out(session: Session, way: str) -> None:
    """The epochs over what was pushed, in one of the ways there are; a deadlock is an error."""

    def work() -> None:
        if way.startswith("run"):
            session.run(once=way == "run")
        elif way == "step":
            for _ in range(14):
                if not session._runner._closed:  # type: ignore[attr-defined]
                    session.step()
        elif way == "results":
            list(session.queries["plain"].results())
        else:
            session.start()
            thread = session._runner._thread  # type: ignore[attr-defined]
            thread.join(240)
            assert not thread.is_alive()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(240)
    assert not thread.is_alive()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("query", ["plain", "near"])
def test_a_function_stops_its_session(way: str, query: str, tmp_path: Path) -> None:
    calls: list[int] = []

    def heard(table: pa.Table) -> None:
        calls.append(session.stats()["epochs"])
        session.stop()

    with made(tmp_path / "state") as session:
        session.on_results(query, heard)
        push(session)
        carried_out(session, way)
        # The current epoch is the last one; its results are delivered.
        assert calls and session.driver.epoch <= calls[0] + 2 < 6
        session.stop()
    again = made(tmp_path / "state")
    with again as session:
        push(session, 200, 1)
        session.run()
        assert session.driver.epoch > calls[0]


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("query", sorted(QUERIES))
def test_a_function_drops_its_own_query_and_another(query: str, numbered: bool) -> None:
    with made() as alone:
        push(alone)
        alone.run()
        right = alone.queries["far"].table()
    other = "plain" if query != "plain" else "near"
    with made() as session:
        dropped = False

        def heard(*_: object) -> None:
            nonlocal dropped
            if not dropped:
                dropped = True
                session.drop(query)
                session.drop(other)
                with pytest.raises(UserError):
                    session.drop(query)

        session.on_results(query, heard, numbered=numbered)
        far = session.queries["far"]
        push(session)
        carried_out(session, "run")
        assert dropped and query not in session.queries and not {query, other} & set(session.pipeline.queries)
        if query != "far":
            assert far.table().equals(right)
        # Both names are free again.
        assert query not in session.job.catalog.queries


def test_a_function_adds_a_stream_a_table_a_query_and_a_function_of_its_own(tmp_path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(pa.table({"k": [3], "name": ["three"]}), tmp_path / "names.parquet")
    heard: list[int] = []
    with made() as session:

        def first(_: pa.Table) -> None:
            if "more" not in session.queries:
                session.execute(
                    f"CREATE TABLE names (k BIGINT, name STRING) WITH (format = 'parquet', path = '{tmp_path}/names.parquet')"
                )
                session.execute("CREATE STREAM c (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
                session.execute("CREATE QUERY named AS SELECT c.k, n.name FROM c, names n WHERE c.k = n.k")
                session.query("more", "SELECT k FROM a WHERE k = 3")
                session.on_results("more", lambda table: heard.extend(table.column("k").to_pylist()))
                with pytest.raises(UserError):
                    session.query("more", "SELECT k FROM a")
                session.push("c", [(3, 1_000_000), (4, 1_000_000)])

        session.on_results("plain", first)
        push(session)
        carried_out(session, "results")
        session.run()
        assert session.queries["named"].table().column("name").to_pylist() == ["three"]
        more = session.queries["more"].table().column("k").to_pylist()
        assert heard == more and set(more) == {3} and 0 < len(more) < 9


def test_a_function_pushes_rows() -> None:
    with made() as session:
        left = [5]

        def heard(_: pa.Table) -> None:
            if left[0]:
                left[0] -= 1
                push(session, 1000 * (5 - left[0]), 3)

        session.on_results("plain", heard)
        push(session)
        carried_out(session, "results")
        session.run()
        assert left == [0] and session.stats()["rows_in"]["a"] == 60 + 5 * 3


@pytest.mark.parametrize("way", WAYS)
def test_what_needs_a_session_at_rest_is_refused(way: str) -> None:
    said: list[str] = []
    done: list[bool] = []

    def refused(call: Callable[[], object]) -> None:
        with pytest.raises(UserError) as caught:
            call()
        said.append(caught.value.message)

    def heard(_: pa.Table) -> None:
        if not done:
            for call in (
                session.run,
                session.start,
                session.step,
                lambda: session.request("k, n FROM sums WHERE k = 3 GROUP BY k"),
            ):
                refused(call)
            refused(lambda: session.execute("DROP TEMPLATE sums; DROP STREAM b"))
            # What has come is there; no epoch begins.
            session.queries["far"].table()
            (
                session.stats(),
                session.explain("far"),
                session.analysis("far"),
                session.warnings,
                session.queries["far"].plan,
            )
            session.punctuate("b", "ts < TIMESTAMP '1970-01-01 00:00:00'", at="1970-01-01 00:00:00")
            done.append(True)
            session.stop()

    with made() as session:
        session.on_results("near", heard)
        push(session)
        carried_out(session, way)
        assert done
    assert said[:4] == [
        "the session is running already",
        "the session is running already",
        "the session is in the middle of an epoch",
        "requests are answered between two epochs",
    ]


def test_a_second_start_is_refused() -> None:
    with made() as session:
        session.start()
        for call in (session.start, session.run):
            with pytest.raises(UserError, match="running already"):
                call()


def test_an_observer_stops_and_drops() -> None:
    with made() as session:
        epochs: list[int] = []

        def observe(_: object) -> None:
            epochs.append(1)
            if len(epochs) == 2:
                session.drop("near")
                session.stop()

        session.observe(observe)
        push(session)
        carried_out(session, "run")
        assert len(epochs) == 2 and session.pipeline.queries["near"].stop is not None
