"""What the plan hands to a book: one pattern, and one book. No kernels, so that planning loads none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eddyline.model.datatypes import DataType
from eddyline.model.patterns.constraint import EventBook, Rules
from eddyline.model.patterns.pattern import Disjunct, EventPattern, Failing


@dataclass(frozen=True)
class PatternConfig:
    """One EVENT query as the book takes it: disjuncts that can match, each with its failing conditions (None: it is not
    pruned)."""

    name: str
    pattern: EventPattern
    kind: DataType
    disjuncts: tuple[Disjunct, ...]
    failing: tuple[Failing | None, ...]
    #: prune | check | off
    mode: str
    #: Matches of one event beyond which the job stops; None: a warning says that there are very many.
    most_matches: int | None = None


@dataclass(frozen=True)
class BookConfig:
    """One book: its key, the columns of its stream, its rules, and what a violation does."""

    key: EventBook
    columns: Mapping[str, DataType]
    rules: Rules
    on_violation: str = "dead-letter"
