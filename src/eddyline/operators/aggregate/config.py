"""The parts of an aggregate query: grouping expressions, arguments, aggregates, and outputs over those.

Answer   `AggregateConfig` is what a query selects, groups by and requires; `layout` finds the distinct arguments and
         aggregates in it and rewrites outputs and HAVING to read one column per grouping expression (`key.i`) and one
         per aggregate (`aggregate.i`).
Limits   Plain data, without state.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from eddyline.errors import Fault
from eddyline.model.datatypes import DOUBLE, STRING, TIMESTAMP
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Expression, Literal
from eddyline.model.query import Emit, OutputColumn
from eddyline.operators.aggregate.buckets import Bucket

#: Functions whose state is not made of sums.
_FAMILIES = {name: name for name in ("count", "min", "max", "approx_count_distinct", "approx_quantile")}
_FAMILIES |= {"arg_min": "min", "arg_max": "min", "string_agg": "collected", "array_agg": "collected"}
KEY = "key"
AGGREGATE = "aggregate"


@dataclass(frozen=True)
class AggregateConfig:
    outputs: tuple[OutputColumn, ...]
    #: DISTINCT has all outputs here.
    group_by: tuple[Expression, ...]
    having: Expression | None
    emit: Emit
    #: Expiry queues: how many windows a combination can leave by.
    queues: int
    #: How many of them, the last ones, get the names of combinations that leave.
    named: int = 0
    #: EMIT ON CLOSE and group windows: which grouping expressions are time buckets.
    buckets: tuple[Bucket, ...] = ()
    #: SESSION: sessions end so long after their last row.
    gap: int | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [(o.name, o.type.arrow) for o in self.outputs] + [("_op", STRING.arrow), ("_ts", TIMESTAMP.arrow)]
        )

    @property
    def lasting(self) -> bool:
        """Nothing ever leaves a group: no contribution has to be kept."""
        return self.queues == 0

    @cached_property
    def layout(self) -> AggregateLayout:
        return _Reader(self).read()


@dataclass(frozen=True, slots=True)
class Family:
    """One accumulator: aggregates over one argument that keep the same state."""

    name: str
    argument: int
    distinct: bool
    aggregate: Aggregate
    squares: bool


@dataclass
class AggregateLayout:
    arguments: list[Expression] = field(default_factory=list)
    families: list[Family] = field(default_factory=list)
    #: Per aggregate: the function and its family; -1 is COUNT(*).
    aggregates: list[tuple[str, int]] = field(default_factory=list)
    #: Per output: the number of its grouping expression, or the expression to compute.
    outputs: list[int | Expression] = field(default_factory=list)
    having: Expression | None = None


class _Reader:
    def __init__(self, config: AggregateConfig) -> None:
        self.config = config
        self.layout = AggregateLayout()
        self.known: dict[Aggregate, int] = {}

    def read(self) -> AggregateLayout:
        for output in self.config.outputs:
            if output.expression in self.config.group_by:
                self.layout.outputs.append(self.config.group_by.index(output.expression))
            else:
                self.layout.outputs.append(self._rewritten(output.expression))
        if self.config.having is not None:
            self.layout.having = self._rewritten(self.config.having)
        return self.layout

    def _rewritten(self, e: Expression) -> Expression:
        if e in self.config.group_by:
            return ColumnRef(KEY, str(self.config.group_by.index(e)), e.type)
        if isinstance(e, Aggregate):
            return ColumnRef(AGGREGATE, str(self._aggregate(e)), e.type)
        if isinstance(e, Call):
            return replace(e, args=tuple(self._rewritten(a) for a in e.args))
        if isinstance(e, Literal):
            return e
        raise Fault(f"column {e} of an aggregate query is neither grouped nor aggregated")

    def _aggregate(self, e: Aggregate) -> int:
        if e not in self.known:
            self.known[e] = len(self.layout.aggregates)
            self.layout.aggregates.append((e.function, -1 if e.arg is None else self._family(e, e.arg)))
        return self.known[e]

    def _family(self, e: Aggregate, arg: Expression) -> int:
        name = _FAMILIES.get(e.function) or ("float" if arg.type == DOUBLE or e.function == "stddev" else "whole")
        distinct = e.distinct and name not in ("min", "max")
        if arg not in self.layout.arguments:
            self.layout.arguments.append(arg)
        argument = self.layout.arguments.index(arg)
        for number, family in enumerate(self.layout.families):
            shared = (family.name, family.argument, family.distinct, family.aggregate.parameter)
            if shared == (name, argument, distinct, e.parameter):
                self.layout.families[number] = replace(family, squares=family.squares or e.function == "stddev")
                return number
        self.layout.families.append(Family(name, argument, distinct, e, e.function == "stddev"))
        return len(self.layout.families) - 1
