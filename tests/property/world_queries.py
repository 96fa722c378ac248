"""The queries of a random world: what the other suites draw, over the same three streams.

Answer   `random_queries(rng, punctuated)` has statements that make derived streams, and queries: of the oracle, and as
         text.
Limits   Texts that the binder refuses are left out by the world.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.property import patterns
from tests.property.conditions import Column, Domain
from tests.property.outer import OuterSpec, TreeSpec, _outer, _tree
from tests.property.specs import Case, QuerySpec, StreamSpec
from tests.property.strategies import SECOND, Source, _judged, _query
from tests.property.test_closed_outer import random_joins
from tests.property.test_composition import INNER, KEPT, MIDDLE, TOP
from tests.property.test_group_windows import NAMES, spans_of, text_of
from tests.property.test_latest import TABLES
from tests.property.test_ranking import KINDS

STREAMS = ("a", "b", "c")
#: Columns that random conditions read; `NULLS` are drawn rarely in each.
_DRAWN = (
    Column("k", "INT", Domain("number", (0, 1, 2, 3), 0.08)),
    Column("j", "INT", Domain("number", (0, 1, 2), 0.0)),
    Column("v", "INT", Domain("number", (0, 1, 2, 3, 4), 0.1)),
    Column("x", "DOUBLE", Domain("real", (0.25, -1.5, 0.0, 2.0, 1e9 + 0.5), 0.1)),
    Column("u", "STRING", Domain("text", ("p", "q", ""), 0.1)),
)
COLUMNS = (
    ("id", "BIGINT"),
    *((c.name, c.type) for c in _DRAWN),
    ("type", "STRING"),
    ("d", "DECIMAL(38, 4)"),
    ("closes", "TIMESTAMP"),
    ("done", "STRING"),
    ("note", "STRING"),
    ("ts", "TIMESTAMP"),
)
SOURCES = {name: Source(StreamSpec(name, COLUMNS), _DRAWN) for name in STREAMS}
DRAWN = _DRAWN

#: Aggregates over one reference `a` with every kind of accumulator.
_MONEY = (
    "sum(d)",
    "avg(d)",
    "min(d)",
    "max(d)",
    "sum(x)",
    "avg(v)",
    "stddev(v)",
    "count(DISTINCT v)",
    "avg(k)",
    "arg_max(d, v)",
    "sum(d - 1)",
)
_FROM = (
    "{s} [RANGE {n} SECONDS] a",
    "{s} [ROWS {n}] a",
    "{s} [PARTITION BY k ROWS {n}] a",
    "{s} a",
    "{s} [RANGE {n} SECONDS] a, {t} [RANGE 3 SECONDS] b WHERE a.k = b.k",
    "{s} [ROWS {n}] a, {t} [RANGE 3 SECONDS] b WHERE a.k = b.k AND b.v > 0",
    "{s} [RANGE {n} SECONDS] a LEFT JOIN {t} [RANGE 2 SECONDS] b ON a.k = b.k",
    "{s} a JOIN {t} b ON a.k = b.k",
)
#: Texts over the streams; those that need promises are refused where there are none.
_TEXTS = (
    "SELECT a.id AS i, b.id AS y FROM {s} [ROWS {n}] a, {t} [PARTITION BY k ROWS {n}] b WHERE a.k = b.k AND a.v > 1",
    "SELECT a.id AS i, b.id AS y FROM {s} a, {t} b WHERE a.k = b.k AND b.v < 4 AND a.x > 0",
    "SELECT a.id AS i, b.id AS y, c.id AS z FROM {s} [RANGE {n} SECONDS] a, {t} [ROWS 5] b, {r} [RANGE 3 SECONDS] c "
    "WHERE a.k = b.k AND b.j = c.j AND c.v >= 1",
    "SELECT a.k AS g, count(*) AS n, sum(b.d) AS m FROM {s} a, {t} b WHERE a.k = b.k GROUP BY a.k EMIT ON CLOSE",
    "SELECT k AS g, count(*) AS n, avg(d) AS m FROM {s} GROUP BY k EMIT ON CLOSE",
    "SELECT a.id AS i, b.id AS y FROM {s} a LEFT JOIN {t} b ON a.k = b.k",
    "SELECT a.id AS i, b.id AS y FROM {s} a FULL JOIN {t} b ON a.k = b.k AND b.v > 0",
    "SELECT id AS i FROM {s} a WHERE NOT EXISTS (SELECT 1 FROM {t} b WHERE b.k = a.k AND b.v > 1)",
    "SELECT id AS i, k, v FROM {s} a WHERE EXISTS (SELECT 1 FROM {t} [RANGE {n} SECONDS] b WHERE b.k = a.k)",
    "SELECT a.id AS i, count(b.id) AS n, window_end FROM {s} a LEFT JOIN {t} [RANGE {n} SECONDS] b ON a.k = b.k GROUP "
    "BY TUMBLE(a.ts, '3 seconds'), a.id",
    "SELECT id AS i, v, lag(v) OVER (PARTITION BY k ORDER BY ts) AS w, first_value(id) OVER (PARTITION BY k ORDER BY ts) AS f FROM {s}",
    "SELECT k, string_agg(u, '|') AS t, array_agg(v) AS l FROM {s} [RANGE {n} SECONDS] a GROUP BY k",
    "SELECT window_start, k, j, sum(d) AS m FROM {s} GROUP BY HOP(ts, '2 seconds', '6 seconds'), k, j QUALIFY "
    "ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY m DESC, j) <= 2",
    "SELECT b.id AS i, o.n AS n, o.m AS m FROM {t} b JOIN LATEST (SELECT k, count(*) AS n, sum(d) AS m FROM {s} "
    "[RANGE {n} SECONDS] a GROUP BY k EMIT EVERY 2 SECONDS) o ON b.k = o.k",
    "SELECT k, x, id AS i FROM (SELECT id, k, x, ts FROM {s} WHERE v > 1 UNION ALL SELECT id, j, x, ts FROM {t}) u",
    "SELECT m.k AS k, m.n AS n, c.id AS i FROM (SELECT k, count(*) AS n, window_end FROM {s} GROUP BY TUMBLE(ts, '3 "
    "seconds'), k) m [RANGE 4 SECONDS], {t} [RANGE 4 SECONDS] c WHERE m.k = c.k",
)


@dataclass(frozen=True)
class Asked:
    name: str
    text: str
    #: As the oracle reads it, where it can.
    spec: QuerySpec | OuterSpec | TreeSpec | None = None

    @property
    def statement(self) -> str:
        return f"CREATE QUERY {self.name} AS {self.text}"


def random_queries(rng: Random, punctuated: set[str]) -> tuple[list[str], list[Asked]]:
    """Derived streams that stand from the beginning, and queries."""
    inner, middle = rng.choice(INNER)[0], rng.choice(MIDDLE)
    plain = "SELECT CAST(k AS BIGINT) AS k, CAST(x AS BIGINT) AS x FROM"
    made = [f"CREATE STREAM one AS {plain} ({inner}) o", f"CREATE STREAM two AS {middle.format('one', 'one')}"]
    found = []
    for number in range(rng.randint(3, 8)):
        ways = (
            _of_oracle,
            _of_oracle,
            _kept,
            _aggregate,
            _text,
            _text,
            _text,
            _ranked,
            _chained,
            _windowed,
            _event,
            _closed,
            _latest,
        )
        found.append(rng.choice(ways)(rng, f"q{number}", punctuated))
    return made, found


def _of_oracle(rng: Random, name: str, punctuated: set[str]) -> Asked:
    spec = _query(rng, name, list(SOURCES.values()), rng.choice((1, 2, 2, 3)), SECOND)
    spec = replace(spec, plan="auto", probe="hash", by_set=False)
    spec = _judged(rng, spec, SOURCES) if rng.random() < 0.3 else spec
    return Asked(name, spec.select(), spec)


def _kept(rng: Random, name: str, punctuated: set[str]) -> Asked:
    case = Case(tuple(s.spec for s in SOURCES.values()), (), ())  # type: ignore[misc]
    while True:
        spec = _query(rng, name, list(SOURCES.values()), rng.choice((2, 2, 3)), SECOND)
        if not (spec.group_by or spec.distinct or "Agg(" in repr(spec.outputs)):
            break
    if len(spec.references) == 2:
        outer = _outer(rng, case, spec)
        return Asked(name, outer.select(), replace(outer, nested=False))
    tree = _tree(rng, case, spec)
    return Asked(name, tree.statements()[0].partition(" AS ")[2], tree)


def _aggregate(rng: Random, name: str, punctuated: set[str]) -> Asked:
    source, _, where = _filled(rng, rng.choice(_FROM)).partition(" WHERE ")
    joined = " b" in source
    some = [f"{text} AS m{at}" for at, text in enumerate(rng.sample(_MONEY, rng.randint(1, 3)))]
    if joined:
        for column in ("k", "v", "d", "x"):
            some = [
                text.replace(f"({column}", f"(a.{column}")
                .replace(f"DISTINCT {column}", f"DISTINCT a.{column}")
                .replace(", v)", ", a.v)")
                for text in some
            ]
    key = rng.choice(("a.k", "a.j", "", "a.k, a.u"))
    emit = rng.choice(("", " EMIT EVERY 2 SECONDS", " EMIT EVERY 3 SECONDS"))
    if rng.random() < 0.3:
        key, emit = (
            ", ".join(["TUMBLE(a.ts, '4 seconds')", *([key] if key else [])]),
            rng.choice(("", " EMIT EVERY 2 SECONDS", " EMIT ON CHANGE")),
        )
    keys = (
        [part.strip() for part in key.split(", ")]
        if key and "TUMBLE" not in key
        else [p for p in ("a.k", "a.j", "a.u") if p in key]
    )
    chosen = [
        *(f"{part} AS g{at}" for at, part in enumerate(keys)),
        *some,
        *(["window_end"] if "TUMBLE" in key else []),
    ]
    grouped = f" GROUP BY {key}" if key else ""
    where = f" WHERE {where}" if where else ""
    having = " HAVING count(*) > 1" if key and rng.random() < 0.2 else ""
    return Asked(name, f"SELECT {', '.join(chosen)} FROM {source}{where}{grouped}{having}{emit}")


def _filled(rng: Random, text: str) -> str:
    s, t, r = rng.sample(STREAMS, 3)
    t = s if rng.random() < 0.1 else t
    return text.format(s=s, t=t, r=r, n=rng.randint(1, 5))


def _text(rng: Random, name: str, punctuated: set[str]) -> Asked:
    return Asked(name, _filled(rng, rng.choice(_TEXTS)))


def _ranked(rng: Random, name: str, punctuated: set[str]) -> Asked:
    emit = rng.choice(("EMIT ON CHANGE", "EMIT EVERY 3 SECONDS", "limit", ""))
    return Asked(name, rng.choice(KINDS)(rng, emit)[0])


def _chained(rng: Random, name: str, punctuated: set[str]) -> Asked:
    if rng.random() < 0.3:
        source, alias, _ = rng.choice(KEPT)
        joined, _, where = source.partition(" WHERE ")
        text = f"SELECT {alias}.k AS k, count(*) AS n, sum(a.v) AS s, window_end FROM {joined}{f' WHERE {where}' if where else ''}"
        return Asked(
            name,
            f"{text} GROUP BY TUMBLE({alias}.ts, '4 seconds'), {alias}.k" + rng.choice(("", " EMIT EVERY 1 SECOND")),
        )
    return Asked(name, rng.choice((*TOP, *MIDDLE)).format("two", "one", one="one", two="two"))


def _windowed(rng: Random, name: str, punctuated: set[str]) -> Asked:
    kind = rng.choice(list(NAMES))
    text, _ = text_of(rng, kind, spans_of(rng, kind, SECOND))
    stream = rng.choice(STREAMS)
    return Asked(name, text.replace("TABLE s", f"TABLE {stream}").replace("FROM s ", f"FROM {stream} "))


def _event(rng: Random, name: str, punctuated: set[str]) -> Asked:
    stream = rng.choice(STREAMS)
    book = f"{stream} TYPE type" + rng.choice((" PARTITION BY k", " PARTITION BY k", " PARTITION BY k, u", ""))
    text = patterns.random_query(rng, name, book).text.replace("MICROSECONDS", "SECONDS")
    for number in range(30):
        text = text.replace(f"x{number}.j AS", f"x{number}.id AS")
    return Asked(name, text)


def _closed(rng: Random, name: str, punctuated: set[str]) -> Asked:
    return Asked(name, random_joins(rng, punctuated)[3])


def _latest(rng: Random, name: str, punctuated: set[str]) -> Asked:
    table, _ = rng.choice(TABLES)
    inner = rng.choice(INNER)[0] if rng.random() < 0.5 else "SELECT k, v AS x FROM a"
    join = f"{rng.choice(('', 'LEFT '))}JOIN LATEST ({table}) t ON s.k = t.k AND t.n < 9"
    return Asked(name, f"SELECT s.k AS k, s.x AS x, t.n AS n FROM ({inner}) s {join} WHERE s.x > 0")
