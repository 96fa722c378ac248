"""Which accumulator keeps which aggregates."""

from __future__ import annotations

from eddyline.model.datatypes import DataType
from eddyline.operators.aggregate.accumulators.accumulators import Accumulator, accumulator
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder
from eddyline.operators.aggregate.config import Family


def accumulator_of(family: Family, kind: DataType, lasting: bool, encoder: ValueEncoder) -> Accumulator:
    """What keeps the aggregates of one family over one argument of type `kind`; `lasting`: nothing ever leaves."""
    parameter = family.aggregate.parameter
    if family.name == "approx_count_distinct" and not lasting:
        # Every row is held until it leaves: the distinct values of those are counted exactly.
        return accumulator("count", kind, True, False, lasting, encoder)
    if family.name not in ("collected", "approx_count_distinct", "approx_quantile"):
        return accumulator(family.name, kind, family.distinct, family.squares, lasting, encoder)
    # Most aggregates need none of these.
    from eddyline.operators.aggregate.accumulators.collected import Collected, LiveQuantiles
    from eddyline.operators.aggregate.accumulators.sketches import DistinctSketches, QuantileSketches

    if family.name == "collected":
        return Collected(family.aggregate.type, None if parameter is None else str(parameter), lasting, encoder)
    if family.name == "approx_count_distinct":
        return DistinctSketches(kind, encoder)
    assert isinstance(parameter, float)
    return QuantileSketches(parameter) if lasting else LiveQuantiles(parameter)
