"""Values that a query finishes are punctuations of the stream that its results make."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.errors import BindingProblem
from eddyline.language import bind_script
from eddyline.settings import Settings
from tests.property.compare import plain_rows
from tests.spark.simulated import Simulated

SECOND = 1_000_000
STREAMS = """
    CREATE STREAM orders (id BIGINT, ts TIMESTAMP) WITH (time = 'ts', key = 'id');
    CREATE STREAM parcels (id BIGINT, weight BIGINT, last BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'last');
    CREATE STREAM returns (id BIGINT, done BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'done');
"""
SENT = """
    CREATE STREAM sent WITH (propagate = 'on') AS SELECT o.id, p.weight FROM orders AS o, parcels AS p WHERE o.id = p.id;
    CREATE QUERY totals AS SELECT id, sum(weight) AS weight, count(*) AS n FROM sent GROUP BY id EMIT ON CLOSE;
    CREATE QUERY back AS SELECT s.id, s.weight FROM sent AS s, returns AS r WHERE s.id = r.id
"""


def rows_of(seconds: int) -> dict[str, list[dict[str, object]]]:
    """An order a second; three parcels and their end; a return while parcels come, and its end."""
    found: dict[str, list[dict[str, object]]] = {"orders": [], "parcels": [], "returns": []}
    for n in range(seconds):
        found["orders"].append({"id": n, "ts": n * SECOND})
        for back in range(3):
            if n >= back:
                found["parcels"].append({"id": n - back, "weight": n, "last": None, "ts": n * SECOND + 1})
        if n >= 3:
            found["parcels"].append({"id": n - 3, "weight": None, "last": True, "ts": n * SECOND + 2})
            found["returns"].append({"id": None, "done": None, "ts": n * SECOND + 1})
            found["returns"].append({"id": n - 3, "done": True, "ts": n * SECOND + 2})
        found["returns"].append({"id": n, "done": None, "ts": n * SECOND + 1})
    return found


def totals(seconds: int) -> list[tuple[int, int, int]]:
    return [(n, 3 * n + 3, 3) for n in range(seconds)]


@pytest.mark.parametrize("epochs", [1, 7])
def test_groups_and_joins_above_a_derived_stream_end(epochs: int, tmp_path: Path) -> None:
    seconds = 60
    rows = rows_of(seconds)
    found: list[dict[str, object]] = []
    # Two lives: the second goes on from a checkpoint.
    for life in range(2):
        session = Session(Settings(purge="eager"), checkpoint=str(tmp_path / "job"))
        session.execute(STREAMS + SENT)
        for epoch in range(epochs * life, epochs * (life + 1)):
            for name, mine in rows.items():
                session.push(name, mine[len(mine) * epoch // (2 * epochs) : len(mine) * (epoch + 1) // (2 * epochs)])
            session.step()
        session.run(once=True) if life else session.stop()
        found += session.queries["totals"].table().to_pylist()
    assert [(row["id"], row["weight"], row["n"]) for row in found] == totals(seconds - 4)
    # The end of a group is the instant at which the derived stream ends its key.
    assert [str(row["_ts"])[14:] for row in found[:3]] == ["00:03.000002", "00:04.000002", "00:05.000002"]
    live = {stream.name: stream.store.live for stream in session.pipeline.stores()}
    assert live["sent"] <= 30 and live["returns"] <= 30
    assert session.stats()["violations"].get("sent", 0) == 0


def test_without_propagate_nothing_closes() -> None:
    session = Session()
    with pytest.raises(BindingProblem, match="EMIT ON CLOSE needs a time bucket"):
        session.execute(STREAMS + SENT.replace("WITH (propagate = 'on') ", ""))


def test_the_same_on_shards(tmp_path: Path) -> None:
    seconds = 40
    job = Simulated(STREAMS + SENT, str(tmp_path), 2, Random(4))
    schemas = {stream.name: stream.schema.arrow for stream in bind_script(STREAMS + SENT).streams}
    rows = rows_of(seconds)
    for epoch in range(5):
        part = {name: mine[len(mine) * epoch // 5 : len(mine) * (epoch + 1) // 5] for name, mine in rows.items()}
        job.run({name: pa.Table.from_pylist(mine, schemas[name]) for name, mine in part.items()}, crashes=0.2)
    job.run(closing=True)
    found = [(row["id"], row["weight"], row["n"]) for row in plain_rows([job.table("totals")])]
    assert found == totals(seconds - 4)
    job.close()


def test_a_value_is_finished_for_a_union_when_it_is_in_all_parts(tmp_path: Path) -> None:
    """Item 1 ends at second 3 in one part and at second 5 in the other, item 2 in one part only; a checkpoint lies in
    between."""
    text = """
        CREATE STREAM east (item BIGINT, done BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'done');
        CREATE STREAM west (item BIGINT, done BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'done');
        CREATE STREAM sold WITH (propagate = 'on') AS SELECT item FROM east UNION ALL SELECT item FROM west;
        CREATE QUERY totals AS SELECT item, count(*) AS n FROM sold GROUP BY item EMIT ON CLOSE
    """
    rows = {
        "east": [(1, False, 1), (2, False, 2), (1, True, 3), (2, True, 4), (3, False, 4), (3, False, 9)],
        "west": [(1, False, 1), (1, False, 4), (1, True, 5), (2, False, 6), (3, False, 9)],
    }
    found: list[dict[str, object]] = []
    for first, last in ((0, 4), (4, 10)):
        session = Session(checkpoint=str(tmp_path / "job"))
        session.execute(text)
        for name, mine in rows.items():
            session.push(name, [{"item": i, "done": d, "ts": s * SECOND} for i, d, s in mine if first <= s < last])
        session.step()
        session.run(once=True) if first else session.stop()
        found += session.queries["totals"].table().to_pylist()
    assert [(row["item"], row["n"], str(row["_ts"])[17:]) for row in found] == [(1, 3, "05")]
    assert "values of item that all parts of its UNION ALL finish" in session.explain("totals")
    assert session.stats()["violations"].get("sold", 0) == 0
