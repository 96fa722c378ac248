"""Punctuations on shards: the same answers, violations reported once, and rows forgotten, whatever the number of shards
and crashes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.language import bind_script
from eddyline.plan.shards.decided import finished_line
from eddyline.runtime.engine.epoch import punctuations_of
from eddyline.runtime.sharded.job.saying import say
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.settings import Settings
from tests.oracle.promises import heartbeat_violations
from tests.property.compare import plain_rows
from tests.property.embedded import run_embedded
from tests.property.promise_answers import expected
from tests.property.promises import UNITED, Case, declare, outcome, plain, push, random_case
from tests.property.specs import Case as SparkCase
from tests.property.specs import StreamSpec
from tests.property.texts import TextQuery
from tests.seeds import some
from tests.spark.running import layout_of, run_script
from tests.spark.sharded import run_sharded
from tests.spark.simulated import Simulated
from tests.spark.test_following import wait

CASES = int(os.environ.get("EDDYLINE_PROMISE_SHARDS", "24"))
SECOND = 1_000_000


def script(case: Case) -> str:
    queries = [
        f"CREATE QUERY joined{n} AS {ask.select}; CREATE QUERY closing{n} AS {ask.closing};"
        f"CREATE QUERY told{n} WITH (propagate = 'on') AS {ask.told}"
        for n, ask in enumerate(case.asks)
    ]
    queries += [f"CREATE QUERY united AS {UNITED}"] if case.united else []
    return ";\n".join([*case.declarations(), *queries])


def told_outputs(job: Simulated, name: str) -> set[str]:
    """The outputs whose finished values shards tell, as EXPLAIN has them."""
    line = finished_line(job.driver.layout.by_name[name], job.driver.layout.routing.routings[name], {})
    said = line.removeprefix("  punctuations: ").split(";")[0]
    return set(said.removeprefix("of ").split(", ")) if said.startswith("of ") else set()


def as_rows(table: pa.Table) -> list[dict[str, object]]:
    """Rows with times as sessions give them."""
    found = plain_rows([table])
    return [{name: _time(value) if name == "_ts" else value for name, value in row.items()} for row in found]


def _time(value: Any) -> object:
    return datetime(1970, 1, 1) + timedelta(microseconds=value) if isinstance(value, int) else value


def rows_of(case: Case, epoch: int, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table]:
    """The rows of one batch."""
    rows = {}
    for stream in case.streams:
        size = len(stream.rows)
        part = stream.rows[epoch * size // case.epochs : (epoch + 1) * size // case.epochs]
        if part:
            rows[stream.name] = pa.Table.from_pylist(part, schemas[stream.name])
    return rows


@pytest.mark.parametrize("seed", some(range(CASES)))
def test_shards_answer_as_one_engine_does(seed: int, tmp_path: Path) -> None:
    case = random_case(Random(2_000_000 + seed), lies=seed % 2 == 1)
    random = Random(seed)
    job = Simulated(
        script(case), str(tmp_path), 1 + seed % 3, random, settings=Settings(purge=random.choice(("eager", "auto")))
    )
    say(str(tmp_path), bind_script(script(case)).records)
    schemas = {stream.name: stream.schema.arrow for stream in job.driver.layout.streams}
    for epoch in range(case.epochs):
        job.run(rows_of(case, epoch, schemas), crashes=0.2)
    job.run(closing=True)
    wanted, letters = expected(case)
    for name, results in wanted.items():
        if name.startswith("told"):
            # A line whose column does not decide the shard is not told.
            told = told_outputs(job, name)
            lines = [
                line for line in results if {column for column, value in line if value != "None"} - {"_ts"} <= told
            ]
            assert plain(as_rows(job.table(punctuations_of(name)))) == lines, name
            assert len(lines) == len(results) or job.shards > 1
            continue
        assert plain(as_rows(job.table(name))) == results, name
    for stream in case.streams:
        found = sorted((int(str(values["id"])), reason.split(":")[0]) for reason, values in job.letters(stream.name))
        assert found == letters[stream.name], stream.name
    job.close()


@pytest.mark.parametrize("seed", some(range(CASES // 2)))
def test_punctuations_are_created_while_shards_run(seed: int, tmp_path: Path) -> None:
    """CREATE PUNCTUATION comes after some batch, by a control record: the same rows break its promises as in one
    engine."""
    random = Random(seed)
    cases = (random_case(Random(3_000_000 + 1000 * seed + n), lies=True) for n in range(1000))
    case = next(c for c in cases if c.epochs > 2 and any(s.source is not None for s in c.streams))
    statement = next(text for text in case.declarations() if text.startswith("CREATE PUNCTUATION"))
    for stream in case.streams:
        stream.source = None
    last = random.randrange(case.epochs - 1)
    with Session(Settings(purge="eager")) as session:
        declare(session, case)
        for epoch in range(case.epochs):
            push(session, case, epoch)
            session.step()
            if epoch == last:
                session.execute(statement)
        session.run(once=True, final=False)
        wanted, letters, _ = outcome(session, case)
    job = Simulated(script(case), str(tmp_path), 1 + seed % 3, random, settings=Settings(purge="eager"))
    say(str(tmp_path), bind_script(script(case)).records)
    schemas = {stream.name: stream.schema.arrow for stream in job.driver.layout.streams}
    for epoch in range(case.epochs):
        if epoch == last:
            job.add(statement)
        job.run(rows_of(case, epoch, schemas), crashes=0.3)
        if random.random() < 0.2:
            job.start()
    job.run(closing=True)
    assert not job.driver.roster.ledger.refused
    for name in wanted:
        if name.startswith(("joined", "closing", "united")):
            assert plain(as_rows(job.table(name))) == wanted[name], name
    for stream in case.streams:
        found = sorted((int(str(values["id"])), reason.split(":")[0]) for reason, values in job.letters(stream.name))
        assert found == letters[stream.name], stream.name
    job.close()


@pytest.mark.spark
def test_on_spark_itself(spark: Any, tmp_path: Path) -> None:
    text = f"""
        CREATE STREAM auctions (item BIGINT, closes TIMESTAMP, ts TIMESTAMP) WITH (time = 'ts', key = 'item', path = '{tmp_path}/auctions');
        CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts', path = '{tmp_path}/bids');
        CREATE PUNCTUATION sold ON bids (item) FROM auctions (item) AT closes;
        CREATE QUERY joined AS SELECT a.item, b.price FROM auctions AS a, bids AS b WHERE a.item = b.item;
        CREATE QUERY ended WITH (propagate = 'on') AS SELECT a.item, b.price FROM auctions AS a, bids AS b WHERE a.item = b.item;
        CREATE SINK ended_files FOR ended WITH (path = '{tmp_path}/ended', punctuation = 'closed');
        CREATE QUERY won AS SELECT a.item, max(b.price) AS price FROM auctions AS a, bids AS b WHERE a.item = b.item
            GROUP BY a.item EMIT ON CLOSE
    """
    auctions = [{"item": n, "closes": (n + 3) * SECOND, "ts": n * SECOND} for n in range(60)]
    bids = [
        {"item": n - back, "price": float(back), "ts": n * SECOND}
        for n in range(1, 70)
        for back in range(5)
        if 0 <= n - back < 60
    ]
    for name, rows in (("auctions", auctions), ("bids", bids)):
        schema = next(stream.schema.arrow for stream in bind_script(text).streams if stream.name == name)
        os.mkdir(tmp_path / name)
        for number in range(4):
            part = rows[len(rows) * number // 4 : len(rows) * (number + 1) // 4]
            parquet.write_table(pa.Table.from_pylist(part, schema), tmp_path / name / f"{number}.parquet")
    running, found = run_script(spark, text, tmp_path / "checkpoint")
    broken = [bid for bid in bids if bid["price"] == 4.0]
    assert len(plain_rows((running.delivery.kept_dead or {}).get("bids", []))) == len(broken)
    assert len(found["joined"]) == len(bids) - len(broken)
    ended = parquet.read_table(tmp_path / "ended")
    assert ended.column("_ts").to_pylist() == sorted(ended.column("_ts").to_pylist())
    lines = [row for row in ended.to_pylist() if row["closed"]]
    assert sorted((row["item"], row["price"], row["_ts"].second + 60 * row["_ts"].minute) for row in lines) == [
        (n, None, n + 3) for n in range(60)
    ]
    assert len(ended) - len(lines) == len(found["joined"])
    won = {row["item"]: row["price"] for row in plain_rows([found["won"]])}
    assert won == dict.fromkeys(range(60), 3.0)


@pytest.mark.long
@pytest.mark.spark
def test_a_punctuation_is_created_while_spark_runs(spark: Any, tmp_path: Path) -> None:
    """CREATE PUNCTUATION by `eddyline query add`: auctions that are read after it close their items, before and after a
    restart."""
    text = f"""
        CREATE STREAM auctions (item BIGINT, closes TIMESTAMP, ts TIMESTAMP) WITH (time = 'ts', path = '{tmp_path}/auctions');
        CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts', path = '{tmp_path}/bids');
        CREATE QUERY joined AS SELECT a.item, b.price FROM auctions AS a, bids AS b WHERE a.item = b.item
    """
    (tmp_path / "sold.sql").write_text("CREATE PUNCTUATION sold ON bids (item) FROM auctions (item) AT closes")
    job = bind_script(text)
    for stream in job.streams:
        (tmp_path / stream.name).mkdir()

    def started() -> SparkDriver:
        driver = SparkDriver(spark, layout_of(spark, job, tmp_path / "ck", 2), out=str(tmp_path / "out"))
        driver.delivery.kept_dead = letters
        driver.add_queries(job.catalog)
        driver.start()
        return driver

    def feed(driver: SparkDriver, number: int) -> None:
        """Twenty items, each with one bid before it closes and one after; then a pair that moves time on."""
        before = {name: driver.progress.rows_in.get(name, 0) for name in ("auctions", "bids")}
        begin = 100 * number
        auctions = [{"item": begin + n, "closes": (begin + 40) * SECOND, "ts": (begin + n) * SECOND} for n in range(20)]
        bids = [
            {"item": begin + n, "price": float(late), "ts": (begin + 30 + 20 * late) * SECOND}
            for late in (0, 1)
            for n in range(20)
        ]
        last = {"item": -1 - number, "ts": (begin + 90) * SECOND}
        for name, rows in (
            ("auctions", [*auctions, {**last, "closes": None}]),
            ("bids", [*bids, {**last, "price": 2.0}]),
        ):
            schema = next(stream.schema.arrow for stream in job.streams if stream.name == name)
            parquet.write_table(pa.Table.from_pylist(rows, schema), tmp_path / name / f".{number}")
            os.rename(tmp_path / name / f".{number}", tmp_path / name / f"{number}.parquet")
        wanted = {"auctions": before["auctions"] + 21, "bids": before["bids"] + 41}
        wait(lambda: {name: driver.progress.rows_in.get(name, 0) for name in wanted} == wanted)

    letters: dict[str, list[pa.Table]] = {}
    driver = started()
    feed(driver, 0)
    assert main(["query", "add", str(tmp_path / "sold.sql"), "--job", str(tmp_path / "ck")]) == 0
    wait(lambda: driver.roster is not None and "sold" in driver.roster.ledger.promised)
    feed(driver, 1)
    driver.stop()
    driver = started()
    feed(driver, 2)
    driver.stop()
    broken = plain_rows(letters.get("bids", []))
    assert sorted(row["item"] for row in broken) == [*range(100, 120), *range(200, 220)]
    assert {str(row["_reason"]).split(":")[0] for row in broken} == {"violation"}
    found = plain_rows([parquet.read_table(tmp_path / "out" / "joined")])
    assert sorted((row["item"], row["price"]) for row in found if row["item"] >= 0) == sorted(
        [(n, price) for n in range(20) for price in (0.0, 1.0)]
        + [(n, 0.0) for n in (*range(100, 120), *range(200, 220))]
    )


@pytest.mark.parametrize("seed", some(range(16)))
def test_rows_that_break_a_heartbeat_in_one_batch(seed: int) -> None:
    """Pieces of a batch come in any order, and rows to several shards: the order of the source decides, and nothing is
    derived."""
    rng = Random(seed)
    columns = (("k", "INT"), ("what", "STRING"), ("ts", "TIMESTAMP"))
    source: list[tuple[str, int]] = []
    for now in range(12):
        source.append(("beat", now + rng.choice((0, 1, 4))) if rng.random() < 0.3 else ("row", now))
    refused = heartbeat_violations(source)
    events = [(at, None, ts * SECOND) if kind == "row" else (None, beat(ts), 0) for at, (kind, ts) in enumerate(source)]
    # Row n of b comes at a time when only a row n of a that breaks a heartbeat would have ended n.
    others = [(at, None, 20 * SECOND) for at in range(12)]
    cuts = sorted(rng.randrange(13) for _ in range(rng.randrange(3)))
    epochs = tuple((("a", tuple(events[low:high])),) for low, high in zip([0, *cuts], [*cuts, 12], strict=True))
    streams = (StreamSpec("a", columns, punctuation="what"), StreamSpec("b", columns))
    queries = (
        TextQuery("q", "SELECT k FROM a"),
        TextQuery("r", "SELECT k FROM b"),
        TextQuery("j", "SELECT a.k FROM a, b WHERE a.k = b.k"),
    )
    world = SparkCase(
        streams, queries, (*epochs, (("b", tuple(others)),)), before=("CREATE PUNCTUATION p ON b (k) FROM a (k)",)
    )  # type: ignore[arg-type]
    kept = [at for at, (kind, _) in enumerate(source) if kind == "row" and at not in refused]
    for answered in (run_embedded(world), run_sharded(world, 1, seed), run_sharded(world, 3, seed)):
        assert sorted(row["k"] for row in answered.results["q"]) == kept
        assert sorted(row["k"] for row in answered.results["r"]) == sorted({*range(12)} - {*kept})
        assert answered.results["j"] == []
        assert sorted((str(row["k"]), reason.split(":")[0]) for reason, row in answered.dead["a"]) == sorted(
            (str(at), "violation") for at in refused
        )


def beat(instant: int) -> str:
    return f"ts <= TIMESTAMP '1970-01-01 00:00:{instant:02d}'"
