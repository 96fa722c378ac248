"""Group windows: any stream, any epochs, with restarts, and on shards: the windows of the oracle, each once."""

from __future__ import annotations

from random import Random

import pytest

from eddyline.session import Session
from tests.oracle.group_windows import closed, last_instant
from tests.property.embedded import run_embedded
from tests.property.specs import Case, StreamSpec, maybe_ended
from tests.property.test_aggregates import Blocks, restarted
from tests.property.texts import TextQuery
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

BLOCK = 20
BLOCKS = cases(4)
FIRST = first_seed(1_900_000)
UNITS = (1, 1_000_000)
NAMES = {"tumble": "TUMBLE", "hop": "HOP", "cumulate": "CUMULATE", "session": "SESSION"}


def spans_of(rng: Random, kind: str, unit: int) -> list[int]:
    step = rng.randint(1, 6) * unit
    if kind == "tumble":
        return [step] + ([rng.randint(0, 10) * unit] if rng.random() < 0.3 else [])
    return [step] if kind == "session" else [step, step * rng.randint(1, 4)]


#: Kind, spans, whether k is a grouping column, and the columns of the window that are selected.
Wanted = tuple[str, list[int], bool, str]


def text_of(rng: Random, kind: str, spans: list[int]) -> tuple[str, Wanted]:
    """A query, as a grouping expression or by Flink's table functions."""
    written = ", ".join(rng.choice(("INTERVAL '{} microseconds'", "'{} us'")).format(span) for span in spans)
    keyed = rng.random() < 0.7
    shown = rng.choice(
        ("window_start, window_end", "window_start", "window_end")
        if kind != "cumulate"
        else ("window_start, window_end", "window_end")
    )
    values = "count(*) AS n, sum(v) AS total, array_agg(v) AS held"
    head, k = f"SELECT {shown}{', k' * keyed}, {values} FROM", ", k" * keyed
    if rng.random() < 0.3:
        part = " PARTITION BY k" * (keyed and kind == "session")
        text = f"{head} TABLE({NAMES[kind]}(TABLE s{part}, DESCRIPTOR(ts), {written})) GROUP BY {shown}{k}"
    else:
        text = f"{head} s GROUP BY {NAMES[kind]}(ts, {written}){k}"
    return text, (kind, spans, keyed, shown)


def case_of(rng: Random) -> tuple[Case, list[Wanted]]:
    unit = rng.choice(UNITS)
    ts = rng.choice((0, -40 * unit, 1_700_000_000_000_000))
    rows = []
    for _ in range(rng.randint(0, 40)):
        ts += rng.choice((0, 0, 1, 1, 2, 3, 9)) * unit
        rows.append((rng.choice(("a", "b", None)), rng.choice((1, 2, 5, None)), ts))
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(0, 6)))
    epochs = tuple((("s", tuple(rows[a:b])),) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True))
    queries, wanted = [], []
    for number in range(4):
        kind = rng.choice(list(NAMES))
        text, one = text_of(rng, kind, spans_of(rng, kind, unit))
        queries.append(TextQuery(f"q{number}", text))
        wanted.append(one)
    stream = StreamSpec("s", (("k", "STRING"), ("v", "INT"), ("ts", "TIMESTAMP")), "ts")
    return Case((stream,), tuple(queries), epochs), wanted  # type: ignore[arg-type]


def check(case: Case, wanted: list[Wanted], outcome) -> None:
    rows = [row for epoch in case.arrivals for _, part in epoch for row in part]
    frontier = 10**18 if case.final else max((ts for _, _, ts in rows), default=-(10**18)) + 1
    for number, (kind, spans, keyed, shown) in enumerate(wanted):
        given = rows if keyed else [(None, v, ts) for _, v, ts in rows]
        expected = closed(kind, spans, given, frontier)
        found = outcome.results[f"q{number}"]
        columns = [at for at, name in enumerate(("window_start", "window_end")) if name in shown]
        plain = [
            (*(r[name] for name in shown.split(", ")), r.get("k"), r["n"], r["total"], tuple(r["held"]), r["_ts"])
            for r in found
        ]
        right = [(*(w[at] for at in columns), *w[2:], last_instant(kind, w[1])) for w in expected]
        assert sorted(plain, key=str) == sorted(right, key=str), case.queries[number].text
        assert [r["_ts"] for r in found] == sorted(r["_ts"] for r in found)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_embedded_and_sharded(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)
        case, wanted = case_of(rng)
        blocks = Blocks()
        between = (lambda session: restarted(session, blocks)) if rng.random() < 0.5 else None  # noqa: B023
        ended = maybe_ended(case, seed)
        check(ended, wanted, run_embedded(ended, between))
        check(case, wanted, run_sharded(case, rng.choice((1, 2, 3)), seed))


def test_a_session_ends_a_gap_after_its_last_row() -> None:
    """Gap 5: a row at 9 continues the session whose last row was at 4, a row at 15 does not.

    ts   1  4  9         15
         [───────────14] [────────20]
    """
    rows = tuple(("a", 1, ts) for ts in (1, 4, 9, 15, 30))
    query = TextQuery("q", "SELECT window_start, window_end, count(*) AS n FROM s GROUP BY SESSION(ts, '5 us')")
    stream = StreamSpec("s", (("k", "STRING"), ("v", "INT"), ("ts", "TIMESTAMP")), "ts")
    case = Case((stream,), (query,), ((("s", rows),),))  # type: ignore[arg-type]
    found = [
        tuple(r[name] for name in ("window_start", "window_end", "n", "_ts")) for r in run_embedded(case).results["q"]
    ]
    assert found == [(1, 14, 3, 14), (15, 20, 1, 20)]


def test_tumble_of_a_join_is_the_bucket_of_its_reference() -> None:
    """A window of a join closes like the bucket that has the same value."""
    for seed in range(FIRST, FIRST + cases(15)):
        rng = Random(seed)
        times = sorted(rng.randint(0, 60) for _ in range(30))
        rows = [(rng.choice(("x", "y")), rng.randint(0, 3), ts * 1_000_000) for ts in times]
        cuts = sorted(rng.sample(range(31), 3))
        epochs = []
        for a, b in zip([0, *cuts], [*cuts, 30], strict=True):
            epochs.append(tuple((name, tuple((v, ts) for k, v, ts in rows[a:b] if k == name)) for name in ("x", "y")))
        columns = (("v", "INT"), ("ts", "TIMESTAMP"))
        tail = "FROM x [RANGE 7 SECONDS], y [RANGE 4 SECONDS] WHERE x.v = y.v GROUP BY"
        queries = (
            TextQuery("w", f"SELECT window_start AS b, count(*) AS n {tail} TUMBLE(x.ts, '5 seconds')"),
            TextQuery("b", f"SELECT epoch_us(x.ts) // 5000000 AS b, count(*) AS n {tail} 1 EMIT ON CLOSE"),
        )
        case = Case((StreamSpec("x", columns), StreamSpec("y", columns)), queries, tuple(epochs))  # type: ignore[arg-type]
        outcome = run_embedded(case)
        assert [(r["b"] // 5_000_000, r["n"], r["_ts"]) for r in outcome.results["w"]] == [
            (r["b"], r["n"], r["_ts"]) for r in outcome.results["b"]
        ]


def test_changes_of_a_window_stand_when_it_has_passed() -> None:
    rows = tuple(("a", 1, ts * 1_000_000) for ts in (1, 2, 11, 12, 25))
    for emit in ("EMIT ON CHANGE", "EMIT EVERY 1 SECOND"):
        query = TextQuery("q", f"SELECT window_end, count(*) AS n FROM s GROUP BY TUMBLE(ts, '10 seconds') {emit}")
        stream = StreamSpec("s", (("k", "STRING"), ("v", "INT"), ("ts", "TIMESTAMP")), "ts")
        case = Case((stream,), (query,), tuple((("s", (row,)),) for row in rows))  # type: ignore[arg-type]
        held: list[int] = []

        def look(session: Session, held: list[int] = held) -> None:
            held.append(len(session.pipeline.queries["q"].aggregation.groups.live()))

        outcome = run_embedded(case, look)
        table = {r["window_end"] // 1_000_000: r["n"] for r in outcome.results["q"]}
        assert table == {10: 2, 20: 2, 30: 1} and all(r["_op"] == "+" for r in outcome.results["q"])
        assert max(held) <= 2
