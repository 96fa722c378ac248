"""PredSAT: whether a conjunction holds for all, or for none, of the rows of whole stretches, exactly.

Answer   `conjuncts_of` turns conditions into *differences*: f(x) op g(y), with monotone f and g, becomes `u - v <= c`
         over keys (ordered int64, as zones have them). `System` closes them by Floyd-Warshall and answers for many
         pairs of stretches in one array operation:

             skip   iff  low_i - up_j > D_ij  for some i, j       (>= where something on the way is strict)
             pass   iff  the conjunct holds at the worst ends of the ranges, as rows and conjuncts tested *before* it
                         have made them

State    None after it is made.
Limits   Whole numbers, dates and timestamps have differences with constants. Values of other types are compared only (c
         = 0): DOUBLE arithmetic is done by the engine's own functions at the ends of a range. A text has the key of its
         first 8 bytes: equal keys decide nothing. A condition of another form is no conjunct and is evaluated. Skip is
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
        """What these conditions say together."""
        return System.of(len(self.variables), self.among(conditions))

    def passing(self, ranges: Mapping[int, Ranges]) -> HeldConjuncts:
        """What holds for all rows of the ranges."""
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
        variables[at] = replace(
            variables[at], least=max(variables[at].least, term.least), most=min(variables[at].most, term.most)
        )
        return at

    for condition in conditions:
        found = compared(condition)
        if found is None:
            continue
        operator, left, right = found
        if operator in (">", ">="):
            operator, left, right = {">": "<", ">=": "<="}[operator], right, left
        u, v = number(left), number(right)
        bound, whole, prefixes = right.offset - left.offset, left.is_whole, left.is_prefix
        if operator in ("=", "<>"):
            parts.append(Conjunct(condition, operator, u, v, bound, prefixes=prefixes))
        elif operator == "<":
            parts.append(Conjunct(condition, "<=", u, v, bound - whole, not whole and not prefixes, prefixes))
        else:
            parts.append(Conjunct(condition, "<=", u, v, bound, prefixes=prefixes))
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
        """Of which pairs of stretches no pair of rows satisfies all conjuncts."""
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
                left, right = ranges[part.left], ranges[part.right]
                point = (left.low == left.high) & (right.low == right.high)
                skipped |= point & (left.low == plus(right.low, part.bound)) & fits(right.low, part.bound)
        return skipped


def closed(bounds: Ints, strict: Flags) -> tuple[Ints, Flags]:
    """Floyd-Warshall over (bound, strict) pairs; the last two axes are the matrix, so that many systems are closed at
    once."""
    for k in range(bounds.shape[-1]):
        through = bounds[..., :, k, None] + bounds[..., None, k, :]
        through = np.where(
            (bounds[..., :, k, None] >= NO_BOUND) | (bounds[..., None, k, :] >= NO_BOUND), NO_BOUND, through
        )
        open_ = strict[..., :, k, None] | strict[..., None, k, :]
        better = (through < bounds) | ((through == bounds) & open_ & ~strict & (through < NO_BOUND))
        bounds = np.where(better, np.maximum(through, -NO_BOUND), bounds)
        strict = np.where(better, open_, strict)
    return bounds, strict


class HeldConjuncts:
    """Which conjuncts hold for all pairs of two stretches, asked in the order in which they are tested.

    Every conjunct that has been asked about has been tested or passed when the next one is: it may narrow the ranges.
    """

    def __init__(self, ranges: Mapping[int, Ranges]) -> None:
        self._ranges = dict(ranges)
        #: No missing value counts once a conjunct on the variable has been tested.
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
        high, low = (
            np.minimum(left.high, plus(right.high, part.bound)),
            np.maximum(right.low, plus(left.low, -part.bound)),
        )
        if part.operator == "=":
            left, right = (
                Ranges(np.maximum(left.low, plus(right.low, part.bound)), high),
                Ranges(low, np.minimum(right.high, plus(left.high, -part.bound))),
            )
        else:
            left, right = Ranges(left.low, high), Ranges(low, right.high)
        self._ranges[part.left], self._ranges[part.right] = left, right


def _surely(part: Conjunct, left: Ranges, right: Ranges) -> Flags | None:
    if part.operator == "<=":
        if part.prefixes:
            return left.high < right.low
        return ~beyond(left.high, right.low, part.bound, part.strict)
    if part.operator == "=":
        if part.prefixes:
            return None
        point = (left.low == left.high) & (right.low == right.high)
        same: Flags = point & (left.low == plus(right.low, part.bound)) & fits(right.low, part.bound)
        return same
    apart: Flags = beyond(left.low, right.high, part.bound, False) | beyond(right.low, left.high, -part.bound, False)
    return apart


def beyond(
    a: Ints, b: Ints, bound: int, is_strict: bool, a_open: Flags | None = None, b_open: Flags | None = None
) -> Flags:
    """Whether a - b exceeds the bound (reaches it, where something is strict or open); no difference overflows."""
    reach, fit = plus(b, bound), fits(b, bound)
    exceeds: Flags = a > reach
    if is_strict:
        exceeds = a >= reach
    elif a_open is not None or b_open is not None:
        exceeds = exceeds | (
            (a == reach) & ((False if a_open is None else a_open) | (False if b_open is None else b_open))
        )
    if bound == 0 or fit.all():
        return exceeds
    # Beyond the ends of 64 bits: a sum below all keys is exceeded, one above all keys is not.
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
