"""The first rows of a partition, and values of earlier rows.

Answer   `Ranking` has the order of the rows of a partition, and how many of the first ones are results. `Followed` is a
         value of an earlier row of the same partition: LAG, FIRST_VALUE, LAST_VALUE.
Limits   Frozen values, without any row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Expression


@dataclass(frozen=True, slots=True)
class Ordering:
    expression: Expression
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"{self.expression}{' DESC' * self.descending}{' NULLS FIRST' * self.nulls_first}"


@dataclass(frozen=True)
class Ranking:
    partition: tuple[Expression, ...]
    #: Rows that are equal in all of them are ordered by time.
    order: tuple[Ordering, ...]
    #: How many rows of each partition are results.
    most: int
    #: Which outputs are the number of the row.
    numbers: tuple[int, ...] = ()

    def mapped(self, change: Callable[[Expression], Expression]) -> Ranking:
        order = tuple(replace(o, expression=change(o.expression)) for o in self.order)
        return replace(self, partition=tuple(change(e) for e in self.partition), order=order)

    def __str__(self) -> str:
        by = f"partition by {', '.join(map(str, self.partition))} " if self.partition else ""
        return f"first {self.most} {by}order by {', '.join(map(str, self.order))}"


@dataclass(frozen=True)
class Followed:
    """`lag`, `first_value` or `last_value` of an expression."""

    function: str
    value: Expression
    partition: tuple[Expression, ...]
    #: LAG: how many rows before.
    distance: int = 1
    #: LAG: the value where there is no such row; None: NULL.
    otherwise: Expression | None = None

    @property
    def type(self) -> DataType:
        return self.value.type

    def mapped(self, change: Callable[[Expression], Expression]) -> Followed:
        otherwise = None if self.otherwise is None else change(self.otherwise)
        return replace(
            self, value=change(self.value), partition=tuple(change(e) for e in self.partition), otherwise=otherwise
        )
