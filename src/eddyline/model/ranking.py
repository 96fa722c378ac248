"""Rows that know their place among others: the first ones of a partition, and rows that came before.

Answer   `Ranking` says which rows of a partition are the first ones, in which order, and how many of them are results.
         `Followed` is a value of an earlier row of the same partition: LAG, FIRST_VALUE, LAST_VALUE.
Limits   Plain data.
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
    #: LAG: what there is without such a row; None: NULL.
    otherwise: Expression | None = None

    @property
    def type(self) -> DataType:
        return self.value.type

    def mapped(self, change: Callable[[Expression], Expression]) -> Followed:
        otherwise = None if self.otherwise is None else change(self.otherwise)
        return replace(
            self, value=change(self.value), partition=tuple(change(e) for e in self.partition), otherwise=otherwise
        )
