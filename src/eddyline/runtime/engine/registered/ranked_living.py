"""The first groups of partitions, of an aggregate of live rows."""

from __future__ import annotations

from eddyline.runtime.engine.registered.living import LivingAggregate
from eddyline.runtime.engine.registered.ranked import RankedAggregate


class RankedLiving(LivingAggregate, RankedAggregate):
    """What `RankedAggregate` takes are the changes of a `LivingAggregate`."""
