"""One job's output is another job's punctuated input: results and finished values in one sink, in the order of their
times."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as parquet
import pytest

from eddyline import Session

SECOND = 1_000_000
ORDERS = 40


def first_job(folder: Path, propagate: str = "on", form: str = "parquet", **more: object) -> Session:
    session = Session(**more)
    session.execute(f"""
        CREATE STREAM orders (id BIGINT, ts TIMESTAMP) WITH (time = 'ts', key = 'id');
        CREATE STREAM parcels (id BIGINT, weight BIGINT, last BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'last');
        CREATE QUERY sent WITH (propagate = {propagate!r}) AS SELECT o.id, p.weight FROM orders AS o, parcels AS p WHERE o.id = p.id;
        CREATE SINK sent_files FOR sent WITH (format = '{form}', path = '{folder}/sent', punctuation = 'closed');
    """)
    return session


def parcels_of(random: Random) -> list[dict[str, object]]:
    """Three parcels of each order, and its end; orders overlap."""
    rows: list[dict[str, object]] = []
    for order in range(ORDERS):
        for number in range(3):
            rows.append({"id": order, "weight": random.randrange(9), "last": None, "ts": (order + number) * SECOND})
        rows.append({"id": order, "weight": None, "last": True, "ts": (order + 3) * SECOND})
    return sorted(rows, key=lambda row: int(str(row["ts"])))


def push_part(session: Session, parcels: list[dict[str, object]], start: int, stop: int) -> None:
    """The seconds from one to another, an epoch each."""
    for second in range(start, stop):
        session.push(
            "orders",
            [{"id": second, "ts": second * SECOND}] if second < ORDERS else [{"id": -second, "ts": second * SECOND}],
        )
        session.push("parcels", [row for row in parcels if row["ts"] == second * SECOND])
        session.step()


def written(folder: Path, form: str) -> pa.Table:
    files = sorted(path for path in (folder / "sent").iterdir() if not path.name.startswith("."))
    if form == "parquet":
        return pa.concat_tables([parquet.read_table(path) for path in files])
    reader = pyarrow.csv.read_csv if form == "csv" else pyarrow.json.read_json
    found = pa.concat_tables([reader(path) for path in files])
    at = found.column_names.index("_ts")
    return found.set_column(at, "_ts", found.column("_ts").cast(pa.timestamp("us")))


@pytest.mark.parametrize(("form", "propagate"), [("parquet", "on"), ("csv", "7"), ("jsonl", "5 seconds")])
def test_one_jobs_output_is_anothers_input(form: str, propagate: str, tmp_path: Path) -> None:
    parcels = parcels_of(Random(1))
    # The first job stops twice on its way.
    for start, stop in ((0, 11), (11, 12), (12, ORDERS + 4)):
        session = first_job(tmp_path, propagate, form, checkpoint=str(tmp_path / "checkpoint"))
        push_part(session, parcels, start, stop)
        session.run(once=True) if stop > ORDERS else session.stop()
    table = written(tmp_path, form)
    times = table.column("_ts").cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    closed: set[int] = set()
    for row in table.to_pylist():
        assert row["id"] not in closed
        if row["closed"]:
            assert row["weight"] is None
            closed.add(row["id"])
    if propagate == "on":
        # A line stands at the instant at which its value ends.
        ends = {
            row["id"]: row["_ts"].second + 60 * row["_ts"].minute
            for row in table.to_pylist()
            if row["closed"] and row["id"] >= 0
        }
        assert ends == {order: order + 3 for order in ends}
        assert len(ends) == ORDERS

    second = Session()
    second.execute(f"""
        CREATE STREAM sent (id BIGINT, weight BIGINT, closed BOOLEAN, _ts TIMESTAMP)
            WITH (time = '_ts', punctuation = 'closed', format = '{form}', path = '{tmp_path}/sent');
        CREATE QUERY totals AS SELECT id, sum(weight) AS weight, count(*) AS parcels FROM sent GROUP BY id EMIT ON CLOSE;
        CREATE QUERY rows_of AS SELECT *, _ts AS at FROM sent;
    """)
    second.run(final=False)
    wanted = {
        order: sum(int(str(r["weight"])) for r in parcels if r["id"] == order and r["weight"] is not None)
        for order in range(ORDERS)
    }
    totals = second.queries["totals"].table().to_pylist()
    # Promises up to the newest row take effect at the end.
    newest = max(row["_ts"] for row in table.to_pylist() if not row["closed"])
    over = {row["id"] for row in table.to_pylist() if row["closed"] and row["_ts"] <= newest and row["id"] >= 0}
    assert len(over) > ORDERS - 10
    assert {row["id"]: row["weight"] for row in totals} == {order: wanted[order] for order in over}
    assert all(row["parcels"] == 3 for row in totals)
    assert second.stats()["violations"] == {"sent": 0}
    everything = second.queries["rows_of"].table()
    assert everything.column_names == ["id", "weight", "closed", "at", "_ts"]
    assert everything.column("at").equals(everything.column("_ts"))
    assert len(everything) == 3 * ORDERS


def test_a_stream_of_results_is_kept_over_a_restart(tmp_path: Path) -> None:
    """Rows that wait and rows that are stored have the event time `_ts`, and keep it."""
    found = []
    for part in range(3):
        session = Session(checkpoint=str(tmp_path / "checkpoint"))
        session.execute("""
            CREATE STREAM a (x BIGINT, _ts TIMESTAMP) WITH (time = '_ts', lateness = '2 seconds');
            CREATE STREAM b (x BIGINT, _ts TIMESTAMP) WITH (time = '_ts');
            CREATE QUERY pairs AS SELECT a.x, a._ts AS first, b._ts AS second
                FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.x = b.x AND a._ts <= b._ts;
        """)
        for second in range(4 * part, 4 * part + 4):
            session.push("a", [{"x": second % 2, "_ts": second * SECOND}])
            session.push("b", [{"x": second % 2, "_ts": second * SECOND}])
            session.step()
        session.run(once=True) if part == 2 else session.stop()
        found += session.queries["pairs"].take().to_pylist()
    pairs = sorted((row["first"].second, row["second"].second) for row in found)
    assert pairs == sorted((a, b) for a in range(12) for b in range(a, min(a + 6, 12)) if (b - a) % 2 == 0)


def test_a_sink_in_memory_and_groups_that_close() -> None:
    session = Session()
    session.execute("""
        CREATE STREAM bids (item BIGINT, price BIGINT, closed BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'closed');
        CREATE QUERY best WITH (propagate = 'on') AS SELECT item, max(price) AS price FROM bids GROUP BY item EMIT ON CLOSE;
        CREATE SINK kept FOR best WITH (format = 'memory', punctuation = 'over');
    """)
    rows = [(1, 5, None, 0), (1, None, True, 1), (2, 6, None, 2)]
    session.push("bids", [dict(zip(("item", "price", "closed", "ts"), row, strict=True)) for row in rows])
    session.run(final=False)
    table = session.sink("kept").table()  # type: ignore[attr-defined]
    assert table.column_names == ["item", "price", "over", "_op", "_ts"]
    assert [(row["item"], row["price"], row["over"], row["_op"]) for row in table.to_pylist()] == [
        (1, 5, False, "+"),
        (1, None, True, None),
    ]
    session.execute("DROP SINK kept")
