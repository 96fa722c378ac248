"""Constraints on the events of a trace: the rules of CREATE CONSTRAINTS, and the same sorted for reasoning.

Answer   A `Rule` is one entry of the statement. A `ConstraintSet` is the statement: rules under a name, for one *book*
         (a stream, its column of types, the columns that make a trace). `Rules` adds up the rules of one book as pairs
         of PRIOR, Horn clauses, sets of types that never come together, and what begins and ends a trace.
Limits   Plain data; `plan/patterns/satisfy.py` and `plan/patterns/failing.py` reason with it,
         `operators/pattern/monitor.py` checks events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from eddyline.model.expressions.expression import ColumnRef
from eddyline.model.window import span_text
from eddyline.settings import Settings

#: The value of the column of types.
EventType = str | int


@dataclass(frozen=True, slots=True)
class EventBook:
    """What patterns and constraints share: a stream, its column of types, and the columns that tell traces apart."""

    stream: str
    type: str
    partition: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f" PARTITION BY {', '.join(self.partition)}" if self.partition else ""
        return f"{self.stream} TYPE {self.type}{by}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One constraint. `kind` is prior, exclusive, require, once, if, begin, end or end after. Of an `if` the last type
    is the conclusion, `negated` after THEN NOT."""

    kind: str
    types: tuple[EventType, ...] = ()
    negated: bool = False
    span: int = 0

    def __str__(self) -> str:
        return self.text(type_text)

    def text(self, spell: Callable[[EventType], str]) -> str:
        """The rule as a statement writes it, with types spelled in a way of the caller's."""
        names = [spell(t) for t in self.types]
        if self.kind == "if":
            return f"IF {' AND '.join(names[:-1])} THEN {'NOT ' if self.negated else ''}{names[-1]}"
        if self.kind == "end after":
            return f"END AFTER {span_text(self.span)}"
        return f"{self.kind.upper()}({', '.join(names)})"


def type_text(value: EventType) -> str:
    """A type as statements write it: a plain word bare, any other text in quotes.

    >>> type_text("SendQuote"), type_text("a b"), type_text(7)
    ('SendQuote', "'a b'", '7')
    """
    if isinstance(value, int):
        return str(value)
    return value if value.isidentifier() and value.isascii() else "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True)
class ConstraintSet:
    """One CREATE CONSTRAINTS."""

    name: str
    book: EventBook
    rules: tuple[Rule, ...]
    settings: Settings = field(default_factory=Settings)
    #: The columns of PARTITION BY, of the stream.
    keys: tuple[ColumnRef, ...] = ()
    #: The statement as written.
    text: str = ""


@dataclass(frozen=True, slots=True)
class Horn:
    """All of `given` together bring `needed`."""

    given: frozenset[EventType]
    needed: EventType
    rule: Rule


@dataclass(frozen=True, slots=True)
class Never:
    """These types never come together in one trace."""

    types: frozenset[EventType]
    rule: Rule


@dataclass(frozen=True)
class Rules:
    """The rules of one book, added up. A pair (a, b) of `priors`: no a comes after a b."""

    priors: dict[tuple[EventType, EventType], Rule] = field(default_factory=dict)
    horns: tuple[Horn, ...] = ()
    nevers: tuple[Never, ...] = ()
    begin: frozenset[EventType] = frozenset()
    end: frozenset[EventType] = frozenset()
    end_after: int | None = None

    @property
    def checks(self) -> bool:
        """Whether an event can break them."""
        return bool(self.priors or self.horns or self.nevers)

    @property
    def types(self) -> frozenset[EventType]:
        found: set[EventType] = set(self.begin | self.end)
        found.update(t for pair in self.priors for t in pair)
        found.update(t for horn in self.horns for t in (*horn.given, horn.needed))
        found.update(t for never in self.nevers for t in never.types)
        return frozenset(found)

    def closure(self, types: Iterable[EventType]) -> frozenset[EventType]:
        """The types and all that they require.

        >>> sorted(rules_of([Rule("require", ("A", "B")), Rule("if", ("B", "C", "D"))]).closure("AC"))
        ['A', 'B', 'C', 'D']
        """
        found = set(types)
        grows = True
        while grows:
            grows = False
            for horn in self.horns:
                if horn.needed not in found and horn.given <= found:
                    found.add(horn.needed)
                    grows = True
        return frozenset(found)


def rules_of(rules: Iterable[Rule], *, cuts_only: bool = False) -> Rules:
    """Rules added up; with `cuts_only` what begins and ends traces, and nothing to check."""
    priors: dict[tuple[EventType, EventType], Rule] = {}
    horns: list[Horn] = []
    nevers: list[Never] = []
    begin: set[EventType] = set()
    end: set[EventType] = set()
    end_after: int | None = None
    for rule in rules:
        if rule.kind == "begin":
            begin.update(rule.types)
        elif rule.kind == "end":
            end.update(rule.types)
        elif rule.kind == "end after":
            end_after = rule.span if end_after is None else min(end_after, rule.span)
        elif cuts_only:
            continue
        elif rule.kind == "prior":
            priors.setdefault((rule.types[0], rule.types[1]), rule)
        elif rule.kind == "once":
            priors.setdefault((rule.types[0], rule.types[0]), rule)
        elif rule.kind == "exclusive" or rule.negated:
            nevers.append(Never(frozenset(rule.types), rule))
        else:
            horns.append(Horn(frozenset(rule.types[:-1]), rule.types[-1], rule))
    return Rules(priors, tuple(horns), tuple(nevers), frozenset(begin), frozenset(end), end_after)


def added_up(sets: Iterable[ConstraintSet]) -> Rules:
    """The rules of several sets of one book; those of a set under `constraints = off` only cut traces."""
    found = list(sets)
    checked = rules_of(rule for s in found if s.settings.constraints != "off" for rule in s.rules)
    cuts = rules_of((rule for s in found for rule in s.rules), cuts_only=True)
    return Rules(checked.priors, checked.horns, checked.nevers, cuts.begin, cuts.end, cuts.end_after)
