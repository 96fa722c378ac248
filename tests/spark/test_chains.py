"""Queries over queries on several shards: drivers die, readers come and go, and the answers are those of one
process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.runtime.sharded.job.ledger import Ledger
from tests.property.compare import plain_rows
from tests.seeds import cases, first_seed
from tests.spark.simulated import Simulated

SECOND = 1_000_000
STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '2 seconds');"
    for name in "abc"
)
QUERIES = (
    "CREATE STREAM j AS SELECT a.k AS k, a.v AS v, b.v AS w FROM a [RANGE 5 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k",
    "CREATE QUERY groups AS SELECT k, count(*) AS n, sum(w) AS s FROM j GROUP BY k EMIT EVERY 2 SECONDS",
    "CREATE QUERY again AS SELECT j.k, j.v, c.v AS x FROM j [RANGE 3 SECONDS], c [RANGE 3 SECONDS] WHERE j.k = c.k",
    "CREATE QUERY rows AS SELECT v, w FROM j WHERE w > 1",
    "CREATE QUERY windows AS SELECT window_end, count(*) AS n FROM j GROUP BY TUMBLE(_ts, '3 seconds')",
    "CREATE QUERY kept AS SELECT x.k, x.w, c.v FROM (SELECT a.k, b.v AS w FROM a [RANGE 2 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] "
    "ON a.k = b.k) x [RANGE 3 SECONDS], c [RANGE 3 SECONDS] WHERE x.k = c.k",
    "CREATE QUERY firsts AS SELECT j.k, j.w FROM j [RANGE 4 SECONDS] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY w DESC, v) <= 2",
    "CREATE QUERY tree AS SELECT a.k, a.v, b.v AS w, c.v AS x FROM a [RANGE 2 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k "
    "LEFT JOIN c [RANGE 3 SECONDS] ON a.k = c.k",
    "CREATE QUERY table_of AS SELECT c.k, c.v, g.n FROM c JOIN LATEST groups g ON c.k = g.k",
)
NAMES = tuple(text.split()[2] for text in QUERIES[1:])
FIRST = first_seed(1_990_000)


def epochs(rng: Random) -> list[dict[str, pa.Table]]:
    found, now = [], 0
    for _ in range(rng.randint(2, 5)):
        rows: dict[str, list[tuple[int, int, int]]] = {"a": [], "b": [], "c": []}
        for _ in range(rng.randint(1, 25)):
            now += rng.choice((0, 0, 1, 1, 3)) * SECOND // 2
            rows[rng.choice("abc")].append(
                (rng.randint(0, 4), rng.randint(0, 3), max(0, now - rng.choice((0, 0, 0, SECOND))))
            )
        found.append({name: table(of) for name, of in rows.items() if of})
    return found


def table(rows: list[tuple[int, int, int]]) -> pa.Table:
    keys, values, times = zip(*rows, strict=True)
    return pa.table(
        {"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64()), "ts": pa.array(times, pa.timestamp("us"))}
    )


def counted(rows: list[dict]) -> Counter:
    return Counter(tuple(row.items()) for row in rows)


@pytest.mark.parametrize("block", range(2))
def test_spread_queries_over_queries_answer_as_one_process_does(block: int, tmp_path: Path) -> None:
    for seed in range(FIRST + cases(4) * block, FIRST + cases(4) * (block + 1)):
        rng = Random(seed)
        brought = epochs(rng)
        with Session() as session:
            session.execute(STREAMS + ";".join(QUERIES))
            for epoch in brought:
                for name, rows in epoch.items():
                    session.push(name, rows)
                session.step()
            session.run(final=False)
            expected = {name: plain_rows([session.queries[name].table()]) for name in NAMES}
        job = Simulated(STREAMS + ";".join(QUERIES), str(tmp_path / str(seed)), rng.choice((2, 3, 5)), rng)
        assert {name: r.cells for name, r in job.driver.layout.routing.routings.items()} == dict.fromkeys(
            ("_j", *NAMES), job.shards
        )
        for epoch in brought:
            job.run(epoch, crashes=0.3)
        job.run(closing=True, crashes=0.3)
        for name in NAMES:
            found = plain_rows([job.table(name)])
            assert counted(found) == counted(expected[name]), f"{seed}: {name}"
            assert [row["_ts"] for row in found] == sorted(row["_ts"] for row in found), f"{seed}: {name}"
        job.close()


def test_readers_come_and_go_and_find_the_keys_of_the_job(tmp_path: Path) -> None:
    rng = Random(5)
    job = Simulated(STREAMS + ";".join(QUERIES[:2]), str(tmp_path / "ck"), 3, rng)
    first, second, third = ({"a": table([(k, 1, at * SECOND) for k in range(5)]), "b": table([(k, k, at * SECOND) for k in range(5)])}
                            for at in (0, 10, 20))  # fmt: skip
    job.run(first)
    job.add("CREATE QUERY later AS SELECT k, w FROM j WHERE k > 2")
    job.add("CREATE QUERY other AS SELECT w, count(*) AS n FROM j GROUP BY w")
    job.settle()
    (refused,) = Ledger.read(job.checkpoint).refused.values()
    assert "query other does not fit the shards of the job that runs" in refused and "in parentheses" in refused
    job.run(second)
    job.start()
    job.drop("later")
    job.settle()
    job.run(third)
    job.run(closing=True)
    assert {(row["k"], row["w"]) for row in plain_rows([job.table("later")])} == {(3, 3), (4, 4)}
    assert len(plain_rows([job.table("later")])) == 2
    job.close()
