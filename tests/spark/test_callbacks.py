"""What functions that are called with results may do to a session on Spark."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import UserError
from eddyline.runtime.control.control import ControlFolder

pytestmark = pytest.mark.spark


def test_a_function_drops_adds_and_stops(spark, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    def arrive(number: int) -> None:
        rows = {
            "k": list(range(10 * number, 10 * number + 10)),
            "ts": pa.array([number * 1_000_000] * 10).cast(pa.timestamp("us")),
        }
        parquet.write_table(pa.table(rows), tmp_path / "a" / f"{number}.parquet")

    arrive(0)
    arrive(1)
    said: list[str] = []
    heard: list[int] = []
    states = {"start": {"stays": "running"}, "follow": {"more": "running"}, "once": {"more": "running"}}
    for way in ("start", "follow", "once"):
        with Session(spark=spark, checkpoint=str(tmp_path / "state")) as session:
            session.set("shards", 1)
            session.execute(
                f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{tmp_path}/a', time = 'ts');"
                "CREATE TEMPLATE sums AS SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k"
            )
            if way != "once":
                session.query("own", "SELECT k FROM a")
            session.query("stays", "SELECT k FROM a WHERE k % 2 = 0")

            def note(table: pa.Table, session: Session = session, way: str = way) -> None:
                heard.extend(table.column("k").to_pylist())
                for call in (
                    session.run,
                    session.start,
                    lambda: session.request("k, n FROM sums WHERE k = 3 GROUP BY k"),
                ):
                    with pytest.raises(UserError) as caught:
                        call()
                    said.append(caught.value.message)
                if way == "start":
                    session.query("more", "SELECT k FROM a WHERE k % 2 = 1")
                if way == "follow" and "own" in session.queries:
                    session.drop("own")
                session.stats()
                session.stop()

            session.on_results("stays", note)
            if way == "start":
                session.start()
                assert _waits(lambda session=session: not session._runner.begun)
            else:
                thread = threading.Thread(target=session.run, args=(way == "once",), daemon=True)
                thread.start()
                thread.join(240)
                assert not thread.is_alive()
            session.stop()
        assert {
            q["query"]: q["state"] for q in ControlFolder(str(tmp_path / "state")).state()["queries"]
        }.items() >= states[way].items()
        arrive(2 if way == "start" else 3)
    assert set(said) == {"the session is running already", "requests are answered between two batches"}
    # Each run ended after a batch with results, and the next one went on where it was.
    assert heard == [k for k in range(40) if k % 2 == 0][: len(heard)] and len(heard) >= 15


def _waits(holds, seconds: float = 240.0) -> bool:
    over = threading.Event()
    for _ in range(int(seconds * 10)):
        if holds():
            return True
        over.wait(0.1)
    return False
