"""Tables that are read again: when, what holds from which instant, what a failure does, what a checkpoint keeps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import UserError
from eddyline.language import bind_script
from eddyline.runtime.recovery.catalog_text import catalog_text
from eddyline.settings import Settings
from eddyline.testing.clocks import MovedClock

SECOND = 1_000_000


def write(folder: Path, rates: dict[str, float]) -> None:
    parquet.write_table(pa.table({"currency": list(rates), "rate": list(rates.values())}), folder / "rates.parquet")


def job(folder: Path, clock: MovedClock, checkpoint: bool = False) -> Session:
    session = Session(clock=clock, checkpoint=str(folder / "ck") if checkpoint else None)
    session.execute(f"""
        CREATE STREAM orders (id BIGINT, currency STRING, ts TIMESTAMP) WITH (time = 'ts', lateness = '5 seconds');
        CREATE TABLE rates (currency STRING, rate DOUBLE)
          WITH (format = 'parquet', path = '{folder}/rates.parquet', refresh = '10 minutes');
        CREATE QUERY priced AS SELECT o.id AS id, r.rate AS rate FROM orders o, rates r WHERE o.currency = r.currency
    """)
    return session


def push(session: Session, *orders: tuple[int, str, int]) -> None:
    session.push("orders", [(number, currency, at * SECOND) for number, currency, at in orders])
    session.step()


def priced(session: Session) -> list[tuple[int, float]]:
    return [(row["id"], row["rate"]) for row in session.queries["priced"].take().to_pylist()]


def test_rows_after_the_instant_meet_the_new_version(tmp_path: Path) -> None:
    clock = MovedClock()
    write(tmp_path, {"eur": 1.0, "usd": 0.5})
    with job(tmp_path, clock) as session:
        push(session, (1, "eur", 10))
        write(tmp_path, {"eur": 2.0, "yen": 0.1})
        push(session, (2, "eur", 11))
        clock.advance(601)
        # 9 and 11 are not after the instant, which is 11: they meet what was there, although they come later.
        push(session, (3, "eur", 9), (4, "usd", 11), (5, "yen", 11), (6, "eur", 12), (7, "usd", 13), (8, "yen", 13))
        session.run(once=True)
        assert priced(session) == [(3, 1.0), (1, 1.0), (2, 1.0), (4, 0.5), (6, 2.0), (8, 0.1)]
        assert session.stats()["tables"] == {
            "rates": {"versions": 2, "rows": 2, "since": 11 * SECOND, "read": 1, "failed": 0, "problem": ""}
        }


def test_versions_that_no_row_can_meet_go(tmp_path: Path) -> None:
    clock = MovedClock()
    write(tmp_path, {"eur": 0.0})
    with job(tmp_path, clock) as session:
        for number in range(1, 6):
            push(session, (number, "eur", 100 * number))
            write(tmp_path, {"eur": float(number)})
            clock.advance(601)
        push(session, (9, "eur", 1000))
        session.run(once=True)
        assert priced(session) == [(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0), (5, 4.0), (9, 5.0)]
        # The order at 500 waited when the last version came: it, and the newest, are there.
        assert session.stats()["tables"]["rates"]["versions"] == 2
        assert len(session.driver.pipeline.tables["rates"]) == 2


def test_a_failed_read_keeps_the_old_version_and_is_reported(tmp_path: Path) -> None:
    clock = MovedClock()
    write(tmp_path, {"eur": 1.0})
    with job(tmp_path, clock) as session:
        push(session, (1, "eur", 10))
        (tmp_path / "rates.parquet").write_bytes(b"no parquet")
        clock.advance(601)
        push(session, (2, "eur", 20))
        found = session.stats()["tables"]["rates"]
        assert (found["read"], found["failed"], found["versions"]) == (0, 1, 1) and "rates" in found["problem"]
        write(tmp_path, {"eur": 3.0})
        push(session, (3, "eur", 30))
        clock.advance(601)
        push(session, (4, "eur", 40))
        session.run(once=True)
        assert priced(session) == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 3.0)]
        assert session.stats()["tables"]["rates"]["problem"] == ""


def test_a_checkpoint_keeps_the_versions_that_are_needed(tmp_path: Path) -> None:
    """A row that waits when the job stops meets its own version, whatever the file holds by then; the next run reads
    the file at once."""
    clock = MovedClock()
    write(tmp_path, {"eur": 1.0})
    session = job(tmp_path, clock, checkpoint=True)
    push(session, (1, "eur", 10))
    write(tmp_path, {"eur": 2.0})
    clock.advance(601)
    push(session, (2, "eur", 12))
    session.stop()
    (tmp_path / "rates.parquet").unlink()
    session = job(tmp_path, clock, checkpoint=True)
    push(session, (3, "eur", 10), (4, "eur", 13))
    assert session.stats()["tables"]["rates"]["failed"] == 1
    write(tmp_path, {"eur": 3.0})
    clock.advance(601)
    push(session, (5, "eur", 13), (6, "eur", 14))
    session.run(once=True)
    assert priced(session) == [(1, 1.0), (3, 1.0), (2, 2.0), (4, 2.0), (5, 2.0), (6, 3.0)]
    session.stop()


def test_an_aggregate_counts_each_combination_with_the_version_of_its_newest_row(tmp_path: Path) -> None:
    clock = MovedClock()
    write(tmp_path, {"eur": 1.0})
    with job(tmp_path, clock) as session:
        total = session.query(
            "total",
            "SELECT SUM(r.rate) AS s FROM orders [RANGE 1 MINUTE] o, rates r WHERE o.currency = r.currency EMIT EVERY 10 SECONDS",
        )
        push(session, (1, "eur", 9))
        write(tmp_path, {"eur": 10.0})
        clock.advance(601)
        push(session, (2, "eur", 19), (3, "eur", 31))
        session.run(final=False)
        changes = [(row["_ts"].second, row["s"]) for row in total.table().to_pylist()]
        assert changes == [(10, 1.0), (20, 11.0)]


def test_such_a_table_is_not_closed_for_punctuations(tmp_path: Path) -> None:
    """A row without a partner in a table is forgotten, unless the table may still bring one."""
    left = {}
    for refresh in ("", ", refresh = '10 minutes'"):
        write(tmp_path, {"eur": 1.0})
        with Session(Settings(purge="eager"), clock=MovedClock()) as session:
            session.execute(f"""
                CREATE STREAM a (x BIGINT, c STRING, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day');
                CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day');
                CREATE TABLE rates (currency STRING, rate DOUBLE) WITH (format = 'parquet', path = '{tmp_path}/rates.parquet'{refresh});
                CREATE QUERY q AS SELECT a.x AS x, r.rate AS rate FROM a, b, rates r WHERE a.x = b.x AND a.c = r.currency
            """)
            session.push("a", [(1, "usd", SECOND), (2, "eur", SECOND)])
            session.push("b", [(7, SECOND)])
            session.punctuate("a", "x = 7")
            session.step()
            session.push("a", [(3, "eur", 3 * SECOND)])
            session.push("b", [(8, 3 * SECOND)])
            session.step()
            left[bool(refresh)] = session.driver.pipeline.supplies["a"].state.store.live
    assert left[False] < left[True]


def test_the_text_of_a_catalog_keeps_the_period() -> None:
    text = "CREATE TABLE t (x BIGINT) WITH (format = 'parquet', path = 't', refresh = '90 seconds')"
    assert bind_script(catalog_text(bind_script(text))).catalog.tables["t"].refresh == 90 * SECOND


def test_a_table_that_is_not_there_stops_the_job_at_its_start(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"), job(tmp_path, MovedClock()) as session:
        push(session, (1, "eur", 10))
