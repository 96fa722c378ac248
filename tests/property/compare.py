"""An engine's outcome of a case, compared with the oracle's.

Answer   `check_case(case, run)` runs a case and fails with a readable report unless results agree per newest row (as
         multisets), come in total order, changelogs make the right tables, and the right rows are dead letters.
Limits   Floating sums may differ by 1e-9 relative, STDDEV by 1e-6; everything else is compared exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tests.oracle.aggregation import apply_changelog, closed_groups, instants, is_aggregate, key_columns, same, table_at
from tests.oracle.expressions import Agg, Expression, Value, type_of, walk
from tests.oracle.intake import Intake, Values
from tests.property.specs import Case, Expected, QuerySpec, Row, expected

_SHOWN = 6


@dataclass
class Outcome:
    """What an engine gave: per query all results in delivery order; per stream (`_reason`, values) of dead letters."""

    results: dict[str, list[Values]] = field(default_factory=dict)
    dead: dict[str, list[tuple[str, Values]]] = field(default_factory=dict)


def plain_rows(tables: Iterable[pa.Table | pa.RecordBatch]) -> list[Values]:
    """Arrow rows as the oracle writes them: times and dates as numbers."""
    out: list[Values] = []
    for table in tables:
        columns = {}
        for name in table.schema.names:
            column = table.column(name)
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.timestamp("us")).cast(pa.int64())
            elif pa.types.is_date32(column.type):
                column = column.cast(pa.int32())
            columns[name] = column.to_pylist()
        out += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return out


def check_case(case: Case, run: Callable[[Case], Outcome]) -> None:
    found = differences(case, run(case))
    assert not found, report(case, found)


def report(case: Case, found: Sequence[str]) -> str:
    statements = "\n".join(f"  {s};" for s in case.statements())
    return "\n".join(
        [
            "the engine and the oracle differ",
            *found,
            "",
            "the job:",
            statements,
            "",
            "to paste into a test:",
            f"  case = {case!r}",
        ]
    )


def differences(case: Case, outcome: Outcome, truth: Expected | None = None) -> list[str]:
    """Everything in which an outcome is wrong, as readable lines; empty when it is right."""
    truth = truth or expected(case)
    found = _dead_letters(case, outcome, truth)
    for spec in case.queries:
        query = case.query(spec)
        names = [name for name, _ in query.outputs]
        rows = outcome.results.get(spec.name, [])
        wanted = {*names, "_ts"} | ({"_op"} if is_aggregate(query) else set())
        if rows and set(rows[0]) != wanted:
            found.append(f"query {spec.name}: columns are {sorted(rows[0])}, should be {sorted(wanted)}")
            continue
        stamps = [row["_ts"] for row in rows]
        if stamps != sorted(stamps):
            found.append(f"query {spec.name}: _ts goes back")
        if spec.name in truth.answers:
            right = [(r.newest, canonical([*r.values, r.ts])) for r in truth.answers[spec.name]]
            found += _answers(spec.name, right, [canonical([row[name] for name in (*names, "_ts")]) for row in rows])
        elif spec.name in truth.closed:
            found += _closed(spec.name, query.outputs, truth.closed[spec.name], rows)
        else:
            found += _changelog(case, spec, truth, rows)
    return found


def canonical(values: Iterable[Value]) -> tuple[object, ...]:
    """Values in a form in which equal means the same answer; floats to 12 digits."""
    return tuple(same(float(f"{v:.12g}") if isinstance(v, float) else v) for v in values)


def _plain(canonical: tuple[object, ...]) -> str:
    return "(" + ", ".join(_value_text(c) for c in canonical) + ")"


def _value_text(canonical: object) -> str:
    kind, key = canonical
    if kind == "NoneType":
        return "NULL"
    if isinstance(key, tuple):
        return repr(key[1]) if key[0] == 0 else "NaN"
    return repr(key)


def _answers(name: str, right: list[tuple[int, tuple[object, ...]]], rows: list[tuple[object, ...]]) -> list[str]:
    """Results must be, newest row by newest row, the oracle's in any order."""
    missing = Counter(values for _, values in right) - Counter(rows)
    extra = Counter(rows) - Counter(values for _, values in right)
    if missing or extra:
        lines = [f"query {name}: {len(rows)} results, should be {len(right)} (the last value is _ts)"]
        for word, rest in (("missing", missing), ("extra", extra)):
            lines += [f"  {word} {count}x {_plain(values)}" for values, count in list(rest.items())[:_SHOWN]]
            lines += [f"  {word}: {sum(rest.values())} in all"] if len(rest) > _SHOWN else []
        return lines
    at = 0
    while at < len(right):
        end = at
        while end < len(right) and right[end][0] == right[at][0]:
            end += 1
        if Counter(values for _, values in right[at:end]) != Counter(rows[at:end]):
            return [f"query {name}: results are right but not in the order of newest rows; from result {at} on"]
        at = end
    return []


def _close(a: Value, b: Value, e: Expression) -> bool:
    """Whether two aggregate values agree; floats within what summing in another order may cost."""
    if not isinstance(a, float) or not isinstance(b, float) or not math.isfinite(a) or not math.isfinite(b):
        return same(a) == same(b)
    if isinstance(e, Agg) and (
        (e.function == "AVG" and type_of(e.arg) != "DOUBLE") or (e.function == "STDDEV" and 0.0 in (a, b))
    ):
        # Means of whole numbers and DECIMALs are rounded once, and equal values do not deviate.
        return a == b
    tolerance = 1e-6 if any(isinstance(x, Agg) and x.function == "STDDEV" for x in walk(e)) else 1e-9
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance * 1e-3)


def _same_row(outputs: Sequence[tuple[str, Expression]], right: Row, row: Values) -> bool:
    return all(_close(value, row[name], e) for value, (name, e) in zip(right, outputs, strict=True))


def _closed(
    name: str, outputs: Sequence[tuple[str, Expression]], right: list[tuple[int, Row]], rows: list[Values]
) -> list[str]:
    lines = [f"query {name}: ON CLOSE emits {row}" for row in rows if row["_op"] != "+"]
    rest = list(rows)
    for ts, values in right:
        match = next((row for row in rest if row["_ts"] == ts and _same_row(outputs, values, row)), None)
        if match is None:
            lines.append(f"  missing {values} at {ts}")
        else:
            rest.remove(match)
    lines += [f"  extra {row}" for row in rest]
    return [f"query {name}: closed groups differ", *lines[:_SHOWN]] if lines else []


def aggregate_differences(
    case: Case, spec: QuerySpec, taken: Intake, rows: list[Values], start: int | None, stop: int | None, added: int
) -> list[str]:
    """What is wrong with the results of an aggregate that comes before an epoch, `added`, and sees the rows after
    `start`, up to `stop`."""
    query, tables = case.query(spec), case.table_values()
    seen = replace(
        taken, rows=[row for row in taken.rows if start is None or row.ts > start], frontiers=taken.frontiers[added:]
    )
    if query.emit.kind == "close":
        right = closed_groups(query, taken.rows, tables, seen.frontiers, start=start, stop=stop, ended=case.final)
        return _closed(spec.name, query.outputs, right, rows)
    now = [now for now in instants(query, seen.rows, seen.frontiers, seen.end) if start is None or now > start]
    if stop is not None:
        late = [at for at in now if at > stop]
        # What a dropped query has to say of the rows up to its stop it says there.
        begun = any(row.ts <= stop for row in seen.rows if row.stream in {r.source for r in query.references})
        now = [at for at in now if at <= stop] + ([stop] if late and begun and query.emit.kind == "change" else [])
    alone = Expected(
        intakes={spec.name: seen}, tables={spec.name: {at: table_at(query, seen.rows, tables, at) for at in now}}
    )
    return _changelog(case, spec, alone, rows)


def _changelog(case: Case, spec: QuerySpec, truth: Expected, rows: list[Values]) -> list[str]:
    """The table that the changes make must be the aggregate, at every instant of emission."""
    query = case.query(spec)
    right = dict(truth.tables[spec.name])
    keys = [query.outputs[i][0] for i in key_columns(query)]
    repeated = Counter((row["_ts"], *(same(row[k]) for k in keys)) for row in rows)
    lines = [f"query {spec.name}: a group changes twice at {key[0]}" for key, count in repeated.items() if count > 1][
        :_SHOWN
    ]
    for now in sorted({row["_ts"] for row in rows} - set(right)):
        lines.append(f"query {spec.name}: changes at {now}, which is no instant of emission")
        right[now] = table_at(query, truth.intakes[spec.name].rows, case.table_values(), now)
    for now, table in sorted(right.items()):
        try:
            made = apply_changelog(rows, keys, now)
        except AssertionError as problem:
            return [*lines, f"query {spec.name}: {problem}"]
        wrong = [f"  missing {table[k]}" for k in table if k not in made] + [
            f"  extra {made[k]}" for k in made if k not in table
        ]
        wrong += [
            f"  {made[k]} should be {table[k]}"
            for k in table
            if k in made and not _same_row(query.outputs, table[k], made[k])
        ]
        if wrong:
            return [*lines, f"query {spec.name}: the table at {now} is wrong", *wrong[:_SHOWN]]
    return lines


def _dead_letters(case: Case, outcome: Outcome, truth: Expected) -> list[str]:
    found = []
    for stream in case.streams:
        right = Counter(_dead(stream.columns, reason, values) for reason, values in truth.dead[stream.name])
        given = Counter(_dead(stream.columns, reason, values) for reason, values in outcome.dead.get(stream.name, []))
        if right != given:
            found.append(f"stream {stream.name}: dead letters differ")
            found += [f"  missing {d}" for d in list((right - given).elements())[:_SHOWN]]
            found += [f"  extra {d}" for d in list((given - right).elements())[:_SHOWN]]
    return found


def _dead(columns: Sequence[tuple[str, str]], reason: str, values: Mapping[str, Value]) -> tuple[object, ...]:
    """A dead letter as the first word of its reason and its values; bad rows are text, compared where text is
    certain."""
    word = reason.split()[0].rstrip(":,;") if reason.split() else ""
    if word != "bad":
        return (word, *canonical(values[name] for name, _ in columns))
    certain = ("INT", "BIGINT", "STRING")
    return (
        word,
        *(
            values[name] is None if kind not in certain or values[name] is None else str(values[name])
            for name, kind in columns
        ),
    )
