"""Functions of one's own in random cases: the same queries, with calls around some of their columns.

`half` has Arrow's arrays and raises for some values, `shout` NumPy's. What they mean row by row is in
`tests/oracle/expressions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.oracle.expressions import Agg, Call, Col, Expression
from tests.property.specs import Case, QuerySpec

FUNCTIONS = (
    "CREATE FUNCTION half(x BIGINT) RETURNS BIGINT AS 'tests.property.functions:half'",
    "CREATE FUNCTION shout(s STRING) RETURNS STRING AS 'tests.property.functions:shout' WITH (arrays = 'numpy')",
)


def half(values: pa.Array) -> pa.Array:
    """Half of each value; a value of the form 8n + 3 has none, and fails together with all that come with it."""
    if pc.any(pc.equal(pc.bit_wise_and(values, 7), 3)).as_py():
        raise ValueError("a value that cannot be halved")
    return pc.shift_right(values, 1)


def shout(texts: np.ndarray) -> np.ndarray:
    return np.array([text + "!" for text in texts], dtype=object)


def with_functions(rng: Random, case: Case) -> Case:
    """The case with calls of functions around some columns of its queries."""
    return replace(case, queries=tuple(_called(rng, case, query) for query in case.queries), before=FUNCTIONS)


def _called(rng: Random, case: Case, query: QuerySpec) -> QuerySpec:
    calls: dict[Col, Expression] = {}
    for reference in query.references:
        for name, kind in case.source(reference.source).columns:
            column = Col(reference.alias, name, kind)
            if kind in ("INT", "BIGINT") and rng.random() < 0.4:
                calls[column] = Call("half", (column,))
            if kind == "STRING" and rng.random() < 0.4:
                calls[column] = Call("shout", (column,))
    return replace(
        query,
        where=tuple(_inside(e, calls) for e in query.where),
        outputs=tuple((name, _inside(e, calls)) for name, e in query.outputs),
        group_by=tuple(_inside(e, calls) for e in query.group_by),
        having=None if query.having is None else _inside(query.having, calls),
    )


def _inside(e: Expression, calls: Mapping[Col, Expression]) -> Expression:
    if isinstance(e, Col):
        return calls.get(e, e)
    if isinstance(e, Agg):
        arg, by = (None if part is None else _inside(part, calls) for part in (e.arg, e.by))
        return replace(e, arg=arg, by=by)
    return Call(e.function, tuple(_inside(a, calls) for a in e.args)) if isinstance(e, Call) else e
