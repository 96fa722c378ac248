"""The oracle against DuckDB, with the definitions of windows written in SQL.

Each stream becomes a table of its processed rows with `_ts`, `_number` (total order) and `_rank` (in its stream).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from random import Random

import duckdb
import pyarrow as pa
import pytest

from tests.oracle.aggregation import is_aggregate, same
from tests.oracle.expressions import Value, render
from tests.oracle.intake import Intake
from tests.property.compare import plain_rows
from tests.property.outer import OuterSpec, expected_outer, random_outer
from tests.property.outer_live import LiveSpec, live_tables, random_live
from tests.property.specs import Case, Last, LastPer, Now, QuerySpec, Range, Reference, arrow_table, expected
from tests.property.strategies import random_case
from tests.seeds import is_whole, some


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("SET threads = 1")
        yield opened


def declare(connection: duckdb.DuckDBPyConnection, case: Case, taken: Intake) -> None:
    """The rows that one query sees."""
    for spec in case.tables:
        connection.register(spec.name, arrow_table(spec.columns, spec.rows))
    for spec in case.streams:
        rows = [r for r in taken.rows if r.stream == spec.name]
        table = arrow_table(spec.columns, [tuple(r.values.values()) for r in rows])
        for name, values in (
            ("_ts", [r.ts for r in rows]),
            ("_number", [r.number for r in rows]),
            ("_rank", [r.rank for r in rows]),
        ):
            table = table.append_column(name, pa.array(values, pa.int64()))
        connection.register(spec.name, table)


def source(case: Case, query: QuerySpec, conditions: list[str]) -> str:
    everything = [*(render(c, duckdb=True) for c in query.where), *conditions]
    references = ", ".join(f"{r.source} {r.alias}" for r in query.references)
    return f"FROM {references}" + (f" WHERE {' AND '.join(everything)}" if everything else "")


def selected(case: Case, query: QuerySpec) -> str:
    return ", ".join(f"{render(e, duckdb=True)} AS {name}" for name, e in case.outputs(query))


def largest(query: QuerySpec, column: str) -> str:
    return f"greatest({', '.join(f'{r.alias}.{column}' for r in query.references if r.window is not None)})"


def in_window(query: QuerySpec, r: Reference) -> list[str]:
    """Whether a row of the reference is in its window with respect to the newest row of the combination."""
    if isinstance(r.window, Range):
        return [f"{largest(query, '_ts')} - {r.alias}._ts <= {r.window.micros}"]
    if isinstance(r.window, Last):
        newer = f"SELECT count(*) FROM {r.source} w WHERE w._number <= {largest(query, '_number')} AND w._number > {r.alias}._number"
        return [f"({newer}) < {r.window.count}"]
    if isinstance(r.window, Now):
        return [f"{r.alias}._number = {largest(query, '_number')}"]
    if isinstance(r.window, LastPer):
        newer = f"SELECT count(*) FROM {r.source} w WHERE w._number <= {largest(query, '_number')} AND w._number > {r.alias}._number"
        return [f"({newer} AND {same_partition(r)}) < {r.window.count}"]
    return []


def same_partition(r: Reference) -> str:
    assert isinstance(r.window, LastPer)
    return " AND ".join(f'w."{c}" IS NOT DISTINCT FROM {r.alias}."{c}"' for c in r.window.columns)


def at_instant(query: QuerySpec, r: Reference, now: int) -> list[str]:
    """Whether a row of the reference is live at an instant, in a combination."""
    if r.window is None:
        return []
    present = [f"{r.alias}._ts <= {now}"]
    if isinstance(r.window, Range):
        present.append(f"{now} - {r.alias}._ts <= {r.window.micros}")
    if isinstance(r.window, Last):
        present.append(
            f"(SELECT count(*) FROM {r.source} w WHERE w._ts <= {now} AND w._number > {r.alias}._number) < {r.window.count}"
        )
    if isinstance(r.window, LastPer):
        newer = f"SELECT count(*) FROM {r.source} w WHERE w._ts <= {now} AND w._number > {r.alias}._number"
        present.append(f"({newer} AND {same_partition(r)}) < {r.window.count}")
    if isinstance(r.window, Now):
        present += [f"{r.alias}._ts = {now}", *in_window(query, r)]
    return present


def canonical(values: tuple[Value, ...]) -> tuple[object, ...]:
    return tuple(same(float(f"{v:.9g}") if isinstance(v, float) and math.isfinite(v) else v) for v in values)


@pytest.mark.property
def test_joins_agree_with_duckdb(connection):
    compared = 0
    for seed in some(range(150)):
        case = random_case(Random(seed))
        truth = expected(case)
        for query in case.queries:
            if query.name not in truth.answers:
                continue
            declare(connection, case, truth.intakes[query.name])
            conditions = [c for r in query.references for c in in_window(query, r)]
            sql = f"SELECT {selected(case, query)}, {largest(query, '_ts')} AS _ts, {largest(query, '_number')} AS _newest"
            found = plain_rows([connection.sql(f"{sql} {source(case, query, conditions)}").to_arrow_table()])
            right = Counter(canonical((*r.values, r.ts, r.newest)) for r in truth.answers[query.name])
            assert Counter(canonical(tuple(row.values())) for row in found) == right, f"seed {seed}, query {query.name}"
            compared += len(found)
    assert compared > (100 if is_whole() else 10)


def outer_sql(case: Case, spec: OuterSpec) -> str:
    """An outer, semi or anti join in DuckDB's own words: (values, `_ts`) of results that are certain at some time."""
    left, right = spec.references
    pairs = [render(c, duckdb=True) for c in spec.join.where] + [
        c for r in spec.references for c in in_window(spec.join, r)
    ]
    on, newest = " AND ".join(pairs) or "TRUE", largest(spec.join, "_ts")
    rest = "".join(f" AND {render(c, duckdb=True)}" for c in spec.where)
    if "EXISTS" in spec.kind:
        first = f"(SELECT {newest} FROM {right.source} {right.alias} WHERE {on} ORDER BY 1 LIMIT 1)"
        when = certainty(left, right) if spec.kind == "NOT EXISTS" else first
        inner = f"{spec.kind} (SELECT 1 FROM {right.source} {right.alias} WHERE {on})"
        return f"SELECT {selected(case, spec.join)}, {when} AS _ts FROM {left.source} {left.alias} WHERE {inner}{rest}"
    met = " AND ".join(f"{r.alias}.there" for r in spec.references)
    when = f"CASE WHEN {met} THEN {newest} WHEN {left.alias}.there THEN {certainty(left, right)} ELSE {certainty(right, left)} END"
    sides = [f"(SELECT *, true AS there FROM {r.source}) {r.alias}" for r in spec.references]
    return f"SELECT {selected(case, spec.join)}, {when} AS _ts FROM {sides[0]} {spec.kind} JOIN {sides[1]} ON {on} WHERE true{rest}"


def certainty(kept: Reference, partner: Reference) -> str:
    """When a row without a partner is certain; null: never."""
    if kept.window is None:
        return "NULL"
    if isinstance(kept.window, Range) and partner.window is not None:
        return f"{kept.alias}._ts + {kept.window.micros}"
    if isinstance(kept.window, Last) and partner.window is not None:
        later = f"SELECT w._ts FROM {kept.source} w WHERE w._number > {kept.alias}._number ORDER BY w._number"
        return f"({later} LIMIT 1 OFFSET {kept.window.count - 1})"
    if isinstance(kept.window, LastPer) and partner.window is not None:
        later = f"SELECT w._ts FROM {kept.source} w WHERE w._number > {kept.alias}._number AND {same_partition(kept)} ORDER BY w._number"
        return f"({later} LIMIT 1 OFFSET {kept.window.count - 1})"
    return f"{kept.alias}._ts"


@pytest.mark.property
def test_outer_joins_agree_with_duckdb(connection):
    compared = 0
    for seed in some(range(2_000, 2_120)):
        case = random_outer(Random(seed))
        spec = case.queries[0]
        taken = case.intake(spec)
        declare(connection, case, taken)
        found = [tuple(row.values()) for row in plain_rows([connection.sql(outer_sql(case, spec)).to_arrow_table()])]
        end = taken.frontiers[-1] or 0
        right = Counter(canonical((*values, ts)) for ts, values in expected_outer(case))
        assert Counter(canonical(row) for row in found if row[-1] is not None and row[-1] < end) == right, (
            f"seed {seed}: {spec.select()}"
        )
        compared += len(right)
    assert compared > (100 if is_whole() else 10)


@pytest.mark.property
def test_aggregates_agree_with_duckdb(connection):
    compared = 0
    for seed in some(range(1000, 1300)):
        case = random_case(Random(seed))
        truth = expected(case)
        for query in case.queries:
            if not is_aggregate(case.query(query)) or "DECIMAL(38" in str(case.query(query)):
                # DuckDB's SUM and AVG of 38 digits end with an error where an intermediate sum has more.
                continue
            declare(connection, case, truth.intakes[query.name])
            sql = f"SELECT {'DISTINCT ' if query.distinct else ''}{selected(case, query)}"
            tail = f" GROUP BY {', '.join(render(e, duckdb=True) for e in query.group_by)}" if query.group_by else ""
            tail += f" HAVING {render(query.having, duckdb=True)}" if query.having is not None else ""
            for now, table in list(truth.tables.get(query.name, {}).items())[-4:]:
                conditions = [c for r in query.references for c in at_instant(query, r, now)]
                found = plain_rows([connection.sql(f"{sql} {source(case, query, conditions)}{tail}").to_arrow_table()])
                seen = Counter(canonical(tuple(_whole(v) for v in row.values())) for row in found)
                assert seen == Counter(map(canonical, table.values())), f"seed {seed}, query {query.name}, at {now}"
                compared += len(found)
    assert compared > 20


def _whole(value: Value) -> Value:
    # DuckDB's SUM of integers is a HUGEINT, which arrives as a decimal without digits after the point. Ours is a
    # BIGINT.
    if not isinstance(value, Decimal) or value.as_tuple().exponent != 0:
        return value
    return int(value) if -(2**63) <= value < 2**63 else None


def live_rows(r: Reference, now: int) -> str:
    """The rows of a reference that are in their windows at an instant."""
    if r.window is None:
        return f"{r.source} {r.alias}"
    condition = ""
    if isinstance(r.window, Range):
        condition = f" AND {now} - _ts <= {r.window.micros}"
    elif isinstance(r.window, Last | LastPer):
        keys = (
            f"PARTITION BY {', '.join(f'{r.source}.{c}' for c in r.window.columns)} "
            if isinstance(r.window, LastPer)
            else ""
        )
        condition = f" QUALIFY row_number() OVER ({keys}ORDER BY _number DESC) <= {r.window.count}"
    return f"(SELECT * FROM {r.source} WHERE _ts <= {now}{condition}) {r.alias}"


def live_text(spec: LiveSpec, now: int) -> str:
    join = spec.tree.join
    selected = ", ".join(f"{render(e, duckdb=True)} AS {name}" for name, e in join.outputs)
    text = f"SELECT {selected} FROM {live_rows(join.references[0], now)}"
    for r, (how, on) in zip(join.references[1:], spec.tree.joins, strict=True):
        text += f" {how} JOIN {live_rows(r, now)} ON {' AND '.join(render(c, duckdb=True) for c in on) or 'TRUE'}"
    where = [render(c, duckdb=True) for c in join.where]
    for which, r, on in spec.tree.tests:
        where.append(
            f"{which} (SELECT 1 FROM {live_rows(r, now)} WHERE {' AND '.join(render(c, duckdb=True) for c in on) or 'TRUE'})"
        )
    text += f" WHERE {' AND '.join(where)}" if where else ""
    return text + (f" GROUP BY {', '.join(render(e, duckdb=True) for e in spec.group_by)}" if spec.group_by else "")


def test_outer_joins_of_live_rows(connection: duckdb.DuckDBPyConnection) -> None:
    compared = 0
    for seed in some(range(60)):
        case = random_live(Random(seed))
        spec: LiveSpec = case.queries[0]  # type: ignore[assignment]
        declare(connection, case, case.intake(spec))  # type: ignore[arg-type]
        for now, table in sorted(live_tables(case).items())[:4]:
            found = plain_rows([connection.sql(live_text(spec, now)).to_arrow_table()])
            assert Counter(canonical(row.values()) for row in found) == Counter(map(canonical, table.values())), (
                f"{seed} at {now}"
            )
            compared += len(found)
    assert compared > (100 if is_whole() else 10)
