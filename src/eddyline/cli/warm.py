"""`eddyline warm`: compile the kernels of common queries before the first of them runs.

Answer   Every query below runs over generated rows, alone and beside the others, and over files of each format. What
         they compile stays in the cache of kernels; the command prints how many there were.
State    The cache of kernels on this machine: `NUMBA_CACHE_DIR`, or the folder that `kernels/caches.py` chooses.
Limits   A query of another kind may need further kernels, which its own first run compiles.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from eddyline.errors import StateProblem
from eddyline.kernels import compiling
from eddyline.model.clock import WALL
from eddyline.session import Session

_COLUMNS = "k BIGINT, name STRING, x DOUBLE, price DECIMAL(10, 2), ts TIMESTAMP"
#: Statements that common jobs consist of. Every one is a job of its own; then all of them are one job.
QUERIES = (
    "SELECT k, x * 2 AS y FROM a WHERE x > 0.5 AND name LIKE 'n1%'",
    "SELECT upper(name) AS n, round(x, 2) AS r, date_trunc('minute', ts) AS m, price FROM a WHERE k IN (1, 2, 3)",
    "SELECT a.name, b.x FROM a [RANGE 1 MINUTE] a, b [RANGE 1 MINUTE] b WHERE a.k = b.k AND b.x > 0.1",
    "SELECT a.k, b.name, c.x FROM a [RANGE 5 SECONDS] a, b [RANGE 5 SECONDS] b, a [RANGE 5 SECONDS] c"
    " WHERE a.k = b.k AND b.k = c.k AND a.x < c.x",
    "SELECT a.name, b.x FROM a [RANGE 10 SECONDS] a, b [ROWS 10] b WHERE a.name = b.name",
    "SELECT a.k, b.x FROM a [RANGE 10 SECONDS] a LEFT JOIN b [RANGE 10 SECONDS] b ON a.k = b.k",
    "SELECT k, count(*) AS c, sum(x) AS s, avg(x) AS m, min(x) AS low, max(x) AS high FROM a [RANGE 10 SECONDS] GROUP BY k",
    "SELECT name, sum(price) AS s FROM a [RANGE 10 SECONDS] GROUP BY name EMIT EVERY 5 SECONDS",
    "SELECT date_trunc('minute', ts) AS m, count(*) AS c, max(x) AS high FROM a GROUP BY date_trunc('minute', ts) EMIT ON CLOSE",
    "SELECT k, x FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) = 1",
    "SELECT k, x - LAG(x) OVER (PARTITION BY k ORDER BY ts) AS step FROM a",
    "EVENT SEQ('n1' p, 'n2' q) FROM a TYPE name PARTITION BY k WITHIN 10 SECONDS RETURN k, p.x AS x",
)
_STREAMS = "CREATE STREAM a ({0}) WITH (time = 'ts'{1}); CREATE STREAM b ({0}) WITH (time = 'ts'{2});"
#: Rows of each stream, and the milliseconds between two of them.
_ROWS, _STEP = 2_000, 50


def run(args: argparse.Namespace) -> int:
    began, before = WALL.now(), compiling.compiled()
    compiling.announce(True)
    tables = {name: _rows(seed) for seed, name in enumerate("ab")}
    for query in QUERIES:
        _pushed([query], tables)
    _pushed(QUERIES, tables)
    _from_files(tables)
    count, seconds = compiling.compiled() - before, WALL.now() - began
    found = f"compiled {count:,} kernels" if count else "all kernels of common queries were compiled before"
    print(f"{found} ({seconds:.1f} s)")
    return 0


def _rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 50, _ROWS)
    times = np.arange(_ROWS) * (_STEP * 1_000)
    return pa.table(
        {
            "k": keys,
            "name": pa.array(np.char.add("n", (keys % 4).astype(str)).tolist()),
            "x": rng.random(_ROWS),
            "price": pa.array(rng.integers(0, 10_000, _ROWS)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(10, 2)),
            # From 1971 on: earlier integers are taken for a mistake.
            "ts": pa.array(times + 31_536_000_000_000 * 2, pa.timestamp("us")),
        }
    )


def _pushed(queries: tuple[str, ...] | list[str], tables: dict[str, pa.Table]) -> None:
    """One job whose rows are pushed, in two epochs."""
    session = Session()
    session.execute(_STREAMS.format(_COLUMNS, "", ""))
    for number, query in enumerate(queries):
        session.execute(f"CREATE QUERY q{number} AS {query}")
    for start in (0, _ROWS // 2):
        for name, table in tables.items():
            session.push(name, table.slice(start, _ROWS // 2))
        session.step()
    session.run()


def _from_files(tables: dict[str, pa.Table]) -> None:
    """One job per format of files."""
    with tempfile.TemporaryDirectory() as folder:
        for form in ("csv", "parquet"):
            paths = {name: os.path.join(folder, f"{name}.{form}") for name in tables}
            for name, table in tables.items():
                if form == "csv":
                    pyarrow.csv.write_csv(table, paths[name])
                else:
                    pyarrow.parquet.write_table(table, paths[name])
            session = Session()
            options = (f", format = '{form}', path = '{path}'" for path in paths.values())
            session.execute(_STREAMS.format(_COLUMNS, *options))
            session.execute(f"CREATE QUERY q AS {QUERIES[2]}")
            session.run()
            if session.stats()["rows_in"] != dict.fromkeys(tables, _ROWS):
                raise StateProblem(f"the generated rows of {folder} were not read", hint="check the space of the disk")
