"""Outer, semi and anti joins of two references, from their definition.

Answer   `outer_results` gives each result with its `_ts`: combinations, rows without a partner when that is certain,
         rows at their first partner.
Limits   Every combination is tried. A row without a partner is a result only if it is certain before the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.oracle.expressions import Call, Col, Expression, Value, aliases, compiled
from tests.oracle.intake import Row
from tests.oracle.relational import (
    Combination,
    Last,
    LastPer,
    Now,
    Query,
    Range,
    Reference,
    Tables,
    Unbounded,
    combinations,
    live,
)

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
    ended: bool = False,
) -> list[tuple[int, tuple[Value, ...]]]:
    """(`_ts`, values) with times below `end`, or all of them where the streams have `ended` just before it.

    The WHERE of `query` is ON, or that of the SELECT in EXISTS; `columns` are those by alias."""
    named = [replace(row, values={**row.values, NUMBER: row.number}) for row in rows]
    found = sorted(
        ((newest, values) for newest, values in combinations(query, named, tables) if newest is not None),
        key=lambda one: one[0].number,
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
                    ts = certain(reference, partner, row, named, end - 1 if ended else None)
                    if ts is not None and (ended or ts < end):
                        made.append((ts, {reference.alias: row.values, partner.alias: nothing}))
    conditions, outputs = [compiled(c) for c in where], [compiled(e) for _, e in query.outputs]
    results = [
        (ts, tuple(o(values) for o in outputs)) for ts, values in made if all(c(values) is True for c in conditions)
    ]
    return sorted(results, key=lambda one: one[0])


#: What a result of several joins has, and lacks: its aliases, and (alias whose row has no partner, the aliases of
#: partners, conditions).
Lack = tuple[str, frozenset[str], tuple[Expression, ...]]
Kind = tuple[frozenset[str], tuple[Lack, ...]]
#: A punctuation: no further row of a stream has this value in this column, since an instant.
Closing = tuple[str, str, Value, int]


def kinds(first: str, joins: Mapping[str, tuple[str, Sequence[Expression]]]) -> list[Kind]:
    """What results of joins, read from left to right, have and lack.

    ON of an outer join reads the joined alias and one other, and does not hold where that has no row. The partners of a
    row that RIGHT or FULL keeps are combinations of all that comes with every row of that other alias.
    """
    found: list[Kind] = [(frozenset((first,)), ())]
    for alias, (join, on) in joins.items():
        read = {a for c in on for a in aliases(c)} - {alias}
        if join not in ("LEFT", "RIGHT", "FULL"):
            found = [(here | {alias}, lacks) for here, lacks in found if read <= here]
            continue
        everywhere = frozenset[str].intersection(*(here for here, _ in found))
        anchor = next(iter(read)) if read else next(a for a in (first, *joins) if a in everywhere)
        met = [(here | {alias}, lacks) for here, lacks in found if anchor in here]
        if join != "RIGHT":
            lack = (anchor, frozenset((alias,)), tuple(on))
            met += [(here, (*lacks, lack) if anchor in here else lacks) for here, lacks in found]
        if join != "LEFT":
            core = frozenset[str].intersection(*(here for here, _ in found if anchor in here))
            met.append((frozenset((alias,)), ((alias, core, (*joined_on(core, first, joins), *on)),)))
        found = met
    return found


def joined_on(
    here: frozenset[str], first: str, joins: Mapping[str, tuple[str, Sequence[Expression]]]
) -> list[Expression]:
    """ON of all aliases that are joined to another one of these."""
    order = [a for a in (first, *joins) if a in here]
    return [c for a in order[1:] for c in joins[a][1]]


def tree_results(
    query: Query,
    joins: Mapping[str, tuple[str, Sequence[Expression]]],
    rows: Sequence[Row],
    columns: Mapping[str, Sequence[str]],
    tests: Sequence[tuple[str, Reference, Sequence[Expression]]] = (),
    closings: Sequence[Closing] = (),
    declared: frozenset[str] = frozenset(),
    heard: Mapping[str, int] | None = None,
    ended: bool = False,
) -> list[tuple[int, tuple[Value, ...]]]:
    """Joins of several streams; `joins` has per alias after the first how it is joined, and ON. WHERE is that of
    `query`. Where the streams have `ended`, every row without a partner is certain.

    A result has some of the references; what it lacks is judged between a row and its partners alone. It is there at
    the newest of its rows and of the instants at which that is certain; at the end of a run an instant is certain if it
    is not after the newest row of these streams, or the last heartbeat, which `heard` has by stream. `tests` are EXISTS
    and NOT EXISTS: (which, what it looks at, conditions). `declared` are the streams with punctuations.
    """
    named = [replace(row, values={**row.values, NUMBER: row.number}) for row in rows]
    references = {r.alias: r for r in query.references} | {r.alias: r for _, r, _ in tests}
    first = query.references[0].alias
    found_kinds = kinds(first, joins)
    always = frozenset[str].intersection(*(here for here, _ in found_kinds))
    asked: list[tuple[str, Lack]] = []
    for which, reference, on in tests:
        read = {a for c in on for a in aliases(c)} - {reference.alias}
        about = next(iter(read)) if read else next(a for a in (first, *joins) if a in always)
        asked.append((which, (about, frozenset((reference.alias,)), tuple(on))))
    firsts: dict[Lack, dict[Value, int]] = {}

    def partners(lack: Lack) -> dict[Value, int]:
        """Rows that have a partner, by number, and when they met the first."""
        if lack not in firsts:
            about, others, on = lack
            met: dict[Value, int] = {}
            together = Query((references[about], *(references[a] for a in sorted(others))), on, ())
            for newest, values in combinations(together, named, {}):
                assert newest is not None
                number = values[about][NUMBER]
                met[number] = min(met.get(number, newest.ts), newest.ts)
            firsts[lack] = met
        return firsts[lack]

    def alone(lack: Lack, number: Value) -> int:
        """When it is certain that a row has no partner; NEVER: it has one, or the end comes before."""
        about, others, _ = lack
        if number in partners(lack):
            return NEVER
        row = next(r for r in named if r.number == number)
        mine = {references[a].source for a in (about, *others)}
        end = max(*(r.ts for r in named if r.stream in mine), *((heard or {}).get(name, row.ts) for name in mine))
        ts = certain(references[about], references[next(iter(others))], row, named, end if ended else None)
        closed = closed_at(lack, {a: references[a].source for a in others}, row, closings, declared)
        if ended and len(others) == 1 and {references[a].source for a in others} <= declared:
            closed = end if closed is None else min(closed, end)
        ts = closed if ts is None or (closed is not None and closed < ts) else ts
        return ts if ts is not None and (ended or ts <= end) else NEVER

    conditions, outputs = [compiled(c) for c in query.where], [compiled(e) for _, e in query.outputs]
    made = []
    for here, lacks in found_kinds:
        present = tuple(r for r in query.references if r.alias in here)
        for newest, found in combinations(Query(present, tuple(joined_on(here, first, joins)), ()), named, {}):
            assert newest is not None
            times = [newest.ts, *(alone(lack, found[lack[0]][NUMBER]) for lack in lacks)]
            for which, lack in asked:
                number = found[lack[0]][NUMBER]
                times.append(partners(lack).get(number, NEVER) if which == "EXISTS" else alone(lack, number))
            values = {**{r.alias: dict.fromkeys(columns[r.alias]) for r in query.references}, **found}
            if max(times) < NEVER and all(c(values) is True for c in conditions):
                made.append((max(times), tuple(o(values) for o in outputs)))
    return sorted(made, key=lambda one: one[0])


def certain(
    reference: Reference, partner: Reference, row: Row, rows: Sequence[Row], end: int | None = None
) -> int | None:
    """The instant after which no row can be a partner; None: only rows to come tell. `end` is that of the streams, if
    they have ended."""
    window = reference.window
    if partner.window is None or isinstance(window, Now):
        return row.ts
    if isinstance(window, Range):
        return row.ts + window.micros
    if isinstance(window, Unbounded):
        return None
    assert isinstance(window, Last | LastPer)
    same = window.columns if isinstance(window, LastPer) else ()
    later = [
        r
        for r in rows
        if r.stream == row.stream and r.number > row.number and all(r.values[c] == row.values[c] for c in same)
    ]
    return later[window.count - 1].ts if len(later) >= window.count else end


def closed_at(
    lack: Lack,
    sources: Mapping[str, str],
    row: Row,
    closings: Sequence[Closing],
    declared: frozenset[str] = frozenset(),
) -> int | None:
    """When punctuations have closed the partners of a row, which are rows of one stream; None: they never do. Nothing
    equals NULL."""
    about, others, on = lack
    if len(others) > 1:
        return None
    (other,) = others
    pairs = [{c.args[0].ref: c.args[0].name, c.args[1].ref: c.args[1].name} for c in on if _is_equality(c)]
    pinned = {pair[other]: row.values[pair[about]] for pair in pairs if pair.keys() == {about, other}}
    if sources[other] in declared and None in pinned.values():
        return row.ts
    found = [
        max(ts, row.ts)
        for stream, column, value, ts in closings
        if stream == sources[other] and pinned.get(column) == value
    ]
    return min(found, default=None)


def _is_equality(c: Expression) -> bool:
    return isinstance(c, Call) and c.function == "=" and all(isinstance(a, Col) for a in c.args)


def live_outer(
    query: Query,
    joins: Mapping[str, tuple[str, Sequence[Expression]]],
    rows: Sequence[Row],
    tables: Tables,
    columns: Mapping[str, Sequence[str]],
    tests: Sequence[tuple[str, Reference, Sequence[Expression]]],
    now: int,
) -> list[Combination]:
    """What SQL's joins, from left to right, make of the rows that are live at an instant; WHERE is that of `query`."""

    def live_rows(reference: Reference) -> list[Mapping[str, Value]]:
        alone = Query((reference,), (), ())
        return [found[reference.alias] for found in live(alone, rows, tables, now)]

    made: list[Combination] = [{query.references[0].alias: values} for values in live_rows(query.references[0])]
    nothing = {r.alias: dict.fromkeys(columns[r.alias]) for r in query.references}
    before: list[str] = [query.references[0].alias]
    for reference in query.references[1:]:
        join, on = joins[reference.alias]
        conditions, right = [compiled(c) for c in on], live_rows(reference)
        found: list[Combination] = []
        met: set[int] = set()
        for left in made:
            pairs = [
                at
                for at, values in enumerate(right)
                if all(c({**left, reference.alias: values}) is True for c in conditions)
            ]
            found += [{**left, reference.alias: right[at]} for at in pairs]
            met |= set(pairs)
            if not pairs and join in ("LEFT", "FULL"):
                found.append({**left, reference.alias: nothing[reference.alias]})
        if join in ("RIGHT", "FULL"):
            lonely = {alias: nothing[alias] for alias in before}
            found += [{**lonely, reference.alias: values} for at, values in enumerate(right) if at not in met]
        made = found
        before.append(reference.alias)
    for which, reference, on in tests:
        conditions, inner = [compiled(c) for c in on], live_rows(reference)

        def has_partner(left: Combination, alias: str = reference.alias, conditions=conditions, inner=inner) -> bool:  # type: ignore[no-untyped-def]
            return any(all(c({**left, alias: values}) is True for c in conditions) for values in inner)

        made = [left for left in made if has_partner(left) == (which == "EXISTS")]
    where = [compiled(c) for c in query.where]
    return [one for one in made if all(c(one) is True for c in where)]
