"""EMIT EVERY: all instants of an epoch together give what one instant after the other gives, to the last bit."""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.model.datatypes import BIGINT, BOOLEAN, DOUBLE, STRING, DataType
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Expression, Literal
from eddyline.model.query import Emit, OutputColumn
from eddyline.operators.aggregate.aggregation import Aggregation
from eddyline.operators.aggregate.config import AggregateConfig
from eddyline.operators.aggregate.contributions import Batch
from eddyline.operators.aggregate.instants import DueInstants, changes_at
from eddyline.operators.expressions.evaluate import Issues

PERIOD = 10
KEY, WHOLE, FLOAT, TEXT = (
    ColumnRef("s", name, kind) for name, kind in (("k", BIGINT), ("n", BIGINT), ("x", DOUBLE), ("t", STRING))
)

FUNCTIONS: list[tuple[str, Expression | None, bool, DataType]] = [
    ("count", None, False, BIGINT),
    ("count", WHOLE, False, BIGINT),
    ("sum", WHOLE, False, BIGINT),
    ("sum", FLOAT, False, DOUBLE),
    ("avg", FLOAT, False, DOUBLE),
    ("stddev", FLOAT, False, DOUBLE),
    ("min", TEXT, False, STRING),
    ("max", FLOAT, False, DOUBLE),
    ("count", TEXT, True, BIGINT),
    ("sum", FLOAT, True, DOUBLE),
    ("sum", WHOLE, True, BIGINT),
]


def aggregation(queues: int, grouped: bool, having: bool) -> Aggregation:
    outputs = [OutputColumn(f"o{at}", Aggregate(*function)) for at, function in enumerate(FUNCTIONS)]
    above = Call(">", (Aggregate("count", None, False, BIGINT), Literal(1, BIGINT)), BOOLEAN)
    keys = (KEY,) if grouped else ()
    if grouped:
        outputs.insert(0, OutputColumn("k", KEY))
    return Aggregation(AggregateConfig(tuple(outputs), keys, above if having else None, Emit("every", PERIOD), queues))


def drawn(rng: Random, rows: int, first: int, queues: int, made: Aggregation, huge: bool) -> Batch:
    """Combinations at ascending times from `first` on; each leaves every queue some time after it has come."""
    clock = np.sort(np.array([first + rng.randrange(60) for _ in range(rows)], np.int64))
    large = (1e150, 1e100) if huge else (2.5, 3.5)
    nullable = {
        WHOLE: pa.array([rng.choice([None, rng.randrange(5)]) for _ in range(rows)], pa.int64()),
        FLOAT: pa.array([rng.choice([None, 0.1, *large, rng.random()]) for _ in range(rows)], pa.float64()),
        TEXT: pa.array([rng.choice([None, "a", "b", "ab"]) for _ in range(rows)], pa.string()),
    }  # fmt: skip
    pairs = [made.encoder.encode(nullable[e], e.type) for e in made.layout.arguments]  # type: ignore[index]
    keys = [pa.array([rng.randrange(4) for _ in range(rows)], pa.int64())] if made.groups is not None else []
    groups = made.encoder.encode_rows(keys, [BIGINT] * len(keys), rows)
    leaving = [clock + np.array([rng.randrange(40) for _ in range(rows)], np.int64) for _ in range(queues)]
    return Batch(clock, groups, [encoded for encoded, _ in pairs], [valid for _, valid in pairs], leaving)


def at_or_after(instants: np.ndarray, first: int) -> np.ndarray:
    return np.maximum(-(-instants // PERIOD) * PERIOD, first)


def one_by_one(made: Aggregation, batch: Batch, due: list[int], queues: int, issues: Issues) -> list[pa.Table]:
    tables = []
    for now in due:
        low, high = np.searchsorted(batch.clock, [now - PERIOD, now], side="right")
        made.enter(batch.take(slice(low, high)))
        made.leave([now] * queues)
        tables.append(made.changes(now, issues))
    return [table for table in tables if table is not None]


def in_order(table: pa.Table, huge: bool) -> list[str]:
    """The rows by instant, those of groups that are gone first; as text, in which NaN equals itself.

    Deviations of huge values are left out: they have lost digits that depend on the order of additions, about 1e-100 of
    the values.
    """
    rows = (tuple(row.values()) for row in (table.drop_columns("o5") if huge else table).to_pylist())
    return [repr(row) for row in sorted(rows, key=lambda row: (row[-1], row[-2] != "-", repr(row)))]


@pytest.mark.parametrize("huge", [False, True])
@pytest.mark.parametrize("having", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("queues", [0, 1, 2])
def test_all_instants_at_once_are_one_after_the_other(queues: int, grouped: bool, having: bool, huge: bool) -> None:
    rng = Random(17)
    single, whole = aggregation(queues, grouped, having), aggregation(queues, grouped, having)
    issues, changes = Issues(), 0
    for epoch in range(30):
        first = epoch * 60 + 1
        last = first + 59
        seed = rng.randrange(1 << 30)
        rows = rng.choice([0, 3, 40])
        one, other = (drawn(Random(seed), rows, first, queues, made, huge) for made in (single, whole))
        wanted = one_by_one(single, one, list(range(first + PERIOD - 1, last + 1, PERIOD)), queues, issues)
        instants = [partial(lambda keys, first: at_or_after(keys + 1, first), first=first + PERIOD - 1)] * queues
        opening = first + PERIOD - 1 if epoch == 0 else None
        due = DueInstants([last] * queues, instants)
        found = changes_at(whole, other, at_or_after(other.clock, first), due, opening, issues)
        if found is None:
            assert not wanted
        else:
            assert in_order(found, huge) == in_order(pa.concat_tables(wanted), huge)
            assert [row["_ts"] for row in found.to_pylist()] == [
                row["_ts"] for table in wanted for row in table.to_pylist()
            ]
            changes += len(found)
        assert whole.totals.tolist() == single.totals.tolist() or grouped
    assert changes > 50
    if grouped:
        assert single.groups is not None and whole.groups is not None and single.groups.held == whole.groups.held
    if single.contributions is not None and whole.contributions is not None:
        assert single.contributions.held == whole.contributions.held


def test_a_doubtful_sum_inside_an_epoch_is_computed_anew() -> None:
    made = aggregation(1, False, False)
    values = pa.array([1e300, 1e150, 1.5, 1e-200, 0.25])
    clock = np.array([1, 1, 2, 2, 25], np.int64)
    arguments = {WHOLE: pa.nulls(5, pa.int64()), FLOAT: values, TEXT: pa.nulls(5, pa.string())}
    pairs = [made.encoder.encode(arguments[e], e.type) for e in made.layout.arguments]  # type: ignore[index]
    leaving = [np.array([12, 12, 35, 35, 45], np.int64)]
    batch = Batch(clock, np.zeros((5, 1), np.int64), [w for w, _ in pairs], [v for _, v in pairs], leaving)
    due = DueInstants([50], [lambda keys: at_or_after(keys + 1, 10)])
    found = changes_at(made, batch, at_or_after(clock, 10), due, None, Issues())
    assert found is not None
    assert found.column("o3").to_pylist() == [1e300, 1.5, 1.75, 0.25, None]
