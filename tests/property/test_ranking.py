"""QUALIFY and ORDER BY … LIMIT: any stream, any epochs, with restarts, and on shards: the tables of the oracle at every
instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from eddyline import Session
from tests.oracle.ranking import Row, apply, first, followed, groups_at, key, live_rows, window_groups
from tests.property.compare import plain_rows
from tests.property.embedded import run_embedded
from tests.property.specs import Case, StreamSpec, arrow_table
from tests.property.test_aggregates import Blocks, restarted
from tests.property.texts import TextQuery
from tests.seeds import cases, first_seed, is_whole
from tests.spark.sharded import run_sharded
from tests.spark.simulated import run_simulated

BLOCK = 12
BLOCKS = cases(4, soak=5)
FIRST = first_seed(2_100_000)
SECOND = 1_000_000
COLUMNS = (("k", "INT"), ("v", "INT"), ("ts", "TIMESTAMP"))
Streams = dict[str, list[Row]]
#: The table at an instant.
Table = Callable[[Streams, int], Counter]


def arrivals(rng: Random) -> tuple[Any, ...]:
    rows: dict[str, list[tuple[int | None, int | None, int]]] = {"a": [], "b": []}
    now = rng.choice((0, -20)) * SECOND
    for _ in range(rng.randint(0, 30)):
        now += rng.choice((0, 0, 1, 1, 2, 5)) * SECOND
        rows[rng.choice("aab")].append((rng.choice((0, 1, 1, None)), rng.choice((0, 1, 2, 3, None)), now))
    count = rng.randint(1, 5)
    return tuple(
        tuple((s, tuple(r[len(r) * n // count : len(r) * (n + 1) // count])) for s, r in rows.items())
        for n in range(count)
    )


def rows_query(rng: Random, emit: str) -> tuple[str, Table, tuple[str, ...]]:
    """Rows of one stream, in a window of theirs."""
    window = rng.choice((("all", 0), ("range", rng.randint(1, 6) * SECOND), ("rows", rng.randint(1, 6))))
    written = {"all": "", "range": f" [RANGE {window[1] // SECOND} SECONDS]", "rows": f" [ROWS {window[1]}]"}[window[0]]
    down, nulls, keyed = rng.random() < 0.5, rng.random() < 0.3, rng.random() < 0.7
    most = rng.randint(1, 3)
    order = f"v{' DESC' * down}{' NULLS FIRST' * nulls}"
    if emit == "limit":
        text, keyed = f"SELECT k, v, ts AS at FROM a{written} ORDER BY {order} LIMIT {most} EMIT EVERY 3 SECONDS", False
    else:
        over = f"ROW_NUMBER() OVER ({'PARTITION BY k ' * keyed}ORDER BY {order})"
        numbered = rng.random() < 0.3
        selected = f"{over} AS place, k, v, ts AS at" if numbered else "k, v, ts AS at"
        text = f"SELECT {selected} FROM a{written} QUALIFY {over} <= {most} {emit}"

    def table(streams: Streams, now: int) -> Counter:
        live = live_rows(streams["a"], window, now)
        found = first(((row[0] if keyed else 0, (key(row[1], down, nulls), row[3]), row) for row in live), most)
        return Counter(((n,) if "place" in text else ()) + row[:3] for n, row in found)

    return text, table, (("place",) if "place" in text else ()) + ("k", "v", "at")


def join_query(rng: Random, emit: str) -> tuple[str, Table, tuple[str, ...]]:
    """Combinations of two streams; of equal ones the older newest row is first, then the older other rows."""
    most = rng.randint(1, 3)
    text = (
        "SELECT a.k AS k, a.ts AS one, b.ts AS other FROM a [RANGE 4 SECONDS], b [RANGE 6 SECONDS] WHERE a.k = b.k "
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY a.k ORDER BY a.v) <= {most} {emit}"
    )

    def table(streams: Streams, now: int) -> Counter:
        pairs = [
            (x, y)
            for x in live_rows(streams["a"], ("range", 4 * SECOND), now)
            for y in live_rows(streams["b"], ("range", 6 * SECOND), now)
            if x[0] is not None and x[0] == y[0]
        ]
        newest = lambda x, y: max((x[2], 0, x[3]), (y[2], 1, y[3]))
        found = first(((x[0], (key(x[1]), newest(x, y), x[3], y[3]), (x, y)) for x, y in pairs), most)
        return Counter((x[0], x[2], y[2]) for _, (x, y) in found)

    return text, table, ("k", "one", "other")


def groups_query(rng: Random, emit: str) -> tuple[str, Table, tuple[str, ...]]:
    """Groups of live rows: of equal ones the one with the oldest row, then the smaller k."""
    most = rng.randint(1, 2)
    by_sum = rng.random() < 0.5
    order = "total NULLS FIRST" if by_sum else "n DESC"
    head = "SELECT k, count(*) AS n, sum(v) AS total FROM a [RANGE 5 SECONDS] GROUP BY k"
    text = f"{head} QUALIFY ROW_NUMBER() OVER (ORDER BY {order}) <= {most} {emit}"

    def table(streams: Streams, now: int) -> Counter:
        groups = groups_at(live_rows(streams["a"], ("range", 5 * SECOND), now))
        ranked = lambda g: (key(g[2], nulls_first=True) if by_sum else -g[1], g[3], key(g[0]))
        return Counter(g[:3] for _, g in first(((0, ranked(g), g) for g in groups), most))

    return text, table, ("k", "n", "total")


def windows_query(rng: Random, emit: str) -> tuple[str, Table, tuple[str, ...]]:
    """Groups of windows: those that have passed stand."""
    kind = rng.choice(("tumble", "hop", "cumulate"))
    step = rng.randint(1, 4) * SECOND
    spans = [step] if kind == "tumble" else [step, step * rng.randint(1, 3)]
    written = ", ".join(f"'{span} us'" for span in spans)
    most = rng.randint(1, 2)
    head = f"SELECT window_end, k, count(*) AS n, sum(v) AS total FROM a GROUP BY {kind.upper()}(ts, {written}), k"
    if emit in ("limit", "") and rng.random() < 0.5:
        text = f"{head} ORDER BY n DESC LIMIT {most}"
    else:
        text = f"{head} QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC) <= {most} {emit if emit != 'limit' else ''}"

    def table(streams: Streams, now: int) -> Counter:
        groups = window_groups(streams["a"], kind, spans, now)
        if "EMIT" not in text:
            groups = [g for g in groups if g[0] <= now + 1]
        return Counter(g[:4] for _, g in first(((g[0], (-g[2], g[4], g[0], key(g[1])), g) for g in groups), most))

    return text, table, ("window_end", "k", "n", "total")


def closing_rows(rng: Random, emit: str) -> tuple[str, Table, tuple[str, ...]]:
    """Rows of a window that is over, once."""
    most, span = rng.randint(1, 3), rng.randint(1, 5) * SECOND
    limited = rng.random() < 0.4
    over = f"QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, k ORDER BY v DESC) <= {most}"
    over = f"ORDER BY v DESC LIMIT {most}" if limited else over
    text = f"SELECT window_end, k, v, ts AS at FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), '{span} us')) {over}"

    def table(streams: Streams, now: int) -> Counter:
        rows = [((row[2] // span + 1) * span, row) for row in streams["a"] if (row[2] // span + 1) * span <= now + 1]
        found = first(
            (((end, 0 if limited else row[0]), (key(row[1], True), row[3]), (end, *row[:3])) for end, row in rows), most
        )
        return Counter(row for _, row in found)

    return text, table, ("window_end", "k", "v", "at")


KINDS = (rows_query, rows_query, join_query, groups_query, windows_query, windows_query, closing_rows)


def instants(case: Case, text: str) -> list[int]:
    """The last instants before the frontiers of a query, or those of EMIT EVERY."""
    read = [s for s in "ab" if f" {s} " in f"{text} ".replace(",", " ").replace("(", " ").replace("TABLE a", " a ")]
    seen: dict[str, int] = {}
    found: list[int] = []
    for epoch in case.arrivals:
        for stream, rows in epoch:
            if rows and stream in read:
                seen[stream] = max(row[2] for row in rows)
        if len(seen) == len(read):
            found.append(min(seen.values()) - 1)
    times = sorted(row[2] for epoch in case.arrivals for stream, rows in epoch if stream in read for row in rows)
    if not times:
        return []
    if "EVERY" in text:
        period = 3 * SECOND
        return list(range(-(-times[0] // period) * period, times[-1] + 1, period))
    return [*found, times[-1]]


def check(case: Case, wanted: list[tuple[str, Table, tuple[str, ...]]], outcome: Any) -> None:
    streams: Streams = {"a": [], "b": []}
    for epoch in case.arrivals:
        for stream, rows in epoch:
            streams[stream] += [(*row, len(streams[stream]) + at) for at, row in enumerate(rows)]
    for number, (text, table, columns) in enumerate(wanted):
        changes = outcome.results[f"q{number}"]
        assert [c["_ts"] for c in changes] == sorted(c["_ts"] for c in changes), text
        for now in instants(case, text):
            found = apply(changes, now, lambda change: tuple(change[name] for name in columns))  # noqa: B023
            assert found == table(streams, now), f"{text} at {now}"


def on_shards(case: Case, shards: int, seed: int) -> Any:
    """Shards alone, or a job on them whose driver dies now and then."""
    return run_sharded(case, shards, seed) if seed % 3 else run_simulated(case, shards, Random(seed), 0.4)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_embedded_and_sharded(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)
        wanted = []
        for _ in range(3):
            kind = rng.choice(KINDS)
            emits = ("", "EMIT ON CHANGE", "EMIT EVERY 3 SECONDS") + (
                ("limit",) if kind in (rows_query, windows_query) else ()
            )
            wanted.append(kind(rng, rng.choice(emits)))
        queries = tuple(TextQuery(f"q{number}", text) for number, (text, _, _) in enumerate(wanted))
        case = Case(tuple(StreamSpec(name, COLUMNS) for name in "ab"), queries, arrivals(rng))  # type: ignore[arg-type]
        blocks = Blocks()
        between = (lambda session, blocks=blocks: restarted(session, blocks)) if rng.random() < 0.5 else None
        check(case, wanted, run_embedded(case, between))
        check(case, wanted, on_shards(case, rng.choice((1, 2, 3)), seed))


@pytest.mark.parametrize("block", range(cases(2)))
def test_rows_know_earlier_rows(block: int) -> None:
    for seed in range(FIRST + 1000 + block * 15, FIRST + 1000 + (block + 1) * 15):
        rng = Random(seed)
        keyed, distance, otherwise = rng.random() < 0.7, rng.randint(1, 4), rng.choice((None, 9))
        over = f"OVER ({'PARTITION BY k ' * keyed}ORDER BY ts)"
        lag = f"lag(v, {distance}{'' if otherwise is None else f', {otherwise}'})"
        where = rng.choice(("", " WHERE v IS NULL OR v <> 2"))
        text = f"SELECT k, v, {lag} {over} AS l, first_value(v) {over} AS f, last_value(v) {over} AS o, "
        text += f"CAST(lag(CAST(v AS STRING)) {over} AS INT) AS t FROM a{where}"
        source = f"SELECT k, l AS v FROM ({text}) i"
        queries = (
            TextQuery("q", text),
            TextQuery("nested", f"SELECT k, v, lag(v) OVER (PARTITION BY k) AS l FROM ({source}) j"),
        )
        case = Case(tuple(StreamSpec(name, COLUMNS) for name in "ab"), queries, arrivals(rng))  # type: ignore[arg-type]
        rows = [row for epoch in case.arrivals for stream, part in epoch if stream == "a" for row in part]
        given = [(*row, at) for at, row in enumerate(rows) if not where or row[1] != 2]
        lags = followed(given, "lag", keyed, distance, otherwise)
        columns = [[row[0] for row in given], [row[1] for row in given], lags, followed(given, "first_value", keyed)]
        columns += [followed(given, "last_value", keyed), followed(given, "lag", keyed), [row[2] for row in given]]
        again = [(row[0], lagged, row[2], row[3]) for row, lagged in zip(given, lags, strict=True)]
        nested = list(zip([r[0] for r in again], [r[1] for r in again], followed(again, "lag", True), strict=True))
        blocks = Blocks()
        between = (lambda session, blocks=blocks: restarted(session, blocks)) if rng.random() < 0.5 else None
        for outcome in (run_embedded(case, between), on_shards(case, rng.choice((1, 2, 3)), seed)):
            found = [tuple(r[name] for name in ("k", "v", "l", "f", "o", "t", "_ts")) for r in outcome.results["q"]]
            assert found == list(zip(*columns, strict=True)), f"{seed}: {text}"
            assert [(r["k"], r["v"], r["l"]) for r in outcome.results["nested"]] == nested


def test_a_query_that_comes_and_goes_sees_its_own_rows() -> None:
    """Rows after its start and up to its stop: nothing older counts, although other queries hold it."""
    compared = 0
    for seed in range(FIRST + 3000, FIRST + 3000 + cases(25)):
        rng = Random(seed)
        wanted = [
            rng.choice((rows_query, groups_query))(rng, rng.choice(("", "EMIT EVERY 3 SECONDS"))) for _ in range(2)
        ]
        epochs = [rows for epoch in arrivals(rng) for stream, rows in epoch if stream == "a"]
        added = rng.randrange(len(epochs))
        dropped = rng.randrange(added, len(epochs) + 1)
        spec = StreamSpec("a", COLUMNS)
        with Session() as session:
            session.execute(spec.statement())
            session.execute(
                "CREATE QUERY all_rows AS SELECT k, v FROM a [RANGE 20 SECONDS] QUALIFY ROW_NUMBER() OVER (ORDER BY v) <= 1"
            )
            for number, rows in enumerate(epochs):
                if number == added:
                    for at, (text, _, _) in enumerate(wanted):
                        session.execute(f"CREATE QUERY q{at} AS {text}")
                    session.execute("CREATE QUERY steps AS SELECT v, lag(v) OVER (PARTITION BY k) AS l FROM a")
                session.push("a", arrow_table(COLUMNS, rows))
                session.step()
                if number == dropped:
                    queries = {name: session.queries[name] for name in ("q0", "q1", "steps")}
                    for name in queries:
                        session.execute(f"DROP QUERY {name}")
            session.run(once=True, final=False)
            if dropped == len(epochs):
                queries = {name: session.queries[name] for name in ("q0", "q1", "steps")}
            results = {name: plain_rows(query.results()) for name, query in queries.items()}
            start, stop = queries["q0"].start, queries["q0"].stop
        numbered = [(*row, at) for at, row in enumerate(row for rows in epochs for row in rows)]
        if dropped < len(epochs) and stop is None:
            # It was dropped before the first row came.
            assert not any(results.values()), seed
            continue
        seen = [row for row in numbered if (start is None or row[2] > start) and (stop is None or row[2] <= stop)]
        assert [(r["v"], r["l"]) for r in results["steps"]] == list(
            zip([row[1] for row in seen], followed(seen, "lag", True), strict=True)
        ), seed
        last = stop if stop is not None else max((row[2] for row in numbered), default=0)
        for at, (text, table, columns) in enumerate(wanted):
            now = last // (3 * SECOND) * 3 * SECOND if "EVERY" in text else last
            if start is not None and now <= start:
                continue
            found = apply(results[f"q{at}"], now, lambda change: tuple(change[name] for name in columns))  # noqa: B023
            assert found == table({"a": seen, "b": []}, now), f"{seed}: {text} at {now}"
            compared += sum(found.values())
    assert compared > 20 or not is_whole()


def test_lists_are_those_of_the_live_rows() -> None:
    for seed in range(FIRST + 2000, FIRST + 2000 + cases(20)):
        rng = Random(seed)
        window = rng.choice((("all", 0), ("range", 4 * SECOND), ("rows", 5)))
        written = {"all": "", "range": " [RANGE 4 SECONDS]", "rows": " [ROWS 5]"}[window[0]]
        lists = "array_agg(v) AS held, array_agg(CAST(v AS STRING)) FILTER (WHERE v > 0 OR v IS NULL) AS some"
        lists += ", string_agg(CAST(v AS STRING), '/') AS text"
        text = f"SELECT k, {lists} FROM a{written} GROUP BY k {rng.choice(('', 'EMIT EVERY 3 SECONDS'))}"
        case = Case(tuple(StreamSpec(name, COLUMNS) for name in "ab"), (TextQuery("q", text),), arrivals(rng))  # type: ignore[arg-type]
        rows = [row for epoch in case.arrivals for stream, part in epoch if stream == "a" for row in part]
        numbered = [(*row, at) for at, row in enumerate(rows)]
        blocks = Blocks()
        for outcome in (
            run_embedded(case, lambda session, blocks=blocks: restarted(session, blocks)),
            on_shards(case, rng.choice((1, 2)), seed),
        ):
            for now in instants(case, text):
                table: dict[Any, Any] = {}
                for change in outcome.results["q"]:
                    if change["_ts"] <= now:
                        table.pop(change["k"], None)
                        if change["_op"] == "+":
                            table[change["k"]] = (change["held"], change["some"], change["text"])
                right: dict[Any, Any] = {}
                for k in {row[0] for row in live_rows(numbered, window, now)}:
                    values = [row[1] for row in live_rows(numbered, window, now) if row[0] == k]
                    some = [None if v is None else str(v) for v in values if v is None or v > 0]
                    right[k] = (
                        values,
                        some or None,
                        "/".join(str(v) for v in values if v is not None) if set(values) - {None} else None,
                    )
                assert table == right, f"{seed}: {text} at {now}"


def test_rows_beyond_the_first_ones_are_not_kept() -> None:
    rows = tuple((n % 3, n, n * SECOND) for n in range(60))
    query = TextQuery("q", "SELECT k, v FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) <= 2")
    case = Case((StreamSpec("a", COLUMNS),), (query,), tuple((("a", rows[n : n + 10]),) for n in range(0, 60, 10)))  # type: ignore[arg-type]
    held: list[int] = []
    run_embedded(case, lambda session: held.append(session.pipeline.queries["q"].state.ranked.rows.held))
    assert max(held) <= 6
