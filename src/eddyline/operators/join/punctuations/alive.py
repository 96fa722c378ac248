"""Which rows, and which values, can still be in a result to come.

Answer   A *root* is a row of one reference, or a value of grouping columns. The other references are spanned from it
         along equalities; child j is pinned to the values v that it shares with its parent. With instants instead of
         truth values (and = min, or = max):

             new(j, v)       until j is closed for v, or until a stored row of j with v stops to be alive below
             old(j, v)       until the last stored row of j with v and old children leaves its window
             possible        the later of both
             a row or value is alive until min(its window, possible of all children, the latest new of a child)

State    None between two calls: `JoinShape` knows the shape of the join, `AliveEvaluation` is one evaluation over the
         rows that are stored now.
Limits   From every root its own spanning tree of the join graph, the shortest ways first: references that share one key
         with the root are its children, all of them. On graphs with cycles, and for patterns over several columns, a
         dead root may count as alive. Values whose keys are hashes are compared by them here: two of one hash live as
         long as the longer of them.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import ColumnRef, Expression
from eddyline.model.expressions.monotone import trend_of
from eddyline.model.records.punctuation import ValuePattern, regions_of
from eddyline.model.window import FOREVER, Range, Rows
from eddyline.operators.aggregate.buckets import Bucket, Ends
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.policy import Came
from eddyline.operators.join.probing.inverse import Turned, inverse_of
from eddyline.operators.promises.closed import LONG_AGO, Closed
from eddyline.operators.promises.closings import Closings
from eddyline.operators.stream.keys import combined
from eddyline.state.columns import Ints

_TIMED = ("INT", "BIGINT", "DATE", "TIMESTAMP")


@dataclass(frozen=True, slots=True)
class Pin:
    """A key of a child that a parent's value fixes."""

    key: str
    type: DataType
    #: The child's column and how to get it from the key; None: the key does not tell it.
    column: str | None
    turned: Turned | None
    #: Where the key follows the child's event time: the first instant after the rows with a value of it.
    ends: Ends | None
    #: Whether the key is the column itself.
    is_column: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """From a parent to a child: the parent's keys, and what they fix at the child."""

    child: int
    keys: tuple[str, ...]
    pins: tuple[Pin, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """Values of grouping columns, by reference: the join keys that they fix, as arrays of these keys' types."""

    rows: int
    #: Child -> (pin, values) of each column of it that the root fixes.
    pinned: Mapping[int, Sequence[tuple[Pin, pa.Array, Ints]]]


@dataclass(frozen=True, slots=True, eq=False)
class SpanningBranch:
    """A reference and what hangs below it in a spanning tree."""

    position: int
    links: tuple[tuple[Link, SpanningBranch], ...]
    #: Equal for branches in which the same references hang in the same places.
    shape: tuple[object, ...]


class JoinShape:
    """The shape of one join: which reference is reached from which."""

    def __init__(self, group: JoinGroup, closings: Closings) -> None:
        self.group = group
        self.closings = closings
        self.links: dict[int, list[Link]] = {position: [] for position in group.bases}
        self._expressions: dict[tuple[int, str], Expression] = {
            (position, key.name): key.expression
            for position, seat in enumerate(group.config.seats)
            for key in seat.keys
        }
        edges: dict[tuple[int, int], list[tuple[str, str]]] = {}
        for equality in group.config.equalities:
            low, high = sorted(((equality.left, equality.left_key), (equality.right, equality.right_key)))
            edges.setdefault((low[0], high[0]), []).append((low[1], high[1]))
        for (a, b), keys in edges.items():
            self._link(a, b, keys)
            self._link(b, a, [(y, x) for x, y in keys])
        self._branches: dict[frozenset[int], dict[int, SpanningBranch]] = {}
        self.parts = self._parts()
        self.reload()

    def branches(self, roots: frozenset[int]) -> dict[int, SpanningBranch]:
        """The spanning trees below references that are roots together, by root: each reference hangs where it is
        reached first."""
        if roots not in self._branches:
            below: dict[int, list[Link]] = {}
            reached, pending = set(roots), sorted(roots)
            while pending:
                parent = pending.pop(0)
                below[parent] = [link for link in self.links[parent] if link.child not in reached]
                reached |= {link.child for link in below[parent]}
                pending += [link.child for link in below[parent]]

            def grown(position: int) -> SpanningBranch:
                links = tuple((link, grown(link.child)) for link in below[position])
                return SpanningBranch(position, links, (position, *(branch.shape for _, branch in links)))

            self._branches[roots] = {position: grown(position) for position in roots}
        return self._branches[roots]

    def _link(self, parent: int, child: int, keys: list[tuple[str, str]]) -> None:
        pins = tuple(self.pin(child, self._expressions[child, key], key) for _, key in keys)
        self.links[parent].append(Link(child, tuple(key for key, _ in keys), pins))

    def pin(self, child: int, expression: Expression, key: str) -> Pin:
        turned = inverse_of(expression)
        source = self.group.config.seats[child].source
        trend = trend_of(expression) if expression.type.name in _TIMED else None
        ends = (
            Ends(Bucket(0, expression))
            if trend is not None and self.closings.times.get(source) == trend.column.column
            else None
        )
        column, back = (None, None) if turned is None else (turned[0].column, turned[1])
        return Pin(key, expression.type, column, back, ends, isinstance(expression, ColumnRef))

    def _parts(self) -> list[set[int]]:
        """The connected parts of the join graph."""
        parts: list[set[int]] = []
        for position in self.group.bases:
            if not any(position in part for part in parts):
                part, pending = {position}, [position]
                while pending:
                    for link in self.links[pending.pop()]:
                        if link.child not in part:
                            part.add(link.child)
                            pending.append(link.child)
                parts.append(part)
        return parts

    def reload(self) -> None:
        """The members of the group have changed: the ranges that all their filters leave of each reference."""
        self.regions: dict[int, dict[str, ValuePattern]] = {}
        for position, base in self.group.bases.items():
            found: dict[str, ValuePattern] | None = None
            for member in base.port.members.values():
                mine = regions_of(member.predicate)
                found = mine if found is None else {c: p.join(mine[c]) for c, p in found.items() if c in mine}
            self.regions[position] = found or {}

    def promised(self, position: int) -> tuple[Closed | None, dict[str, ValuePattern]]:
        """What is promised of the stream of a reference (None: nothing), and what filters say of the reference."""
        return self.closings.closed.get(self.group.bases[position].port.source), self.regions[position]


class AliveEvaluation:
    """One evaluation: what is computed for one root is used for the others. `only` confines it to rows, by reference,
    with which no other rows share a key."""

    def __init__(self, rule: JoinShape, came: Came, only: Mapping[int, Ints] | None = None) -> None:
        self.rule = rule
        self.only = only
        self.group = rule.group
        self.came = came
        self._ids: dict[int, Ints] = {}
        self._windows: dict[int, Ints] = {}
        self._rows: dict[tuple[object, ...], tuple[Ints, Ints]] = {}

    # -- roots

    def rows_alive(self, position: int) -> tuple[Ints, Ints]:
        """The ids of the stored rows of a reference, and until when each can be in a result to come."""
        return self.ids(position), self._below(self.rule.branches(frozenset((position,)))[position], is_root=True)[0]

    def values_alive(self, roots: Values) -> Ints:
        """Until when a result with these values of grouping columns can come."""
        possible, new = np.full(roots.rows, FOREVER), np.full(roots.rows, LONG_AGO)
        if any(not (part & roots.pinned.keys()) and not self._never_new(part) for part in self.rule.parts):
            # A reference that neither the root nor another reference fixes can always bring a new row.
            return np.full(roots.rows, FOREVER)
        branches = self.rule.branches(frozenset(roots.pinned))
        for child, pins in roots.pinned.items():
            one_new, one_old = self._at(branches[child], pins, roots.rows, needs_old=False)
            possible = np.minimum(possible, np.maximum(one_new, one_old))
            new = np.maximum(new, one_new)
        return np.minimum(possible, new)

    def _never_new(self, part: set[int]) -> bool:
        bases = self.group.bases
        return all(bases[position].stream.is_table and not bases[position].stream.changes for position in part)

    # -- values of a reference

    def _at(
        self, branch: SpanningBranch, pins: Sequence[tuple[Pin, pa.Array, Ints]], rows: int, needs_old: bool = True
    ) -> tuple[Ints, Ints]:
        """new and old of a reference, for values that its parent fixes. Where a value is not closed and `needs_old` is
        false, what is
        stored does not matter: it is possible for ever."""
        child = branch.position
        base = self.group.bases[child]
        new = self._closed(child, base, pins, rows)
        old = np.full(rows, LONG_AGO)
        if not base.port.probed or (not needs_old and not (new < FOREVER).any()):
            return new, old
        ids = self.ids(child)
        if len(ids):
            held = (
                combined([base.store.at(pin.key, ids) for pin, _, _ in pins]) if pins else np.zeros(len(ids), np.int64)
            )
            asked = combined([keys for _, _, keys in pins]) if pins else np.zeros(rows, np.int64)
            row_new, row_old = self._below(branch)
            for pin, _, _ in pins:
                if pin.key not in base.port.required:
                    # A row without a value has none of the given ones.
                    there = np.asarray(base.values_of(pin.key, ids).is_valid())
                    row_new, row_old = np.where(there, row_new, LONG_AGO), np.where(there, row_old, LONG_AGO)
            if not needs_old:
                here = np.isin(held, asked[new < FOREVER])
                if not here.any():
                    return new, old
                held, row_new, row_old = held[here], row_new[here], row_old[here]
            order = np.argsort(held)
            keys = held[order]
            first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
            keys = keys[first]
            most_new, most_old = np.maximum.reduceat(row_new[order], first), np.maximum.reduceat(row_old[order], first)
            at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
            found = keys[at] == asked
            new = np.where(found, np.maximum(new, most_new[at]), new)
            old = np.where(found, most_old[at], old)
        return new, old

    def _closed(self, child: int, base: StreamInput, pins: Sequence[tuple[Pin, pa.Array, Ints]], rows: int) -> Ints:
        """When a reference was closed for values."""
        if base.stream.is_table:
            # A table that is read again can bring a row at any time.
            return np.full(rows, FOREVER if base.stream.changes else LONG_AGO)
        found = np.full(rows, FOREVER)
        columns = {
            pin.column: pin.turned(values)
            for pin, values, _ in pins
            if pin.column is not None and pin.turned is not None
        }
        closed, regions = self.rule.promised(child)
        if closed is not None and not closed.is_empty:
            found = closed.instants(columns, rows, regions)
        for pin, _, keys in pins:
            if pin.ends is not None:
                found = np.minimum(found, pin.ends.due(keys) - 1)
        return found

    # -- stored rows

    def _below(self, branch: SpanningBranch, is_root: bool = False) -> tuple[Ints, Ints]:
        """Of the stored rows of a reference: until when a result to come with them has a new row below, and until when
        all is old."""
        if branch.shape in self._rows:
            return self._rows[branch.shape]
        position = branch.position
        base, ids = self.group.bases[position], self.ids(position)
        possible = old = self.window(position)
        new = np.full(len(ids), LONG_AGO)
        for link, below in branch.links:
            pins = [(pin, *self._key(base, key, ids)) for pin, key in zip(link.pins, link.keys, strict=True)]
            # Nothing lies above a root: when all below it is old is not asked for.
            one_new, one_old = self._at(below, pins, len(ids), needs_old=not is_root)
            possible = np.minimum(possible, np.maximum(one_new, one_old))
            old = np.minimum(old, one_old)
            new = np.maximum(new, one_new)
        if is_root and len(self.rule.parts) > 1:
            # References that nothing joins to this one can always bring a new row, unless they are tables.
            others = [part for part in self.rule.parts if position not in part]
            if not all(self._never_new(part) for part in others):
                new = np.full(len(ids), FOREVER)
        found = np.minimum(possible, new), old
        self._rows[branch.shape] = found
        return found

    def _key(self, base: StreamInput, key: str, ids: Ints) -> tuple[pa.Array, Ints]:
        """The values of a key of stored rows, and their keys."""
        return base.values_of(key, ids), base.store.at(key, ids)

    def ids(self, position: int) -> Ints:
        """The stored rows that the group has reached and some member of it wants."""
        if position not in self._ids:
            base = self.group.bases[position]
            here = np.empty(0, np.int64)
            if base.port.probed:
                here = base.ids() if self.only is None else self.only[position]
            self._ids[position] = base.wanted(here)
        return self._ids[position]

    def window(self, position: int) -> Ints:
        """Until when each stored row of a reference is in its window."""
        if position not in self._windows:
            self._windows[position] = self._window(position)
        return self._windows[position]

    def _window(self, position: int) -> Ints:
        base, ids = self.group.bases[position], self.ids(position)
        windows = [member.window for member in base.port.members.values()]
        if base.stream.is_table or not windows:
            return np.full(len(ids), FOREVER)
        if all(isinstance(window, Range) for window in windows):
            return base.store.at("ts", ids) + max(window.micros for window in windows if isinstance(window, Range))
        if all(isinstance(window, Rows) for window in windows):
            # A row leaves with the row that pushes it out, where that has come.
            before, times = self.came(base.port.source)
            pusher = base.store.at(base.port.reader.numbers, ids) + max(
                window.count for window in windows if isinstance(window, Rows)
            )
            ends = np.where(pusher < before, LONG_AGO, FOREVER)
            here = (pusher >= before) & (pusher < before + len(times))
            ends[here] = times[pusher[here] - before]
            return ends
        return np.full(len(ids), FOREVER)
