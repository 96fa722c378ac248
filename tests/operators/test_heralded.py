"""The checker of heralds against rows judged one by one: values of all types, spans of rows and of time, parts of a
stream, stragglers."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.language.records.heralds import herald_texts
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal
from eddyline.model.records.herald import KIND, TEXT
from eddyline.model.records.records import Records
from eddyline.model.schema import Column, Schema, Stream
from eddyline.operators.promises.heralded import Heralded
from eddyline.operators.stream.gate import GateStretch, PlacedRecords

TYPES = {
    "i": INT,
    "l": BIGINT,
    "d": DOUBLE,
    "m": decimal(10, 2),
    "day": DATE,
    "t": STRING,
    "b": BOOLEAN,
    "ts": TIMESTAMP,
}
STREAM = Stream("s", Schema(tuple(Column(name, kind) for name, kind in TYPES.items())), "ts")

#: Values per column, ascending, with how a herald writes them; NaN is above all numbers, -0.0 is 0.0, texts are bytes.
DOUBLES = (-math.inf, -1.5, -0.0, 0.0, 1e-300, 2.5, math.inf, math.nan)
TEXTS = ("", "a", "abcdefgh", "abcdefgh0", "abcdefgh1", "abcdefgi", "é", "\U0001f600")
VALUES: dict[str, tuple[Any, ...]] = {
    "i": (-(2**31), -3, 0, 4, 9, 2**31 - 1),
    "l": (-(2**63), -7, 0, 5, 2**53 + 1, 2**63 - 1),
    "d": DOUBLES,
    "m": tuple(Decimal(text) for text in ("-99999999.99", "-0.01", "0.00", "0.10", "12.30", "99999999.99")),
    "day": (date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)),
    "t": TEXTS,
    "b": (False, True),
}


def rank(name: str, value: Any) -> Any:
    """A number that ascends as the values of a column do."""
    if name == "d":
        return (math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return value.encode() if name == "t" else value


def written(name: str, value: Any) -> str:
    if name == "t":
        return "'" + value.replace("'", "''") + "'"
    if name == "day":
        return f"DATE '{value.isoformat()}'"
    if name == "d":
        return f"CAST('{value}' AS DOUBLE)" if not math.isfinite(value) else repr(value)
    return str(value).upper() if name == "b" else str(value)


COMPARED = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def condition(random: Random) -> tuple[str, str, Any]:
    """A condition on one column: its text, the column, and what it says of a value."""
    name = random.choice([*VALUES])
    finite = [
        value
        for value in VALUES[name]
        if not (name == "d" and not math.isfinite(value)) and not (name == "l" and abs(value) == 2**63)
    ]
    kind = random.choice([*COMPARED, "between", "in", "null"])
    if kind == "null":
        return f"{name} IS NULL", name, lambda value: value is None
    chosen = sorted((random.choice(finite) for _ in range(2)), key=lambda value: rank(name, value))
    ranks, texts = [rank(name, value) for value in chosen], [written(name, value) for value in chosen]
    if kind == "between":
        return (
            f"{name} BETWEEN {texts[0]} AND {texts[1]}",
            name,
            lambda v: v is not None and ranks[0] <= rank(name, v) <= ranks[1],
        )
    if kind == "in":
        return f"{name} IN ({texts[0]}, {texts[1]})", name, lambda v: v is not None and rank(name, v) in ranks
    holds = COMPARED[kind]
    return f"{name} {kind} {texts[0]}", name, lambda v: v is not None and holds(rank(name, v), ranks[0])


def rows_of(random: Random, count: int) -> tuple[pa.Table, list[dict[str, Any]]]:
    rows = []
    for _ in range(count):
        near = random.randrange(6)
        rows.append({
            name: None if random.random() < 0.05 else values[(near + random.randrange(2)) % len(values)] for name, values in VALUES.items()
        })  # fmt: skip
    times = sorted(random.randrange(60) for _ in range(count))
    arrays = {name: pa.array([row[name] for row in rows], kind.arrow) for name, kind in TYPES.items() if name != "ts"}
    return pa.table({**arrays, "ts": pa.array(times, pa.timestamp("us"))}), rows


@pytest.mark.parametrize("seed", range(150))
def test_a_stretch_is_judged_as_its_rows_are_one_by_one(seed: int) -> None:
    random = Random(seed)
    checker = Heralded("s", herald_texts(STREAM).many)
    rows_before, frontier = 0, 0
    #: The parts of its condition, the number of the first row beyond its span, and the last instant of it.
    in_force: tuple[list[Any], float, float] | None = None
    for _ in range(4):
        count = random.randrange(0, 40)
        table, rows = rows_of(random, count)
        ts = table.column("ts").cast(pa.int64()).to_numpy() + frontier
        # A part of the stream: rows that are elsewhere count too.
        place = (
            np.array(sorted(random.sample(range(2 * count + 1), count)), np.int64) if random.random() < 0.4 else None
        )
        places = np.arange(count) if place is None else place
        total = count if place is None else 2 * count + 1
        heralds: list[tuple[int, int, int, str, list[Any], float, float]] = []
        for serial in range(random.randrange(0, 5)):
            before = random.randrange(count + 1)
            at = int(ts[before - 1]) if before else frontier
            parts = [condition(random) for _ in range(random.randrange(1, 3))]
            span = random.choice((1, 3, 30, 2**30))
            in_rows = random.random() < 0.5
            text = " AND ".join(part[0] for part in parts) + f" FOR {span} {'ROWS' if in_rows else 'MICROSECONDS'}"
            here = int(places[before - 1]) + 1 if before else 0
            until = (rows_before + here + span, math.inf) if in_rows else (math.inf, at + span)
            heralds.append((here, before, serial, text, parts, *until))
        heralds.sort(key=lambda one: (one[1], one[2]))
        batches = []
        if heralds:
            at = [int(ts[h[1] - 1]) if h[1] else frontier for h in heralds]
            records = Records(
                "s", KIND, np.array(at), np.arange(len(heralds)), pa.table({TEXT: [h[3] for h in heralds]})
            )
            batches.append(PlacedRecords(records, np.array([h[1] for h in heralds]), np.array([h[0] for h in heralds])))
        wanted = []
        for number, row in enumerate(rows):
            passed = [h for h in heralds if h[1] <= number]
            if passed:
                in_force = passed[-1][4:]
            covers = in_force is not None and rows_before + places[number] < in_force[1] and ts[number] <= in_force[2]
            if covers and not all(holds(row[name]) for _, name, holds in in_force[0]):
                wanted.append(number)
        if heralds:
            in_force = heralds[-1][4:]
        frontier += 60
        passing = GateStretch(table, ts, np.arange(count), None, place, total, rows_before, batches, frontier)
        verdict = checker.check(passing, np.zeros(count, np.bool_))
        rows_before += total
        assert ([] if verdict is None else np.flatnonzero(verdict.dead).tolist()) == wanted
        assert verdict is None or len(verdict.reasons) == len(wanted)
        if random.random() < 0.3:
            state, _ = checker.snapshot()
            checker = Heralded("s", herald_texts(STREAM).many)
            checker.restore(state, lambda name: pa.table({}))


def test_a_straggler_below_the_place_of_the_herald_is_not_in_its_span() -> None:
    checker = Heralded("s", herald_texts(STREAM).many)
    table, _ = rows_of(Random(1), 3)
    said = Records.one("s", KIND, 100, {TEXT: "i IS NULL FOR 1 HOUR"})
    placed = PlacedRecords(said, np.array([0]), np.array([0]))
    empty = GateStretch(
        table.slice(0, 0), np.empty(0, np.int64), np.empty(0, np.int64), None, None, 0, 0, [placed], 200
    )
    assert checker.check(empty, np.zeros(0, np.bool_)) is None and checker.in_force is not None
    table = table.set_column(0, "i", pa.array([1, 2, 3], pa.int32()))
    passing = GateStretch(table, np.array([90, 100, 101]), np.arange(3), None, None, 3, 0, [], 200, straggling=True)
    verdict = checker.check(passing, np.zeros(3, np.bool_))
    assert verdict is not None and verdict.dead.tolist() == [False, False, True]
    assert verdict.reasons.to_pylist() == ["violation: herald i IS NULL FOR 1 HOUR"]


def test_a_span_beyond_the_last_instant_has_no_end() -> None:
    checker = Heralded("s", herald_texts(STREAM).many)
    last = 2**63 - 10
    placed = PlacedRecords(Records.one("s", KIND, last, {TEXT: "i = 1 FOR 300000 DAYS"}), np.array([0]), np.array([0]))
    table, _ = rows_of(Random(1), 2)
    table = table.set_column(0, "i", pa.array([1, 2], pa.int32()))
    passing = GateStretch(table, np.array([last, 2**63 - 2]), np.arange(2), None, None, 2, 0, [placed], 2**63 - 1)
    verdict = checker.check(passing, np.zeros(2, np.bool_))
    assert verdict is not None and verdict.dead.tolist() == [False, True]


def test_only_a_herald_in_force_is_written_down() -> None:
    checker = Heralded("s", herald_texts(STREAM).many)
    placed = PlacedRecords(Records.one("s", KIND, 0, {TEXT: "i IS NULL FOR 4 ROWS"}), np.array([0]), np.array([0]))
    table, _ = rows_of(Random(1), 3)
    table = table.set_column(0, "i", pa.nulls(3, pa.int32()))
    ts = np.array([0, 1, 2])
    for before, records, state in (
        (0, [placed], {"text": "i IS NULL FOR 4 ROWS", "since": 0, "until_row": 4, "until": None}),
        (3, [], None),
    ):
        passing = GateStretch(table, ts, np.arange(3), None, None, 3, before, list(records), before + 3)
        assert checker.check(passing, np.zeros(3, np.bool_)) is None and checker.snapshot() == (state, {})
