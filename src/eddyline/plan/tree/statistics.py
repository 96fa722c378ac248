"""Rates, selectivities and state sizes of a query, as the search for its join tree takes them.

Answer   `graph_of` makes the join graph of a lowered query: from observed statistics (`GroupStatistics`), else from what
         CREATE STREAM declares (`rate`, `distinct_x`), else from assumptions. The assumptions are 100 rows/s, an
         UNBOUNDED window that holds an hour, and keys with one partner per row. Filters lower rates; the selectivities
         of several predicates between two references multiply.
State    None. `GroupStatistics` is a value: `+` adds another shard's, `after` adds a part of earlier counts.
Limits   A condition over three references lowers no estimate. A static table that was never read is taken to have 1,000
         rows.
Reading  docs/design/0003-replanning.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from operator import add
from typing import Any

from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literals, columns_of, positions_of
from eddyline.model.schema import Stream, Table
from eddyline.model.window import Now, Range, Rows, Window
from eddyline.plan.lower import Lowered
from eddyline.plan.tree.join_graph import JoinEdge, JoinGraph, JoinInput

Sources = Mapping[str, Stream | Table]
Pair = tuple[int, int]

#: Rows per second of a stream that declares no rate.
ASSUMED_RATE = 100.0
#: The seconds that an UNBOUNDED window is taken to hold before anything was observed.
ASSUMED_SPAN = 3600.0
ASSUMED_TABLE_ROWS = 1000.0
#: The part of all rows, or pairs of rows, that a condition keeps while nothing has been observed or declared.
ASSUMED_PARTS = {"=": 0.1, "<>": 0.9, "like": 0.25, "is_null": 0.05, "is_not_null": 0.95, "in": 0.2, "between": 0.25}
ASSUMED_PART = 1 / 3
#: An observed selectivity of fewer pairs is less certain than the assumption.
_FEW_PAIRS = 256.0
#: Bytes: seq and ts; a key with its chain and its share of the buckets; a combination per component.
_ROW_BYTES, _KEY_BYTES, _COMPONENT_BYTES = 16.0, 24.0, 24.0
#: Stores keep a quarter more room than rows.
_ROOM = 1.25


@dataclass(frozen=True, slots=True)
class ReferenceSeen:
    """One reference: rows of its stream, rows that some query wants, and what its window holds (rows, bytes) now."""

    seen: float = 0.0
    wanted: float = 0.0
    live: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: ReferenceSeen) -> ReferenceSeen:
        return ReferenceSeen(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class EdgeSeen:
    """Pairs of rows of two references: how many were tested, and how many of them satisfy the join."""

    matched: float = 0.0
    pairs: float = 0.0

    def __add__(self, other: EdgeSeen) -> EdgeSeen:
        return EdgeSeen(self.matched + other.matched, self.pairs + other.pairs)

    def __mul__(self, part: float) -> EdgeSeen:
        return EdgeSeen(part * self.matched, part * self.pairs)


@dataclass(frozen=True)
class GroupStatistics:
    """The observed statistics of one join group. Earlier counts lose weight with time; sizes are the newest ones.

    >>> one = GroupStatistics(10.0, (ReferenceSeen(100, 50, 20, 800),), {})
    >>> (one + one).references[0].wanted, (one + one).shards, one.after(one, 0.5).seconds
    (100, 2, 15.0)
    """

    #: Event time that the counts cover.
    seconds: float
    references: tuple[ReferenceSeen, ...]
    edges: Mapping[Pair, EdgeSeen] = field(default_factory=dict)
    shards: int = 1

    def __add__(self, other: GroupStatistics) -> GroupStatistics:
        """These statistics and those of another shard over the same event time."""
        references = tuple(map(add, self.references, other.references))
        seconds = max(self.seconds, other.seconds)
        return GroupStatistics(seconds, references, self._edges_with(other, 1.0), self.shards + other.shards)

    def after(self, earlier: GroupStatistics | None, keep: float) -> GroupStatistics:
        """These statistics, with the part `keep` of earlier counts."""
        if earlier is None:
            return self
        references = tuple(
            ReferenceSeen(keep * old.seen + new.seen, keep * old.wanted + new.wanted, new.live, new.bytes)
            for old, new in zip(earlier.references, self.references, strict=True)
        )
        seconds = keep * earlier.seconds + self.seconds
        return GroupStatistics(seconds, references, self._edges_with(earlier, keep), self.shards)

    def _edges_with(self, other: GroupStatistics, part: float) -> dict[Pair, EdgeSeen]:
        """The edges, with a part of the counts of others."""
        pairs, none = {*self.edges, *other.edges}, EdgeSeen()
        return {pair: other.edges.get(pair, none) * part + self.edges.get(pair, none) for pair in pairs}

    def to_document(self) -> dict[str, Any]:
        """The statistics as JSON values, which a shard sends to the driver."""
        return {
            "seconds": self.seconds,
            "shards": self.shards,
            "references": [[r.seen, r.wanted, r.live, r.bytes] for r in self.references],
            "edges": [[left, right, e.matched, e.pairs] for (left, right), e in sorted(self.edges.items())],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> GroupStatistics:
        return cls(
            float(document["seconds"]),
            tuple(ReferenceSeen(*map(float, entry)) for entry in document["references"]),
            {
                (int(left), int(right)): EdgeSeen(float(matched), float(pairs))
                for left, right, matched, pairs in document["edges"]
            },
            int(document["shards"]),
        )


def graph_of(
    lowered: Lowered,
    sources: Sources,
    seen: GroupStatistics | None = None,
    windows: tuple[Window | None, ...] | None = None,
    on_disk: bool = False,
) -> JoinGraph:
    """The join graph of a query, over its aliases. From statistics of several shards it is that of one shard.

    Args:
        lowered: the query.
        sources: the declared streams and tables, by name.
        seen: the observed statistics.
        windows: per position the largest window of the queries that share the join; the query's own if None.
        on_disk: payload is spilled, and only what stays in memory counts.
    """
    windows = windows or lowered.windows
    inputs = [
        _input(lowered, position, sources, seen, windows[position], on_disk) for position in range(len(lowered.seats))
    ]
    inputs = _stored_once(lowered, inputs)
    edges = [
        JoinEdge(
            lowered.aliases[left], lowered.aliases[right], _selectivity(lowered, (left, right), sources, inputs, seen)
        )
        for left, right in join_pairs(lowered)
    ]
    return JoinGraph(tuple(inputs), tuple(edges), "bytes")


def join_pairs(lowered: Lowered) -> tuple[Pair, ...]:
    """The pairs of references between which there is a predicate, in order."""
    pairs = {(min(e.left, e.right), max(e.left, e.right)) for e in lowered.equalities}
    for condition in lowered.residuals:
        read = positions_of(condition)
        if len(read) == 2:
            pairs.add((read[0], read[1]))
    return tuple(sorted(pairs))


def residuals_between(lowered: Lowered, pair: Pair) -> tuple[Expression, ...]:
    both = sorted(pair)
    return tuple(condition for condition in lowered.residuals if positions_of(condition) == both)


def is_declared(lowered: Lowered, sources: Sources) -> bool:
    """Whether a stream of the query declares something: a rate, or how many values a column has."""
    found = [sources.get(seat.source) for seat in lowered.seats if not seat.is_table]
    return any(
        name == "rate" or name.startswith("distinct_")
        for source in found
        if source is not None
        for name in source.options
    )


def assumed_rates(lowered: Lowered, sources: Sources) -> tuple[str, ...]:
    """The streams of a query that declare no rate."""
    names = dict.fromkeys(seat.source for seat in lowered.seats if not seat.is_table)
    return tuple(name for name in names if name not in sources or "rate" not in sources[name].options)


def _input(
    lowered: Lowered,
    position: int,
    sources: Sources,
    seen: GroupStatistics | None,
    window: Window | None,
    on_disk: bool,
) -> JoinInput:
    seat, alias = lowered.seats[position], lowered.aliases[position]
    source = sources.get(seat.source)
    mine = None if seen is None else seen.references[position]
    shards = 1 if seen is None else seen.shards
    width = _row_bytes(lowered, position, source)
    if mine is not None and mine.live >= 1 and mine.bytes > 0:
        width = mine.bytes / mine.live
    if on_disk:
        width = min(width, _resident_bytes(lowered, position))
    if seat.is_table:
        rows = ASSUMED_TABLE_ROWS if mine is None else mine.live / shards
        return JoinInput(alias, 0.0, rows, width, _COMPONENT_BYTES)
    part = _kept(lowered.filters[position], source)
    rate = float((source.options if source is not None else {}).get("rate", ASSUMED_RATE)) * part
    if mine is not None and seen is not None and seen.seconds > 0:
        rate = mine.wanted / seen.seconds / shards
        part = mine.wanted / mine.seen if mine.seen else part
    if isinstance(window, Range):
        rows = rate * window.micros / 1e6
    elif isinstance(window, Rows):
        rows = window.count * part / shards
    elif isinstance(window, Now):
        rows = 1.0
    else:
        rows = rate * ASSUMED_SPAN if mine is None else mine.live / shards
    return JoinInput(alias, rate, rows, width, _COMPONENT_BYTES)


def _stored_once(lowered: Lowered, inputs: list[JoinInput]) -> list[JoinInput]:
    """Two references to one stream read one store: its bytes are those of the larger window."""
    largest: dict[str, int] = {}
    for position, seat in enumerate(lowered.seats):
        known = largest.get(seat.source)
        if known is None or inputs[position].rows > inputs[known].rows:
            largest[seat.source] = position
    return [
        one if largest[seat.source] == position else JoinInput(one.alias, one.rate, one.rows, 0.0, one.component_bytes)
        for position, (seat, one) in enumerate(zip(lowered.seats, inputs, strict=True))
    ]


def _selectivity(
    lowered: Lowered, pair: Pair, sources: Sources, inputs: list[JoinInput], seen: GroupStatistics | None
) -> float:
    found = None if seen is None else seen.edges.get(pair)
    if found is not None and found.pairs >= _FEW_PAIRS:
        # No match among these pairs does not prove that the selectivity is zero.
        return max(found.matched, 0.5) / found.pairs
    part = 1.0
    for equality in lowered.equalities:
        if {equality.left, equality.right} == set(pair):
            part *= _equal_part(lowered, equality.condition, sources, inputs, pair)
    for condition in residuals_between(lowered, pair):
        part *= _kept(condition, None)
    return part


def _equal_part(
    lowered: Lowered, condition: Expression, sources: Sources, inputs: list[JoinInput], pair: Pair
) -> float:
    assert isinstance(condition, Call)
    known = []
    for side in condition.args:
        if isinstance(side, ColumnRef):
            source = sources.get(lowered.seats[positions_of(side)[0]].source)
            values = None if source is None else source.options.get(f"distinct_{side.column}")
            if values is not None:
                known.append(float(values))
    if known:
        return 1.0 / max(*known, 1.0)
    # The keys are unknown: a new row finds one partner in the fuller of the two windows.
    return 1.0 / max(inputs[pair[0]].rows, inputs[pair[1]].rows, 1.0)


def _kept(condition: Expression | None, source: Stream | Table | None) -> float:
    """The part of rows that a condition is taken to keep."""
    if condition is None or not isinstance(condition, Call):
        return 1.0
    parts = [_kept(part, source) for part in condition.args] if condition.function in ("and", "or", "not") else []
    if condition.function == "and":
        return parts[0] * parts[1]
    if condition.function == "or":
        return parts[0] + parts[1] - parts[0] * parts[1]
    if condition.function == "not":
        return 1.0 - parts[0]
    column = next((side for side in condition.args if isinstance(side, ColumnRef)), None)
    if source is not None and column is not None and condition.function in ("=", "in"):
        values = source.options.get(f"distinct_{column.column}")
        if values is not None:
            listed = condition.args[1:] if not isinstance(condition.args[-1], Literals) else condition.args[-1].value
            return min(len(listed) / float(values), 1.0)
    return ASSUMED_PARTS.get(condition.function, ASSUMED_PART)


def _row_bytes(lowered: Lowered, position: int, source: Stream | Table | None) -> float:
    """The bytes of a stored row: order, time, keys, and the columns that the query reads."""
    read = {column for o in lowered.outputs for ref, column in columns_of(o.expression) if ref == position}
    read |= {column for e in lowered.residuals for ref, column in columns_of(e) if ref == position}
    read |= {column for key in lowered.seats[position].keys for _, column in columns_of(key.expression)}
    types = {} if source is None else {column.name: column.type.name for column in source.schema.columns}
    payload = sum(32.0 if types.get(column) == "STRING" else 8.0 for column in read)
    return _resident_bytes(lowered, position) + _ROOM * payload


def _resident_bytes(lowered: Lowered, position: int) -> float:
    """The bytes of a stored row that are never spilled: order, time, keys."""
    return _ROOM * (_ROW_BYTES + _KEY_BYTES * len(lowered.seats[position].keys))
