"""Outer, semi and anti joins of two references, from their definition.

Answer   `outer_results` gives each result with its `_ts`: combinations, rows without a partner when that is certain, rows at their
         first partner.
Limits   Every combination is tried. A row without a partner is a result only if it is certain before the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations as subsets

from tests.oracle.expressions import Expression, Value, aliases, compiled
from tests.oracle.intake import Row
from tests.oracle.relational import Last, LastPer, Now, Query, Range, Reference, Tables, Unbounded, combinations

#: How a row is told from others in a combination.
NUMBER = "_number"
NEVER = 1 << 62


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


def tree_results(
    query: Query,
    joins: Mapping[str, tuple[str, Sequence[Expression]]],
    rows: Sequence[Row],
    columns: Mapping[str, Sequence[str]],
    tests: Sequence[tuple[str, Reference, Sequence[Expression]]] = (),
) -> list[tuple[int, tuple[Value, ...]]]:
    """LEFT and inner joins of several streams; `joins` has per alias after the first how it is joined, and ON. WHERE is that of `query`.

    A result has some of the references; each of the others is joined to a row of an anchor that has no partner, judged between these two
    alone, or its anchor is missing too. It is there at the newest of its rows and of the instants at which that is certain; at the end
    of a run an instant is certain if it is not after the newest row of these two. `tests` are EXISTS and NOT EXISTS: (which, what it looks
    at, conditions).
    """
    named = [replace(row, values={**row.values, NUMBER: row.number}) for row in rows]
    references = {r.alias: r for r in query.references}
    first = query.references[0].alias
    left = {alias: on for alias, (join, on) in joins.items() if join == "LEFT"}
    anchor = {alias: next(iter({a for c in on for a in aliases(c)} - {alias}), first) for alias, on in left.items()}
    met = {}
    for alias, on in left.items():
        two = Query((references[anchor[alias]], references[alias]), tuple(on), ())
        met[alias] = {values[anchor[alias]][NUMBER] for _, values in combinations(two, named, {})}
    asked = []
    for which, reference, on in tests:
        about = references[next(iter({a for c in on for a in aliases(c)} - {reference.alias}), first)]
        firsts: dict[Value, int] = {}
        for newest, values in combinations(Query((about, reference), tuple(on), ()), named, {}):
            assert newest is not None
            number = values[about.alias][NUMBER]
            firsts[number] = min(firsts.get(number, newest.ts), newest.ts)
        asked.append((which, about, reference, firsts))

    def instant(about: Reference, partner: Reference, number: Value) -> int:
        """When it is certain that a row has no partner."""
        ts = certain(about, partner, next(r for r in named if r.number == number), named)
        pair = {about.source, partner.source}
        return ts if ts is not None and ts <= max(r.ts for r in named if r.stream in pair) else NEVER

    conditions, outputs = [compiled(c) for c in query.where], [compiled(e) for _, e in query.outputs]
    made = []
    for size in range(len(left) + 1):
        for chosen in subsets(left, size):
            here = [r for r in query.references if r.alias in chosen or r.alias not in left]
            present = {r.alias for r in here}
            if not all(anchor[alias] in present for alias in chosen):
                continue
            on = [c for alias, (_, of) in joins.items() if alias in present for c in of]
            missing = [alias for alias in left if alias not in present and anchor[alias] in present]
            for newest, found in combinations(Query(tuple(here), tuple(on), ()), named, {}):
                assert newest is not None
                if any(found[anchor[alias]][NUMBER] in met[alias] for alias in missing):
                    continue
                times = [newest.ts]
                times += [instant(references[anchor[alias]], references[alias], found[anchor[alias]][NUMBER]) for alias in missing]
                for which, about, reference, firsts in asked:
                    number = found[about.alias][NUMBER]
                    if which == "EXISTS":
                        times.append(firsts.get(number, NEVER))
                    else:
                        times.append(NEVER if number in firsts else instant(about, reference, number))
                values = {**{alias: dict.fromkeys(columns[alias]) for alias in references}, **found}
                if max(times) < NEVER and all(c(values) is True for c in conditions):
                    made.append((max(times), tuple(o(values) for o in outputs)))
    return sorted(made, key=lambda one: one[0])


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
