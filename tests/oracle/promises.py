"""Punctuations, row by row: which rows break a promise, and until when a group can get results.

Answer   `violations` are the rows that a promise before them covers, `heartbeat_violations` those that break a
         heartbeat. `last_instant` is the last instant at which a result with a value of the grouping column can come,
         by the rule of docs/punctuations.md, with truth values, instant by instant.
Limits   Rows are mappings. A promise has a condition on rows, and stands after a row of its stream or after all rows of
         an instant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, object]
Place = tuple[int, int, int]

#: After all rows of an instant; before all rows of an instant.
LAST = 1 << 60
FIRST = -1


@dataclass(frozen=True)
class Promise:
    stream: str
    #: Column -> the one value that it speaks of, or a test.
    pattern: tuple[tuple[str, object | Callable[[object], bool]], ...]
    #: (event time, place of the stream in the catalog, place in its source); rows with a greater place stand after it.
    place: Place
    #: Values that a list names.
    listed: tuple[tuple[str, object], ...] = ()

    @property
    def named(self) -> list[tuple[str, object]]:
        """Columns and values that it names."""
        return [*((column, wanted) for column, wanted in self.pattern if not callable(wanted)), *self.listed]

    def covers(self, values: Values) -> bool:
        """Whether a row matches; a null matches no constant and no range."""
        for column, wanted in self.pattern:
            value = values[column]
            if value is None or not (wanted(value) if callable(wanted) else value == wanted):
                return False
        return True

    @property
    def instant(self) -> int:
        return self.place[0]


@dataclass(frozen=True)
class Placed:
    """A row with its place in the total order."""

    stream: str
    values: Values
    place: Place

    @property
    def ts(self) -> int:
        return self.place[0]


def violations(rows: Sequence[Placed], promises: Sequence[Promise], keys: Mapping[str, tuple[str, ...]]) -> set[Place]:
    """The places of rows that break a promise; after every row of a stream with a key, its key is promised, violation
    or not."""
    found: set[Place] = set()
    for row in rows:
        before = [p for p in promises if p.stream == row.stream and p.place < row.place]
        if any(p.covers(row.values) for p in before):
            found.add(row.place)
        key = keys.get(row.stream, ())
        mine = tuple(row.values[column] for column in key)
        if key and None not in mine:
            earlier = [r for r in rows if r.stream == row.stream and r.place < row.place]
            if any(tuple(r.values[column] for column in key) == mine for r in earlier):
                found.add(row.place)
    return found


def heartbeat_violations(source: Sequence[tuple[str, int]]) -> set[int]:
    """The numbers of rows that break a heartbeat. `source` has rows and heartbeats in its own order: ("row", event
    time), or ("beat", the
    instant up to which no row comes any more)."""
    found: set[int] = set()
    for number, (kind, ts) in enumerate(source):
        before = [instant for what, instant in source[:number] if what == "beat"]
        if kind == "row" and any(ts <= instant for instant in before):
            found.add(number)
    return found


def end_of(source: Sequence[tuple[str, int]]) -> int:
    """How far a stream has come when a bounded run ends: to its newest row, also one that is refused, or to its last
    heartbeat."""
    return max(instant for _, instant in source)


@dataclass(frozen=True)
class Reference:
    alias: str
    stream: str
    #: Microseconds, or None.
    range: int | None = None
    #: ROWS, or None.
    rows: int | None = None
    #: Column -> test that a row of the reference passes.
    filter: Callable[[Values], bool] = lambda _: True
    #: What the filter fixes: column -> value.
    fixed: tuple[tuple[str, object], ...] = ()


#: (alias, column, alias, column).
Equality = tuple[str, str, str, str]


@dataclass
class World:
    references: Sequence[Reference]
    equalities: Sequence[Equality]
    #: Rows that count, in total order.
    rows: Sequence[Placed]
    promises: Sequence[Promise]

    def reference(self, alias: str) -> Reference:
        return next(r for r in self.references if r.alias == alias)

    def stored(self, alias: str, now: int) -> list[Placed]:
        """The rows of a reference that are in its window for a result at an instant."""
        reference = self.reference(alias)
        mine = [r for r in self.rows if r.stream == reference.stream and r.ts <= now]
        kept = []
        for at, row in enumerate(mine):
            if reference.range is not None and now - row.ts > reference.range:
                continue
            # It leaves with the row that pushes it out: up to that row's instant a result is possible.
            if reference.rows is not None and at + reference.rows < len(mine) and mine[at + reference.rows].ts < now:
                continue
            if reference.filter(row.values):
                kept.append(row)
        return kept

    def is_closed(self, alias: str, pins: Mapping[str, object], now: int) -> bool:
        """Whether a promise before `now` covers every row of the reference with these values that passes its filter."""
        reference = self.reference(alias)
        known = {**dict(reference.fixed), **pins}
        for promise in self.promises:
            if promise.stream != reference.stream or promise.instant >= now:
                continue
            if all(column in known for column, _ in promise.pattern) and promise.covers(known):
                return True
        return False

    def new_and_old(self, alias: str, pins: Mapping[str, object], above: frozenset[str], now: int) -> tuple[bool, bool]:
        new, old = not self.is_closed(alias, pins, now), False
        for row in self.stored(alias, now):
            if any(row.values[column] != value for column, value in pins.items()):
                continue
            below = [
                self.new_and_old(child, at, above | {alias}, now)
                for child, at in self.children(alias, row.values, above)
            ]
            if all(one_new or one_old for one_new, one_old in below) and any(one_new for one_new, _ in below):
                new = True
            if all(one_old for _, one_old in below):
                old = True
        return new, old

    def children(self, alias: str, values: Values, above: frozenset[str]) -> list[tuple[str, dict[str, object]]]:
        found: dict[str, dict[str, object]] = {}
        for a, x, b, y in self.equalities:
            for here, mine, there, theirs in ((a, x, b, y), (b, y, a, x)):
                if here == alias and there != alias and there not in above:
                    found.setdefault(there, {})[theirs] = values[mine]
        return list(found.items())

    def value_is_alive(self, roots: Mapping[str, Mapping[str, object]], now: int) -> bool:
        """`roots`: alias -> the columns of it that the root fixes."""
        below = [self.new_and_old(alias, pins, frozenset(roots), now) for alias, pins in roots.items()]
        return all(new or old for new, old in below) and any(new for new, _ in below)

    def ends(self, roots: Mapping[str, Mapping[str, object]], since: int, instants: Sequence[int]) -> int:
        """Until when a value lives that was first seen at an instant."""
        return max([since, *(now for now in instants if self.value_is_alive(roots, now))])

    def last_instant(self, roots: Mapping[str, Mapping[str, object]], instants: Sequence[int]) -> int | None:
        """The last of some instants at which the root is alive, if it is dead at a later one of them; None: it lives
        on."""
        alive = [now for now in instants if self.value_is_alive(roots, now)]
        if not alive or alive[-1] == instants[-1]:
            return None
        return alive[-1]
