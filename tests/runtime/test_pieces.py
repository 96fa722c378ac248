"""Results of one epoch leave in pieces: the same answers, few rows held at once, and files that appear when their epoch
is done."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline import Session
from eddyline.connectors.results.output import result_files
from eddyline.connectors.results.sinks import ParquetSink
from eddyline.errors import UserError
from eddyline.settings import Settings
from eddyline.tuning import OutputTuning, PatternTuning, Tuning

ROWS = 60
KEYED = "a [RANGE 1 HOUR], b [RANGE 1 HOUR]"
#: What is asked, each in a job of its own.
QUERIES = {
    "pairs": f"SELECT a.v, b.v AS w FROM {KEYED} WHERE a.k = b.k",
    "tested": f"SELECT a.v, b.v AS w FROM {KEYED} WHERE a.k = b.k AND a.v < b.v",
    "scanned": f"SELECT a.v, b.v AS w FROM {KEYED} WHERE a.v < b.v",
    "self": "SELECT x.v, y.v AS w FROM a [RANGE 1 HOUR] AS x, a [ROWS 20] AS y WHERE x.k = y.k",
    "three": f"SELECT a.v, b.v AS w, c.v AS u FROM {KEYED}, c [RANGE 20 SECONDS] WHERE a.k = b.k AND b.k = c.k",
    "sum": f"SELECT a.k, SUM(b.v) AS s, COUNT(*) AS n FROM {KEYED} WHERE a.k = b.k GROUP BY a.k EMIT EVERY 10 SECONDS",
    "first": f"SELECT a.v, b.v AS w FROM {KEYED} WHERE a.k = b.k QUALIFY ROW_NUMBER() OVER (PARTITION BY a.k ORDER BY a.v DESC) <= 3 "
    "EMIT EVERY 10 SECONDS",
    "outer": "SELECT a.v, b.v AS w FROM a [RANGE 5 SECONDS] LEFT JOIN b [RANGE 5 SECONDS] ON a.k = b.k AND b.v > 40",
}


def streams() -> dict[str, pa.Table]:
    rng = np.random.default_rng(3)
    return {
        name: pa.table(
            {
                "k": rng.choice([1, 1, 1, 2, 3], ROWS),
                "v": np.arange(ROWS) + offset,
                "ts": pa.array(np.arange(ROWS) * 1_000_000 + offset, pa.timestamp("us")),
            }
        )
        for offset, name in enumerate("abc")
    }


def opened(tuning: Tuning, keep_results: bool = True, **options: str) -> Session:
    session = Session(Settings(tuning=tuning), keep_results=keep_results)
    for name, value in options.items():
        session.set(name, value)
    for name in "abc":
        session.stream(name, pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))]), time="ts")
    return session


def answers(sql: str, tuning: Tuning, copies: int = 1, **options: str) -> list[tuple[list[tuple[object, ...]], int]]:
    """The results of some equal queries, and the number of tables that they came in."""
    session = opened(tuning, **options)
    queries = [session.query(f"q{number}", sql) for number in range(copies)]
    for name, table in streams().items():
        session.push(name, table)
    session.run(once=True)
    found = [[*query.results()] for query in queries]
    return [
        ([row for table in tables for row in zip(*table.to_pydict().values(), strict=True)], len(tables))
        for tables in found
    ]


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(
    "options", [{}, {"plan": "bjtree"}, {"route": "lottery"}, {"probe": "loop"}], ids=lambda o: "-".join(o.values())
)
def test_tiny_pieces_give_the_same_answers(name: str, options: dict[str, str]) -> None:
    plain, tiny = (
        answers(QUERIES[name], tuning, **options)[0] for tuning in (Tuning(), Tuning(results_held=3, pairs_at_once=7))
    )
    times = [row[-1] for row in tiny[0]]
    assert times == sorted(times) and len(times) > 10
    assert sorted(tiny[0], key=repr) == sorted(plain[0], key=repr)
    if name in ("pairs", "tested", "three"):
        assert tiny[1] > plain[1]


def test_many_queries_of_one_join_get_the_same_in_pieces() -> None:
    for plain, tiny in zip(
        *(answers(QUERIES["pairs"], tuning, 9) for tuning in (Tuning(), Tuning(results_held=3))), strict=True
    ):
        assert sorted(plain[0]) == sorted(tiny[0])


# -- how much is held


def hot(tuning: Tuning, rows: int = 400, **sinks: str) -> Session:
    """Rows of one key on both sides, in one epoch."""
    session = opened(tuning, keep_results=False)
    session.query("q", QUERIES["pairs"])
    for name, options in sinks.items():
        session.execute(f"CREATE SINK {name} FOR q WITH ({options})")
    for name in "ab":
        ts = pa.array(np.arange(rows) * 1_000, pa.timestamp("us"))
        session.push(name, pa.table({"k": np.ones(rows, np.int64), "v": np.arange(rows), "ts": ts}))
    session.run(once=True)
    return session


def test_an_epoch_holds_few_of_its_results_at_once(tmp_path: Path) -> None:
    held = {}
    for most in (2_000, 1 << 40):
        folder = tmp_path / str(most)
        session = hot(
            replace(Tuning(), results_held=most),
            dropped="format = 'drop'",
            files=f"format = 'parquet', path = '{folder}'",
        )
        held[most] = session.stats()["results_held"]
        whole = pa.concat_tables([pq.read_table(path) for _, _, path in result_files(str(folder))])
        assert len(whole) == 400 * 400 == session.stats()["results"]["q"]
        assert whole.column("_ts").to_pylist() == sorted(whole.column("_ts").to_pylist())
    # A piece in the outcome, one under way, and a portion of pairs for each of the two streams.
    assert held[2_000] <= 4 * 2_000 < 400 * 400 <= held[1 << 40]


#: Queries over queries, each with the statements before it.
OVER_QUERIES = {
    "left": ("", "SELECT a.v, b.v AS w FROM a [RANGE 1 HOUR] LEFT JOIN b [RANGE 1 HOUR] ON a.k = b.k"),
    "full": (
        "",
        "SELECT a.v, b.v AS w FROM a [RANGE 10 MILLISECONDS] FULL JOIN b [RANGE 1 SECOND] ON a.k = b.k AND a.v % 7 < b.v % 5",
    ),
    "rows": (
        "",
        "SELECT a.v, b.v AS w FROM a [ROWS 20] FULL JOIN b [PARTITION BY k ROWS 100] ON a.k = b.k AND a.v % 7 <> b.v % 5",
    ),
    "share off": (
        "SET share = 'off'",
        "SELECT a.v, b.v AS w FROM a [RANGE 1 HOUR] LEFT JOIN b [RANGE 1 HOUR] ON a.k = b.k WHERE a.v > 3",
    ),
    "subquery": ("", "SELECT x.v + 1 AS w FROM (SELECT a.v FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k) x"),
    "stream": (
        "CREATE STREAM d AS SELECT a.v FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k;"
        "CREATE STREAM e AS SELECT v FROM d WHERE v > 2",
        "SELECT v FROM e WHERE v <> 7",
    ),
}


@pytest.mark.parametrize("name", OVER_QUERIES)
def test_an_epoch_holds_few_results_that_other_queries_read(name: str) -> None:
    """The same results in the same order, too."""
    script, sql = OVER_QUERIES[name]
    held, found = [], []
    for most in (1_000, 1 << 40):
        session = opened(Tuning(results_held=most), keep_results=False)
        session.execute(script)
        session.query("q", sql)
        session.on_results("q", (tables := []).append)
        for stream, offset in (("a", 0), ("b", 500)):
            ts = pa.array(np.arange(300) * 1_000 + offset, pa.timestamp("us"))
            session.push(stream, pa.table({"k": np.ones(300, np.int64), "v": np.arange(300), "ts": ts}))
        session.run(once=True)
        held.append(session.stats()["results_held"])
        found.append(pa.concat_tables(tables).combine_chunks())
    assert found[0].equals(found[1]) and len(found[0]) > 6_000
    assert held[0] <= 5_000 < len(found[0]) <= held[1], held


PATTERNS = {
    "seq": "EVENT SEQ(A x, B y) FROM s TYPE type PARTITION BY k RETURN x.v AS v, y.v AS w",
    "and": "EVENT AND(A x, B y) FROM s TYPE type PARTITION BY k WHERE x.v % 5 <= y.v % 7 RETURN x.v AS v, y.v AS w",
    "not": "EVENT SEQ(A x, NOT(C z), B y) FROM s TYPE type PARTITION BY k WITHIN 1 SECOND RETURN x.v AS v, y.v AS w",
    "or": "EVENT OR(SEQ(A x, B y), AND(A x, B y)) FROM s TYPE type PARTITION BY k RETURN x.v AS v, y.v AS w",
    "last": "EVENT SEQ(A x, B y, NOT(C z)) FROM s TYPE type PARTITION BY k WITHIN 60 MILLISECONDS RETURN x.v AS v, y.v AS w",
}


@pytest.mark.parametrize("name", PATTERNS)
def test_an_epoch_holds_few_matches(name: str) -> None:
    """The same matches in the same order, too."""
    rows, held, found = np.arange(600), [], []
    schema = pa.schema([("type", pa.string()), ("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
    kinds = np.where(rows % 200 == 199, "C", np.where(rows % 2, "B", "A"))
    for tuning in (
        Tuning(results_held=1_000, patterns=PatternTuning(matches_at_once=500)),
        Tuning(results_held=1 << 40),
    ):
        session = Session(Settings(tuning=tuning), keep_results=False)
        session.stream("s", schema, time="ts")
        session.query("q", PATTERNS[name])
        session.on_results("q", (tables := []).append)
        # Two events of each instant, so that newest events share their time.
        ts = pa.array(rows // 2 * 1_000, pa.timestamp("us"))
        session.push("s", pa.table([pa.array(kinds), np.ones(600, np.int64), rows, ts], schema=schema))
        session.run(once=True)
        held.append(session.stats()["results_held"])
        found.append(pa.concat_tables(tables).combine_chunks())
        assert len(found[-1]) == session.stats()["results"]["q"]
    assert found[0].equals(found[1]) and len(found[0]) > 6_000
    assert held[0] <= 3_000 < held[1], held


def test_results_of_one_instant_wait_for_each_other() -> None:
    """Rows without a partner of that instant come after them, whatever the pieces."""
    found = []
    for most in (10, 1 << 40):
        session = opened(Tuning(results_held=most))
        query = session.query(
            "q", "SELECT a.v, b.v AS w FROM a [RANGE 1 MICROSECOND] FULL JOIN b [RANGE 1 MICROSECOND] ON a.k = b.k"
        )
        for stream, key in (("a", 2), ("b", 3)):
            rows = np.arange(90)
            ts = pa.array(rows // 30, pa.timestamp("us"))
            session.push(stream, pa.table({"k": np.where(rows % 3, 1, key), "v": rows, "ts": ts}))
        session.run(final=False)
        found.append(query.table().combine_chunks())
    assert found[0].equals(found[1])
    pairs = [None not in row[:2] for row in zip(*found[0].to_pydict().values(), strict=True)]
    instants = found[0].column("_ts").to_pylist()
    # At each later instant all pairs, then the rows of the instant before.
    for instant in sorted({*instants})[1:]:
        kinds = [pair for pair, ts in zip(pairs, instants, strict=True) if ts == instant]
        assert kinds == sorted(kinds, reverse=True) and {*kinds} == {True, False}


def test_a_dropped_query_over_many_results_gets_those_up_to_its_end() -> None:
    found = []
    for most in (100, 1 << 40):
        session = opened(Tuning(results_held=most))
        query = session.query("q", OVER_QUERIES["left"][1])
        for epoch in range(2):
            for stream in "ab":
                ts = pa.array(np.arange(60) * 1_000 + epoch * 60_000, pa.timestamp("us"))
                session.push(stream, pa.table({"k": np.ones(60, np.int64), "v": np.arange(60), "ts": ts}))
            session.step()
            if not epoch:
                session.drop("q")
        session.run(once=True)
        found.append(query.table().combine_chunks())
    assert found[0].equals(found[1]) and len(found[0])


def test_results_that_are_released_window_by_window_are_cut_and_counted() -> None:
    session = opened(Tuning(results_held=2_000), keep_results=False)
    sizes: dict[str, list[int]] = {"q1": [], "q2": []}
    for name, hours in (("q1", 1), ("q2", 2)):
        session.query(name, QUERIES["pairs"].replace("a [RANGE 1 HOUR]", f"a [RANGE {hours} HOUR]"))
        session.on_results(name, lambda table, of=sizes[name]: of.append(len(table)))
    for name in "ab":
        ts = pa.array(np.arange(400) * 1_000, pa.timestamp("us"))
        session.push(name, pa.table({"k": np.ones(400, np.int64), "v": np.arange(400), "ts": ts}))
    session.run(once=True)
    assert all(sum(found) == 400 * 400 and max(found) <= 2_000 for found in sizes.values()), sizes
    # What is released at once is whole before its results leave, and the count says so.
    assert session.stats()["results_held"] > 10 * 2_000


def test_one_row_with_very_many_partners_is_cut() -> None:
    session = opened(Tuning(results_held=1_000), keep_results=False)
    session.query("q", QUERIES["pairs"])
    session.execute("CREATE SINK dropped FOR q WITH (format = 'drop')")
    ts = pa.array(np.arange(20_000), pa.timestamp("us"))
    session.push("a", pa.table({"k": np.ones(20_000, np.int64), "v": np.arange(20_000), "ts": ts}))
    session.push("b", pa.table({"k": [1], "v": [0], "ts": pa.array([20_000], pa.timestamp("us"))}))
    session.run(once=True)
    assert session.stats()["results"]["q"] == 20_000
    assert session.stats()["results_held"] <= 4_000


# -- a row that makes very many results


@pytest.mark.parametrize("copies", [1, 9])
def test_a_row_with_very_many_results_warns_once_with_query_and_key(
    copies: int, caplog: pytest.LogCaptureFixture
) -> None:
    session = opened(Tuning(results_held=70), keep_results=False, most_results="100")
    for number in range(copies):
        session.query(f"q{number}", QUERIES["pairs"])
    keys = np.array([*[7] * 250, 8, 8])
    for name, offset in (("a", 0), ("b", 1)):
        ts = pa.array(np.arange(len(keys)) * 10 + offset, pa.timestamp("us"))
        session.push(name, pa.table({"k": keys, "v": np.arange(len(keys)), "ts": ts}))
    session.run(once=True)
    said = sorted(record.getMessage() for record in caplog.records if record.name == "eddyline.results")
    made = "one row of stream b with k = 7 makes 101 results; most_results is 100"
    assert said == [f"query q{number}: {made}" for number in range(copies)]


@pytest.mark.parametrize(
    ("sql", "whose"),
    [
        (f"CREATE QUERY q AS SELECT v FROM (SELECT a.v FROM {KEYED} WHERE a.k = b.k) AS x", "query q"),
        ("CREATE QUERY q AS SELECT a.v FROM a [RANGE 1 HOUR] LEFT JOIN b [RANGE 1 HOUR] ON a.k = b.k", "query q"),
        (
            "CREATE QUERY q AS SELECT a.k, COUNT(*) AS n FROM a [RANGE 1 HOUR] LEFT JOIN b [RANGE 1 HOUR] ON a.k = b.k"
            " GROUP BY a.k EMIT EVERY 1 MINUTE",
            "query q",
        ),
        (f"CREATE STREAM d AS SELECT a.v FROM {KEYED} WHERE a.k = b.k; CREATE QUERY q AS SELECT v FROM d", "stream d"),
    ],
    ids=["subquery", "outer", "aggregate", "stream"],
)
def test_the_warning_names_what_the_user_has_written(sql: str, whose: str, caplog: pytest.LogCaptureFixture) -> None:
    session = opened(Tuning(), keep_results=False, most_results="100")
    session.execute(sql)
    for name, count, start in (("a", 300, 0), ("b", 2, 1_000)):
        ts = pa.array(np.arange(count) + start, pa.timestamp("us"))
        session.push(name, pa.table({"k": np.full(count, 7), "v": np.arange(count), "ts": ts}))
    session.run(once=True)
    said = [record.getMessage() for record in caplog.records if record.name == "eddyline.results"]
    assert said == [f"{whose}: one row of stream b with k = 7 makes 300 results; most_results is 100"]


def test_the_count_is_that_of_all_pieces_of_a_row(caplog: pytest.LogCaptureFixture) -> None:
    session = opened(Tuning(results_held=64), keep_results=False, most_results="300")
    session.query("q", QUERIES["pairs"])
    ts = pa.array(np.arange(1_000), pa.timestamp("us"))
    session.push("a", pa.table({"k": np.ones(1_000, np.int64), "v": np.arange(1_000), "ts": ts}))
    session.push("b", pa.table({"k": [1, 2], "v": [0, 0], "ts": pa.array([1_000, 1_001], pa.timestamp("us"))}))
    session.run(once=True)
    said = [record.getMessage() for record in caplog.records if record.name == "eddyline.results"]
    assert said == ["query q: one row of stream b with k = 1 makes 1,000 results; most_results is 300"]


# -- files


def test_files_of_an_epoch_appear_together_when_it_has_ended(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path), tuning=OutputTuning(file_rows=10))
    table = pa.table({"v": np.arange(8), "_ts": pa.array(np.arange(8), pa.timestamp("us"))})
    sink.open(table.schema)
    for _ in range(5):
        sink.write(1, table)
    sink.check_writes(wait=True)
    assert not result_files(str(tmp_path)) and len(os.listdir(tmp_path)) == 2
    sink.end_epoch(1)
    sink.check_writes(wait=True)
    assert [(epoch, part) for epoch, part, _ in result_files(str(tmp_path))] == [(1, 0), (1, 1), (1, 2)]
    for _ in range(2):
        sink.write(2, table)
    sink.truncate_after(1)
    assert len(os.listdir(tmp_path)) == 3
    sink.write(2, table)
    sink.close()
    assert sum(pq.read_metadata(path).num_rows for _, _, path in result_files(str(tmp_path))) == 48


def test_an_epoch_that_fails_leaves_no_file(tmp_path: Path) -> None:
    session = opened(Tuning(results_held=20, output=OutputTuning(file_rows=10)))
    seen: list[int] = []

    def raising(table: pa.Table) -> None:
        seen.append(len(table))
        if len(seen) == 20:
            raise ValueError("no more")

    session.query("q", QUERIES["pairs"])
    session.on_results("q", raising)
    session.execute(f"CREATE SINK files FOR q WITH (format = 'parquet', path = '{tmp_path}')")
    for name, table in streams().items():
        session.push(name, table)
    with pytest.raises(UserError, match="handed over"):
        session.run(once=True)
    assert not result_files(str(tmp_path)) and len(seen) == 20


# -- functions that are called in the middle of an epoch


def test_nothing_that_a_function_asks_for_takes_a_checkpoint_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """The epoch fails after all that: its rows come again in the next session, and no file has them twice."""
    files, state = tmp_path / "files", tmp_path / "state"

    def session_of() -> Session:
        settings = Settings(checkpoint_seconds=0.0, tuning=Tuning(results_held=20, output=OutputTuning(file_rows=10)))
        session = Session(settings, checkpoint=str(state), keep_results=False)
        for name in "abc":
            session.stream(
                name, pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))]), time="ts"
            )
        session.query("q", QUERIES["pairs"])
        session.query("other", QUERIES["tested"])
        session.execute(f"CREATE SINK files FOR q WITH (format = 'parquet', path = '{files}')")
        return session

    seen: list[object] = []

    def look() -> None:
        """The epochs that are done, and all that a checkpoint and a file of results would change."""
        times = sorted((str(path), path.stat().st_mtime_ns) for path in state.rglob("*") if path.is_file())
        seen.append((session.driver.epoch, times, result_files(str(files))))

    def heard(_: pa.Table) -> None:
        look()
        if len(seen) == 1:
            session.drop("other")
            session.query("new", QUERIES["self"])
        for ask in (session.step, session.run):
            with pytest.raises(UserError):
                ask()
        session.queries["q"].table()
        session.stop()
        look()
        if len(seen) == 40:
            raise ValueError("no more")

    session = session_of()
    session.on_results("q", heard)
    for name, table in streams().items():
        session.push(name, table)
    with pytest.raises(UserError, match="handed over"):
        session.run(once=True)
    assert len(seen) == 40 and seen == seen[:1] * 40
    with pytest.raises(UserError, match="handed over"):
        session.stop()
    assert not result_files(str(files))
    # The checkpoint before that epoch has all rows.
    with session_of() as again:
        again.run(once=True)
    whole = pa.concat_tables([pq.read_table(path) for _, _, path in result_files(str(files))])
    assert sorted(zip(*whole.to_pydict().values(), strict=True)) == sorted(answers(QUERIES["pairs"], Tuning())[0][0])
