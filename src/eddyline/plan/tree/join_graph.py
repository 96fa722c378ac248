"""Streams as vertices, join predicates as edges: a query, as the search for its join tree has it.

Answer   `JoinGraph`: for every input its rate and the rows its window holds, for every pair of inputs the selectivity
         between them. Several predicates between two inputs multiply; a pair without predicate has selectivity 1, so a
         graph that is not connected is joined by cross products.
State    None: a frozen value. Subsets of inputs are bit masks, bit i being the i-th input.
Limits   Predicates are taken as independent. A predicate over three or more inputs is not an edge: it is tested where
         its last input arrives and lowers no estimate here.
Reading  docs/design/0002-cost-model.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

from eddyline.errors import PlanProblem

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

#: An empty window still divides (turnover is rate per row held), so no estimate is allowed to reach zero.
LEAST_ROWS = 1e-9
LEAST_SELECTIVITY = 1e-15

#: What one stored row costs before it has been measured: a timestamp, an order number, a key hash, a payload column.
DEFAULT_ROW_BYTES = 64.0
#: What a combination keeps per component: the row number; its payload stays in the stream's store.
DEFAULT_COMPONENT_BYTES = 16.0


@dataclass(frozen=True, slots=True)
class JoinInput:
    """One reference of the query: new rows per second, and the rows that its window holds at any time.

    >>> JoinInput.over_time("a", rate=20, window=5.0).rows
    100.0
    """

    alias: str
    rate: float
    rows: float
    row_bytes: float = DEFAULT_ROW_BYTES
    component_bytes: float = DEFAULT_COMPONENT_BYTES

    def __post_init__(self) -> None:
        for name in ("rate", "rows", "row_bytes", "component_bytes"):
            value = getattr(self, name)
            if not isfinite(value) or value < 0:
                raise PlanProblem(f"input {self.alias} has {name} {value}", hint="a finite number, 0 or more")

    @classmethod
    def over_time(cls, alias: str, rate: float, window: float, row_bytes: float = DEFAULT_ROW_BYTES) -> JoinInput:
        """A stream with a RANGE window of `window` seconds."""
        return cls(alias, float(rate), float(rate) * float(window), row_bytes)

    @classmethod
    def over_rows(cls, alias: str, rate: float, rows: float, row_bytes: float = DEFAULT_ROW_BYTES) -> JoinInput:
        """A stream that keeps a given number of rows: a ROWS window, or a static table."""
        return cls(alias, float(rate), float(rows), row_bytes)

    @classmethod
    def table(cls, alias: str, rows: float, row_bytes: float = DEFAULT_ROW_BYTES) -> JoinInput:
        """A static table: it is probed and has no new rows."""
        return cls(alias, 0.0, float(rows), row_bytes)


@dataclass(frozen=True, slots=True)
class JoinEdge:
    """One predicate between two inputs; `selectivity` is the part of all pairs that satisfies it."""

    left: str
    right: str
    selectivity: float


@dataclass(frozen=True)
class JoinGraph:
    """Inputs and edges; `unit` is that of memory, rows or bytes.

    >>> graph = JoinGraph.of([JoinInput.over_time("a", 20, 5), JoinInput.over_time("b", 10, 5)], [("a", "b", 0.1)])
    >>> graph.mask(["b"])
    2
    """

    inputs: tuple[JoinInput, ...]
    edges: tuple[JoinEdge, ...] = ()
    unit: str = "rows"

    def __post_init__(self) -> None:
        if not self.inputs:
            raise PlanProblem("a join graph needs at least one input")
        if len(set(self.aliases)) != len(self.inputs):
            raise PlanProblem("a join graph names an input twice", detail=", ".join(self.aliases))
        if self.unit not in ("rows", "bytes"):
            raise PlanProblem(f"memory cannot be counted in {self.unit}", hint="rows or bytes")
        for edge in self.edges:
            self._check_edge(edge)

    def _check_edge(self, edge: JoinEdge) -> None:
        for alias in (edge.left, edge.right):
            if alias not in self.aliases:
                hint = f"inputs are {', '.join(self.aliases)}"
                raise PlanProblem(f"a join names {alias}, which is no input", hint=hint)
        if edge.left == edge.right:
            hint = "give the second reference an alias of its own"
            raise PlanProblem(f"a join connects {edge.left} with itself", hint=hint)
        if not isfinite(edge.selectivity) or edge.selectivity < 0:
            message = f"the join of {edge.left} and {edge.right} has selectivity {edge.selectivity}"
            raise PlanProblem(message, hint="a number, usually in 0..1")

    @classmethod
    def of(
        cls, inputs: Iterable[JoinInput], joins: Iterable[tuple[str, str, float]] = (), unit: str = "rows"
    ) -> JoinGraph:
        return cls(tuple(inputs), tuple(JoinEdge(*join) for join in joins), unit)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> JoinGraph:
        """The `streams` (and `tables`) and `joins` of a graph file; see docs/design/0002-cost-model.md for the form."""
        try:
            inputs = [_input_from(alias, entry) for alias, entry in document["streams"].items()]
            tables = [JoinInput.table(name, float(entry["rows"])) for name, entry in document.get("tables", {}).items()]
            joins = [(str(left), str(right), float(part)) for left, right, part in document.get("joins", [])]
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise PlanProblem(
                "the join graph is not in the expected form",
                detail=f"{type(problem).__name__}: {problem}",
                hint='{"streams": {"a": {"rate": 20, "window": 5.0}, …}, "joins": [["a", "b", 0.05], …]}',
            ) from problem
        return cls.of(inputs + tables, joins)

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(item.alias for item in self.inputs)

    @property
    def everything(self) -> int:
        """The mask of all inputs."""
        return (1 << len(self.inputs)) - 1

    def mask(self, aliases: Iterable[str]) -> int:
        return sum(1 << self.aliases.index(alias) for alias in aliases)

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        """The positions of the two inputs of each edge."""
        place = {alias: number for number, alias in enumerate(self.aliases)}
        return [(place[edge.left], place[edge.right]) for edge in self.edges]

    @cached_property
    def selectivity_rows(self) -> list[list[float]]:
        """Symmetric matrix of selectivities, 1 on the diagonal and where there is no predicate, row by row."""
        matrix = [[1.0] * len(self.inputs) for _ in self.inputs]
        for edge, (left, right) in zip(self.edges, self._ends, strict=True):
            matrix[left][right] *= max(edge.selectivity, LEAST_SELECTIVITY)
            matrix[right][left] = matrix[left][right]
        return matrix

    @cached_property
    def selectivities(self) -> Floats:
        """The same matrix as an array."""
        import numpy as np

        return np.array(self.selectivity_rows)

    @cached_property
    def neighbours(self) -> tuple[int, ...]:
        """For each input the mask of the inputs it shares a predicate with."""
        found = [0] * len(self.inputs)
        for left, right in self._ends:
            found[left] |= 1 << right
            found[right] |= 1 << left
        return tuple(found)

    def connected(self, left: int, right: int) -> bool:
        """Whether some predicate reaches from one set of inputs to the other."""
        return any(self.neighbours[number] & right for number in members(left))


def members(mask: int) -> list[int]:
    """The positions of the inputs in a mask, in order.

    >>> members(0b1011)
    [0, 1, 3]
    """
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _input_from(alias: str, entry: Mapping[str, Any]) -> JoinInput:
    row_bytes = float(entry.get("row_bytes", DEFAULT_ROW_BYTES))
    if "window" in entry:
        return JoinInput.over_time(alias, float(entry["rate"]), float(entry["window"]), row_bytes)
    return JoinInput.over_rows(alias, float(entry["rate"]), float(entry["rows"]), row_bytes)
