"""The prices that the tuning of a template takes from the planner.

Answer   `IndexPricing` compares configurations of an index: `best` searches, `of` prices one, `rebuilding` prices a
         migration, `scanned` and `read` price the two access paths of one pattern. Prices are seconds for all requests
         that are given.
Limits   The protocol only: `plan/index_choice/templates.py` has the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PatternLoad:
    """Requests that fix these columns (as bits): how many, how many rows the window of one has, and in how many batches
    they came."""

    columns: int
    requests: float
    rows: float
    batches: float = 1.0


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """A configuration: address bits per grouping column, and the columns from the lowest field to the highest."""

    bits: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    layout: IndexLayout
    price: float


class IndexPricing(Protocol):
    def best(
        self, patterns: list[PatternLoad], values: list[int], window_rows: float, bits: tuple[int, ...] | None = None
    ) -> Found:
        """The cheapest configuration, or the cheapest order of given bits."""

    def of(self, patterns: list[PatternLoad], values: list[int], layout: IndexLayout, window_rows: float) -> float: ...

    def rebuilding(self, rows: float) -> float: ...

    def scanned(self, pattern: PatternLoad) -> float:
        """The price of scanning, for all requests of the pattern: one scan for each of their batches."""

    def read(self, pattern: PatternLoad, values: list[int], layout: IndexLayout) -> float:
        """The price of reading the blocks of an index, for all requests of the pattern."""
