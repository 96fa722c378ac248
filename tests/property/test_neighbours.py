"""What becomes of a value never depends on its neighbours: alone, in pairs and in batches it has the same outcome.

Values are pushed as Python objects, and as far as a format has them they come from JSON and CSV files too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import pandas
import pyarrow as pa
import pytest

from eddyline.connectors.base import Chunk
from eddyline.connectors.files.files import open_source
from eddyline.connectors.memory import MemorySource
from eddyline.model.datatypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    DataType,
    array,
    decimal,
    struct,
)
from eddyline.model.schema import Column, Schema, Stream
from tests.property.expression_values import POOLS
from tests.seeds import cases, first_seed

KINDS: tuple[DataType, ...] = (
    BOOLEAN,
    INT,
    BIGINT,
    DOUBLE,
    STRING,
    DATE,
    TIMESTAMP,
    decimal(10, 2),
    decimal(38, 10),
    array(BIGINT),
    array(TIMESTAMP),
    struct([("a", BIGINT), ("b", array(DOUBLE)), ("t", TIMESTAMP)]),
)
UNITS = (None, "s", "ms", "us", "ns")
NOON = datetime(2024, 1, 1, 12)
#: Values of types that no pool has.
OTHERS: list[object] = [
    None,
    True,
    10**20,
    -(10**80),
    1_700_000_000,
    1.7e9,
    NOON,
    NOON.replace(tzinfo=UTC),
    NOON.replace(tzinfo=timezone(timedelta(hours=-5, minutes=30))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    date(2024, 1, 1),
    time(10, 30),
    timedelta(seconds=3),
    Decimal("1E+5"),
    Decimal("1.5"),
    Decimal("1.50"),
    Decimal("1e-50"),
    Decimal("1e400"),
    Decimal("NaN"),
    Decimal("123456789012345678901234567890123456789.125"),
    b"7",
    b"\xff",
    "\ud800",
    np.int16(3),
    np.float32(0.1),
    np.bool_(True),
    np.datetime64("2024-01-01T00:00:00.123456789"),
    pandas.Timestamp(NOON),
    pandas.Timestamp("2024-01-01 00:00:00.123456789"),
    pandas.NaT,
    {},
    [],
]


def value_of(rng: Random, depth: int = 0) -> object:
    choice = rng.random()
    if depth < 2 and choice < 0.12:
        return [value_of(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if depth < 2 and choice < 0.24:
        return {rng.choice("abtAx"): value_of(rng, depth + 1) for _ in range(rng.randint(0, 3))}
    return rng.choice(OTHERS if choice < 0.5 else POOLS[rng.choice(list(POOLS))])


def outcomes(chunk: Chunk | None, count: int) -> list[str]:
    """Per row, in order: its value, or what its dead letter says."""
    assert chunk is not None
    found: dict[int, str] = {n: shown(v) for n, v in zip(chunk.rows["n"].to_pylist(), chunk.rows["v"], strict=True)}
    for row in [] if chunk.bad is None else chunk.bad.to_pylist():
        found[int(row["n"])] = f"{row['v']!r}: {row['_reason'].partition('column ')[2]}"
    return [found[n] for n in range(count)]


def shown(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except OverflowError:
        return str(value.cast(pa.int64())) if pa.types.is_timestamp(value.type) else "a time that Python does not have"


def schema_of(kind: DataType, unit: str | None) -> Schema:
    return Schema((Column("n", BIGINT), Column("v", kind), Column("ts", TIMESTAMP)), unit)


def pushed(values: Sequence[object], kind: DataType, unit: str | None) -> list[str]:
    source = MemorySource(Stream("s", schema_of(kind, unit), "ts"))
    source.push([(n, value, NOON) for n, value in enumerate(values)])
    return outcomes(source.read(len(values)), len(values))


def groups(rng: Random, count: int) -> list[list[int]]:
    """Alone, in pairs, and in batches: each value several times."""
    batches = [sorted(rng.sample(range(count), rng.randint(3, count))) for _ in range(3)]
    return (
        [[n] for n in range(count)] + [rng.sample(range(count), 2) for _ in range(count)] + batches + [[*range(count)]]
    )


@pytest.mark.parametrize("seed", range(first_seed(7_700_000), first_seed(7_700_000) + cases(40, soak=400)))
def test_pushed_values_have_their_outcome_whatever_is_pushed_with_them(seed: int) -> None:
    rng = Random(seed)
    kind, unit = rng.choice(KINDS), rng.choice(UNITS)
    values = [value_of(rng) for _ in range(24)]
    alone = [pushed([value], kind, unit)[0] for value in values]
    for group in groups(rng, len(values)):
        found = pushed([values[n] for n in group], kind, unit)
        assert found == [alone[n] for n in group], (kind, unit, [values[n] for n in group])


def test_arrow_has_the_same_outcome_as_python() -> None:
    """A column of one type of Arrow, and its values as objects."""
    rng = Random(first_seed(7_710_000))
    for kind in KINDS[:9]:
        for source in list(POOLS)[:8]:
            column = pa.array(rng.choices(POOLS[source], k=8), source.arrow)
            stream = MemorySource(Stream("s", schema_of(kind, None), "ts"))
            stream.push(pa.table({"n": list(range(8)), "v": column, "ts": [NOON] * 8}))
            assert outcomes(stream.read(8), 8) == pushed(column.to_pylist(), kind, None), (source, kind)


@pytest.mark.parametrize("seed", range(first_seed(7_720_000), first_seed(7_720_000) + cases(12, soak=100)))
def test_values_of_files_have_their_outcome_whatever_stands_beside_them(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    kind, unit, form = rng.choice(KINDS), rng.choice(UNITS), rng.choice(("jsonl", "csv"))
    simple: list[object] = [
        None,
        True,
        0,
        5,
        5.0,
        -1,
        1_700_000_000,
        2**63,
        1e300,
        "7",
        "x",
        "true",
        "2024-01-01",
        [1],
        {"a": 1},
    ]
    values = [rng.choice((*simple, *POOLS[STRING])) for _ in range(12)]

    def read(group: Sequence[int], place: Path) -> list[str]:
        place.mkdir()
        with open(place / f"a.{form}", "w", newline="") as file:
            if form == "csv":
                file.write("n,v,ts\n")
            for n, value in enumerate(values[m] for m in group):
                if form == "jsonl":
                    file.write(json.dumps({"n": n, "v": value, "ts": "2024-01-01"}) + "\n")
                else:
                    text = "" if value is None else '"' + str(value).replace('"', '""').replace("\n", " ") + '"'
                    file.write(f"{n},{text},2024-01-01\n")
        stream = Stream("s", schema_of(kind, unit), "ts", options={"format": form, "path": str(place)})
        source = open_source(stream)
        try:
            return outcomes(source.read(100), len(group))
        finally:
            source.close()

    alone = [read([n], tmp_path / f"alone-{n}")[0] for n in range(len(values))]
    for at, group in enumerate(groups(rng, len(values))[len(values) :]):
        found = read(group, tmp_path / f"group-{at}")
        assert found == [alone[n] for n in group], (form, kind, unit, [values[n] for n in group])
