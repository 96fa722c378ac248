"""Aggregates over live combinations, recomputed from nothing at every instant.

Answer   `aggregate(query, combinations)` is the table of groups; `table_at(query, rows, tables, now)` the aggregate at
         an instant; `instants(query, rows, frontiers)` the instants at which changes are emitted; `closed_groups` what
         EMIT ON CLOSE gives; `apply_changelog(changes, keys, now)` the table that a changelog makes.
Limits   Buckets are expressions over one TIMESTAMP column, which is the event time of its reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

from tests.oracle.expressions import (
    Agg,
    Call,
    Col,
    Expression,
    Lit,
    Value,
    compiled,
    evaluate,
    order_key,
    substitute,
    type_of,
    walk,
)
from tests.oracle.intake import Row, Values
from tests.oracle.relational import Combination, Query, Range, Tables, found_combinations, live

Table = dict[tuple[object, ...], tuple[Value, ...]]
#: Functions that buckets are made of: none of them turns back when time goes on, with constants for the other
#: arguments.
_MONOTONE = ("date_trunc", "cast", "epoch_us", "epoch_ms", "epoch", "//", "+", "-", "*", "/", "neg")


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
    needed = [
        x
        for e in (*(e for _, e in query.outputs), query.having)
        if e is not None
        for x in walk(e)
        if isinstance(x, Agg)
    ]
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
    if a.by is not None:
        return _arg_extreme(a, members)
    values = [v for v in map(value_of, members) if v is not None]
    if a.distinct:
        values = list({same(v): v for v in values}.values())
    if a.function == "COUNT":
        return len(values)
    if not values:
        return None
    if a.function == "STRING_AGG":
        # Members of one reference come in the order of its rows.
        return ", ".join(values)
    if a.function in ("MIN", "MAX"):
        return (min if a.function == "MIN" else max)(values, key=order_key)
    if a.function == "SUM":
        return _sum(values)
    if a.function == "AVG":
        # A quotient of whole numbers is rounded once, to the nearest float.
        return (
            _sum(values) / len(values)
            if isinstance(values[0], float)
            else float(sum(map(Fraction, values)) / len(values))
        )
    assert a.function == "STDDEV", f"no aggregate {a.function}"
    return _deviation([float(v) for v in values])


def _arg_extreme(a: Agg, members: Sequence[Combination]) -> Value:
    """x where y is largest or smallest; of several the oldest, and of one instant the smallest x."""
    x_of, y_of, times = compiled(a.arg), compiled(a.by), [compiled(t) for t in a.times]
    found = [(x_of(m), y_of(m), max(t(m) for t in times)) for m in members]
    found = [one for one in found if one[0] is not None and one[1] is not None]
    if not found:
        return None
    best = (max if a.function == "ARG_MAX" else min)((order_key(y) for _, y, _ in found))
    return min(((ts, order_key(x), x) for x, y, ts in found if order_key(y) == best), key=lambda one: one[:2])[2]


def _deviation(values: Sequence[float]) -> Value:
    """Of doubles, whatever the argument was; exactly 0 for equal values."""
    if len(values) < 2:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = sum(map(Fraction, values)) / len(values)
    return math.sqrt(sum((Fraction(v) - mean) ** 2 for v in values) / (len(values) - 1))


def _sum(values: Sequence[Value]) -> Value:
    """The exact sum, if it fits into the type of the result: BIGINT, or 38 digits."""
    if isinstance(values[0], Decimal):
        # A context of 76 digits: the usual one rounds after 28.
        with localcontext(prec=76):
            total = sum(values)
            return total if abs(total.scaleb(-total.as_tuple().exponent)) < 10**38 else None
    if not isinstance(values[0], float):
        total = sum(values)
        return total if -(2**63) <= total < 2**63 else None
    special = [v for v in values if not math.isfinite(v)]
    return sum(special) if special else math.fsum(values)


def table_at(query: Query, rows: Sequence[Row], tables: Tables | None, now: int) -> Table:
    return aggregate(query, live(query, rows, tables, now))


def instants(query: Query, rows: Sequence[Row], frontiers: Sequence[int | None], end: int | None = None) -> list[int]:
    """From the query's first row on. ON CHANGE: the last instant before the frontier, each time it has moved. EVERY:
    all multiples of the period to the last frontier, and, where the streams have ended, the first one at or after
    their end."""
    assert query.emit.kind != "close", "ON CLOSE has no instants"
    mine = {r.source for r in query.references}
    first = min((r.ts for r in rows if r.stream in mine), default=None)
    if query.emit.kind == "change":
        return sorted({f - 1 for f in frontiers if f is not None and first is not None and f > first})
    last = max((f for f in frontiers if f is not None), default=None)
    if first is None or last is None:
        return []
    period = query.emit.period
    if end is not None:
        last = -(-end // period) * period + 1
    return [k * period for k in range(-(-first // period), (last - 1) // period + 1)]


def buckets(query: Query) -> list[tuple[Expression, Col, int]]:
    """The grouping expressions that are time buckets, each with the event time it reads and how long after its end a
    row can
    still be met: its reference's RANGE in a join of streams, and not at all without one."""
    moving = [r for r in query.references if r.window is not None]
    found = []
    for e in grouping(query):
        parts = walk(e)
        columns = [x for x in parts if isinstance(x, Col)]
        if len(columns) != 1 or columns[0].type != "TIMESTAMP":
            continue
        if any(isinstance(x, Call) and x.function.partition(":")[0] not in _MONOTONE for x in parts):
            continue
        window = next(r.window for r in moving if r.alias == columns[0].ref)
        if len(moving) == 1:
            found.append((e, columns[0], 0))
        elif isinstance(window, Range):
            found.append((e, columns[0], window.micros))
    return found


def last_of_bucket(e: Expression, column: Col, ts: int) -> int:
    """The last microsecond with the value that a monotone expression has at `ts`: steps are doubled, then halved."""
    value_of = compiled(e)

    def value(at: int) -> Value:
        return value_of({column.ref: {column.name: at}})

    here, step = value(ts), 1
    while value(ts + step) == here:
        step *= 2
    last = ts + step // 2
    while step > 1:
        step //= 2
        if value(last + step) == here:
            last += step
    return last


def closed_groups(
    query: Query,
    rows: Sequence[Row],
    tables: Tables | None,
    frontiers: Sequence[int | None],
    *,
    start: int | None = None,
    stop: int | None = None,
    ended: bool = False,
) -> list[tuple[int, tuple[Value, ...]]]:
    """(`_ts`, output row) of every group that is complete at the last frontier: the earliest of its buckets is over,
    or all streams have `ended`.

    All combinations count that the join reports. `_ts` is the last instant at which one could come."""
    last = max((f for f in frontiers if f is not None), default=None)
    if last is None:
        return []
    by_end: dict[int, list[Combination]] = {}
    for combination in found_combinations(query, rows, tables, start=start):
        ends = [
            last_of_bucket(e, column, combination[column.ref][column.name]) + delay
            for e, column, delay in buckets(query)
        ]
        by_end.setdefault(min(ends), []).append(combination)
    due = sorted(end for end in by_end if (ended or end < last) and (stop is None or end <= stop))
    return [(end, row) for end in due for row in aggregate(query, by_end[end]).values()]


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
            assert all(row[name] is None for name in row if name not in keys), (
                f"a group that goes carries aggregates: {change}"
            )
            del table[key]
        else:
            assert change["_op"] == "+", f"_op is neither + nor -: {change}"
            assert key not in table or not _unchanged(table[key], row), f"a group comes again as it was: {change}"
            table[key] = row
    return table


def _unchanged(before: Mapping[str, Value], after: Mapping[str, Value]) -> bool:
    return all(same(before[name]) == same(after[name]) for name in after)
