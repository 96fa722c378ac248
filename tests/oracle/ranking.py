"""The first rows of partitions in plain loops: of rows, of combinations and of groups, at an instant or when a window
is over.

Answer   `first` numbers items within their partitions and gives the first ones; `live_rows` the rows of a stream in
         their window at an instant; `groups_at` the groups of live rows, `window_groups` those of all windows that hold
         a row. `apply` is the table that a changelog makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.oracle.group_windows import windows_of

#: k, v, ts and the place of the row in its stream.
Row = tuple[int | None, int | None, int, int]


def key(value: Any, descending: bool = False, nulls_first: bool = False) -> tuple[int, Any]:
    """Where a value stands in an order; without a word nulls come last."""
    if value is None:
        return (0 if nulls_first else 2, 0)
    return (1, -value if descending else value)


def first(items: Iterable[tuple[Any, Any, Any]], most: int) -> list[tuple[int, Any]]:
    """(number, row) of the first `most` of every partition; items are (partition, order, row)."""
    found = []
    counts: Counter = Counter()
    for partition, _, row in sorted(items, key=lambda item: item[1]):
        counts[partition] += 1
        if counts[partition] <= most:
            found.append((counts[partition], row))
    return found


def live_rows(rows: Sequence[Row], window: tuple[str, int], now: int) -> list[Row]:
    there = [row for row in rows if row[2] <= now]
    kind, size = window
    if kind == "rows":
        return there[-size:]
    return [row for row in there if kind != "range" or now - row[2] <= size]


def groups_at(rows: Sequence[Row]) -> list[tuple[Any, int, int | None, int]]:
    """(k, count, sum, time of the oldest row) of rows by k."""
    by: dict[Any, list[Row]] = {}
    for row in rows:
        by.setdefault(row[0], []).append(row)
    return [(k, len(m), total(m), min(row[2] for row in m)) for k, m in by.items()]


def window_groups(
    rows: Sequence[Row], kind: str, spans: Sequence[int], now: int
) -> list[tuple[int, Any, int, int | None, int]]:
    """(window_end, k, count, sum, time of the oldest row) of all windows with rows up to an instant."""
    by: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        if row[2] <= now:
            for window in windows_of(kind, row[2], spans):
                by.setdefault(window, []).append(row)
    return [(end, *group) for (_, end), members in by.items() for group in groups_at(members)]


def followed(
    rows: Sequence[Row], function: str, keyed: bool, distance: int = 1, otherwise: int | None = None
) -> list[int | None]:
    """Per row, v of an earlier row of its partition, or of the row itself."""
    found: list[int | None] = []
    before: dict[Any, list[int | None]] = {}
    for k, v, _, _ in rows:
        mine = before.setdefault(k if keyed else 0, [])
        mine.append(v)
        if function == "lag":
            found.append(mine[-1 - distance] if len(mine) > distance else otherwise)
        else:
            found.append(mine[0] if function == "first_value" else v)
    return found


def total(rows: Sequence[Row]) -> int | None:
    values = [v for _, v, _, _ in rows if v is not None]
    return sum(values) if values else None


def apply(changes: Sequence[dict[str, Any]], now: int, row_of: Callable[[dict[str, Any]], tuple[Any, ...]]) -> Counter:
    """The rows that the changes up to `now` leave; what goes has to be there, whole."""
    table: Counter = Counter()
    for change in changes:
        if change["_ts"] <= now:
            table[row_of(change)] += 1 if change["_op"] == "+" else -1
            assert table[row_of(change)] >= 0, f"a row goes that is not there: {change}"
    return +table
