"""A bound event pattern: leaves, and disjuncts that order them.

Answer   `EventPattern` is what an EVENT query adds to a bound query. Its `leaves` are in the order written. Its
         `disjuncts` are the conjunctive parts of the expression: each has some of the leaves and a strict partial order
         on them; a match maps the leaves of one disjunct to events of one trace. A `Gap` is a NOT: no event of its leaf
         lies between the leaves before it and the leaves after it.
Limits   At most 64 leaves and 64 disjuncts: both are bits of one 64-bit integer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from eddyline.model.expressions.expression import ColumnRef, Expression, refs_of
from eddyline.model.patterns.constraint import EventBook, EventType, type_text

#: The bits of a 64-bit integer.
MOST_LEAVES = 64
MOST_DISJUNCTS = 64

#: The alias of columns that all events of a trace share.
TRACE = "_trace"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One event of the expression; `condition` reads columns of `name` only."""

    name: str
    type: EventType
    condition: Expression | None = None
    negated: bool = False

    def __str__(self) -> str:
        condition = "" if self.condition is None else f"[{self.condition}]"
        alias = "" if self.name == self.type else f" {self.name}"
        return f"{type_text(self.type)}{condition}{alias}"


@dataclass(frozen=True, slots=True)
class Gap:
    """No event of `leaf` after all leaves of `before` and before all of `after`, which are bits of the disjunct's own
    leaves.

    `after` is 0 for a NOT at the end: there the gap lasts until the first event's time plus WITHIN.
    """

    leaf: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Disjunct:
    """`leaves` are numbers of the pattern's leaves, in the order written; `before[i]` has a bit for every leaf that
    comes before leaf i."""

    leaves: tuple[int, ...]
    before: tuple[int, ...]
    gaps: tuple[Gap, ...] = ()

    @property
    def sinks(self) -> int:
        """Bits of the leaves that nothing comes after: the last event of a match is taken by one of them."""
        inner = 0
        for mask in self.before:
            inner |= mask
        return ((1 << len(self.leaves)) - 1) & ~inner

    @property
    def waits(self) -> bool:
        """Whether there is a NOT at the end."""
        return any(gap.after == 0 for gap in self.gaps)


@dataclass(frozen=True)
class EventPattern:
    book: EventBook
    leaves: tuple[Leaf, ...]
    disjuncts: tuple[Disjunct, ...]
    #: WHERE, split at AND; columns of a name, or of TRACE.
    where: tuple[Expression, ...] = ()
    within: int | None = None
    first: bool = False
    #: The columns of PARTITION BY, of the stream.
    keys: tuple[ColumnRef, ...] = ()
    #: The expression, for EXPLAIN.
    text: str = ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names that a match binds, in the order written."""
        return tuple(dict.fromkeys(leaf.name for leaf in self.leaves if not leaf.negated))

    @property
    def waits(self) -> bool:
        return any(d.waits for d in self.disjuncts)

    def names_of(self, disjunct: Disjunct) -> tuple[str, ...]:
        return tuple(self.leaves[number].name for number in disjunct.leaves)

    def conjuncts_of(self, disjunct: Disjunct) -> tuple[Expression, ...]:
        """The parts of WHERE that hold for a disjunct's matches as they stand: those all of whose names it binds."""
        bound = {TRACE, *self.names_of(disjunct)}
        return tuple(part for part in self.where if refs_of(part) <= bound)

    def conjuncts_of_gap(self, disjunct: Disjunct, gap: Gap) -> tuple[Expression, ...]:
        """The parts of WHERE that an event must fulfil to count for a NOT."""
        name = self.leaves[gap.leaf].name
        bound = {TRACE, name, *self.names_of(disjunct)}
        return tuple(part for part in self.where if name in refs_of(part) and refs_of(part) <= bound)

    def text_of(self, disjunct: Disjunct) -> str:
        """A disjunct as EXPLAIN shows it: its leaves, and the pairs of its order that do not follow from others."""
        names = self.names_of(disjunct)
        shown = ", ".join(str(self.leaves[number]) for number in disjunct.leaves)
        pairs = [
            f"{names[i]} < {names[j]}"
            for j, mask in enumerate(disjunct.before)
            for i in range(len(names))
            if mask >> i & 1 and self._direct(disjunct, i, j)
        ]
        return f"{{{shown}}}" + (f" with {', '.join(pairs)}" if pairs else "")

    @staticmethod
    def _direct(disjunct: Disjunct, i: int, j: int) -> bool:
        return not any(disjunct.before[j] >> k & 1 and disjunct.before[k] >> i & 1 for k in range(len(disjunct.leaves)))


@dataclass(frozen=True)
class Mask:
    """Over once all of `types` are seen or required by what was seen."""

    types: frozenset[EventType]
    whole_only: bool


@dataclass(frozen=True)
class Failing:
    """The failing conditions of one disjunct; `plus` says of a type whether it holds only for traces seen whole."""

    plus: dict[EventType, bool]
    minus: dict[EventType, frozenset[EventType]]
    local: dict[EventType, int]
    masks: tuple[Mask, ...]

    def lines(self, types: Sequence[EventType]) -> list[str]:
        """The conditions as EXPLAIN shows them; `types` are those of the leaves."""
        spell = type_text
        found = []
        if self.plus:
            found.append(
                "over once seen: "
                + ", ".join(spell(t) + (" (whole traces)" if only else "") for t, only in self.plus.items())
            )
        for t, needed in self.minus.items():
            found.append(f"over at {spell(t)} without {', '.join(sorted(map(spell, needed)))} (whole traces)")
        for t, leaves in self.local.items():
            names = dict.fromkeys(spell(types[i]) for i in range(len(types)) if leaves >> i & 1)
            found.append(f"at {spell(t)} no more {', '.join(names)}")
        for mask in self.masks:
            found.append(
                "over once seen together: "
                + ", ".join(sorted(map(spell, mask.types)))
                + (" (whole traces)" if mask.whole_only else "")
            )
        return found
