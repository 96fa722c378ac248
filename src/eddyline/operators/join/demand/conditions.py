"""The conditions under which combinations of one inner node are demanded.

Answer   `demanded` gives the combinations for which every condition in use holds. `nothing_opposite` is true where no
         combination is demanded, because an input that all of them must meet is empty.
State    The conditions; with `jit = 'auto'`, those in use.
Limits   An input that the node shares no key with only has to hold something (`unlinked`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.demand.mns import DemandCondition, links_between
from eddyline.operators.join.demand.partners import PartnerZones
from eddyline.operators.join.inputs import Input
from eddyline.operators.join.node import JoinNode
from eddyline.state.columns import Ints


class Conditions:
    def __init__(
        self, node: JoinNode, targets: tuple[Input, ...], bloomed: bool, zones: PartnerZones | None = None
    ) -> None:
        self.node = node
        zones_and_counters = None if zones is None else (zones, node.counters)
        #: Every condition on combinations.
        self.all: list[DemandCondition] = []
        self.unlinked: list[Input] = []
        #: Per input of the node, what can be decided about its rows alone:
        #: (the condition on combinations, the one on rows).
        self.early: list[list[tuple[DemandCondition, DemandCondition]]] = [[] for _ in node.inputs]
        for target in targets:
            links = tuple(
                link for one in node.inputs for link in links_between(node.equalities, one.references, target)
            )
            if not links:
                self.unlinked.append(target)
                continue
            whole = DemandCondition(target, links, node.bases, bloomed, zones_and_counters)
            self.all.append(whole)
            for number, one in enumerate(node.inputs):
                mine = links_between(node.equalities, one.references, target)
                if mine:
                    alone = (
                        whole
                        if mine == links
                        else DemandCondition(target, mine, node.bases, bloomed, zones_and_counters)
                    )
                    self.early[number].append((whole, alone))
        #: The conditions that are tested; with `auto`, those that save more than they cost.
        self.used = list(self.all)

    @property
    def checked(self) -> int:
        """Tests made, of combinations and of single rows."""
        early = [alone for pairs in self.early for whole, alone in pairs if alone is not whole]
        return sum(c.checked for c in (*self.all, *early))

    @property
    def sharpest(self) -> DemandCondition | None:
        """The condition in use that refuses the most."""
        return max(self.used, key=lambda c: c.rate, default=None)

    def targets(self) -> list[tuple[int, ...]]:
        """The references of each input that conditions in use read."""
        return [one.references for one in (*(c.opposite for c in self.used), *self.unlinked)]

    def early_of(self, origin: int) -> list[tuple[DemandCondition, DemandCondition]]:
        """The conditions in use that can refuse single rows of an input."""
        return [pair for pair in self.early[origin] if pair[0] in self.used]

    def demanded(self, rows: Combinations, known: Callable[[DemandCondition], bool]) -> Ints | None:
        """Positions of the combinations for which every condition holds, but for those `known` to; None: all."""
        chosen: Ints | None = None
        # The condition that has refused the most comes first: the others then have few combinations left.
        for condition in sorted(self.used, key=lambda c: -c.rate):
            if known(condition):
                continue
            condition.prepare()
            found = condition.passes(rows, chosen)
            if not found.all():
                chosen = np.flatnonzero(found) if chosen is None else chosen[found]
        return chosen

    def nothing_unlinked(self) -> bool:
        return any(not one.store.live for one in self.unlinked)

    def nothing_opposite(self) -> bool:
        """The empty sub-tuple is not demanded."""
        return self.nothing_unlinked() or any(not c.opposite.store.live for c in self.used)
