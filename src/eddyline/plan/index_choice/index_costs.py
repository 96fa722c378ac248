"""The costs of the operations of an index over address bits.

Answer   `IndexCosts` holds the seconds per operation; `IndexCosts.from_document` reads them.
Limits   This file loads no arrays, because `eddyline check` loads it through `plan/tree/budget.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from eddyline.errors import PlanProblem


def is_number(value: Any) -> bool:
    """Whether a value of a JSON document is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class IndexCosts:
    """Seconds to compute one attribute's part of a row's address, to begin a run of rows, and to visit a row."""

    hash: float
    run: float
    visit: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isfinite(value) or value < 0:
                raise PlanProblem(f"the index cost {field.name} is {value}", hint="seconds, a finite number, 0 or more")

    @classmethod
    def from_document(cls, document: Any) -> IndexCosts:
        """The costs of a JSON object with hash, run and visit."""
        names = [field.name for field in fields(cls)]
        if not isinstance(document, Mapping) or sorted(document) != sorted(names):
            raise PlanProblem(
                "the index costs have another form",
                detail=repr(document),
                hint='{"hash": 2e-9, "run": 3e-9, "visit": 1e-9}',
            )
        for name, value in document.items():
            if not is_number(value):
                raise PlanProblem(f"the index cost {name} is {value!r}", hint="seconds, a finite number, 0 or more")
        return cls(**{name: float(value) for name, value in document.items()})
