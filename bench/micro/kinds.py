"""A query for each kind of state, with rows of which each has a key of its own among those that are stored.

Answer   `QUERIES` has the queries over the streams a and b, `job_of` the statements of a kind. `give` pushes the next rows
         of both, and what is promised after them. Tests count what an epoch and a snapshot of each kind cost.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline import Session

STREAMS = """
CREATE STREAM a (id BIGINT, k BIGINT, v BIGINT, t STRING, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM b (id BIGINT, k BIGINT, v BIGINT, t STRING, ts TIMESTAMP) WITH (time = 'ts');
"""
LONG, SHORT = "[RANGE 1 DAY]", "[RANGE 500 MILLISECONDS]"
MANY = "k, count(DISTINCT t) AS n, min(t) AS m, max(v) AS x, stddev(v) AS d, sum(CAST(v AS DOUBLE)) AS s"
#: Every row has a key of its own among those that are stored.
QUERIES = {
    "join": f"SELECT a.id AS i, b.id AS j FROM a {LONG} a, b {LONG} b WHERE a.k = b.k",
    "three streams": f"SELECT a.id AS i FROM a {LONG} a, b {LONG} b, a {LONG} c WHERE a.k = b.k AND b.k = c.k",
    "LEFT JOIN": f"SELECT a.id AS i, b.id AS j FROM a {LONG} a LEFT JOIN b {LONG} b ON a.k = b.k",
    "kept by ROWS": f"SELECT a.id AS i, b.id AS j FROM a [PARTITION BY k ROWS 3] a LEFT JOIN b {LONG} b ON a.k = b.k",
    "NOT EXISTS": f"SELECT a.id AS i FROM a {LONG} a WHERE NOT EXISTS (SELECT 1 FROM b {LONG} WHERE b.k = a.k)",
    "aggregate of a LEFT JOIN": f"SELECT a.k, count(*) AS n FROM a {LONG} a LEFT JOIN b {LONG} b ON a.k = b.k GROUP BY a.k",
    "QUALIFY": "SELECT id, v FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) <= 2",
    "QUALIFY that expires": f"SELECT id, v FROM a {SHORT} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 2",
    "QUALIFY over groups": "SELECT k, t, count(*) AS n FROM a GROUP BY k, t"
    " QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY count(*) DESC) <= 1",
    "DISTINCT": f"SELECT DISTINCT k, t FROM a {LONG}",
    "groups": "SELECT k, count(*) AS n, max(t) AS t, sum(v) AS s FROM a GROUP BY k",
    "groups of a window": f"SELECT {MANY} FROM a {LONG} GROUP BY k",
    "groups that expire": f"SELECT {MANY} FROM a {SHORT} GROUP BY k",
    "EVERY": f"SELECT {MANY} FROM a {LONG} GROUP BY k EMIT EVERY 20 MILLISECONDS",
    "EVERY that waits": f"SELECT {MANY} FROM a {LONG} GROUP BY k EMIT EVERY 1 DAY",
    "QUALIFY that waits": f"SELECT id, v FROM a {LONG} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 2"
    " EMIT EVERY 1 DAY",
    "a LEFT JOIN that waits": f"SELECT a.k, count(*) AS n FROM a [PARTITION BY k ROWS 3] a LEFT JOIN b {LONG} b ON a.k = b.k"
    " GROUP BY a.k EMIT EVERY 1 DAY",
    "STRING_AGG": f"SELECT k, string_agg(t, ',') AS s FROM a {LONG} GROUP BY k",
    "ARRAY_AGG": "SELECT k, array_agg(v) AS s FROM a GROUP BY k",
    "COUNT(DISTINCT) of groups that close": "SELECT k, window_end, count(DISTINCT v) AS n FROM a"
    " GROUP BY k, SESSION(ts, '{gap} microseconds') EMIT ON CLOSE",
    "TUMBLE": "SELECT k, window_end, count(*) AS n FROM a GROUP BY k, TUMBLE(ts, '1 day')",
    "SESSION": "SELECT k, window_end, count(*) AS n FROM a GROUP BY k, SESSION(ts, '1 day')",
    "rows per value": "SELECT k, sum(v) AS n FROM a [PARTITION BY k ROWS 3] GROUP BY k",
    "LAG": "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY ts) AS w FROM a",
    "LATEST": f"SELECT b.id AS i, q.n AS n FROM b JOIN LATEST (SELECT k, count(*) AS n FROM a {LONG} GROUP BY k"
    " EMIT EVERY 20 MILLISECONDS) q ON b.k = q.k",
    "closed values": f"SELECT a.id AS i, b.id AS j FROM a {LONG} a, b {LONG} b WHERE a.k = b.k",
    "closed pairs of values": f"SELECT a.id AS i, b.id AS j FROM a {LONG} a, b {LONG} b WHERE a.k = b.k",
    "pattern": "EVENT SEQ(A x, B y) FROM a TYPE t PARTITION BY k WITHIN 1 DAY RETURN x.id AS i, y.id AS j",
    "pattern of one trace": "EVENT SEQ(A x, B y, D z) FROM a TYPE t WITHIN 1 DAY RETURN x.id AS i, y.id AS j",
    "pattern that expires": "EVENT SEQ(A x, B y, D z) FROM a TYPE t PARTITION BY k WITHIN 500 MILLISECONDS RETURN x.id AS i",
    "pattern that ends with NOT": "EVENT SEQ(A x, NOT(B y)) FROM a TYPE t PARTITION BY k WITHIN 1 DAY RETURN x.id AS i",
    "constraints": "SELECT id FROM a WHERE v < 0",
}
#: What is declared beside a query.
MORE = {
    "constraints": "CREATE CONSTRAINTS c ON a TYPE t PARTITION BY k (PRIOR(A, D), EXCLUSIVE(B, D), END AFTER 1 DAY);"
}
#: What is promised of stream a after each row, by its number: no row has such values, and none lie side by side.
PROMISES = {"closed values": {"v": -3}, "closed pairs of values": {"v": -3, "id": -5}}
ROWS = 100


def rows(first: int, count: int, keys: int) -> pa.Table:
    ids = np.arange(first, first + count)
    kinds = pa.array(np.array(["A", "B", "C"])[ids % 3])
    ts = pa.array(ids * 500, pa.timestamp("us"))
    return pa.table({"id": ids, "k": ids * 7919 % keys, "v": ids % 1000, "t": kinds, "ts": ts})


def give(session: Session, kind: str, first: int, count: int, stored: int) -> None:
    """Push the next rows, and what is promised after them."""
    for name in "ab":
        session.push(name, rows(first, count, stored))
    if kind in PROMISES:
        ids = np.arange(first, first + count) + 1
        session.punctuate("a", pa.table({column: times * ids for column, times in PROMISES[kind].items()}))


def job_of(kind: str, stored: int) -> str:
    """The statements of a kind. Rows of one key come after all those that are stored; sessions end a little before."""
    query = QUERIES[kind].replace("{gap}", str(stored * 450))
    return f"{STREAMS} {MORE.get(kind, '')} SET epoch_rows = 10000000; CREATE QUERY q AS {query};"
