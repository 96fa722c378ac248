"""The values of PredSAT: variables, differences between them, ranges of their keys.

Answer   The planner turns conditions into differences (`plan/ranges/predsat.py`). Joins call it through the protocols
         here: for which pairs of zones no rows match, and which conditions hold for all of their rows.
Limits   Keys are ordered int64: those that zones have (`state/zones.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from eddyline.model.expressions.expression import ColumnRef, Expression

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

#: The range of keys: that of int64.
LEAST_KEY, MOST_KEY = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Variable:
    """A column, or a monotone function of one; or a constant."""

    #: None: a constant, with this key.
    column: ColumnRef | None
    core: Expression | None
    falls: bool = False
    #: For values outside some term overflows: nothing is decided for them.
    least: int = LEAST_KEY
    most: int = MOST_KEY
    key: int = 0

    @property
    def is_column(self) -> bool:
        """Whether the keys of the column are those of the variable."""
        return isinstance(self.core, ColumnRef)


@dataclass(frozen=True, slots=True)
class Conjunct:
    """`left - right` is at most (`<=`), exactly (`=`) or not (`<>`) the bound."""

    condition: Expression
    operator: str
    left: int
    right: int
    bound: int = 0
    #: Less than the bound, where values may lie between whole ones.
    strict: bool = False
    #: Equal keys do not mean equal values.
    prefixes: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Least and greatest keys of one variable in the zones along one axis of a grid of pairs."""

    low: Ints
    high: Ints
    #: Whether values are missing; None: none are.
    nulls: Flags | None = None
    #: Where the ends do not belong to the range; None: all do.
    low_open: Flags | None = None
    high_open: Flags | None = None


class Contradictions(Protocol):
    """Differences, closed."""

    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of variables that some bound connects."""

    def skips(self, ranges: Mapping[int, Ranges]) -> Flags:
        """For which pairs of zones no pair of rows satisfies all conjuncts."""


class Certainties(Protocol):
    """Called in the order in which conjuncts are tested."""

    def holds(self, part: Conjunct) -> Flags | None:
        """For which pairs the conjunct holds whatever the rows are; None: for none."""

    def tested(self, part: Conjunct) -> None:
        """The conjunct holds for what is left."""


class Differences(Protocol):
    """The conditions of a query that are differences."""

    @property
    def variables(self) -> tuple[Variable, ...]: ...

    def among(self, conditions: Iterable[Expression]) -> tuple[Conjunct, ...]:
        """The conjuncts of these conditions."""

    def system(self, conditions: Iterable[Expression]) -> Contradictions:
        """The conjunction of these conditions."""

    def passing(self, ranges: Mapping[int, Ranges]) -> Certainties:
        """The conjuncts that hold for all rows of the ranges."""
