"""PredSAT: whether a conjunction holds for all, or for none, of the rows of two zones, exactly.

Answer   `conjuncts_of` turns conditions into *differences*: f(x) op g(y), with monotone f and g, becomes `u - v <= c`
         over keys (the ordered int64 keys of zones). `System` closes them by Floyd-Warshall and answers for many pairs
         of zones in one array operation:

             skip   iff  low_i - up_j > D_ij  for some i, j       (>= if a difference on the way is strict)
             pass   iff  the conjunct holds at the worst ends of the ranges, after the conjuncts that were tested before
                         it have narrowed them

State    None after it is made.
Limits   Whole numbers, dates and timestamps have differences with constants. Values of other types are only compared (c
         = 0): the engine's functions compute DOUBLEs at the ends of a range. The key of a text has its first 8 bytes, so
         equal keys decide nothing. Conditions of another form are no conjuncts; the join evaluates them. Skip is
         complete for conjunctions of such differences: a contradiction is a cycle, and a cycle leaves the ranges once.
Reading  docs/heralds.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eddyline.model.expressions.differences import LEAST_KEY, MOST_KEY, Conjunct, Flags, Ints, Ranges, Variable
from eddyline.model.expressions.expression import Expression
from eddyline.plan.ranges.monotone_terms import FAR, Term, compared

#: No bound. Sums of two stay within 64 bits.
NO_BOUND = 1 << 61


@dataclass(frozen=True, slots=True)
class Conjuncts:
    variables: tuple[Variable, ...]
    parts: tuple[Conjunct, ...]

    def among(self, conditions: Iterable[Expression]) -> tuple[Conjunct, ...]:
        wanted = set(conditions)
        return tuple(part for part in self.parts if part.condition in wanted)

    def system(self, conditions: Iterable[Expression]) -> System:
        """The conjunction of these conditions."""
        return System.of(len(self.variables), self.among(conditions))

    def passing(self, ranges: Mapping[int, Ranges]) -> HeldConjuncts:
        """The conjuncts that hold for all rows of the ranges."""
        return HeldConjuncts(ranges)


def conjuncts_of(conditions: Iterable[Expression]) -> Conjuncts:
    """The conditions that are differences, over numbered variables."""
    numbers: dict[Any, int] = {}
    variables: list[Variable] = []
    parts: list[Conjunct] = []

    def number(term: Term) -> int:
        place = term.core if term.column is not None else ("constant", term.key)
        if place not in numbers:
            numbers[place] = len(variables)
            variables.append(Variable(term.column, term.core, term.falls, key=term.key))
        at = numbers[place]
        least, most = max(variables[at].least, term.least), min(variables[at].most, term.most)
        variables[at] = replace(variables[at], least=least, most=most)
        return at

    for condition in conditions:
        found = compared(condition)
        if found is None:
            continue
        operator, left, right = found
        if operator in (">", ">="):
            operator, left, right = {">": "<", ">=": "<="}[operator], right, left
        u, v = number(left), number(right)
        bound, whole, prefixes, strict = right.offset - left.offset, left.is_whole, left.is_prefix, False
        if operator == "<":
            # Of whole numbers `<` is `<=` with a bound that is smaller by 1; keys of prefixes decide no strictness.
            operator, bound, strict = "<=", bound - whole, not whole and not prefixes
        parts.append(Conjunct(condition, operator, u, v, bound, strict, prefixes))
    return Conjuncts(tuple(variables), tuple(parts))


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """Differences, closed: `low_i - up_j` beyond `bounds[i, j]` contradicts them."""

    bounds: Ints
    strict: Flags
    parts: tuple[Conjunct, ...]
    is_impossible: bool

    @staticmethod
    def of(variables: int, parts: Sequence[Conjunct]) -> System:
        bounds = np.full((variables, variables), NO_BOUND)
        np.fill_diagonal(bounds, 0)
        strict = np.zeros(bounds.shape, np.bool_)
        for part in parts:
            edges = [(part.left, part.right, part.bound, part.strict)] if part.operator != "<>" else []
            if part.operator == "=":
                edges.append((part.right, part.left, -part.bound, False))
            for i, j, bound, is_strict in edges:
                if (bound, not is_strict) < (int(bounds[i, j]), not strict[i, j]):
                    bounds[i, j], strict[i, j] = bound, is_strict
        bounds, strict = closed(bounds, strict)
        diagonal = np.arange(variables)
        wrong = (bounds[diagonal, diagonal] < 0) | ((bounds[diagonal, diagonal] == 0) & strict[diagonal, diagonal])
        return System(bounds, strict, tuple(parts), bool(wrong.any()))

    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of variables that some bound connects."""
        found = np.argwhere((self.bounds < NO_BOUND) & ~np.eye(len(self.bounds), dtype=np.bool_))
        return [(int(i), int(j)) for i, j in found]

    def skips(self, ranges: Mapping[int, Ranges]) -> Flags:
        """For which pairs of zones no pair of rows satisfies all conjuncts."""
        shape = np.broadcast_shapes(*(one.low.shape for one in ranges.values()))
        skipped: Flags = np.full(shape, self.is_impossible)
        for one in ranges.values():
            skipped |= one.low > one.high
        for i, j in self.pairs():
            if i in ranges and j in ranges:
                low, up = ranges[i], ranges[j]
                bound, is_strict = int(self.bounds[i, j]), bool(self.strict[i, j])
                skipped |= beyond(low.low, up.high, bound, is_strict, low.low_open, up.high_open)
        for part in self.parts:
            if part.operator == "<>" and not part.prefixes and part.left in ranges and part.right in ranges:
                skipped |= _same_point(part, ranges[part.left], ranges[part.right])
        return skipped


def closed(bounds: Ints, strict: Flags) -> tuple[Ints, Flags]:
    """Floyd-Warshall over (bound, strict) pairs. The last two axes are the matrix: many systems are closed at once."""
    for k in range(bounds.shape[-1]):
        to, onwards = bounds[..., :, k, None], bounds[..., None, k, :]
        through = np.where((to >= NO_BOUND) | (onwards >= NO_BOUND), NO_BOUND, to + onwards)
        open_ = strict[..., :, k, None] | strict[..., None, k, :]
        better = (through < bounds) | ((through == bounds) & open_ & ~strict & (through < NO_BOUND))
        bounds = np.where(better, np.maximum(through, -NO_BOUND), bounds)
        strict = np.where(better, open_, strict)
    return bounds, strict


class HeldConjuncts:
    """Which conjuncts hold for all pairs of rows of two zones.

    The caller goes through the conjuncts in the order in which it tests them, and calls `tested` after each: rows that
    are left satisfy it, so that it narrows the ranges for the next one.
    """

    def __init__(self, ranges: Mapping[int, Ranges]) -> None:
        self._ranges = dict(ranges)
        #: Variables without missing values: rows with one do not satisfy a conjunct on the variable.
        self._full = {number for number, one in ranges.items() if one.nulls is None or not one.nulls.any()}

    def holds(self, part: Conjunct) -> Flags | None:
        """For which pairs the conjunct holds whatever the rows are; None: for none."""
        if part.left not in self._ranges or part.right not in self._ranges:
            return None
        left, right = self._ranges[part.left], self._ranges[part.right]
        found = _surely(part, left, right)
        if found is None:
            return None
        for number in (part.left, part.right):
            nulls = self._ranges[number].nulls
            if number not in self._full and nulls is not None:
                found = found & ~nulls
        return found

    def tested(self, part: Conjunct) -> None:
        """The conjunct holds for what is left."""
        if part.left not in self._ranges or part.right not in self._ranges:
            return
        self._full |= {part.left, part.right}
        if part.operator == "<>":
            return
        left, right = self._ranges[part.left], self._ranges[part.right]
        most = np.minimum(left.high, plus(right.high, part.bound))
        least = np.maximum(right.low, plus(left.low, -part.bound))
        low, high = left.low, right.high
        if part.operator == "=":
            low, high = np.maximum(low, plus(right.low, part.bound)), np.minimum(high, plus(left.high, -part.bound))
        self._ranges[part.left], self._ranges[part.right] = Ranges(low, most), Ranges(least, high)


def _surely(part: Conjunct, left: Ranges, right: Ranges) -> Flags | None:
    if part.operator == "<=":
        if part.prefixes:
            return left.high < right.low
        return ~beyond(left.high, right.low, part.bound, part.strict)
    if part.operator == "=":
        return None if part.prefixes else _same_point(part, left, right)
    apart: Flags = beyond(left.low, right.high, part.bound, False) | beyond(right.low, left.high, -part.bound, False)
    return apart


def _same_point(part: Conjunct, left: Ranges, right: Ranges) -> Flags:
    """Where both ranges are one value, with the difference of the conjunct."""
    point = (left.low == left.high) & (right.low == right.high)
    same: Flags = point & (left.low == plus(right.low, part.bound)) & fits(right.low, part.bound)
    return same


def beyond(
    a: Ints, b: Ints, bound: int, is_strict: bool, a_open: Flags | None = None, b_open: Flags | None = None
) -> Flags:
    """Whether a - b exceeds the bound, or reaches it where the bound is strict or an end open; without overflow."""
    reach, fit = plus(b, bound), fits(b, bound)
    exceeds: Flags = a >= reach if is_strict else a > reach
    for is_open in (a_open, b_open) if not is_strict else ():
        if is_open is not None:
            exceeds = exceeds | ((a == reach) & is_open)
    if bound == 0 or fit.all():
        return exceeds
    # b + bound outside of 64 bits: every key exceeds a sum below all keys, and none exceeds one above all keys.
    return np.where(fit, exceeds, bound < 0)


def plus(keys: Ints, bound: int) -> Ints:
    """keys + bound, held within 64 bits."""
    if bound == 0:
        return keys
    assert abs(bound) < NO_BOUND + FAR
    return np.minimum(keys, MOST_KEY - bound) + bound if bound > 0 else np.maximum(keys, LEAST_KEY - bound) + bound


def fits(keys: Ints, bound: int) -> Flags:
    """Whether keys + bound lies within 64 bits."""
    return keys <= MOST_KEY - bound if bound > 0 else keys >= LEAST_KEY - bound


__all__ = ["Conjunct", "Conjuncts", "HeldConjuncts", "Ranges", "System", "Variable", "closed", "conjuncts_of"]
