"""Join skip and join simplification: which stretches of rows meet which zones of a store, and which conditions need no
test.

Answer   At the point *mode*: a grid of stretches of probing rows against the zones of the store that a scan would walk.
         A cell is skipped if the conditions of the node contradict its ranges; conditions that hold at the worst ends
         are passed. A probe by hash leaves out stretches of rows that contradict the range of the whole store.
State    Per step of a node: its variables, its system of differences, and whether zones have been worth comparing.
Limits   Only conditions over the references of the node count; inputs that are probed later in the same node count with
         their whole present range, because partners are older and hence stored. A node with a condition that can fail
         on a value, and that is no difference, evaluates everything. Where orders are drawn, cells are skipped and no
         condition is passed. With `auto`, a join on equalities alone compares zones where keys of one column seem to miss a
         store.
Reading  docs/heralds.md
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eddyline.model.expressions.differences import Conjunct, Contradictions, Differences, Flags, Ints, Ranges
from eddyline.model.expressions.expression import Expression
from eddyline.operators.expressions.evaluate import may_fail
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.inputs import Input
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import JoinPolicy, overriding
from eddyline.operators.join.probing.modes import EVALUATE, SKIP, Grid, Modes, Passed, Probe
from eddyline.operators.join.probing.steps import ProbeStep
from eddyline.operators.join.zones.ranges import Known, Sides
from eddyline.operators.join.zones.within import bounds_of, is_bound
from eddyline.operators.worth import Worth
from eddyline.tuning import ZoneTuning

if TYPE_CHECKING:
    from eddyline.operators.join.group import JoinConfig, JoinGroup

#: More conditions of one step than these are tested: kinds of cells are counted in bits.
_MOST_PASSED = 16


def zone_skipping(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    settings, differences = config.settings, config.differences
    if settings.heralds == "off" or differences is None or not differences.variables:
        return None
    return ZoneSkipping(differences, settings.heralds == "auto", settings.tuning.zones)


@dataclass(slots=True, eq=False)
class StepZones:
    """What the zones of one probe step can decide."""

    sides: Sides
    system: Contradictions
    #: Variables of the probing rows, of the input that is probed, of inputs that come later, and constants.
    rows: tuple[int, ...]
    stored: tuple[int, ...]
    later: tuple[tuple[int, int], ...]
    constants: tuple[int, ...]
    #: The conditions of the step that may be passed, in the order in which they are tested, each as a difference; None:
    #: they stay.
    passing: tuple[tuple[Expression, Conjunct | None], ...]
    #: Comparisons per cell, for the cost.
    checks: int
    #: Whether an index decides all that zones could: only keys that miss a store save anything.
    is_keyed: bool
    #: Whether all tests are bounds of stored keys.
    is_bounded: bool
    worth: Worth


class ZoneSkipping(JoinPolicy):
    def __init__(self, differences: Differences, is_open: bool, tuning: ZoneTuning) -> None:
        self.differences = differences
        self.is_open = is_open
        #: Whether conditions may be left out: not where each batch has another order.
        self.passes = True
        self.tuning = tuning
        #: By node, the input that is probed, and the references of the probing rows.
        self._steps: dict[tuple[str, int, tuple[int, ...]], StepZones | None] = {}
        #: By node: the conditions of all its steps are the same.
        self._systems: dict[str, Contradictions] = {}
        self._epoch = 0

    def changed(self, group: JoinGroup, is_replanted: bool) -> None:
        if is_replanted:
            self.passes = not overriding(group.policies, "route")
            self._steps.clear()
            self._systems.clear()
            for node, _ in group.nodes if self.passes else ():
                for origin, one in enumerate(node.inputs):
                    covered = one.references
                    for step in () if node.is_static(origin) else node.steps(origin, node.orders[origin]):
                        if step.input < len(node.inputs):
                            self._steps[node.name, step.input, covered] = self._of_step(node, step, covered)
                            covered += node.inputs[step.input].references

    def slice_ended(self, group: JoinGroup, frontier: int) -> None:
        self._epoch += 1

    def mode(self, node: JoinNode, probe: Probe) -> Modes | None:
        key = (node.name, probe.step.input, tuple(probe.rows.ids))
        if key not in self._steps:
            # Orders that are drawn, and those of references within combinations, are not known before.
            self._steps[key] = self._of_step(node, probe.step, key[2])
        step, one = self._steps[key], node.inputs[probe.step.input]
        if step is None or not one.store.live or not step.worth.is_worth(self._epoch):
            return None
        walks = probe.takes_pairs and (probe.step.index is None or node.loop)
        if not walks and self.is_open and not step.worth.is_on and step.is_keyed and not self._may_miss(probe, one):
            step.worth.note(1.0, 0.0)
            return None
        if not walks and self.is_open and not step.worth.is_on and len(probe.rows) > self.tuning.sample:
            # A probe by hash is cheap: the zones of some of its rows show whether whole stretches of rows find nothing.
            some = probe.part(0, self.tuning.sample)
            self._weigh(
                node, some, step, self._grid(node, some, step, one, walks), walks, self.tuning.sample / len(probe.rows)
            )
            if not step.worth.is_on:
                return None
        grid = self._grid(node, probe, step, one, walks)
        self._weigh(node, probe, step, grid, walks)
        if grid.within is None and (grid.kinds == EVALUATE).all():
            return None
        if not walks and grid.open_rows() is None and (not probe.takes_pairs or not grid.passed):
            return None
        return Modes(grid)

    # -- a step, once

    def _of_step(self, node: JoinNode, step: ProbeStep, covered: tuple[int, ...]) -> StepZones | None:
        """What zones can decide of a step, for rows that have these references; None: nothing."""
        one = node.inputs[step.input]
        equalities = [e.condition for e in node.equalities if {e.left, e.right} <= set(node.references)]
        conditions = [*equalities, *node.residuals]
        parts = self.differences.among(conditions)
        known = {part.condition for part in parts}
        if not parts or any(may_fail(e) for e in node.residuals if e not in known):
            return None
        sides = Sides(self.differences.variables, node.bases)
        used = sorted({number for part in parts for number in (part.left, part.right)})
        of = {number: sides.reference_of(number) for number in used}
        rows = tuple(n for n in used if of[n] in covered)
        stored = tuple(n for n in used if of[n] in one.references)
        constants = tuple(n for n in used if of[n] is None)
        inputs = {r: at for at, other in enumerate(node.inputs) for r in other.references}
        later = tuple((n, inputs[r]) for n in used if n not in rows and n not in stored and (r := of[n]) is not None)
        if node.name not in self._systems:
            self._systems[node.name] = self.differences.system(conditions)
        system = self._systems[node.name]
        side_of = {
            **dict.fromkeys(rows, 0),
            **dict.fromkeys(stored, 1),
            **{n: 2 + at for n, at in later},
            **dict.fromkeys(constants, -1),
        }
        across = [(i, j) for i, j in system.pairs() if i in side_of and j in side_of and side_of[i] != side_of[j]]
        across += [(p.left, p.right) for p in parts if p.operator == "<>"]
        if not any(side_of[i] in (0, 1) or side_of[j] in (0, 1) for i, j in across):
            return None
        tested = [e.condition for e in step.verify] + list(step.conditions)
        passing = tuple((e, next(iter(self.differences.among([e])), None)) for e in tested) if self.passes else ()
        worth = Worth(self.tuning, self.is_open)
        checks, is_keyed = (
            len(across) + 4 * len(passing),
            step.index is not None and not self.differences.among(node.residuals),
        )
        is_bounded = bool(passing) and all(
            is_bound(part, self.differences.variables, rows, stored) for _, part in passing
        )
        is_bounded = is_bounded and len(passing) <= _MOST_PASSED
        return StepZones(
            sides, system, rows, stored, later, constants, passing[:_MOST_PASSED], checks, is_keyed, is_bounded, worth
        )

    # -- a portion

    def _may_miss(self, probe: Probe, one: Input) -> bool:
        """Whether some stretch of the keys of a probe by hash seems to miss those of the store: a glance before zones
        are compared. Keys of
        several keys are hashes, which miss nothing."""
        keys = one.store.column(probe.step.index or one.order)
        if len(probe.step.probe_keys) != 1 or not len(keys):
            return False
        some = keys[:: len(keys) // self.tuning.sample + 1]
        probing = probe.hashes[: self.tuning.sample]
        cuts = np.arange(0, len(probing), self.tuning.rows)
        misses = np.maximum.reduceat(probing, cuts) < some.min()
        return bool((misses | (np.minimum.reduceat(probing, cuts) > some.max())).any())

    def _grid(self, node: JoinNode, probe: Probe, step: StepZones, one: Input, walks: bool) -> Grid:
        """How the stretches of a probe are processed."""
        row_cuts = self._row_cuts(node, probe)
        store = one.store
        known: dict[int, Known] = {n: step.sides.of_rows(n, probe.rows, row_cuts) for n in step.rows}
        for number in step.stored:
            known[number] = step.sides.of_zones(number, one) if walks else step.sides.of_store(number, one)
        for number, at in step.later:
            known[number] = step.sides.of_store(number, node.inputs[at])
        for number in step.constants:
            known[number] = step.sides.of_constant(number)
        stored_cuts = store.zones.cuts(store.first, store.end) if walks else np.array([store.first, store.end])
        shape = (len(row_cuts) - 1, len(stored_cuts) - 1)
        ranges = {number: one.ranges for number, one in known.items()}
        skipped: Flags = np.broadcast_to(step.system.skips(ranges), shape)
        undecided = [one.undecided for one in known.values() if one.undecided is not None]
        decided: Flags = np.ones(shape, np.bool_)
        for flags in undecided:
            decided &= ~flags
        kinds = np.where(skipped & decided, SKIP, EVALUATE)
        passed = self._passed(step, ranges, kinds, decided)
        within = None
        if walks and step.is_bounded and not undecided and probe.step.index is None and (kinds != SKIP).any():
            within = bounds_of(
                step.sides, (part for _, part in step.passing if part is not None), probe.rows, one, step.rows
            )
        return Grid(row_cuts, stored_cuts, kinds, passed, within)

    def _row_cuts(self, node: JoinNode, probe: Probe) -> Ints:
        """Where the probing rows are cut: new rows of a stream as their own store is and at every herald, combinations
        after a fixed
        number of them."""
        count, size = len(probe.rows), self.tuning.rows
        if len(probe.rows.ids) > 1:
            return np.append(np.arange(0, count, size), count)
        ((reference, ids),) = probe.rows.ids.items()
        store = node.bases[reference].store
        starts = store.zones.stretches(store.first, store.end, int(ids[0]), int(ids[-1]) + 1)
        return np.unique(np.searchsorted(ids, starts))

    def _passed(self, step: StepZones, ranges: dict[int, Ranges], kinds: Ints, decided: Flags) -> tuple[Passed, ...]:
        """Number the cells by the conditions that they pass, in place; returns the conditions of each number."""
        if not step.passing or (kinds == SKIP).all():
            return ()
        certain = self.differences.passing(ranges)
        codes: Ints = np.zeros(kinds.shape, np.int64)
        for bit, (_, part) in enumerate(step.passing):
            if part is None:
                continue
            holds = certain.holds(part)
            if holds is not None and holds.any():
                codes |= np.where(holds, 1 << bit, 0)
            if bit + 1 < len(step.passing):
                certain.tested(part)
        codes[~decided | (kinds == SKIP)] = 0
        there = np.zeros(1 << len(step.passing), np.bool_)
        there[codes] = True
        there[0] = False
        found = np.flatnonzero(there)
        if len(found):
            np.copyto(kinds, np.searchsorted(found, codes) + 1, where=codes > 0)
        return tuple(
            frozenset(e for bit, (e, _) in enumerate(step.passing) if code >> bit & 1) for code in found.tolist()
        )

    # -- cost

    def _weigh(
        self, node: JoinNode, probe: Probe, step: StepZones, grid: Grid, walks: bool, share: float = 1.0
    ) -> None:
        """Count what was decided, and compare the work saved with its cost; `share` is the part of a portion that was
        looked at."""
        counters, cost = node.counters, self.tuning
        counters.zone_pairs += grid.kinds.size
        counters.zones_skipped += int(np.count_nonzero(grid.kinds == SKIP))
        counters.zones_passed += int(np.count_nonzero(grid.kinds > EVALUATE))
        if not self.is_open:
            return
        sizes = np.diff(grid.row_cuts)
        tests = len(probe.step.conditions) + len(probe.step.verify)
        if walks:
            pairs, scan, test = np.multiply.outer(sizes, np.diff(grid.stored_cuts)), cost.pair, cost.test
        else:
            per_row = max(probe.step.pairs_per_row, 1.0)
            pairs, scan, test = sizes[:, None] * per_row, cost.probe / per_row + cost.pair, cost.test
        work = float(pairs.sum()) * (scan + tests * test)
        saved = float(pairs[grid.kinds == SKIP].sum()) * (scan + tests * test)
        for number, passed in enumerate(grid.passed):
            saved += float(pairs[grid.kinds == number + 1].sum()) * len(passed) * test
        if grid.within is not None:
            # Pairs that are tested by their keys are not made: only what fulfils the conditions is.
            saved += float(pairs[grid.kinds == EVALUATE].sum()) * tests * test * cost.by_key
        saved -= (
            grid.kinds.size * step.checks * cost.cell + len(probe.rows) * len(step.rows) * cost.key + share * cost.fixed
        )
        step.worth.note(work, saved)
