"""Random worlds: rows of three streams, what is promised of them, requests to a template, and queries of every kind
that come and go.

Answer   `random_world(seed)` draws one. Most worlds keep their promises; some break them, and the rows that do are dead
         letters.
Limits   Some forty rows and a handful of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from eddyline.errors import EddylineError
from eddyline.language import Job, bind_script
from eddyline.language.parse import parse_script
from tests.property.world_model import ASKS, Item, World
from tests.property.world_queries import COLUMNS, DRAWN, STREAMS, random_queries

SECOND = 1_000_000
LARGEST = Decimal("9" * 34 + "." + "9" * 4)
MONEY = (
    LARGEST,
    LARGEST,
    LARGEST.copy_negate(),
    Decimal("0.0001"),
    Decimal("-0.0001"),
    Decimal("123.4567"),
    Decimal("0.0000"),
    None,
)
TEMPLATE = (
    "SELECT k, j, count(*) AS n, sum(v) AS total, sum(d) AS money, max(x) AS top FROM a [{}] WHERE v <> 3 GROUP BY k, j"
)
#: A row on its way: its stream and its values by column.
Coming = tuple[str, dict[str, Any]]


def random_world(seed: int) -> World:
    rng = Random(seed)
    late, promised = rng.random() < 0.15, rng.random() < 0.65
    lies = promised and rng.random() < 0.3
    lateness = tuple(rng.choice((0, 0, 0, 2 * SECOND)) for _ in STREAMS)
    coming = _rows(rng, dict(zip(STREAMS, lateness, strict=True)), late)
    before, options = [], ["", "", ""]
    if promised:
        before, options = _promises(rng, coming, lies)
    if rng.random() < 0.4:
        before += _template(rng, coming)
    made, queries = random_queries(rng, {s for s, o in zip(STREAMS, options, strict=True) if "punctuation" in o})
    world = World(seed, lateness, tuple(options), (), (), (), late, promised)
    job = bind_script(";\n".join(world.declarations()))
    world = replace(world, before=tuple(statement for statement in [*before, *made] if _binds(job, statement)))
    columns = {"asks": [name for name, _ in ASKS]}
    items = [
        Item(0, "row", s, tuple(row.get(c) for c in columns.get(s, [n for n, _ in COLUMNS])))
        for s, row in coming
        if s in world.streams
    ]
    world = replace(world, queries=tuple(q for q in queries if _binds(job, q.statement)))
    for query in world.queries:
        added = rng.randint(0, len(items)) if rng.random() < 0.35 else 0
        if added:
            items.insert(added, Item(0, "add", query.name))
        if rng.random() < 0.2:
            items.insert(rng.randint(added + 1, max(added + 1, len(items))), Item(0, "drop", query.name))
    return replace(world, flow=tuple(replace(item, uid=uid) for uid, item in enumerate(items)))


def _binds(job: Job, statement: str) -> bool:
    try:
        for parsed in parse_script(statement):
            job.apply(parsed)
    except EddylineError:
        return False
    return True


# -- rows


def _rows(rng: Random, lateness: dict[str, int], late: bool) -> list[Coming]:
    """The rows of all streams in the order in which they arrive."""
    now = rng.choice((0, 0, -20, 1_700_000_000)) * SECOND
    bad = 0.06 if rng.random() < 0.2 else 0.0
    steps = rng.choice(((0, 1, 1, 2), (0, 0, 0, 1), (0, 1, 4)))
    found: list[tuple[int, Coming]] = []
    for number in range(rng.randint(8, 45)):
        now += rng.choice(steps) * SECOND + (rng.choice((1, 500_000)) if rng.random() < 0.05 else 0)
        stream = rng.choice(STREAMS)
        row: dict[str, Any] = {c.name: c.draw(rng) for c in DRAWN}
        row |= {"id": number, "type": rng.choice("AABBCDEF") if rng.random() > 0.03 else None, "d": rng.choice(MONEY)}
        row["ts"] = None if rng.random() < bad else now
        delay = rng.randint(0, lateness[stream] // SECOND) * SECOND
        if late and rng.random() < 0.12:
            delay += lateness[stream] + rng.randint(1, 10) * SECOND
        found.append((now + delay, (stream, row)))
    return [coming for _, coming in sorted(found, key=lambda one: one[0])]


# -- promises


def _time(ts: int) -> str:
    return f"TIMESTAMP '{datetime(1970, 1, 1) + timedelta(microseconds=ts)}'"


def _times(
    coming: Sequence[Coming], stream: str, such: Callable[[dict[str, Any]], bool] = lambda row: True
) -> list[int]:
    return [row["ts"] for s, row in coming if s == stream and row["ts"] is not None and such(row)]


def _promises(rng: Random, coming: list[Coming], lies: bool) -> tuple[list[str], list[str]]:
    """Statements with promises and options of streams; promises as rows are put among those that come."""
    before = []
    options = {s: [", remember = '100000 days'"] for s in STREAMS}
    for stream in STREAMS:
        if rng.random() < 0.3:
            options[stream].append(", key = 'id'")
            mine = [row for s, row in coming if s == stream]
            if lies and len(mine) > 1:
                mine[-1]["id"] = mine[0]["id"]
        if rng.random() < 0.3:
            value, earliest = rng.randrange(4), 0
            times = _times(coming, stream, lambda row: row["k"] == value)  # noqa: B023
            earliest = rng.choice(_times(coming, stream) or [0]) if lies else max(times, default=0)
            before.append(f"PUNCTUATE {stream} WHERE k = {value} AT {_time(earliest + rng.choice((0, 0, 3)) * SECOND)}")
        if rng.random() < 0.15:
            condition = "v >= 1" if lies else "id >= 0"
            at = rng.choice(_times(coming, stream) or [0])
            before.append(f"HERALD {stream} WHERE {condition} FOR {rng.randint(1, 5)} SECONDS AT {_time(at)}")
    if rng.random() < 0.4:
        source, target = rng.sample(STREAMS, 2)
        _closing_times(rng, coming, source, target, lies)
        before.append(f"CREATE PUNCTUATION p ON {target} (k) FROM {source} (k) AT closes")
        options[target].append("")
    for stream in STREAMS:
        if rng.random() < 0.6:
            options[stream].append(", punctuation = 'done'")
            for _ in range(rng.randint(1, 6)):
                _mark(rng, coming, stream, lies)
            for _ in range(rng.choice((0, 0, 1, 3))):
                _heartbeat(rng, coming, stream)
        if rng.random() < 0.25:
            options[stream].append(", herald = 'note'")
            for _ in range(rng.randint(1, 3)):
                _herald(rng, coming, stream, lies)
    return before, ["".join(options[s]) for s in STREAMS]


def _closing_times(rng: Random, coming: list[Coming], source: str, target: str, lies: bool) -> None:
    """When the key of a row is closed in another stream: also before the row's own time."""
    for stream, row in coming:
        if stream == source and row["ts"] is not None and rng.random() < 0.8:
            key = row["k"]
            last = max(_times(coming, target, lambda other: other["k"] == key), default=None)  # noqa: B023
            drawn = row["ts"] + rng.randint(-6, 6) * SECOND
            row["closes"] = drawn if lies or last is None else max(last, drawn)


def _insert(rng: Random, coming: list[Coming], stream: str, after: int, row: dict[str, Any]) -> None:
    """A line among the rows of a stream, behind a place, at the newest time that the stream has there."""
    at = rng.randint(after, len(coming))
    newest = max(_times(coming[:at], stream), default=None)
    if newest is not None:
        coming.insert(at, (stream, {**row, "ts": newest}))


def _mark(rng: Random, coming: list[Coming], stream: str, lies: bool) -> None:
    value, other = rng.randrange(4), rng.randrange(3)
    text, such = rng.choice(
        (
            (f"k = {value}", lambda row: row["k"] == value),
            (f"k = {value}", lambda row: row["k"] == value),
            (f"k IN ({value}, {value + 1})", lambda row: row["k"] in (value, value + 1)),
            (f"k <= {other}", lambda row: row["k"] is not None and row["k"] <= other),
            ("k IS NULL", lambda row: row["k"] is None),
            (f"k = {value} AND j = {other}", lambda row: row["k"] == value and row["j"] == other),
            (f"j = {other}", lambda row: row["j"] == other),
        )
    )
    last = max(
        (
            at
            for at, (s, row) in enumerate(coming)
            if s == stream and "done" not in row and "note" not in row and such(row)
        ),
        default=-1,
    )
    _insert(rng, coming, stream, 0 if lies else last + 1, {"done": text})


def _heartbeat(rng: Random, coming: list[Coming], stream: str) -> None:
    """No older row comes; often the last line of a stream, further on than its newest row."""
    at = len(coming) if rng.random() < 0.5 else rng.randint(0, len(coming))
    before, after = _times(coming[:at], stream), _times(coming[at:], stream)
    if before:
        reached = min(after) - 1 if after else max(before) + rng.choice((0, 1, 7)) * SECOND
        coming.insert(at, (stream, {"done": f"ts <= {_time(reached)}", "ts": max(before)}))


def _herald(rng: Random, coming: list[Coming], stream: str, lies: bool) -> None:
    condition = rng.choice(("v >= 1 AND v < 4", "k = 1", "u = 'p'")) if lies else "id >= 0 AND id < 1000000"
    span = rng.choice(("2 ROWS", "5 ROWS", "3 SECONDS"))
    _insert(rng, coming, stream, 0, {"note": f"{condition} FOR {span}"})


# -- requests


def _template(rng: Random, coming: list[Coming]) -> list[str]:
    window, longest = rng.choice((("RANGE 5 SECONDS", 5 * SECOND), ("RANGE 0 SECONDS", 0), ("ROWS 4", 4)))
    index = rng.choice(("", "", ", index = 'scan'", ", index = 'hash(k)'", ", index = 'imp(2, 1)'"))
    times = [row["ts"] for _, row in coming if row["ts"] is not None]
    ts = min(times, default=0)
    for number in range(rng.randint(1, 8)):
        ts += rng.choice((0, 1, 1, 5)) * SECOND
        asked = {"id": number, "k": rng.choice((None, 0, 1, 2)), "j": rng.choice((None, None, 1)), "ts": ts}
        asked |= {
            "span": rng.choice((None, longest, max(longest // 2, 1 if longest == 4 else 0))),
            "what": rng.choice((None, "k", "j", "k, j", "")),
        }
        place = sum(1 for at in times if at <= ts)
        coming.insert(min(place + number, len(coming)), ("asks", asked))
    declared = ", ".join(f"{name} {kind}" for name, kind in ASKS)
    return [
        f"CREATE TEMPLATE t WITH (bits = {rng.choice((0, 3, 9))}{index}, history = '3 seconds') AS {TEMPLATE.format(window)}",
        f"CREATE REQUESTS asks ({declared}) FOR t WITH (time = 'ts', window = 'span', group_by = 'what')",
    ]
