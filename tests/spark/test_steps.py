"""Queries over queries in several stateful steps: drivers die, queries come and go, and the answers are those of one
process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.runtime.sharded.job.ledger import Ledger
from tests.property.compare import plain_rows
from tests.seeds import cases, first_seed
from tests.spark.simulated import Simulated
from tests.spark.test_chains import SECOND, STREAMS, counted, epochs, table

MADE = (
    "CREATE STREAM j AS SELECT a.k AS k, a.v AS v, b.v AS w FROM a [RANGE 5 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k",
    "CREATE STREAM u AS SELECT k, v FROM a WHERE v > 0 UNION ALL SELECT v, w FROM j",
    "CREATE STREAM g AS SELECT w, count(*) AS n, window_end FROM j GROUP BY TUMBLE(_ts, '2 seconds'), w",
    "CREATE STREAM o AS SELECT a.k AS k, b.v AS w FROM a [RANGE 2 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k",
)
#: Over j, u, g and o, which different keys make.
READERS = (
    "SELECT w, count(*) AS n, sum(v) AS s FROM j GROUP BY w EMIT EVERY 2 SECONDS",
    "SELECT w, count(*) AS n FROM j [RANGE 4 SECONDS] GROUP BY w EMIT EVERY 1 SECOND",
    "SELECT j.k, j.v, c.v AS x FROM j [RANGE 3 SECONDS], c [RANGE 3 SECONDS] WHERE j.v = c.k",
    "SELECT i.k AS k, j.w AS w FROM j [RANGE 2 SECONDS] i, j [RANGE 3 SECONDS] WHERE i.v = j.w",
    "SELECT i.k AS k, j.w AS w FROM j [RANGE 2 SECONDS] i, j [RANGE 3 SECONDS] WHERE i.v < j.w",
    "SELECT v, w FROM j WHERE w > 1",
    "SELECT window_end, count(*) AS n FROM j GROUP BY TUMBLE(_ts, '3 seconds')",
    "SELECT j.v, j.w FROM j [RANGE 4 SECONDS] QUALIFY ROW_NUMBER() OVER (PARTITION BY v ORDER BY w DESC) <= 2",
    "SELECT j.v, j.w FROM j [RANGE 1 SECOND] LEFT JOIN c [RANGE 2 SECONDS] ON j.w = c.k WHERE c.v IS NULL",
    "SELECT j.v, c.v AS x FROM j [RANGE 2 SECONDS] LEFT JOIN c [RANGE 2 SECONDS] ON j.w = c.k",
    "SELECT j.v, j.k FROM j [RANGE 2 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM c [RANGE 1 SECOND] WHERE c.k = j.w)",
    "SELECT j.v, c.v AS x FROM j [RANGE 1 SECOND] FULL JOIN c [RANGE 1 SECOND] ON j.w < c.k",
    "SELECT j.v FROM j [RANGE 1 SECOND] WHERE NOT EXISTS (SELECT 1 FROM c [RANGE 1 SECOND] WHERE c.k > j.w)",
    "SELECT v, count(*) AS n, window_end FROM u GROUP BY TUMBLE(_ts, '2 seconds'), v",
    "SELECT u.v, c.v AS x FROM u [RANGE 2 SECONDS], c [RANGE 2 SECONDS] WHERE u.v = c.v",
    "SELECT n, count(*) AS m, window_end FROM g GROUP BY TUMBLE(_ts, '4 seconds'), n",
    "SELECT g.w, u.k FROM g [RANGE 3 SECONDS], u [RANGE 3 SECONDS] WHERE g.n = u.v",
    "SELECT w, count(*) AS n FROM o GROUP BY w EMIT EVERY 2 SECONDS",
    "SELECT x.m, count(*) AS n, window_end FROM (SELECT w, count(*) AS m, window_end FROM j GROUP BY TUMBLE(_ts, '2 seconds'), w) x "
    "GROUP BY TUMBLE(_ts, '4 seconds'), x.m",
)
FIRST = first_seed(2_990_000)


def answers(text: str, names: list[str], brought: list[dict[str, pa.Table]]) -> dict[str, Counter]:
    with Session() as session:
        session.execute(text)
        for epoch in brought:
            for name, rows in epoch.items():
                session.push(name, rows)
            session.step()
        session.run(final=False)
        return {name: counted(plain_rows([session.queries[name].table()])) for name in names}


@pytest.mark.parametrize("block", range(cases(3)))
def test_steps_answer_as_one_process_does(block: int, tmp_path: Path) -> None:
    deepest = 0
    for seed in range(FIRST + cases(5) * block, FIRST + cases(5) * (block + 1)):
        rng = Random(seed)
        brought = epochs(rng)
        queries = {f"q{n}": text for n, text in enumerate(rng.sample(READERS, 4))}
        script = STREAMS + ";".join((*MADE, *(f"CREATE QUERY {name} AS {text}" for name, text in queries.items())))
        expected = answers(script, list(queries), brought)
        job = Simulated(script, str(tmp_path / str(seed)), rng.choice((2, 3, 5)), rng)
        deepest = max(deepest, job.driver.layout.steps)
        for epoch in brought:
            job.run(epoch, crashes=0.3)
        job.run(closing=True, crashes=0.3)
        for name, text in queries.items():
            found = plain_rows([job.table(name)])
            assert counted(found) == expected[name], f"{seed}: {text}"
            assert [row["_ts"] for row in found] == sorted(row["_ts"] for row in found), f"{seed}: {text}"
        job.close()
    assert deepest > 1


LATER = "CREATE QUERY later AS SELECT v, w, count(*) AS n, window_end FROM j GROUP BY TUMBLE(_ts, '5 seconds'), v, w"


def test_queries_come_and_go_in_a_job_with_two_steps(tmp_path: Path) -> None:
    first = STREAMS + ";".join((MADE[0], f"CREATE QUERY p AS {READERS[0]}"))
    batches = [{"a": table([(k, k % 3, at * SECOND) for k in range(6)]), "b": table([(k, k % 2, at * SECOND) for k in range(6)])}
               for at in (0, 10, 20, 30, 40)]  # fmt: skip
    job = Simulated(first, str(tmp_path / "ck"), 3, Random(7))
    assert job.driver.layout.steps == 2 and job.driver.layout.shards == 6
    with Session() as session:
        session.execute(first)
        for number, batch in enumerate(batches):
            for name, rows in batch.items():
                session.push(name, rows)
            session.step()
            job.run(batch, crashes=0.3)
            if number == 0:
                session.execute(LATER)
                handle = session.queries["later"]
                job.add(LATER)
            elif number == 1:
                job.start()
            elif number == 3:
                session.drop("later")
                job.drop("later")
            job.settle(crashes=0.3)
            assert not Ledger.read(job.checkpoint).refused
        session.run(final=False)
        job.run(closing=True)
        expected = {"p": session.queries["p"].table(), "later": handle.table()}
    assert expected["later"].num_rows == 12
    for name, rows in expected.items():
        assert counted(plain_rows([job.table(name)])) == counted(plain_rows([rows])), name
    job.close()


def test_two_steps_on_spark(spark, tmp_path: Path) -> None:
    """Several batches and a restart: as one process answers."""
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{tmp_path}/{name}', time = 'ts', "
        "lateness = '2 seconds', files_per_batch = 1);"
        for name in "abc"
    )
    queries = {"groups": READERS[0], "again": READERS[2], "itself": READERS[3], "kept": READERS[9], "wide": READERS[6]}
    text = ";".join((MADE[0], *(f"CREATE QUERY {name} AS {query}" for name, query in queries.items())))
    brought = [epoch for epoch in epochs(Random(31)) if epoch] + [
        {name: table([(1, 2, 90 * SECOND)]) for name in "abc"}
    ]
    for name in "abc":
        (tmp_path / name).mkdir()

    def write(number: int) -> None:
        for name, rows in brought[number].items():
            parquet.write_table(rows, tmp_path / name / f"{number:03}.parquet")

    for number in range(len(brought) - 1):
        write(number)
    with Session(spark=spark, checkpoint=str(tmp_path / "ck")) as session:
        session.execute(streams + text)
        assert "groups in step 2 by {j.w}" in session.explain("groups")
        session.run(final=False)
        write(len(brought) - 1)
        session.run(final=False)
        assert len(session._runner.driver.progress.notes) == 2 * session._runner.driver.layout.width  # type: ignore[attr-defined]
        found = {name: counted(plain_rows([session.queries[name].table()])) for name in queries}
    # The last rows are newer than all others: the end of the first run makes nothing late.
    expected = answers(STREAMS + text, list(queries), brought)
    for name in queries:
        assert found[name] == expected[name], name


MADE_LATER = {
    1: ("d", "CREATE STREAM d AS SELECT k, v FROM a WHERE v < 2 UNION ALL SELECT v, w FROM j; "
             "CREATE QUERY over_d AS SELECT v, count(*) AS n, window_end FROM d GROUP BY TUMBLE(_ts, '5 seconds'), v"),
    4: ("d", "CREATE STREAM d AS SELECT k AS v FROM a; "
             "CREATE QUERY over_d AS SELECT v, count(*) AS n, window_end FROM d WHERE v > 2 GROUP BY TUMBLE(_ts, '5 seconds'), v"),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(cases(4)))
def test_derived_streams_come_and_go_while_a_job_runs(seed: int, tmp_path: Path) -> None:
    """A stream and its reader are added, dropped one after the other, and come again under the same names: as in one
    process."""
    rng = Random(FIRST + 100 + seed)
    first = STREAMS + ";".join((MADE[0], f"CREATE QUERY p AS {READERS[seed % 2 * 5]}"))
    batches = [{"a": table([(k, k % 3, at * SECOND) for k in range(6)]), "b": table([(k, k % 2, at * SECOND) for k in range(6)])}
               for at in range(0, 80, 10)]  # fmt: skip
    job = Simulated(first, str(tmp_path / "ck"), 3, rng)
    handles = []
    with Session() as session:
        session.execute(first)
        for number, batch in enumerate(batches):
            for name, rows in batch.items():
                session.push(name, rows)
            session.step()
            job.run(batch, crashes=0.3)
            if number in MADE_LATER:
                session.execute(MADE_LATER[number][1])
                handles.append(session.queries["over_d"])
                for statement in MADE_LATER[number][1].split(";") if seed % 2 else [MADE_LATER[number][1]]:
                    job.add(statement)
            elif number == 2:
                job.start()
            elif number == 3:
                session.drop("over_d")
                session.execute("DROP STREAM d")
                job.drop("over_d", "d") if seed < 2 else (job.drop("over_d"), job.drop("d"))
                handles.append(handles.pop().table())
            job.settle(crashes=0.3)
            if number == 3:
                # The names are free once both have gone.
                session.push("a", table([(1, 1, 36 * SECOND)]))
                session.push("b", table([(1, 1, 36 * SECOND)]))
                session.step()
                job.run({name: table([(1, 1, 36 * SECOND)]) for name in "ab"}, crashes=0.3)
                before = plain_rows([handles[0]])
                job.run()
            assert not Ledger.read(job.checkpoint).refused
        session.run(final=False)
        job.run(closing=True)
        expected = {
            "p": plain_rows([session.queries["p"].table()]),
            "over_d": before + plain_rows([handles[1].table()]),
        }
    assert expected["over_d"]
    for name, rows in expected.items():
        found = plain_rows([job.table(name)])
        assert counted(found) == counted(rows), name
    job.close()
