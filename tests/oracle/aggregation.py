"""Aggregates over live combinations, recomputed from nothing at every instant.

Answer   `aggregate(query, combinations)` is the table of groups; `table_at(query, rows, tables, now)` the aggregate at an
         instant; `instants(query, rows, frontiers)` the instants at which changes are emitted; `closed_groups` what
         EMIT ON CLOSE gives; `apply_changelog(changes, keys, now)` the table that a changelog makes.
Limits   EMIT ON CLOSE over one stream reference (and static tables): for joins the definition of a bucket says less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.oracle.expressions import Agg, Call, Expression, Lit, Value, compiled, evaluate, order_key, substitute, type_of, walk
from tests.oracle.intake import Row, Values
from tests.oracle.relational import Combination, Query, Tables, Unbounded, live

Table = dict[tuple[object, ...], tuple[Value, ...]]
_BUCKET = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}


def is_aggregate(query: Query) -> bool:
    return bool(query.group_by) or query.distinct or any(isinstance(x, Agg) for _, e in query.outputs for x in walk(e))


def grouping(query: Query) -> tuple[Expression, ...]:
    """What rows are grouped by; DISTINCT is GROUP BY all columns."""
    return tuple(e for _, e in query.outputs) if query.distinct else query.group_by


def key_columns(query: Query) -> list[int]:
    """Which output columns are the grouping columns."""
    return [i for i, (_, e) in enumerate(query.outputs) if e in grouping(query)]


def same(value: Value) -> object:
    """Two values are in one group when these are equal: NULL with NULL, NaN with NaN, -0.0 with 0.0."""
    return (type(value).__name__, order_key(value))


def aggregate(query: Query, combinations: Sequence[Combination]) -> Table:
    """The groups that satisfy HAVING, by the values of their grouping columns."""
    by = grouping(query)
    key_of = [compiled(e) for e in by]
    groups: dict[tuple[object, ...], tuple[list[Value], list[Combination]]] = {}
    for combination in combinations:
        values = [e(combination) for e in key_of]
        groups.setdefault(tuple(map(same, values)), (values, []))[1].append(combination)
    if not by:
        groups.setdefault((), ([], []))
    needed = [x for e in (*(e for _, e in query.outputs), query.having) if e is not None for x in walk(e) if isinstance(x, Agg)]
    table: Table = {}
    for values, members in groups.values():
        known = {e: Lit(v, type_of(e)) for e, v in zip(by, values, strict=True)}
        known |= {a: Lit(aggregate_value(a, members), type_of(a)) for a in needed}
        if query.having is not None and evaluate(substitute(query.having, known), {}) is not True:
            continue
        row = tuple(evaluate(substitute(e, known), {}) for _, e in query.outputs)
        table[tuple(same(row[i]) for i in key_columns(query))] = row
    return table


def aggregate_value(a: Agg, members: Sequence[Combination]) -> Value:
    if a.arg is None:
        return len(members)
    value_of = compiled(a.arg)
    values = [v for v in map(value_of, members) if v is not None]
    if a.distinct:
        values = list({same(v): v for v in values}.values())
    if a.function == "COUNT":
        return len(values)
    if not values:
        return None
    if a.function in ("MIN", "MAX"):
        return (min if a.function == "MIN" else max)(values, key=order_key)
    if a.function == "SUM":
        total = _sum(values)
        return total if isinstance(total, float) or -(2**63) <= total < 2**63 else None
    mean = _sum(values) / len(values)
    if a.function == "AVG":
        return mean
    assert a.function == "STDDEV", f"no aggregate {a.function}"
    return math.sqrt(_sum([float(v - mean) ** 2 for v in values]) / (len(values) - 1)) if len(values) > 1 else None


def _sum(values: Sequence[Value]) -> Value:
    if not isinstance(values[0], float):
        return sum(values)
    special = [v for v in values if not math.isfinite(v)]
    return sum(special) if special else math.fsum(values)


def table_at(query: Query, rows: Sequence[Row], tables: Tables | None, now: int) -> Table:
    return aggregate(query, live(query, rows, tables, now))


def instants(query: Query, rows: Sequence[Row], frontiers: Sequence[int | None]) -> list[int]:
    """ON CHANGE: the last instant before the frontier, each time it has moved. EVERY: all multiples of the period from
    the query's first row to the last frontier."""
    if query.emit.kind == "change":
        return sorted({f - 1 for f in frontiers if f is not None})
    assert query.emit.kind == "every", "ON CLOSE has no instants"
    mine = {r.source for r in query.references}
    first = min((r.ts for r in rows if r.stream in mine), default=None)
    last = max((f for f in frontiers if f is not None), default=None)
    if first is None or last is None:
        return []
    period = query.emit.period
    return [k * period for k in range(-(-first // period), (last - 1) // period + 1)]


def bucket(query: Query) -> tuple[Expression, int]:
    """The grouping expression that is a time bucket, and its length."""
    e = next(e for e in query.group_by if isinstance(e, Call) and e.function.startswith("date_trunc:"))
    return e, _BUCKET[e.function.partition(":")[2]]


def closed_groups(
    query: Query, rows: Sequence[Row], tables: Tables | None, frontiers: Sequence[int | None]
) -> list[tuple[int, tuple[Value, ...]]]:
    """(`_ts`, output row) of every group whose bucket lies below the last frontier; all rows of the bucket count."""
    assert sum(1 for r in query.references if r.window is not None) == 1, "ON CLOSE over a join is not the oracle's subject"
    last = max((f for f in frontiers if f is not None), default=None)
    if last is None:
        return []
    expression, length = bucket(query)
    whole = replace(query, references=tuple(replace(r, window=r.window and Unbounded()) for r in query.references))
    begin_of = compiled(expression)
    closed = [c for c in live(whole, rows, tables, last) if begin_of(c) + length <= last]
    place = next(i for i, (_, e) in enumerate(query.outputs) if e == expression)
    return sorted(((row[place] + length - 1, row) for row in aggregate(query, closed).values()), key=lambda g: g[0])


def apply_changelog(changes: Sequence[Values], keys: Sequence[str], now: int) -> dict[tuple[object, ...], Values]:
    """The table that the changes up to `now` make, by grouping values; columns that begin with _ are left out.

    An assertion fails where a change makes no sense: a group that goes without being there, or comes as it was.
    """
    table: dict[tuple[object, ...], Values] = {}
    for change in changes:
        if change["_ts"] > now:
            continue
        key = tuple(same(change[k]) for k in keys)
        row = {name: value for name, value in change.items() if not name.startswith("_")}
        if change["_op"] == "-":
            assert key in table, f"a group goes that is not there: {change}"
            assert all(row[name] is None for name in row if name not in keys), f"a group that goes carries aggregates: {change}"
            del table[key]
        else:
            assert change["_op"] == "+", f"_op is neither + nor -: {change}"
            assert key not in table or not _unchanged(table[key], row), f"a group comes again as it was: {change}"
            table[key] = row
    return table


def _unchanged(before: Mapping[str, Value], after: Mapping[str, Value]) -> bool:
    return all(same(before[name]) == same(after[name]) for name in after)
