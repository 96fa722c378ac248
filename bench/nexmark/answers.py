"""Flink's answers to NEXMark, row by row, against a batch computation in DuckDB.

Answer   `agree(query, data, cores, limit)` runs a query in Flink, takes its changes together, and compares what stands
         at the end with the answer of `tests/oracle/nexmark.sql`; it prints what differs. A query that Flink refuses is
         named with what Flink said.
Limits   Values are compared as texts of one form: instants in milliseconds, numbers with nine digits. For small inputs.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from decimal import Decimal

import numpy as np

from bench.nexmark import engines
from bench.nexmark.data import Data
from bench.peers import inside

#: What Flink's own text of q6 is: an average over the last ten closed auctions of a seller.
Q6 = """
SELECT Q.seller, AVG(Q.final) OVER (PARTITION BY Q.seller ORDER BY Q.ts ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) FROM (
  SELECT MAX(B.price) AS final, A.seller, B.ts FROM auction AS A, bid AS B
  WHERE A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires GROUP BY A.id, A.seller, B.ts
) AS Q"""

#: Query -> where Flink's text says something else, and what says the same as the example: this engine knows the highest
#: bid of an auction when it has closed, Flink a highest bid so far; days and minutes are texts there, and a part of a
#: path that is missing is NULL.
ALIKE = {
    "q4": {"GROUP BY A.id, A.category": "AND A.expires < TIMESTAMP '{closed}' GROUP BY A.id, A.category"},
    "q10": {"DATE_FORMAT(ts, 'HH:mm')": "FLOOR(ts TO MINUTE)"},
    "q22": {"SPLIT_INDEX(url, '/', 5)": "COALESCE(SPLIT_INDEX(url, '/', 5), '')"},
    "q15": {"DATE_FORMAT(ts, 'yyyy-MM-dd')": "FLOOR(ts TO DAY)"},
    "q16": {"DATE_FORMAT(ts, 'yyyy-MM-dd')": "FLOOR(ts TO DAY)", "DATE_FORMAT(ts, 'HH:mm')": "ts"},
    "q17": {"DATE_FORMAT(ts, 'yyyy-MM-dd')": "FLOOR(ts TO DAY)"},
}


def agree(query: str, data: Data, cores: int, limit: float) -> bool:
    """Whether Flink has the rows of the batch computation; of a query that it has no text for: whether it refuses
    it."""
    refused = query not in engines.texts(engines.FLINK)
    text = Q6 if refused else engines.flink_query(query, data)[1]
    closed = np.datetime64(max(data.ends["bid"], data.ends["auction"]) // 1000, "ms").item()
    for old, new in ALIKE.get(query, {}).items():
        text = text.replace(old, new.format(closed=closed))
    argument = {"statements": engines.declarations(data), "query": text, "rows": True, "slots": cores}
    try:
        report, watched = inside.run("flink", "flink_sql", argument, limit)
    except Exception as problem:
        said = [
            line.strip() for line in str(problem).splitlines() if "Exception: " in line and "JobExecution" not in line
        ]
        print(f"{query:4} Flink refuses it: {said[-1] if said else problem}", flush=True)
        return refused
    if watched.stopped:
        print(f"{query:4} stopped: took too long", flush=True)
        return False
    expected = Counter(tuple(map(_plain, row)) for row in engines.answer(query, data))
    found: Counter[tuple[object, ...]] = Counter()
    for row, count in report["rows"].items():
        # Ends of windows, by which whole windows are chosen, are columns of Flink's rows alone.
        found[tuple(json.loads(row))[: len(next(iter(expected), ()))]] += count
    missing, further = expected - found, found - expected
    ok = not refused and not missing and not further
    print(
        f"{query:4} {found.total():,} rows, {'equal' if ok else f'{missing.total():,} missing, {further.total():,} too many'}",
        flush=True,
    )
    for what, rows in (("missing", missing), ("too many", further)):
        for row in list(rows)[:2]:
            print(f"       {what}: {row}", flush=True)
    return ok


def _plain(value: object) -> object:
    """A value in the form in which `inside/flink_sql.py` writes it."""
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000).isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return f"{float(value):.9g}" if isinstance(value, int | float | Decimal) else str(value)
