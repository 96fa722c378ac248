"""Dynamic programming over sets of inputs: the sub-plans worth having for each set.

Answer   `SubPlans.plan_exhaustively(mask)` prices every partition of a set into sets that have sub-plans already. It
         keeps a sub-plan if no other beats it in both CPU and memory, and if the budgets suffice for it and for what
         every tree needs. `shapes()` are the trees found for all inputs.
State    One front per set of inputs that was planned.
Limits   A set of m inputs has Bell(m) partitions, so callers choose which sets are planned exhaustively: all of them
         (`finder.py`), or a bounded family of small ones (`beam.py`).
Reading  docs/design/0002-cost-model.md#searching

A tree's price is a sum over its nodes, and a node's price depends only on the sets of inputs below its children. So of
two sub-plans of one set, one that costs more in both resources can never be part of a better tree.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from math import inf

import numpy as np
import numpy.typing as npt

from eddyline.plan.tree.cost import MOST_ROWS, CostModel, Shape
from eddyline.plan.tree.join_graph import members
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.jtree.mjoin import rest_sums

Whole = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: CPU, memory, the node's children, and which of each child's sub-plans was taken.
SubPlan = tuple[float, float, tuple[int, ...], tuple[int, ...]]
#: A node that could be taken for a set: least CPU and memory with any sub-plans, CPU of its partial results, children.
Option = tuple[float, float, float, tuple[int, ...]]


class SubPlans:
    """Fronts of sub-plans per set of inputs; `most` bounds how many a front may hold, `arity` how many children a
    node."""

    def __init__(self, model: CostModel, budgets: Budgets, most: int | None = None, arity: int | None = None):
        self.model = model
        self.most = most
        self.arity = arity
        self.fronts: dict[int, list[SubPlan]] = {1 << place: [(0.0, 0.0, (), ())] for place in range(model.count)}
        # What is left for intermediate stores once the streams are stored and the results are made.
        self._cpu_room = budgets.cpu_limit - model.least_cpu
        self._memory_room = budgets.memory_limit - model.least_memory
        self._final_room = budgets.cpu_limit - model.leaf_cpu

    def storable(self, mask: int) -> bool:
        """Whether a store over this set alone would leave room for the rest of a tree."""
        cpu, memory = self.fixed(mask)
        return cpu <= self._cpu_room and memory <= self._memory_room

    def fixed(self, mask: int) -> tuple[float, float]:
        """What every sub-plan of a set costs: making its results, and keeping them unless they are the query's."""
        making = self.model.costs.join * self.model.rate(mask)
        if mask == self.model.everything:
            return making, 0.0
        return making + self.model.stored_cpu(mask), self.model.memory(mask)

    def rooms(self, mask: int) -> tuple[float, float]:
        return (self._final_room if mask == self.model.everything else self._cpu_room), self._memory_room

    def plan_exhaustively(self, mask: int) -> None:
        """Fill in the front of one set from all its partitions."""
        fixed_cpu, fixed_memory = self.fixed(mask)
        cpu_room, memory_room = self.rooms(mask)
        if fixed_cpu > cpu_room or fixed_memory > memory_room:
            return
        places = members(mask)
        translate = _translation(places)
        below = [self.fronts.get(part) for part in translate.tolist()]
        least_cpu = np.array([inf if front is None else front[0][0] for front in below])
        least_memory = np.array([inf if front is None else front[-1][1] for front in below])
        rows, turnover, near = self._rows(places), self._turnover(places), self._near(places)
        options: list[Option] = []
        for blocks in _partitions(len(places))[: None if self.arity is None else self.arity - 1]:
            cpu = fixed_cpu + least_cpu[blocks].sum(axis=1)
            memory = fixed_memory + least_memory[blocks].sum(axis=1)
            keep = (cpu <= cpu_room) & (memory <= memory_room)
            if not keep.any():
                continue
            blocks = blocks[keep]
            partial = self._partial_cpu(blocks, rows, turnover, near)
            cpu, memory = cpu[keep] + partial, memory[keep]
            keep = cpu <= cpu_room
            columns = (cpu[keep], memory[keep], partial[keep], translate[blocks[keep]])
            kept = zip(*(column.tolist() for column in columns), strict=True)
            options.extend((c, m, p, tuple(b)) for c, m, p, b in kept)
        self.keep(mask, options)

    def keep(self, mask: int, options: list[Option]) -> None:
        """Turn options for a node into the set's front."""
        fixed_cpu, fixed_memory = self.fixed(mask)
        rooms = self.rooms(mask)
        points: list[SubPlan] = []
        for cpu, memory, partial, children in sorted(options):
            # By increasing CPU: what a cheaper sub-plan dominates even at its best need not be combined. The front
            # falls in memory, so the last point that is not dearer decides.
            place = bisect_right(points, (cpu, inf))
            if place and points[place - 1][1] <= memory:
                continue
            combined = self._combine(children, fixed_cpu + partial, fixed_memory, rooms)
            is_last = place == len(points) and len(combined) == 1
            points = points + combined if is_last else non_dominated(points + combined)
        if points:
            self.fronts[mask] = thinned(points, self.most)

    def _combine(
        self, children: tuple[int, ...], cpu: float, memory: float, rooms: tuple[float, float]
    ) -> list[SubPlan]:
        """One sub-plan per choice of sub-plans for the children, as far as both budgets allow."""
        cpu_room, memory_room = rooms
        points: list[SubPlan] = [(cpu, memory, children, ())]
        for child in children:
            front = self.fronts[child]
            points = [
                (c + plan[0], m + plan[1], kids, (*choice, place))
                for c, m, kids, choice in points
                for place, plan in enumerate(front)
                if c + plan[0] <= cpu_room and m + plan[1] <= memory_room
            ]
            if len(front) > 1:
                points = thinned(non_dominated(points), self.most)
        return points

    def _partial_cpu(self, blocks: Whole, rows: Floats, turnover: Floats, near: Whole) -> Floats:
        """CPU of the partial results between the first and the last probe, with the best order for each origin, and of
        further indexes."""
        children = blocks.shape[1]
        if children == 2:
            return np.zeros(len(blocks))
        unions = np.zeros((len(blocks), 1 << children), dtype=np.int64)
        for child in range(children):
            unions[:, 1 << child : 2 << child] = unions[:, : 1 << child] | blocks[:, child : child + 1]
        sums = rest_sums(rows[unions])[:, [1 << child for child in range(children)]]
        costs = self.model.costs
        partial: Floats = (costs.join + costs.probe) * (turnover[blocks] * sums).sum(axis=1)
        if costs.link:
            partners = (near[blocks][:, :, None] & blocks[:, None, :] != 0).sum(axis=2) - (near[blocks] & blocks != 0)
            partial += costs.link * (rows[blocks] * turnover[blocks] * np.maximum(partners - 1, 0)).sum(axis=1)
        return partial

    def _near(self, places: list[int]) -> Whole:
        """For every subset of these inputs the mask, in their own numbering, of those that it is joined to."""
        near = np.zeros(1 << len(places), dtype=np.int64)
        for position, place in enumerate(places):
            joined = self.model.joined(1 << place)
            own = sum(1 << other for other, there in enumerate(places) if joined >> there & 1)
            near[1 << position : 2 << position] = near[: 1 << position] | own
        return near

    def _rows(self, places: list[int]) -> Floats:
        """Rows of every subset of these inputs, by doubling: each input multiplies the subsets before it."""
        selectivities = self.model.graph.selectivities
        rows = np.ones(1 << len(places))
        for position, place in enumerate(places):
            cross = np.ones(1 << position)
            for earlier in range(position):
                cross[1 << earlier : 2 << earlier] = cross[: 1 << earlier] * selectivities[place, places[earlier]]
            grown = rows[: 1 << position] * cross * self.model.rows(1 << place)
            rows[1 << position : 2 << position] = np.minimum(grown, MOST_ROWS)
        return rows

    def _turnover(self, places: list[int]) -> Floats:
        turnover = np.zeros(1 << len(places))
        for position, place in enumerate(places):
            turnover[1 << position : 2 << position] = turnover[: 1 << position] + self.model.turnover(1 << place)
        return turnover

    def shapes(self) -> list[Shape]:
        """The trees found for all inputs, by increasing CPU."""
        everything = self.model.everything
        return [self._shape(everything, place) for place in range(len(self.fronts.get(everything, [])))]

    def _shape(self, mask: int, place: int) -> Shape:
        if not mask & (mask - 1):
            return {}
        _, _, children, choice = self.fronts[mask][place]
        shape: Shape = {mask: children}
        for child, chosen in zip(children, choice, strict=True):
            shape.update(self._shape(child, chosen))
        return shape


def non_dominated(points: list[SubPlan]) -> list[SubPlan]:
    """The points that no other beats in both resources, by increasing CPU and decreasing memory."""
    kept: list[SubPlan] = []
    least = inf
    for point in sorted(points):
        if point[1] < least:
            kept.append(point)
            least = point[1]
    return kept


def thinned(points: list[SubPlan], most: int | None) -> list[SubPlan]:
    """At most `most` points, evenly over the front, both ends included."""
    if most is None or len(points) <= most:
        return points
    if most == 1:
        return points[:1]
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]


def _translation(places: list[int]) -> Whole:
    """From masks over positions 0..m-1 to masks over the inputs at those positions."""
    table = np.zeros(1 << len(places), dtype=np.int64)
    for position, place in enumerate(places):
        table[1 << position : 2 << position] = table[: 1 << position] | 1 << place
    return table


@lru_cache(maxsize=16)
def _partitions(count: int) -> tuple[Whole, ...]:
    """All partitions of `count` positions into two blocks or more, as masks, one array per number of blocks."""
    unfinished: list[tuple[int, ...]] = [(1,)]
    for position in range(1, count):
        bit = 1 << position
        unfinished = [
            grown
            for blocks in unfinished
            for grown in (
                *((*blocks[:place], block | bit, *blocks[place + 1 :]) for place, block in enumerate(blocks)),
                (*blocks, bit),
            )
        ]
    found: list[list[tuple[int, ...]]] = [[] for _ in range(count + 1)]
    for blocks in unfinished:
        found[len(blocks)].append(blocks)
    return tuple(np.array(blocks, dtype=np.int64) for blocks in found[2:])
