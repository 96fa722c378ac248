"""How one probe step is processed: skip, pass or evaluate, stretch of rows against stretch of the store.

Answer   `Probe` is what a node is about to do: some rows, a step, the bounds of what they may meet. A policy answers
         with `Modes`; its `grid` lies over the probing rows (cut at `row_cuts`) and the stored rows (cut at ids
         `stored_cuts`):

                             stored   first ────── 640 ────── end
             rows 0 … 99               EVALUATE      SKIP            SKIP      the stretch is not probed
             rows 100 … 255            1             EVALUATE        1         `passed[0]` holds of all its pairs

         A policy that finds the pairs itself gives them as `found`; one that hands results on itself says how many in
         `taken`.
State    None.
Limits   Cells that no policy mentions are evaluated: the grids of several policies are laid over each other. A policy
         passes a condition only if it holds for every pair of the cell and cannot fail on a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eddyline.kernels.joins.zones import Within
from eddyline.model.expressions.expression import Expression
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.probing.steps import ProbeStep
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.operators.join.join_slice import JoinSlice

#: Cells of a grid. A number n above 0 is *pass*: the conditions `passed[n - 1]` are left out.
SKIP, EVALUATE = -1, 0

Passed = frozenset[Expression]
NONE: Passed = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Rows of input `origin`, perhaps joined with others already, that probe the input `step.input`."""

    origin: int
    #: The place of the step in the order, and whether it is the last one.
    at: int
    is_last: bool
    step: ProbeStep
    rows: Combinations
    #: Key hashes of the rows; rows below these places of the order are older; rows that die before the floor are out of
    #: the window.
    hashes: Ints
    limits: Ints
    floors: Ints
    join_slice: JoinSlice
    #: Whether pairs that a policy has found, or taken, are of use; not where a schedule finds them strip by strip.
    takes_pairs: bool = True

    def part(self, begin: int, stop: int) -> Probe:
        """The probe of the rows begin … stop-1, without a copy."""
        return self._with(self.rows.part(begin, stop), slice(begin, stop))

    def take(self, chosen: Ints) -> Probe:
        """The probe of some of the rows."""
        return self._with(self.rows.take(chosen), chosen)

    def _with(self, rows: Combinations, chosen: slice | Ints) -> Probe:
        hashes, limits, floors = self.hashes[chosen], self.limits[chosen], self.floors[chosen]
        return replace(self, rows=rows, hashes=hashes, limits=limits, floors=floors)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs that a policy found: positions of probing rows (rising), stored ids; rows probed and visited in order to
    find them."""

    left: Ints
    right: Ints
    probes: int
    visited: int
    #: Probing rows whose pairs another probe had found.
    shared: int = 0
    #: The cell of the grid that each pair lies in; None: not known. `is_sifted`: no pair lies in a cell that is
    #: skipped.
    kinds: npt.NDArray[np.integer[Any]] | None = None
    is_sifted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    #: Positions at which the probing rows are cut, from 0 to their number; ids at which the store is cut, from its
    #: first to its end.
    row_cuts: Ints
    stored_cuts: Ints
    #: kinds[i, j]: SKIP, EVALUATE or the number of a set in `passed`, for rows of stretch i against stored rows of
    #: stretch j.
    kinds: npt.NDArray[np.int64]
    passed: tuple[Passed, ...] = ()
    #: All tests of the step as bounds of stored keys, for the stored rows from `stored_cuts[0]` on; None: they are
    #: evaluated.
    within: Within | None = None

    def open_rows(self) -> Ints | None:
        """Positions of the rows that have a stretch to meet; None: all of them."""
        is_open = (self.kinds != SKIP).any(axis=1)
        return None if is_open.all() else np.flatnonzero(np.repeat(is_open, np.diff(self.row_cuts)))

    def of_open_rows(self) -> Grid:
        """The same for a probe of the open rows alone."""
        is_open = (self.kinds != SKIP).any(axis=1)
        cuts = np.concatenate(([0], np.cumsum(np.diff(self.row_cuts)[is_open])))
        within = self.within
        if within is not None:
            chosen = np.flatnonzero(np.repeat(is_open, np.diff(self.row_cuts)))
            within = within._replace(least=within.least.take(chosen, axis=1), most=within.most.take(chosen, axis=1))
        return replace(self, row_cuts=cuts, kinds=self.kinds[is_open], within=within)

    def at(self, rows: Ints, stored: Ints) -> npt.NDArray[np.int64]:
        """The cells of positions of probing rows and stored ids."""
        row = np.searchsorted(self.row_cuts, rows, side="right") - 1
        column = np.searchsorted(self.stored_cuts, stored, side="right") - 1
        return self.kinds[row, np.clip(column, 0, self.kinds.shape[1] - 1)]

    def conditions(self, kind: int) -> Passed:
        """The conditions that a cell leaves out."""
        return self.passed[kind - 1] if kind > EVALUATE else NONE

    def leaves_out(self, condition: Expression) -> npt.NDArray[np.bool_]:
        """By kind of cell, EVALUATE first, whether it leaves a condition out."""
        return np.array([False, *(condition in one for one in self.passed)])

    def over(self, other: Grid) -> Grid:
        """Two grids as one: a cell is skipped if either skips it, and leaves out what either leaves out."""
        rows, stored = np.union1d(self.row_cuts, other.row_cuts), np.union1d(self.stored_cuts, other.stored_cuts)
        first, second = (one.at(rows[:-1, None], stored[None, :-1]) for one in (self, other))
        passed: list[Passed] = []
        kinds = np.where((first == SKIP) | (second == SKIP), SKIP, EVALUATE)
        for x, y in {*zip(first.ravel().tolist(), second.ravel().tolist(), strict=True)}:
            if min(x, y) != SKIP and max(x, y) > EVALUATE:
                passed.append(self.conditions(x) | other.conditions(y))
                kinds[(first == x) & (second == y)] = len(passed)
        return Grid(rows, stored, kinds, tuple(passed))


@dataclass(slots=True, eq=False)
class PairCells:
    """The cells that pairs lie in, on their way through the conditions."""

    kinds: npt.NDArray[np.integer[Any]]
    grid: Grid
    #: Tests that were left out.
    avoided: int = 0

    def tested(self, kinds: npt.NDArray[np.integer[Any]], condition: Expression) -> Ints | None:
        """Positions of the pairs for which a condition is tested; None: all of them."""
        passed = self.grid.leaves_out(condition)
        if not passed.any():
            return None
        left_out = passed[kinds]
        self.avoided += int(np.count_nonzero(left_out))
        return np.flatnonzero(~left_out)


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """What a policy decides about a probe; the rest is evaluated."""

    grid: Grid | None = None
    #: The pairs, found by the policy; None: the node probes.
    found: Pairs | None = None
    #: How many pairs the policy has handed on itself.
    taken: int | None = None
    #: Which of the combinations that the probe makes are wanted now.
    sift: Callable[[Combinations], Combinations] | None = None


def both(a: Modes | None, b: Modes | None) -> Modes | None:
    """Two answers as one. Pairs are those of the first policy that found any."""
    if a is None or b is None:
        return b if a is None else a
    grids = [one.grid for one in (a, b) if one.grid is not None]
    sifts = [one.sift for one in (a, b) if one.sift is not None]
    return Modes(
        None if not grids else grids[0] if len(grids) == 1 else grids[0].over(grids[1]),
        a.found if a.found is not None else b.found,
        a.taken if a.taken is not None else b.taken,
        None if not sifts else sifts[0] if len(sifts) == 1 else lambda made: sifts[1](sifts[0](made)),
    )
