"""The workload of an index: attributes, selection patterns and rates.

Answer   `Workload`: attributes with the share of rows behind one address, the patterns of requests (which attributes
         they fix) with their frequencies, rows and requests per second, rows in the window. `Workload.from_document`
         reads the JSON form.
State    None: a frozen value. A set of attributes is a bit mask, bit i being the i-th attribute.
Limits   Attributes are taken as independent. Requests are taken to fix each value equally often, unless `shares` has
         measured shares.
Reading  docs/operators/index.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from math import isfinite
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from eddyline.errors import PlanProblem
from eddyline.plan.index_choice.index_costs import is_number

Floats = npt.NDArray[np.float64]

#: The most address bits of an index: 16 M addresses.
MOST_BITS = 24
#: Masks of attributes are signed 64-bit words.
MOST_ATTRIBUTES = 62
_FORM = (
    '{"attributes": {"A": {"values": 2048}, …}, "patterns": [{"on": ["A"], "weight": 0.5}, …], '
    '"row_rate": 1000, "request_rate": 10, "window_rows": 100000}'
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column that requests fix.

    `values` is the number of its distinct values, None for very many. `shares[b]` is the share of rows behind one of
    its addresses of b bits, as measured; without it values are numbered and the numbers spread evenly.

    >>> Attribute("gender", values=2).most_bits, Attribute("gender", values=2).share(1)
    (1, 0.5)
    >>> Attribute("colour", values=3).most_bits, round(Attribute("colour", values=3).share(1), 4)
    (2, 0.5556)
    """

    name: str
    values: int | None = None
    shares: tuple[float, ...] | None = None

    @property
    def most_bits(self) -> int:
        """The bits from which on more bits separate no further values. Three values need two bits."""
        if self.shares is not None:
            return min(len(self.shares) - 1, MOST_BITS)
        return MOST_BITS if self.values is None else min((self.values - 1).bit_length(), MOST_BITS)

    def share(self, bits: int) -> float:
        """The share of rows behind the address of a requested value."""
        if self.shares is not None:
            return self.shares[min(bits, len(self.shares) - 1)]
        addresses = 1 << bits
        if self.values is None:
            return 1 / addresses
        if addresses >= self.values:
            return 1 / self.values
        each, more = divmod(self.values, addresses)
        return (more * (each + 1) ** 2 + (addresses - more) * each**2) / self.values**2


@dataclass(frozen=True, slots=True)
class RequestPattern:
    """Requests that fix the attributes of `mask`: their share of all requests, and the rows of their window."""

    mask: int
    frequency: float
    rows: float


@dataclass(frozen=True)
class Workload:
    """Attributes, patterns and rates. Frequencies of patterns sum up to 1."""

    attributes: tuple[Attribute, ...]
    patterns: tuple[RequestPattern, ...]
    row_rate: float
    request_rate: float

    @classmethod
    def of(
        cls,
        attributes: Sequence[Attribute],
        patterns: Sequence[tuple[Sequence[str], float, float]],
        row_rate: float,
        request_rate: float,
    ) -> Workload:
        """Patterns are (names, weight, rows of the window); weights are relative, equal patterns add up."""
        if not attributes:
            raise PlanProblem("a workload needs at least one attribute", hint=_FORM)
        if len(attributes) > MOST_ATTRIBUTES:
            raise PlanProblem(f"a workload has {len(attributes)} attributes", hint=f"at most {MOST_ATTRIBUTES}")
        places = {attribute.name: place for place, attribute in enumerate(attributes)}
        weights: dict[tuple[int, float], float] = {}
        for names, weight, rows in patterns:
            mask = 0
            for name in names:
                if name not in places:
                    near = get_close_matches(name, places, 1)
                    hint = f"did you mean {near[0]}?" if near else f"attributes are {', '.join(places)}"
                    raise PlanProblem(f"a pattern names {name}, which is no attribute", hint=hint)
                mask |= 1 << places[name]
            _check("weight", weight)
            _check("rows", rows)
            weights[mask, rows] = weights.get((mask, rows), 0.0) + weight
        total = sum(weights.values())
        if not total > 0 or not isfinite(total):
            raise PlanProblem("the patterns have no weight", hint="at least one pattern with a weight above 0")
        _check("row_rate", row_rate)
        _check("request_rate", request_rate)
        found = tuple(
            RequestPattern(mask, weight / total, rows) for (mask, rows), weight in weights.items() if weight > 0
        )
        return cls(tuple(attributes), found, float(row_rate), float(request_rate))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Workload:
        """The workload of a JSON object; what is missing or has another form is refused."""
        unknown = sorted(set(document) - {"attributes", "patterns", "row_rate", "request_rate", "window_rows", "costs"})
        if unknown:
            raise PlanProblem(f"a workload does not know {', '.join(unknown)}", hint=_FORM)
        attributes = _section(document, "attributes", dict)
        window = _number(document, "window_rows")
        patterns = []
        for pattern in _section(document, "patterns", list):
            names = pattern.get("on") if isinstance(pattern, dict) else None
            hint = '{"on": ["A", "B"], "weight": 0.5}'
            if not isinstance(names, list) or set(pattern) - {"on", "weight", "rows"}:
                raise PlanProblem("a pattern has another form", detail=repr(pattern), hint=hint)
            if not all(isinstance(name, str) for name in names):
                raise PlanProblem("a pattern names its attributes by texts", detail=repr(pattern), hint=hint)
            rows = _number(pattern, "rows") if "rows" in pattern else window
            patterns.append((names, _number(pattern, "weight"), rows))
        found = [_attribute(name, one) for name, one in attributes.items()]
        return cls.of(found, patterns, _number(document, "row_rate"), _number(document, "request_rate"))

    @cached_property
    def caps(self) -> tuple[int, ...]:
        """The most bits of each attribute."""
        return tuple(attribute.most_bits for attribute in self.attributes)

    def used_bits(self, bits: int) -> int:
        """How many of `bits` every candidate uses: no more than all attributes together can use."""
        return min(bits, sum(self.caps))

    def shares(self, bits: int) -> Floats:
        """`Attribute.share` as a table: one row per attribute, columns 0 to `bits`."""
        return np.array([[attribute.share(count) for count in range(bits + 1)] for attribute in self.attributes])


def _section(document: Mapping[str, Any], name: str, kind: type) -> Any:
    found = document.get(name)
    if not isinstance(found, kind) or not found:
        raise PlanProblem(f"a workload needs {name}", hint=_FORM)
    return found


def _attribute(name: str, document: Any) -> Attribute:
    if not isinstance(document, dict) or set(document) - {"values", "shares"}:
        raise PlanProblem(
            f"attribute {name} has another form",
            detail=repr(document),
            hint='{"values": 2048}, or {} for very many values',
        )
    values, shares = document.get("values"), document.get("shares")
    if values is not None and (isinstance(values, bool) or not isinstance(values, int) or values < 1):
        raise PlanProblem(f"attribute {name} cannot have {values!r} values", hint="a whole number, 1 or more")
    if shares is None:
        return Attribute(name, values)
    numbers = isinstance(shares, list) and bool(shares) and all(map(is_number, shares))
    if not numbers or shares[0] != 1 or any(not 0 <= after <= before for before, after in pairwise(shares)):
        raise PlanProblem(
            f"attribute {name} has shares {shares!r}",
            hint="shares for 0, 1, 2, … bits: from 1 downwards, for example [1, 0.5, 0.3]",
        )
    return Attribute(name, values, tuple(map(float, shares)))


def _number(document: Mapping[str, Any], name: str) -> float:
    found = document.get(name)
    if not is_number(found):
        raise PlanProblem(f"a workload needs a number for {name}", detail=f"found {found!r}", hint=_FORM)
    return _check(name, cast(float, found))


def _check(name: str, value: float) -> float:
    if not isfinite(value) or value < 0:
        raise PlanProblem(f"{name} is {value}", hint="a finite number, 0 or more")
    return float(value)
