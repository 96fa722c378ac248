"""Heartbeats, which a bare `ts <= T` is: what they move at the end of a bounded run, and which rows break them,
whatever the epochs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random

import pytest

from eddyline import Query, Session
from eddyline.errors import BindingProblem, DataProblem
from eddyline.settings import Settings
from tests.runtime.punctuated import SECOND, made

STREAMS = """
    CREATE STREAM a (k BIGINT, v BIGINT, type STRING, what STRING, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'what');
    CREATE STREAM b (k BIGINT, v BIGINT, type STRING, what STRING, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'what')
"""
#: Each with conditions that a row with k = -1 does not satisfy.
QUERIES = {
    "buckets": """SELECT date_trunc('minute', ts) AS m, k, count(*) AS n FROM a WHERE k >= 0
        GROUP BY date_trunc('minute', ts), k EMIT ON CLOSE""",
    "tumble": "SELECT window_end, sum(v) AS n FROM a WHERE k >= 0 GROUP BY TUMBLE(ts, '7 seconds')",
    "hop": "SELECT window_end, k, count(*) AS n FROM a WHERE k >= 0 GROUP BY HOP(ts, '3 seconds', '9 seconds'), k",
    "session": "SELECT window_end, k, count(*) AS n FROM a WHERE k >= 0 GROUP BY SESSION(ts, '3 seconds'), k",
    "every": "SELECT k, count(*) AS n FROM a [RANGE 5 SECONDS] WHERE k >= 0 GROUP BY k EMIT EVERY 3 SECONDS",
    "joined": """SELECT a.k, count(*) AS n FROM a [RANGE 4 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k AND a.k >= 0
        GROUP BY a.k EMIT EVERY 2 SECONDS""",
    "window of a join": """SELECT window_end, count(*) AS n FROM a [RANGE 4 SECONDS] AS a, b [NOW] AS b
        WHERE a.k = b.k AND a.k >= 0 GROUP BY TUMBLE(a.ts, '5 seconds')""",
    "left": "SELECT a.k, b.v FROM a [RANGE 6 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k WHERE a.k >= 0",
    "full": "SELECT a.k, b.v FROM a [RANGE 6 SECONDS] FULL JOIN b [RANGE 3 SECONDS] ON a.k = b.k WHERE coalesce(a.k, b.k) >= 0",
    "missing": "SELECT k, v FROM a [RANGE 4 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k) AND k >= 0",
    "derived": "SELECT window_end, count(*) AS m FROM (SELECT k, v FROM a WHERE k >= 0) x GROUP BY TUMBLE(_ts, '7 seconds')",
    "union": """SELECT window_end, count(*) AS m FROM (SELECT k FROM a WHERE k >= 0 UNION ALL SELECT k FROM b WHERE k >= 0) x
        GROUP BY TUMBLE(_ts, '7 seconds')""",
    "groups of groups": """SELECT window_end AS w, max(n) AS n FROM
        (SELECT k, window_end AS e, count(*) AS n FROM a WHERE k >= 0 GROUP BY TUMBLE(ts, '3 seconds'), k) x
        GROUP BY TUMBLE(_ts, '9 seconds')""",
    "first": """SELECT window_end, k, v FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '7' SECOND)) WHERE k >= 0
        ORDER BY v DESC LIMIT 1""",
    "pattern": "EVENT SEQ(A x, NOT(B)) FROM a TYPE type PARTITION BY k WITHIN 5 SECONDS RETURN x.v AS v",
}
Event = tuple[str, dict[str, object]]


def beat(instant: float, at: float = 0) -> dict[str, object]:
    """A heartbeat as a row of its source."""
    return {
        "what": f"ts <= TIMESTAMP '1970-01-01 00:{int(instant) // 60:02d}:{instant % 60:09.6f}'",
        "ts": int(at * SECOND),
    }


def row(k: int | None, at: float, v: int = 0) -> dict[str, object]:
    return {"k": k, "v": v, "type": None if k == -1 else "AB"[v % 2], "ts": int(at * SECOND)}


def run(session: Session, events: Sequence[Event], cuts: Iterable[int] = (), final: bool = False) -> Session:
    """Push one after the other, an epoch ends after those with these numbers, and the run after the last."""
    ends = set(cuts)
    for number, (stream, pushed) in enumerate(events):
        session.push(stream, [pushed])
        if number in ends:
            session.step()
    session.run(final=final)
    return session


def answers(events: Sequence[Event], cuts: Iterable[int], final: bool = False) -> dict[str, list[str]]:
    session = made(STREAMS)
    for name, text in QUERIES.items():
        session.query(name.replace(" ", "_"), text)
    run(session, events, cuts, final)
    return {
        name: sorted(str(one) for one in query.table().to_pylist())
        for name, query in session.queries.items()
        if name[0] != "_"
    }


def reasons(session: Session, stream: str = "a") -> list[tuple[int, str]]:
    return sorted(
        (int(one["k"]), str(one["_reason"]).split(":")[0]) for one in session.dead_letters(stream).to_pylist()
    )


# -- the end of a bounded run


@pytest.mark.parametrize("seed", range(12))
def test_a_heartbeat_ends_a_run_as_a_row_that_nobody_wants_does(seed: int) -> None:
    rng, final = Random(seed), seed % 2 == 1
    now, events = 0, list[Event]()
    for number in range(rng.randrange(3, 14)):
        now += rng.choice((0, 1, 1, 3))
        events.append((rng.choice("ab"), row(rng.randrange(3), now, number)))
    stream, end = rng.choice("ab"), now + rng.choice((0, 2, 9, 30))
    cuts = [rng.randrange(len(events) + 1) for _ in range(rng.randrange(4))]
    with_row = answers([*events, (stream, row(-1, end))], cuts, final)
    assert answers([*events, (stream, beat(end, now))], cuts, final) == with_row
    # Read with the last rows, or alone.
    assert answers([*events, (stream, beat(end))], [len(events) - 1], final) == with_row


def test_every_query_has_answers_that_only_the_heartbeat_gives() -> None:
    events: list[Event] = [("a", row(1, 1)), ("b", row(1, 1)), ("b", row(2, 2)), ("a", row(3, 2))]
    without, with_beat = answers(events, ()), answers([*events, ("a", beat(100))], ())
    assert [name for name in with_beat if len(with_beat[name]) <= len(without[name])] == []


def test_a_heartbeat_ends_queries_over_its_own_stream() -> None:
    """A query that does not read the stream has its own end."""
    session = made(STREAMS)
    one, other = (
        session.query(name, f"SELECT window_end, count(*) AS n FROM {name} GROUP BY TUMBLE(ts, '5 seconds')")
        for name in "ab"
    )
    run(session, [("a", row(1, 1)), ("b", row(1, 1)), ("a", beat(20))])
    assert (one.table().num_rows, other.table().num_rows) == (1, 0)


def test_a_run_after_the_end_goes_on_behind_the_heartbeat(tmp_path: Path) -> None:
    found, dead = [], []
    for events in ([row(1, 1), row(1, 4), beat(12)], [row(1, 11), row(1, 13), row(1, 21)], [row(1, 25), beat(60)]):
        session = made(STREAMS, checkpoint=str(tmp_path / "checkpoint"))
        query = session.query("q", "SELECT window_end, count(*) AS n FROM a GROUP BY TUMBLE(ts, '10 seconds')")
        run(session, [("a", event) for event in events])
        found.append(query.take().column("n").to_pylist())
        dead.append(reasons(session))
        session.stop()
    assert (found, dead) == ([[2], [1], [2]], [[], [(1, "violation")], []])


# -- rows that break one


LATE = STREAMS.replace("WITH (time = 'ts'", "WITH (time = 'ts', lateness = '5 seconds'")


@pytest.mark.parametrize("text", [STREAMS, LATE])
def test_the_order_of_the_source_decides_whatever_the_epochs(text: str) -> None:
    events = [
        row(0, 10),
        row(1, 11),
        beat(14, 3),
        row(2, 14),
        row(3, 15),
        row(4, 12),
        beat(9),
        row(5, 16),
        beat(20),
        row(6, 20),
        row(7, 21),
    ]
    outcomes = set()
    for cuts in ((), (2,), (3,), (1, 4, 6), range(20)):
        session = made(text)
        query = session.query("q", "SELECT k FROM a")
        run(session, [("a", event) for event in events], cuts)
        outcomes.add(str((query.take().column("k").to_pylist(), reasons(session), session.stats()["violations"]["a"])))
    assert outcomes == {str(([0, 1, 3, 5, 7], [(2, "violation"), (4, "violation"), (6, "violation")], 3))}


def test_a_late_row_stays_late() -> None:
    session = made(STREAMS)
    session.query("q", "SELECT k FROM a")
    run(session, [("a", row(0, 10)), ("a", beat(5)), ("a", row(1, 20)), ("a", row(2, 15)), ("a", row(3, 4))], range(9))
    assert reasons(session) == [(2, "late"), (3, "violation")]


def test_a_pushed_heartbeat_stands_between_pushes() -> None:
    for steps in (False, True):
        session = made(STREAMS)
        session.query("q", "SELECT k FROM a")
        session.push("a", [row(0, 1), row(1, 8)])
        session.punctuate("a", "ts < TIMESTAMP '1970-01-01 00:00:10'")
        if steps:
            session.step()
        session.push("a", [row(2, 9), row(3, 10)])
        session.run(once=True)
        assert reasons(session) == [(2, "violation")]
        assert session.queries["q"].table().column("k").to_pylist() == [0, 1, 3]


def test_one_with_an_instant_of_its_own_stands_after_the_rows_of_that_instant() -> None:
    session = made(STREAMS)
    passed = session.query("q", "SELECT k FROM a")
    session.punctuate("a", "ts <= TIMESTAMP '1970-01-01 00:00:10'", at="1970-01-01 00:00:05")
    session.push("a", [row(0, 4), row(1, 5), row(2, 6), row(3, 10), row(4, 11)])
    session.run(once=True)
    assert passed.table().column("k").to_pylist() == [0, 1, 4]
    assert reasons(session) == [(2, "violation"), (3, "violation")]
    assert session.stats()["punctuations"]["a"] == 1


def test_a_row_that_breaks_one_says_nothing_whatever_the_epochs() -> None:
    """As of a late row, nothing is derived from it: its key stays open, and so does what CREATE PUNCTUATION takes from
    it."""
    events = [
        ("a", row(1, 1)),
        ("a", beat(9)),
        ("a", row(2, 5)),
        ("b", row(7, 11, v=2)),
        ("a", row(2, 12)),
        ("b", row(8, 13, v=2)),
    ]
    for cuts in ((), range(9)):
        session = made(STREAMS.replace("punctuation = 'what');", "punctuation = 'what', key = 'k');", 1))
        session.execute("CREATE PUNCTUATION p ON b (v) FROM a (k)")
        first, second = session.query("first", "SELECT k FROM a"), session.query("second", "SELECT k FROM b")
        run(session, events, cuts)
        assert first.table().column("k").to_pylist() == [1, 2]
        assert second.table().column("k").to_pylist() == [7]
        assert (reasons(session), reasons(session, "b")) == ([(2, "violation")], [(8, "violation")])


def test_windows_of_rows_do_not_count_rows_that_break_one() -> None:
    session = made(STREAMS)
    query = session.query("q", "SELECT a.k AS x, b.k AS y FROM a [ROWS 2], b [NOW]")
    run(
        session,
        [("a", row(1, 1)), ("a", row(2, 2)), ("a", beat(5)), ("a", row(3, 4)), ("a", beat(9)), ("b", row(9, 9))],
    )
    assert sorted(query.table().column("x").to_pylist()) == [1, 2]


def test_a_job_that_takes_no_violation_stops() -> None:
    session = made(STREAMS, Settings(on_violation="error"))
    session.query("q", "SELECT k FROM a")
    session.push("a", [row(0, 1), beat(9), row(1, 5)])
    with pytest.raises(DataProblem, match="breaks a promise"):
        session.run(once=True)


# -- the latest table of a query


@pytest.mark.parametrize("named", [True, False])
def test_at_the_end_the_latest_table_has_come_as_far_as_its_streams(named: bool) -> None:
    """The table is that of instant 4: b ends at 5. A heartbeat lets it come to 6, with all rows of b, and to 20, when
    they have left."""
    found = []
    for events in ([], [("b", beat(6))], [("b", beat(20))]):
        session = made(STREAMS)
        table = "SELECT k, count(*) AS n FROM b [RANGE 3 SECONDS] GROUP BY k EMIT EVERY 2 SECONDS"
        if named:
            session.query("t", table)
        query = session.query(
            "q", f"SELECT a.k, t.n FROM a LEFT JOIN LATEST {'t' if named else f'({table})'} t ON a.k = t.k"
        )
        rows = [("b", row(1, at)) for at in (1, 3, 4.5, 5)] + [("a", row(1, at)) for at in (2, 4, 5, 6, 20)]
        run(session, [*rows, *events])
        found.append(query.take().column("n").to_pylist())
    assert found == [[1, 2, 2, 2, 2], [1, 2, 2, 3, 3], [1, 2, 2, 3, None]]


# -- files


@pytest.mark.parametrize("epoch_rows", [1, 2, 100])
def test_files_in_the_order_of_their_names(epoch_rows: int, tmp_path: Path) -> None:
    """A heartbeat in one file speaks of the rows of the next one, also in a run that goes on from a checkpoint."""
    files = [
        [row(0, 1), beat(4), row(1, 3), row(2, 6)],
        [row(3, 4), beat(9, 6), row(4, 10)],
        [row(5, 8), row(6, 11), beat(20)],
    ]
    answered, dead = [], []
    for number, rows in enumerate(files):
        lines = [{**one, "ts": f"1970-01-01 00:00:{int(str(one['ts'])) // SECOND:02d}"} for one in rows]
        (tmp_path / f"{number}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if number == 0:
            continue
        session = Session(Settings(epoch_rows=epoch_rows), checkpoint=str(tmp_path / "checkpoint"))
        session.execute(f"""CREATE STREAM a (k BIGINT, v BIGINT, type STRING, what STRING, ts TIMESTAMP)
            WITH (time = 'ts', punctuation = 'what', format = 'json', path = '{tmp_path}/*.json')""")
        queries = [
            session.query("q", "SELECT k FROM a"),
            session.query("w", "SELECT window_end, k FROM a GROUP BY TUMBLE(ts, '5 seconds'), k"),
        ]
        session.run(once=True)
        answered.append([query.table().column("k").to_pylist() for query in queries])
        dead.append(reasons(session))
        session.stop()
    assert answered == [[[0, 2, 4], [0, 2]], [[6], [4, 6]]]
    assert dead == [[(1, "violation"), (3, "violation")], [(5, "violation")]]


# -- session.advance


def advanced() -> tuple[Session, Query]:
    session = Session()
    session.execute("""
        CREATE STREAM bids (item BIGINT, "the time" TIMESTAMP) WITH (time = 'the time');
        CREATE STREAM asks (item BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    """)
    query = session.query(
        "pairs",
        """SELECT window_end AS e, count(*) AS n FROM bids [RANGE 5 SECONDS] b, asks [NOW] a WHERE a.item = b.item
           GROUP BY TUMBLE(b."the time", '10 seconds')""",
    )
    session.push("bids", [(1, "2024-01-01 10:00:01")])
    session.push("asks", [(1, "2024-01-01 10:00:02"), (1, "2024-01-01 10:00:03")])
    return session, query


@pytest.mark.parametrize("to", ["2024-01-01 10:00:15", datetime(2024, 1, 1, 10, 0, 15)])
def test_advance_moves_the_horizons_of_streams_without_a_row(to: str | datetime) -> None:
    session, query = advanced()
    assert len(query) == 0
    session.advance("bids", to=to)
    assert len(query) == 0, "asks may still have earlier rows"
    session.advance("asks", to=to)
    assert [row["n"] for row in query.take().to_pylist()] == [2]
    session.push("bids", [(1, to)])
    session.push("bids", [(1, "2024-01-01 10:00:15.000001")])
    assert session.dead_letters("bids").num_rows == 0
    session.step()
    (reason,) = session.dead_letters("bids").column("_reason").to_pylist()
    assert "heartbeat" in reason


def test_advance_of_all_streams() -> None:
    session, query = advanced()
    session.advance(to="2024-01-01 10:00:15")
    assert [row["n"] for row in query.take().to_pylist()] == [2]


def test_advance_of_a_stream_of_files_stands_after_its_rows_of_that_instant(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("k,ts\n1,2024-01-01 10:00:01\n2,2024-01-01 10:00:20\n")
    session = Session()
    session.execute(f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'csv', path = '{tmp_path}')")
    query = session.query("q", "SELECT window_end AS e, count(*) AS n FROM s GROUP BY TUMBLE(ts, '10 seconds')")
    session.advance("s", to="2024-01-01 10:00:30")
    session.run()
    assert [row["n"] for row in query.take().to_pylist()] == [1, 1]


def test_advance_names_a_stream_and_an_instant() -> None:
    session, _ = advanced()
    with pytest.raises(BindingProblem, match="nowhere"):
        session.advance("nowhere", to="2024-01-01")
    with pytest.raises(BindingProblem, match="5 is no instant"):
        session.advance("bids", to=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("made", ["SELECT k FROM a", "SELECT k, window_end FROM a GROUP BY TUMBLE(ts, '3 seconds'), k"])
@pytest.mark.parametrize("to", ["1970-01-01 00:00:24", "1970-01-01 00:00:40", "2100-01-01"])
def test_a_row_that_waits_at_a_gate_meets_rows_of_a_derived_stream(made: str, to: str) -> None:
    """The stream is at its end and has a heartbeat: the timeline of the derived stream moved past its row."""
    with Session() as session:
        for name in "ac":
            session.execute(f"CREATE STREAM {name} (k INT, ts TIMESTAMP) WITH (time = 'ts')")
        query = session.query("q", f"SELECT m.k FROM ({made}) m [RANGE 4 SECONDS], c [RANGE 4 SECONDS] WHERE m.k = c.k")
        for name, k, ts in (("c", 3, 22_500_002), ("a", 3, 23_500_002), ("a", 0, 28_500_002)):
            session.push(name, [(k, ts)])
            session.step()
        session.advance("c", to=to)
        session.run(once=True)
        assert query.table().column("k").to_pylist() == [3]
