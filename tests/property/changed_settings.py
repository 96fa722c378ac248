"""A job with every kind of state, and lives of it in which settings change: between runs on one checkpoint, and between
kills.

Answer   `JOB` has joins, filters, windows of rows, aggregates, derived streams, JOIN LATEST, outer joins, patterns,
         templates, rankings and punctuations. `random_epochs` draws its rows. `lived` runs the job through pipelines
         that are written down and opened again, each under other settings; `answers` makes results comparable.
Limits   Settings stand before the job as SET statements; one that is called `query.setting` stands in WITH of
         that query. Rows of one epoch come at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from eddyline.language import bind_script
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.records.kinds import Splitting
from eddyline.runtime.recovery.snapshot import pass_on, restore, saved_queries, take_snapshot
from tests.property.compare import plain_rows

SECOND = 1_000_000
NAMES = pa.table(
    {
        "k": pa.array([0, 1, 2, 3], pa.int32()),
        "name": ["zero", "one", "two", "three"],
        "rank": pa.array([3, 1, 2, 1], pa.int32()),
    }
)

STREAMS = """
CREATE STREAM a (k INT, v INT, ts TIMESTAMP) WITH (time='ts', format='memory', lateness='2 seconds');
CREATE STREAM b (k INT, v INT, ts TIMESTAMP) WITH (time='ts', format='memory');
CREATE STREAM c (k INT, v INT, ts TIMESTAMP) WITH (time='ts', format='memory');
CREATE STREAM items (k INT, v INT, closes TIMESTAMP, ts TIMESTAMP) WITH (time='ts', format='memory', key='k');
CREATE STREAM bids (k INT, v INT, ts TIMESTAMP) WITH (time='ts', format='memory');
CREATE STREAM e (k INT, v INT, ts TIMESTAMP) WITH (time='ts', format='memory', lateness='1 second');
CREATE TABLE names (k INT, name STRING, rank INT) WITH (format='parquet', path='{folder}/names.parquet');
CREATE PUNCTUATION sold ON bids (k) FROM items (k) AT closes;
CREATE CONSTRAINTS rules ON e TYPE v PARTITION BY k (PRIOR(1, 3), END AFTER 9 SECONDS);
CREATE STREAM large AS SELECT k, v + 1 AS x FROM a WHERE v > 1;
CREATE STREAM pairs AS SELECT a.k AS k, b.v AS x FROM a [RANGE 5 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k AND b.v > 0;
CREATE TEMPLATE asked WITH (history = '5 seconds') AS SELECT k, count(*) AS n, sum(v) AS s FROM a [RANGE 8 SECONDS] WHERE v > 0 GROUP BY k;
CREATE REQUESTS asks (id BIGINT, k INT, ts TIMESTAMP) FOR asked WITH (time='ts', format='memory');
"""

#: Query -> its text. Those of one line here share a join while settings let them.
QUERIES = {
    "filtered": "SELECT k, v FROM a WHERE v > 1",
    "filtered_too": "SELECT k, v FROM a WHERE v > 1 AND k < 3",
    "pair": "SELECT x.k AS k, x.v AS xv, y.v AS yv FROM a [RANGE 6 SECONDS] x, b [RANGE 4 SECONDS] y WHERE x.k = y.k AND x.v > 1",
    "pair_too": "SELECT x.k AS k, x.v AS xv, y.v AS yv FROM a [RANGE 3 SECONDS] x, b [RANGE 9 SECONDS] y "
    "WHERE x.k = y.k AND y.v < 2 AND x.v > 0",
    "pair_all": "SELECT x.k AS k, y.v AS yv FROM a [RANGE 5 SECONDS] x, b [RANGE 5 SECONDS] y WHERE x.k = y.k",
    "three": "SELECT x.k AS k, x.v AS xv, y.v AS yv, z.v AS zv FROM a [RANGE 6 SECONDS] x, b [RANGE 6 SECONDS] y, c [RANGE 6 SECONDS] z "
    "WHERE x.k = y.k AND y.k = z.k AND x.v > 0 AND z.v < 3 AND x.v <= y.v + z.v",
    "itself": "SELECT x.k AS k, x.v AS xv, y.v AS yv FROM b [RANGE 5 SECONDS] x, b [RANGE 7 SECONDS] y "
    "WHERE x.k = y.k AND x.v > 1 AND y.v < 3",
    "last_rows": "SELECT x.k AS k, x.v AS xv, y.v AS yv FROM a [ROWS 5] x, b [RANGE 9 SECONDS] y WHERE x.k = y.k AND x.v > 1",
    "last_rows_too": "SELECT x.k AS k, x.v AS xv, y.v AS yv FROM a [ROWS 3] x, b [ROWS 4] y WHERE x.k = y.k AND x.v < 3",
    "as_of": "SELECT o.k AS k, o.v AS ov, r.v AS rv FROM b [NOW] o, a [PARTITION BY k ROWS 2] r WHERE o.k = r.k AND r.v > 0",
    "as_of_too": "SELECT o.k AS k, o.v AS ov, r.v AS rv FROM b [NOW] o, a [PARTITION BY k ROWS 2] r WHERE o.k = r.k AND o.v > 0",
    "with_names": "SELECT n.name AS name, x.v AS v, y.v AS w FROM c [RANGE 4 SECONDS] x, b [RANGE 4 SECONDS] y, names n "
    "WHERE x.k = n.k AND y.k = x.k AND n.rank > 1 AND y.v > 0",
    "changing": "SELECT k, count(*) AS n, sum(v) AS s, max(v) AS m FROM a [RANGE 5 SECONDS] WHERE v > 0 GROUP BY k",
    "each_two": "SELECT x.k AS k, count(*) AS n, min(y.v) AS m FROM a [RANGE 4 SECONDS] x, b [RANGE 4 SECONDS] y "
    "WHERE x.k = y.k AND x.v > 1 GROUP BY x.k EMIT EVERY 2 SECONDS",
    "every_last": "SELECT r.k AS k, sum(r.v) AS s FROM a [PARTITION BY k ROWS 3] r WHERE r.v <> 1 GROUP BY r.k EMIT EVERY 1 SECOND",
    "every_rows": "SELECT r.k AS k, count(*) AS n FROM b [ROWS 6] r WHERE r.v > 0 GROUP BY r.k EMIT EVERY 1 SECOND",
    "values_of": "SELECT DISTINCT x.k AS k, y.v AS v FROM b [RANGE 3 SECONDS] x, c [RANGE 5 SECONDS] y "
    "WHERE x.k = y.k AND x.v > 0 EMIT EVERY 1 SECOND",
    "closing": "SELECT date_trunc('second', x.ts) AS at, count(*) AS n FROM b [RANGE 3 SECONDS] x, c [RANGE 3 SECONDS] y "
    "WHERE x.k = y.k AND y.v > 0 GROUP BY date_trunc('second', x.ts) EMIT ON CLOSE",
    "tumbling": "SELECT k, window_end, count(*) AS n, avg(v) AS m FROM a WHERE v > 0 GROUP BY TUMBLE(ts, '4 seconds'), k",
    "sessions": "SELECT k, window_end, count(*) AS n FROM b WHERE v > 0 GROUP BY SESSION(ts, '2 seconds'), k",
    "ranked": "SELECT x.k AS k, x.v AS v, y.v AS w FROM a [RANGE 4 SECONDS] x, b [RANGE 4 SECONDS] y WHERE x.k = y.k AND x.v > 0 "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY x.k ORDER BY y.v DESC, x.v, x.ts, y.ts) <= 2",
    "ranked_groups": "SELECT window_start, k, count(*) AS n FROM large GROUP BY TUMBLE(_ts, '5 seconds'), k "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY count(*) DESC, k) <= 2",
    "before": "SELECT k, v, v - lag(v) OVER (PARTITION BY k ORDER BY ts) AS d FROM b WHERE v < 4",
    "derived": "SELECT i.k AS k, i.x AS x, y.v AS v FROM large i [RANGE 4 SECONDS], c [RANGE 6 SECONDS] y WHERE i.k = y.k AND y.v > 0",
    "derived_too": "SELECT i.k AS k, i.x AS x, j.x AS y FROM pairs i [RANGE 4 SECONDS], large j [RANGE 3 SECONDS] "
    "WHERE i.k = j.k AND i.x > 1",
    "inner_query": "SELECT i.k AS k, i.x AS x, y.v AS v FROM (SELECT k, v AS x FROM a WHERE v > 0) i [RANGE 3 SECONDS], "
    "b [RANGE 6 SECONDS] y WHERE i.k = y.k AND y.v < 3",
    "table_of": "SELECT k, count(*) AS n, sum(v) AS s FROM b [RANGE 4 SECONDS] WHERE v > 0 GROUP BY k EMIT EVERY 2 SECONDS",
    "latest": "SELECT c.k AS k, c.v AS v, t.n AS n, t.s AS s FROM c JOIN LATEST table_of t ON c.k = t.k WHERE c.v > 0",
    "latest_left": "SELECT c.k AS k, c.v AS v, t.n AS n FROM c LEFT JOIN LATEST "
    "(SELECT x.k AS k, count(*) AS n FROM a [RANGE 4 SECONDS] x, "
    "b [RANGE 4 SECONDS] y WHERE x.k = y.k AND x.v > 1 GROUP BY x.k EMIT EVERY 1 SECOND) t ON c.k = t.k",
    "left_join": "SELECT x.k AS k, x.v AS xv, y.v AS yv FROM a [RANGE 4 SECONDS] x LEFT JOIN b [RANGE 2 SECONDS] y "
    "ON x.k = y.k AND y.v > 1",
    "full_join": "SELECT x.v AS xv, y.v AS yv FROM b [ROWS 3] x FULL JOIN c [RANGE 2 SECONDS] y ON x.k = y.k AND x.v > 0",
    "not_exists": "SELECT x.k AS k, x.v AS v FROM a [RANGE 3 SECONDS] x WHERE x.v > 0 AND NOT EXISTS "
    "(SELECT 1 FROM b [RANGE 5 SECONDS] y WHERE y.k = x.k AND y.v > 1)",
    "live_left": "SELECT x.k AS k, count(*) AS n, count(y.v) AS m FROM a [RANGE 4 SECONDS] x LEFT JOIN b [RANGE 2 SECONDS] y "
    "ON x.k = y.k AND y.v > 0 GROUP BY x.k EMIT EVERY 1 SECOND",
    "matched": "EVENT SEQ(1 x, 2 y) FROM e TYPE v PARTITION BY k WITHIN 6 SECONDS RETURN x.k AS k, x.ts AS first, y.ts AS last",
    "unmatched": "EVENT SEQ(0 x, NOT(3 z), 2 y) FROM e TYPE v PARTITION BY k WITHIN 8 SECONDS RETURN x.k AS k, x.ts AS first, y.ts AS last",
    "bid": "SELECT i.k AS k, i.v AS iv, b.v AS bv FROM items i, bids b WHERE i.k = b.k AND b.v > 1",
    "bid_too": "SELECT i.k AS k, i.v AS iv, b.v AS bv FROM items i, bids b WHERE i.k = b.k AND i.v > 0",
    "sold_for": "SELECT i.k AS k, count(*) AS n, max(b.v) AS price FROM items i, bids b "
    "WHERE i.k = b.k AND b.v > 0 GROUP BY i.k EMIT ON CLOSE",
    "unsold": "SELECT i.k AS k, i.v AS iv, b.v AS bv FROM items i LEFT JOIN bids b ON i.k = b.k AND b.v > 2",
    "unioned": "SELECT k, v AS x FROM a WHERE v > 1 UNION ALL SELECT k, v FROM b WHERE v < 2",
}

#: Queries whose results are changes that come at the ends of epochs: what they make in the end is compared.
TABLES = {"changing": ("k",), "ranked": ("k", "v", "w")}
#: Queries that can tell which values are finished.
ANNOUNCING = (
    "filtered",
    "pair",
    "pair_too",
    "pair_all",
    "itself",
    "last_rows",
    "as_of",
    "derived",
    "bid",
    "bid_too",
    "sold_for",
)

Rows = Mapping[str, pa.Table]


def job_text(
    queries: Sequence[str] = tuple(QUERIES), settings: Mapping[str, object] | None = None, folder: str = "."
) -> str:
    wishes = dict(settings or {})
    own: dict[str, dict[str, object]] = {name: {} for name in queries}
    for name in [name for name in wishes if "." in name]:
        query, setting = name.split(".")
        own.get(query, {})[setting] = wishes.pop(name)
    if str(wishes.get("plan")).startswith("("):
        # A tree is one for the query that has its references.
        own.get("three", {})["plan"] = wishes.pop("plan")
    if "propagate" in wishes:
        for name in {*ANNOUNCING} & {*queries}:
            own[name]["propagate"] = wishes["propagate"]
        del wishes["propagate"]
    options = "".join(f"SET {name} = '{value}';\n" for name, value in wishes.items())
    said = {name: ", ".join(f"{setting} = '{value}'" for setting, value in mine.items()) for name, mine in own.items()}
    made = (
        f"CREATE QUERY {name}{f' WITH ({said[name]})' if said[name] else ''} AS {QUERIES[name]};\n" for name in queries
    )
    return options + STREAMS.replace("{folder}", folder) + "".join(made)


def random_epochs(rng: Random, rows: int = 160, epochs: int = 8) -> list[Rows]:
    """Rows of all streams in epochs; the lateness that streams declare is used, not exceeded."""
    found: dict[str, list[tuple[int, ...]]] = {name: [] for name in ("a", "b", "c", "items", "bids", "e", "asks")}
    closes: dict[int, int] = {}
    now, item = 0, 0
    parts: list[dict[str, list[tuple[int, ...]]]] = []
    for _ in range(epochs):
        for _ in range(rows // epochs):
            now += rng.choice((0, 0, 1, 1, 2, 4)) * SECOND // 4
            name = rng.choice("aaabbbccceeeeibbq")
            k, v = rng.randint(0, 3), rng.randint(0, 3)
            if name == "i":
                closes[item] = now + rng.randint(1, 12) * SECOND
                found["items"].append((item, v, closes[item], now))
                item += 1
            elif name == "q":
                found["asks"].append((len(found["asks"]), k, now))
            else:
                k = k // 2 if name == "e" else k
                found[name].append(
                    (k, v, now - (rng.randint(0, 7) * SECOND // 4 if name == "a" else 0) if now > 2 * SECOND else now)
                )
            if closes and rng.random() < 0.4:
                open_now = [k for k, at in closes.items() if at > now]
                if open_now:
                    found["bids"].append((rng.choice(open_now), rng.randint(0, 4), now))
        parts.append(found)
        found = {name: [] for name in found}
    return [{name: _table(name, rows) for name, rows in part.items() if rows} for part in parts]


def _table(name: str, rows: Sequence[tuple[int, ...]]) -> pa.Table:
    columns = {"items": "k v closes ts", "asks": "id k ts"}.get(name, "k v ts").split()
    kinds = {"ts": pa.timestamp("us"), "closes": pa.timestamp("us"), "id": pa.int64()}
    return pa.table({c: pa.array([row[i] for row in rows], kinds.get(c, pa.int32())) for i, c in enumerate(columns)})


class Life:
    """A job whose pipeline is written down after every epoch and opened again, under other settings, where it is asked
    to."""

    def __init__(self, settings: Mapping[str, object] | None = None, queries: Sequence[str] = tuple(QUERIES)) -> None:
        self.queries = queries
        self.blocks: dict[str, pa.Table] = {}
        self.found: dict[str, list[pa.Table]] = {}
        self.dead: dict[str, list[pa.Table]] = {}
        self.header: str | None = None
        self.open(settings)

    def open(self, settings: Mapping[str, object] | None = None, queries: Sequence[str] | None = None) -> None:
        self.queries = self.queries if queries is None else queries
        job = bind_script(job_text(self.queries, settings))
        self.pipeline = Pipeline(job.streams, job.settings)
        self.splitting = Splitting(job.streams)
        self.pipeline.add_table(job.catalog.tables["names"], NAMES)
        header = None if self.header is None else json.loads(self.header)
        if header is not None:
            pass_on(
                header,
                {name for query in job.queries for name in (query.name, *(maker.name for maker in query.makers))},
            )
        known = {} if header is None else saved_queries(header)
        for query in job.queries:
            if header is None:
                self.pipeline.add_query(query)
            elif query.name in known:
                self.pipeline.add_query(query, known[query.name]["start"], known[query.name]["slot"], known)
        if header is not None:
            restore(self.pipeline, header, self.blocks.__getitem__)
            for query in job.queries:
                if query.name not in known:
                    newest = self.pipeline.newest(query)
                    assert newest is not None
                    self.pipeline.add_query(query, newest)

    def step(self, rows: Rows, closing: bool = False) -> None:
        arrivals = {}
        for name, table in rows.items():
            kept, records, _ = self.splitting.split(self.pipeline.intakes[name].stream, table, [])
            arrivals[name] = Arrival(kept, records=tuple(records))
        made = self.pipeline.step(Epoch(arrivals, closing=closing))
        for name, tables in made.results.items():
            self.found.setdefault(name, []).extend(tables)
        for name, tables in made.dead.items():
            self.dead.setdefault(name, []).extend(tables)

    def save(self) -> None:
        taken = take_snapshot(self.pipeline)
        self.header = json.dumps(taken.header)
        self.blocks = {
            name: self.blocks[name] if name in self.blocks else block() for name, block in taken.blocks.items()
        }


def lived(
    epochs: Sequence[Rows], settings: Sequence[Mapping[str, object]], queries: Sequence[str] = tuple(QUERIES)
) -> Life:
    """The job over some epochs, before each of which it is opened again if its settings are other ones than before."""
    life = Life(settings[0], queries)
    for number, rows in enumerate(epochs):
        if number and settings[number] is not settings[number - 1]:
            life.save()
            life.open(settings[number])
        life.step(rows)
    life.step({}, closing=True)
    return life


def answers(tables: Mapping[str, Sequence[pa.Table]]) -> dict[str, Any]:
    """Per query its results as a multiset, or, for changes at the ends of epochs, the table that they make."""
    found: dict[str, Any] = {}
    for name, made in tables.items():
        rows = plain_rows(made)
        if name in TABLES:
            table: dict[tuple[Any, ...], Any] = {}
            for row in rows:
                key = tuple(row[column] for column in TABLES[name])
                kept = {column: value for column, value in row.items() if column not in ("_op", "_ts")}
                if row["_op"] == "+":
                    table[key] = kept
                else:
                    table.pop(key, None)
            found[name] = table
        else:
            found[name] = Counter(tuple(row.items()) for row in rows)
    return found


def differing(found: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    lines = []
    for name in sorted({*found, *right}):
        one, other = found.get(name), right.get(name)
        if one != other and (one or other):
            if isinstance(one, Counter) and isinstance(other, Counter):
                lines.append(
                    f"{name}: missing {list((other - one).elements())[:3]}, extra {list((one - other).elements())[:3]}"
                )
            else:
                lines.append(f"{name}: {one} should be {other}")
    return lines
