"""Windows of rows per partition, and NOW: what stands in the stores, restarts, and the as-of join that they make."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa

from eddyline import Session
from tests.property.test_aggregates import Blocks, restarted

START = datetime(2024, 1, 1)
RATES = "CREATE STREAM rates (currency STRING, rate INT, ts TIMESTAMP) WITH (time = 'ts');"
ORDERS = "CREATE STREAM orders (id INT, currency STRING, ts TIMESTAMP) WITH (time = 'ts');"
AS_OF = "SELECT o.id, r.rate FROM orders [NOW] o, rates [PARTITION BY currency ROWS 1] r WHERE o.currency = r.currency"


def times(seconds: list[float]) -> pa.Array:
    return pa.array([START + timedelta(seconds=s) for s in seconds], pa.timestamp("us"))


def rates(*rows: tuple[str | None, int, float]) -> pa.Table:
    names, values, seconds = (list(column) for column in zip(*rows, strict=True))
    return pa.table(
        {"currency": pa.array(names, pa.string()), "rate": pa.array(values, pa.int32()), "ts": times(seconds)}
    )


def orders(*rows: tuple[int, str, float]) -> pa.Table:
    ids, names, seconds = (list(column) for column in zip(*rows, strict=True))
    return pa.table({"id": pa.array(ids, pa.int32()), "currency": pa.array(names, pa.string()), "ts": times(seconds)})


def results(session: Session, name: str = "q") -> list[tuple[int, int]]:
    return [(row["id"], row["rate"]) for row in session.queries[name].take().to_pylist()]


def test_each_order_meets_the_rate_of_its_time() -> None:
    for statements, at_two in ((RATES + ORDERS, 11), (ORDERS + RATES, 10)):
        with Session() as session:
            session.execute(statements)
            session.query("q", AS_OF)
            session.push("rates", rates(("EUR", 10, 1), ("USD", 7, 1), ("EUR", 11, 2), ("EUR", 12, 4)))
            session.push(
                "orders",
                orders((1, "EUR", 0.5), (2, "EUR", 1.5), (3, "EUR", 2), (4, "USD", 3), (5, "EUR", 9), (6, "GBP", 9)),
            )
            session.run()
            # Of rows of equal time those of the stream that was created earlier are older.
            assert results(session) == [(2, 10), (3, at_two), (4, 7), (5, 12)]


def test_the_store_holds_some_rows_per_value() -> None:
    with Session() as session:
        session.execute(RATES + ORDERS)
        session.query("q", AS_OF.replace("ROWS 1", "ROWS 2"))
        for epoch in range(60):
            session.push("rates", rates(*((f"c{n % 5}", epoch, epoch + n / 100) for n in range(50))))
            session.push("orders", orders((epoch, "c1", epoch + 0.9)))
            session.step()
        store = session.pipeline.supplies["rates"].state.store
        # 5 values, two rows each, and the rows of an epoch and a half at most before the next sweep.
        assert store.live <= 10 + 75
        session.run()
        assert [rate for _, rate in results(session)[-2:]] == [59, 59]


def test_counts_go_on_after_a_restart() -> None:
    """Rows that a filter takes out push others out too, before and after the restart."""
    with Session() as session:
        session.execute(RATES + ORDERS)
        session.query("q", AS_OF + " AND r.rate > 5")
        session.push("rates", rates(("EUR", 10, 1), ("USD", 9, 1), (None, 3, 1), ("USD", 1, 2), ("GBP", 7, 3)))
        session.push("orders", orders((1, "EUR", 3), (2, "USD", 3)))
        session.step()
        restarted(session, Blocks())
        session.push("rates", rates(("EUR", 2, 5), ("GBP", 8, 5), ("X", 1, 20)))
        session.push("orders", orders((3, "EUR", 4), (4, "USD", 4.5), (5, "EUR", 6), (6, "GBP", 6), (7, "X", 20)))
        session.run()
        assert results(session) == [(1, 10), (3, 10), (6, 8)]


def test_rows_that_were_pushed_out_stay_out_after_a_restart() -> None:
    """They are in the store again: the query `w` wants them. They were written when only the query `ahead` had read
    them."""
    with Session() as session:
        session.execute(RATES + ORDERS)
        session.query("q", AS_OF)
        session.query("w", AS_OF.replace("PARTITION BY currency ROWS 1", "RANGE 1 HOUR"))
        session.query(
            "ahead", "SELECT r.rate FROM rates [RANGE 1 HOUR] r, rates [RANGE 1 HOUR] s WHERE r.rate = s.rate + 1"
        )
        blocks = Blocks()
        session.push("rates", rates(("EUR", 10, 1), ("EUR", 11, 2), ("EUR", 12, 4), ("EUR", 13, 5), ("EUR", 14, 20)))
        session.push("orders", orders((1, "EUR", 3)))
        session.step()
        restarted(session, blocks)
        session.push("orders", orders((2, "EUR", 6), (3, "EUR", 7)))
        session.step()
        restarted(session, blocks)
        session.push("orders", orders((4, "EUR", 8), (5, "EUR", 9)))
        session.step()
        restarted(session, blocks)
        session.push("orders", orders((6, "EUR", 10)))
        session.run()
        assert results(session) == [(1, 11), (2, 13), (3, 13), (4, 13), (5, 13), (6, 13)]
        assert len(results(session, "w")) == 2 + 5 * 4
