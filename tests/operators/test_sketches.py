"""Approximate aggregates: within their documented errors, in parts, after a restart, and exact where rows leave."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.model.datatypes import BIGINT
from eddyline.model.expressions.arranged import approximate
from eddyline.model.expressions.expression import ColumnRef
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder
from eddyline.operators.aggregate.accumulators.kinds import accumulator_of
from eddyline.operators.aggregate.config import Family
from eddyline.operators.expressions.vectors import Issues
from tests import needs
from tests.property.test_aggregates import Blocks, restarted

ROWS = 60_000


@pytest.fixture(autouse=True)
def _needed() -> None:
    needs.sketches()


START = datetime(2024, 1, 1)


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 30_000, ROWS)
    times = [START + timedelta(milliseconds=n) for n in range(ROWS)]
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 3, ROWS)),
            "v": pa.array(values),
            "w": pa.array(values).cast(pa.string()),
            "ts": times,
        }
    )


TEXT = """CREATE STREAM s (k BIGINT, v BIGINT, w STRING, ts TIMESTAMP) WITH (time = 'ts', format = 'memory');
CREATE QUERY lasting AS SELECT k, approx_count_distinct(w) AS n, approx_quantile(v, 0.9) AS q FROM s GROUP BY k;
CREATE QUERY leaving AS SELECT k, approx_count_distinct(w) AS n, approx_quantile(v, 0.9) AS q FROM s [RANGE 20 SECONDS] GROUP BY k;
CREATE QUERY every AS SELECT k, approx_count_distinct(w) AS n, approx_quantile(v, 0.9) AS q FROM s GROUP BY k EMIT EVERY 60 SECONDS"""


def test_errors_are_within_their_bounds() -> None:
    given = rows(1)
    with Session() as session:
        session.execute(TEXT)
        blocks = Blocks()
        for begin in range(0, ROWS, 15_000):
            session.push("s", given.slice(begin, 15_000))
            session.step()
            restarted(session, blocks)
        session.run(once=True)
        answers = {
            name: {r["k"]: r for r in session.queries[name].table().to_pylist()}
            for name in ("lasting", "leaving", "every")
        }
    keys, values = np.asarray(given.column("k")), np.asarray(given.column("v"))
    for key in range(3):
        mine = np.sort(values[keys == key])
        found = answers["lasting"][key]
        assert abs(found["n"] / len(np.unique(mine)) - 1) < 0.08
        assert abs(np.searchsorted(mine, found["q"]) / len(mine) - 0.9) < 0.03
        live = np.sort(values[-20_001:][keys[-20_001:] == key])
        assert answers["leaving"][key]["n"] == len(np.unique(live))
        assert answers["leaving"][key]["q"] == live[int(np.ceil(0.9 * len(live))) - 1]


@pytest.mark.parametrize("name", ("approx_count_distinct", "approx_quantile"))
def test_parts_are_merged(name: str) -> None:
    aggregate = approximate(name, ColumnRef("s", "v", BIGINT), 0.5 if name == "approx_quantile" else None)
    family = Family(name, 0, False, aggregate, False)
    assert aggregate.arg is not None
    kept = [accumulator_of(family, aggregate.arg.type, True, encoder := ValueEncoder()) for _ in range(3)]
    values = np.random.default_rng(2).integers(0, 5_000, 20_000)
    column = pa.array(values).cast(aggregate.arg.type.arrow)
    for accumulator, part in zip(kept, (column.slice(0, 10_000), column.slice(10_000)), strict=False):
        accumulator.reserve(2)
        accumulator.add(
            np.ones(len(part), np.int64),
            np.empty(0, np.int64),
            *encoder.encode(part, aggregate.arg.type),
            np.empty(0, np.int64),
        )
    kept[2].reserve(2)
    for accumulator in kept[:2]:
        kept[2].merge(np.array([1]), accumulator.part(np.array([1])))
    answer = kept[2].read(name, np.array([0, 1]), Issues()).to_pylist()
    assert answer[0] in (0, None)
    if name == "approx_quantile":
        assert abs(np.searchsorted(np.sort(values), answer[1]) / len(values) - 0.5) < 0.03
    else:
        assert abs(answer[1] / len(np.unique(values)) - 1) < 0.08
