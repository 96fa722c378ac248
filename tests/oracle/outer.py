"""Outer, semi and anti joins of two references, from their definition.

Answer   `outer_results` gives each result with its `_ts`: combinations, rows without a partner when that is certain, rows at their
         first partner.
Limits   Every combination is tried. A row without a partner is a result only if it is certain before the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.oracle.expressions import Expression, Value, compiled
from tests.oracle.intake import Row
from tests.oracle.relational import Last, LastPer, Now, Query, Range, Reference, Tables, Unbounded, combinations

#: How a row is told from others in a combination.
NUMBER = "_number"


def outer_results(
    query: Query,
    kind: str,
    where: Sequence[Expression],
    rows: Sequence[Row],
    tables: Tables,
    columns: Mapping[str, Sequence[str]],
    end: int,
) -> list[tuple[int, tuple[Value, ...]]]:
    """(`_ts`, values) with times below `end`. The WHERE of `query` is ON, or that of the SELECT in EXISTS; `columns` are those by alias."""
    named = [replace(row, values={**row.values, NUMBER: row.number}) for row in rows]
    found = sorted(
        ((newest, values) for newest, values in combinations(query, named, tables) if newest is not None), key=lambda one: one[0].number
    )
    left, right = query.references
    kept = {"LEFT": (left,), "RIGHT": (right,), "FULL": (left, right)}.get(kind, (left,))
    made: list[tuple[int, Mapping[str, Mapping[str, Value]]]] = []
    if kind not in ("EXISTS", "NOT EXISTS"):
        made += [(newest.ts, values) for newest, values in found]
    if kind == "EXISTS":
        seen: set[Value] = set()
        for newest, values in found:
            number = values[left.alias][NUMBER]
            if number not in seen:
                seen.add(number)
                made.append((newest.ts, values))
    else:
        for reference in kept:
            partner = right if reference is left else left
            nothing = dict.fromkeys(columns[partner.alias])
            met = {values[reference.alias][NUMBER] for _, values in found}
            for row in named:
                if row.stream == reference.source and row.number not in met:
                    ts = certain(reference, partner, row, named)
                    if ts is not None and ts < end:
                        made.append((ts, {reference.alias: row.values, partner.alias: nothing}))
    conditions, outputs = [compiled(c) for c in where], [compiled(e) for _, e in query.outputs]
    results = [(ts, tuple(o(values) for o in outputs)) for ts, values in made if all(c(values) is True for c in conditions)]
    return sorted(results, key=lambda one: one[0])


def certain(reference: Reference, partner: Reference, row: Row, rows: Sequence[Row]) -> int | None:
    """The instant after which no row can be a partner; None: only rows to come tell."""
    window = reference.window
    if partner.window is None or isinstance(window, Now):
        return row.ts
    if isinstance(window, Range):
        return row.ts + window.micros
    assert isinstance(window, Last) and not isinstance(window, Unbounded | LastPer), "a row of such a window is never certain"
    later = [r for r in rows if r.stream == row.stream and r.number > row.number]
    return later[window.count - 1].ts if len(later) >= window.count else None
