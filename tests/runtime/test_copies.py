"""JOIN LATEST reads the table of a query that stands in the job: it is computed once, whoever goes first, and after
restarts."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow.parquet import read_table

from eddyline import Session
from eddyline.runtime.engine.units.copies import CopiedQuery
from tests.property.compare import plain_rows
from tests.property.test_aggregates import Blocks, restarted
from tests.spark.simulated import Simulated

SECOND = 1_000_000
STREAMS = "".join(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');" for name in "ab")
TABLE = "SELECT k, count(*) AS n, max(v) AS m FROM b [RANGE 6 SECONDS] GROUP BY k EMIT EVERY 2 SECONDS"
READER = "CREATE QUERY {} AS SELECT a.k, a.v, t.n, t.m FROM a JOIN LATEST {} t ON a.k = t.k"


def brought(at: int, rng: Random) -> dict[str, pa.Table]:
    found = {}
    for name in "ab":
        times = sorted(rng.randrange(at * 5, at * 5 + 5) * SECOND for _ in range(8))
        columns = {"k": [rng.randrange(3) for _ in times], "v": [rng.randrange(9) for _ in times], "ts": times}
        schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
        found[name] = pa.table({n: pa.array(v, schema.field(n).type) for n, v in columns.items()}, schema=schema)
    return found


def push(session: Session, rows: dict[str, pa.Table]) -> None:
    for name, table in rows.items():
        session.push(name, table)
    session.step()


def alone(epochs: list[dict[str, pa.Table]]) -> list[dict]:
    """What the reader answers where nothing else stands."""
    with Session() as session:
        session.execute(STREAMS + READER.format("r", f"({TABLE})"))
        for rows in epochs:
            push(session, rows)
        session.run()
        return plain_rows([session.queries["r"].table()])


def copies(session: Session) -> dict[str, str]:
    registered = session.pipeline.queries.items()
    return {name: found.copy_unit.original for name, found in registered if isinstance(found, CopiedQuery)}


@pytest.mark.parametrize("dropped", ["t", "r", None])
@pytest.mark.parametrize("seed", range(3))
def test_the_table_is_computed_once_whoever_goes_first(dropped: str | None, seed: int) -> None:
    rng = Random(seed)
    epochs = [brought(at, rng) for at in range(5)]
    expected = alone(epochs)
    blocks = Blocks()
    with Session() as session:
        session.execute(f"{STREAMS} CREATE QUERY t AS {TABLE}; {READER.format('r', 't')}; {READER.format('r2', 't')}")
        push(session, epochs[0])
        assert copies(session) == {"_r-1": "t", "_r2-1": "t"} and len(session.pipeline.groups) == 3
        restarted(session, blocks)
        push(session, epochs[1])
        if dropped is not None:
            session.pipeline.stop_query(dropped, session.pipeline.newest(session.pipeline.queries[dropped].query))
        restarted(session, blocks)
        push(session, epochs[2])
        if dropped is not None:
            assert dropped not in session.pipeline.queries
            session.job.catalog.drop("query", dropped)
        restarted(session, blocks)
        push(session, epochs[3])
        assert (
            copies(session) == {"t": {"_r2-1": "_r-1"}, "r": {"_r2-1": "t"}, None: {"_r-1": "t", "_r2-1": "t"}}[dropped]
        )
        push(session, epochs[4])
        session.run()
        for name in {"r", "r2"} - {dropped}:
            assert plain_rows([session.queries[name].table()]) == expected, name


@pytest.mark.parametrize("left_out", ["t", "r2"])
@pytest.mark.parametrize("window", ["[RANGE 6 SECONDS]", "[PARTITION BY k ROWS 2]"])
def test_the_original_is_left_out_of_the_next_run(tmp_path: Path, left_out: str, window: str) -> None:
    """A job goes on without the query that has computed the table of another one, or without one that had it too."""
    table = TABLE.replace("[RANGE 6 SECONDS]", window)
    rng = Random(7)
    epochs = [brought(at, rng) for at in range(4)]
    texts = {
        "t": f"CREATE QUERY t AS {table}",
        "r2": READER.format("r2", f"({table})"),
        "r": READER.format("r", f"({table})"),
    }
    found = {}
    for name, second in (("expected", ["t", "r2", "r"]), ("without", [query for query in texts if query != left_out])):
        checkpoint, out = str(tmp_path / name / "state"), str(tmp_path / name / "out")
        for part, queries in ((epochs[:2], list(texts)), (epochs[2:], second)):
            with Session(checkpoint=checkpoint, out=out) as session:
                session.execute("SET checkpoint_seconds = 0;" + STREAMS + ";".join(texts[query] for query in queries))
                for rows in part:
                    push(session, rows)
                assert copies(session)["_r-1"] == ("t" if "t" in queries else "_r2-1")
        found[name] = sorted(
            str(row)
            for file in (tmp_path / name / "out" / "r").glob("*.parquet")
            for row in read_table(file).to_pylist()
        )
    assert found["expected"] and found["without"] == found["expected"]


def test_a_reader_that_comes_later_begins_with_its_own_rows() -> None:
    rng = Random(7)
    epochs = [brought(at, rng) for at in range(4)]
    with Session() as session:
        session.execute(f"{STREAMS} CREATE QUERY t AS {TABLE}")
        push(session, epochs[0])
        session.execute(READER.format("r", "t"))
        push(session, epochs[1])
        assert not copies(session)


def test_other_texts_and_settings_are_no_copies() -> None:
    with Session() as session:
        session.execute(
            f"{STREAMS} CREATE QUERY t AS {TABLE}; {READER.format('r', '(' + TABLE.replace('2 SECONDS', '3 SECONDS') + ')')}"
        )
        session.execute("SET jit = 'off'")
        session.execute(READER.format("r2", "t"))
        session.run()
        assert not copies(session)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_driver_dies_while_the_original_goes(shards: int, tmp_path: Path) -> None:
    rng = Random(shards)
    epochs = [brought(at, rng) for at in range(5)]
    expected = alone(epochs)
    job = Simulated(
        f"{STREAMS} CREATE QUERY t AS {TABLE}; {READER.format('r', 't')}", str(tmp_path / "ck"), shards, rng
    )
    assert isinstance(job.driver.roster.model.queries["_r-1"], CopiedQuery)
    for at, rows in enumerate(epochs):
        if at == 2:
            job.drop("t")
            job.settle(crashes=0.3)
        job.run(rows, crashes=0.3)
    job.run(closing=True, crashes=0.3)
    assert job.listed()["t"][0] == "dropped"
    assert sorted(map(str, plain_rows([job.table("r")]))) == sorted(map(str, expected))
    job.close()
