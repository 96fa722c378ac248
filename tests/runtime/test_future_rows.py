"""Rows far ahead of the wall clock: `most_ahead`, its decisions over restarts, and the warning without it."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import BindingProblem
from eddyline.settings import Settings
from eddyline.testing.clocks import MovedClock
from tests.oracle.intake import Epoch, Stream, intake
from tests.seeds import cases, first_seed

NOON = datetime(2026, 1, 1, 12)
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
HOUR = 3_600_000_000


def micros(when: datetime) -> int:
    return round((when - datetime(1970, 1, 1)) / timedelta(microseconds=1))


def clock_at(when: datetime) -> MovedClock:
    return MovedClock(micros(when) / 1e6)


def pushed(session: Session, *rows: tuple[int, datetime]) -> None:
    session.push("s", [{"k": k, "ts": ts} for k, ts in rows])


def test_a_row_of_the_year_9999_is_a_dead_letter_and_later_rows_count() -> None:
    clock = clock_at(NOON)
    with Session(clock=clock) as session:
        session.stream("s", SCHEMA, time="ts", most_ahead="1 hour")
        query = session.query("q", "SELECT k FROM s")
        limit = NOON + timedelta(hours=1)
        pushed(session, (1, NOON), (2, datetime.max), (3, limit), (4, limit + timedelta(microseconds=1)))
        session.step()
        clock.advance(60)
        pushed(session, (5, limit + timedelta(seconds=60)), (6, limit + timedelta(seconds=61)))
        session.step()
        session.run(once=True)
        assert query.table().column("k").to_pylist() == [1, 3, 5]
        dead = session.dead_letters("s").to_pylist()
        assert [letter["k"] for letter in dead] == ["2", "4", "6"] and dead[0]["ts"] == "9999-12-31 23:59:59.999999"
        assert [letter["_reason"].split(",")[0] for letter in dead] == [
            "ahead: event time lies after 2026-01-01T13:00:00.000000",
            "ahead: event time lies after 2026-01-01T13:00:00.000000",
            "ahead: event time lies after 2026-01-01T13:01:00.000000",
        ]
        assert session.stats()["bad"] == {"s": 3}


def test_a_punctuation_that_is_pushed_after_such_a_row_stands_at_the_row_before() -> None:
    with Session(clock=clock_at(NOON)) as session:
        session.execute(
            "CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', most_ahead = '1 hour', remember = '1 day', lateness = '1 hour')"
        )
        session.query("q", "SELECT k FROM s")
        pushed(session, (9, datetime.max), (1, NOON))
        session.punctuate("s", "k = 1")
        pushed(session, (9, datetime.max), (1, NOON + timedelta(seconds=1)), (2, NOON + timedelta(seconds=1)))
        session.step()
        session.run(once=True)
        reasons = [letter["_reason"].split(":")[0] for letter in session.dead_letters("s").to_pylist()]
        assert sorted(reasons) == ["ahead", "ahead", "violation"]


def test_without_the_option_a_stream_far_ahead_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with Session(clock=clock_at(NOON)) as session:
        session.stream("s", SCHEMA, time="ts", lateness="1 hour")
        session.query("q", "SELECT k FROM s")
        # Replays of old data, and rows of the next hours, are as usual.
        for when in (datetime(1, 1, 1), NOON, NOON + timedelta(hours=25)):
            pushed(session, (1, when))
            session.step()
        assert "most_ahead" not in caplog.text
        for when in (NOON + timedelta(hours=25, seconds=1), datetime.max, datetime.max):
            pushed(session, (1, when))
            session.step()
        warned = [record for record in caplog.records if "most_ahead" in record.getMessage()]
        assert (
            len(warned) == 1
            and "stream s" in warned[0].getMessage()
            and "2026-01-02T12:00:01" in warned[0].getMessage()
        )


def test_an_option_that_is_no_span_is_refused_and_tables_have_none() -> None:
    with Session() as session:
        with pytest.raises(Exception, match="span"):
            session.execute("CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', most_ahead = 'far')")
        with pytest.raises(Exception, match="a table has no most_ahead"):
            session.execute("CREATE TABLE t (k BIGINT) WITH (path = 'x', most_ahead = '1 hour')")


def random_rows(rng: Random, at: datetime, first: int) -> list[dict[str, object]]:
    times = [
        rng.choice([at, at, at + timedelta(minutes=rng.randrange(200)), datetime.max])
        for _ in range(rng.randrange(1, 30))
    ]
    return [{"k": first + place, "ts": time} for place, time in enumerate(times)]


@pytest.mark.parametrize("seed", range(cases(12)))
def test_what_was_decided_once_is_decided_so_after_a_restart(tmp_path: Path, seed: int) -> None:
    """Files are read at once and handed out over several lives on one checkpoint, while the clock moves on and the
    option changes."""
    rng = Random(first_seed() + seed)
    now, lives = NOON, 4
    (tmp_path / "in").mkdir()
    wanted: list[object] = []
    for life in range(lives):
        hours = rng.choice([1, 1, 2, None])
        if life == 0 or rng.random() < 0.5:
            rows = random_rows(rng, now, 1000 * life)
            parquet.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "in" / f"{life}.parquet")
            oracle = Stream("s", most_ahead=None if hours is None else hours * HOUR)
            epoch = Epoch({"s": [{**row, "ts": micros(row["ts"])} for row in rows]}, at=micros(now))
            wanted += [
                row.values["k"] for row in intake([oracle], [epoch, Epoch({}, closing=True)], frozenset({"s"})).rows
            ]
        settings = Settings(epoch_rows=rng.choice([1, 3, 7]))
        session = Session(settings, checkpoint=str(tmp_path / "ck"), out=str(tmp_path / "out"), clock=clock_at(now))
        option = "" if hours is None else f", most_ahead = '{hours} hours'"
        session.execute(
            f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{tmp_path}/in', time = 'ts',"
            f" lateness = '3600000 days'{option}); CREATE QUERY q AS SELECT k FROM s"
        )
        # All that is there is read now, whatever is handed out of it in this life.
        session.driver.readers["s"].fill(10_000)
        if life == lives - 1:
            session.run(once=True)
        else:
            for _ in range(rng.randrange(1, 6)):
                session.step()
            session.driver.save()
            if rng.random() < 0.5:
                # What comes after the checkpoint is undone: the session is given up.
                session.step()
            session.driver.let_go()
        now += timedelta(minutes=rng.choice([0, 30, 120]))
    found = parquet.read_table(tmp_path / "out" / "q").column("k").to_pylist()
    assert sorted(found) == sorted(wanted)


def test_an_early_instant_that_was_an_integer_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    session = Session()
    session.stream("s", SCHEMA, time="ts")
    session.stream("t", SCHEMA, time="ts")
    session.query("q", "SELECT k FROM s UNION ALL SELECT k FROM t")
    with caplog.at_level("WARNING"):
        session.push("t", [(1, "1970-01-01 00:00:01"), (2, 1_704_110_400_000_000)])
        session.step()
        assert caplog.text == ""
        for _ in range(2):
            session.push("s", [(1, 1_704_110_400)])
            session.step()
    (warned,) = [record.getMessage() for record in caplog.records]
    assert warned.startswith("stream s: an integer read as TIMESTAMP lies before 1971") and "time_unit = 's'" in warned


def test_a_stream_that_says_its_unit_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    session = Session()
    integers = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    session.stream("s", integers, time="ts", time_unit="s")
    query = session.query("q", "SELECT ts FROM s")
    with caplog.at_level("WARNING"):
        session.push("s", [(1, 5), (2, 1_704_110_400)])
        session.run()
    assert query.table().column("ts").to_pylist() == [datetime(1970, 1, 1, 0, 0, 5), datetime(2024, 1, 1, 12)]
    assert caplog.text == ""
    with pytest.raises(BindingProblem, match="time_unit = 'weeks' is not known"):
        session.stream("x", integers, time="ts", time_unit="weeks")
