"""Select-project-join over whole inputs: every combination is tried.

Answer   `answer(query, rows, tables)` is every result with its `_ts` and the number of its newest row, in the total
         order of newest rows. `live(query, rows, tables, now)` is every combination that is live at an instant.
Limits   Exponential in the number of references; a branch is left as soon as a condition fails on the rows bound so
         far, or one of them has left its window for the newest of them (it cannot come back for a newer one).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.oracle.expressions import Expression, Value, aliases, compiled
from tests.oracle.intake import Row, Values


@dataclass(frozen=True)
class Range:
    micros: int


@dataclass(frozen=True)
class Last:
    """ROWS k."""

    count: int


@dataclass(frozen=True)
class Unbounded:
    pass


@dataclass(frozen=True)
class Now:
    pass


@dataclass(frozen=True)
class LastPer:
    """PARTITION BY columns ROWS k."""

    columns: tuple[str, ...]
    count: int


Window = Range | Last | Unbounded | Now | LastPer


@dataclass(frozen=True)
class Reference:
    alias: str
    source: str
    #: None for a static table.
    window: Window | None


@dataclass(frozen=True)
class Emit:
    """`change`, `every` (with a period) or `close`."""

    kind: str = "change"
    period: int = 0


ON_CHANGE = Emit()


@dataclass(frozen=True)
class Query:
    references: tuple[Reference, ...]
    where: tuple[Expression, ...]
    outputs: tuple[tuple[str, Expression], ...]
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    distinct: bool = False
    emit: Emit = ON_CHANGE


@dataclass(frozen=True)
class Result:
    ts: int
    newest: int
    values: tuple[Value, ...]


Tables = Mapping[str, Sequence[Values]]
Combination = dict[str, Values]


def answer(
    query: Query,
    rows: Sequence[Row],
    tables: Tables | None = None,
    *,
    start: int | None = None,
    stop: int | None = None,
) -> list[Result]:
    """All results. A query that starts at `start` sees only newer rows; one that stops gives nothing newer than
    `stop`."""
    outputs = [compiled(e) for _, e in query.outputs]
    seen = [r for r in rows if start is None or r.ts > start]
    found = [
        Result(newest.ts, newest.number, tuple(output(combination) for output in outputs))
        for newest, combination in _combinations(query, seen, tables or {}, None)
        if newest is not None and (stop is None or newest.ts <= stop)
    ]
    return sorted(found, key=lambda result: result.newest)


def combinations(query: Query, rows: Sequence[Row], tables: Tables) -> list[tuple[Row | None, Combination]]:
    """Every combination that the join reports, with its newest row; None: it has tables alone."""
    return list(_combinations(query, rows, tables, None))


def found_combinations(
    query: Query, rows: Sequence[Row], tables: Tables | None, *, start: int | None = None
) -> list[Combination]:
    """Every combination that the join reports, whenever it does."""
    seen = [r for r in rows if start is None or r.ts > start]
    return [combination for newest, combination in _combinations(query, seen, tables or {}, None) if newest is not None]


def live(query: Query, rows: Sequence[Row], tables: Tables | None, now: int) -> list[Combination]:
    """Every combination that satisfies WHERE, with no row newer than `now` and each row in its window at `now`."""
    return [combination for _, combination in _combinations(query, [r for r in rows if r.ts <= now], tables or {}, now)]


def _combinations(
    query: Query, rows: Sequence[Row], tables: Tables, now: int | None
) -> Iterator[tuple[Row | None, Combination]]:
    """Combinations with their newest row; windows are judged at `now`, or, without it, at the newest row."""
    numbers = {r.source: [row.number for row in rows if row.stream == r.source] for r in query.references}
    names = [r.alias for r in query.references]
    #: For each reference the conditions that can be judged once it is bound, and not before.
    due: list[list[Callable[[Combination], Value]]] = [[] for _ in names]
    for condition in query.where:
        due[max((names.index(a) for a in aliases(condition)), default=0)].append(compiled(condition))
    candidates: list[list[Row] | list[Values]] = [
        list(tables[r.source]) if r.window is None else [row for row in rows if row.stream == r.source]
        for r in query.references
    ]

    def inside(reference: Reference, row: Row, newest: Row) -> bool:
        if isinstance(reference.window, Range):
            return (newest.ts if now is None else now) - row.ts <= reference.window.micros
        if isinstance(reference.window, Last):
            all_numbers = numbers[reference.source]
            before = bisect_right(all_numbers, row.number)
            return (
                bisect_right(all_numbers, newest.number) if now is None else len(all_numbers)
            ) - before < reference.window.count
        if isinstance(reference.window, Now):
            return row.number == newest.number and (now is None or row.ts == now)
        if isinstance(reference.window, LastPer):
            mine = [row.values[c] for c in reference.window.columns]
            # At an instant, all rows are there that are not newer.
            upto = newest.number if now is None else max(numbers[reference.source])
            later = [r for r in candidates[names.index(reference.alias)] if row.number < r.number <= upto]
            return sum([r.values[c] for c in reference.window.columns] == mine for r in later) < reference.window.count
        return True

    def extend(
        i: int, bound: list[tuple[Reference, Row]], newest: Row | None, values: Combination
    ) -> Iterator[tuple[Row | None, Combination]]:
        if i == len(names):
            yield newest, dict(values)
            return
        reference = query.references[i]
        for row in candidates[i]:
            if reference.window is None:
                values[reference.alias] = row
                here, top = bound, newest
            else:
                values[reference.alias] = row.values
                here = [*bound, (reference, row)]
                top = row if newest is None or row.number > newest.number else newest
                # Rows that were bound before are judged again where there is a newer one.
                if not all(inside(r, t, top) for r, t in (here if top is row else here[-1:])):
                    continue
            if all(condition(values) is True for condition in due[i]):
                yield from extend(i + 1, here, top, values)

    yield from extend(0, [], None, {})
