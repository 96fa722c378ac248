"""The rows of each partition, or the values of each group, found without a look at the others.

State    Per partition a chain of slots (`kernels/groups/members.py`).
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.groups import members as kernels
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.columns import Ints


class PartitionRows:
    def __init__(self) -> None:
        #: By partition the place of its first slot, and by slot those of its neighbours in the chain.
        self._firsts: Ints = np.empty(0, np.int64)
        self._after: Ints = np.empty(0, np.int64)
        self._before: Ints = np.empty(0, np.int64)

    def reserve(self, partitions: int, slots: int) -> None:
        """Room for all partitions and slots."""
        self._firsts = grown(self._firsts, partitions)
        self._after, self._before = grown(self._after, slots), grown(self._before, slots)

    def add(self, codes: Ints, slots: Ints) -> None:
        """Slots come to partitions, which have the codes `codes`."""
        kernels.link(self._firsts, self._after, self._before, codes, slots)

    def remove(self, codes: Ints, slots: Ints) -> None:
        """Slots leave their partitions; `codes` has that of every slot."""
        kernels.unlink(self._firsts, self._after, self._before, codes, slots)

    def of(self, codes: Ints) -> Ints:
        """The slots of some partitions."""
        found: Ints = kernels.members(self._firsts, self._after, codes)
        return found

    def is_without(self, codes: Ints) -> Mask:
        """Which of some partitions have no slot."""
        empty: Mask = self._firsts[codes] == 0
        return empty
