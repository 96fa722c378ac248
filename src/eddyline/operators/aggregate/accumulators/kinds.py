"""Which accumulator keeps which aggregates."""

from __future__ import annotations

from eddyline.model.datatypes import DataType
from eddyline.operators.aggregate.accumulators import accumulators as kinds
from eddyline.operators.aggregate.accumulators.accumulators import Accumulator
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder
from eddyline.operators.aggregate.config import Family


def accumulator_of(family: Family, kind: DataType, lasting: bool, encoder: ValueEncoder) -> Accumulator:
    """The accumulator of one family over one argument of type `kind`; `lasting`: nothing ever leaves."""
    parameter = family.aggregate.parameter
    if family.name in ("min", "max"):
        return (kinds.LastingExtreme if lasting else kinds.Extreme)(family.name == "max", kind, encoder)
    if family.name == "approx_count_distinct" and not lasting:
        # Every row is held until it leaves: the distinct values of those are counted exactly.
        return kinds.Distinct(kinds.Tally(), lasting, kind, encoder)
    inner: Accumulator | None = None
    if family.name == "count":
        inner = kinds.Tally()
    elif family.name == "float":
        inner = kinds.FloatSums(family.squares, kind, encoder)
    elif family.name == "whole":
        inner = kinds.WholeSums(kind, encoder)
    if inner is not None:
        return kinds.Distinct(inner, lasting, kind, encoder) if family.distinct else inner
    # Loaded where they are needed: most aggregates are none of these.
    from eddyline.operators.aggregate.accumulators.collected import Collected, LiveQuantiles
    from eddyline.operators.aggregate.accumulators.sketches import DistinctSketches, QuantileSketches

    if family.name == "collected":
        return Collected(family.aggregate.type, None if parameter is None else str(parameter), lasting, encoder)
    if family.name == "approx_count_distinct":
        return DistinctSketches(kind, encoder)
    assert isinstance(parameter, float)
    return QuantileSketches(parameter) if lasting else LiveQuantiles(parameter)
