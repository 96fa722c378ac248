"""Pairs that need no test: written where they are wanted, once.

Answer   `untested` gives the combinations of a scan whose grid passes all tests of most of its pairs, or has all tests
         as bounds of keys. Only the pairs of the other cells are tested, by their keys on the way where that can be
         done. What is left of them and the rows of the passed cells are written together, in the order of a scan:

             rows 0 … 63     │ test → 3 of 64 │ pass: 64 │ skip │ pass: 64 │      one run of stored ids per probing row

State    None.
Limits   For scans without keys over stores from which no row was dropped in the middle. Windows and lineage are looked
         at for all pairs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from eddyline.kernels.joins import zones
from eddyline.kernels.joins.probe import ProbeKeys
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.inputs import Input
from eddyline.operators.join.probing.modes import SKIP, Grid, Probe
from eddyline.operators.join.probing.probing import found_pairs
from eddyline.operators.join.probing.verification import NUMBER, both_lineages
from eddyline.state.columns import Ints

if TYPE_CHECKING:
    from eddyline.operators.join.node import JoinNode


def untested(node: JoinNode, probe: Probe, grid: Grid, keeps: bool) -> Combinations | None:
    """The combinations of a scan; None: too few of its pairs need no test, or it is no such scan."""
    one, step, counters = node.inputs[probe.step.input], probe.step, node.counters
    store, rows = one.store, probe.rows
    if step.index is not None or store.dropped or (not grid.passed and grid.within is None):
        return None
    tests = [equality.condition for equality in step.verify] + list(step.conditions)
    by_kind = np.logical_and.reduce([grid.leaves_out(test) for test in tests])
    passing = (grid.kinds != SKIP) & by_kind[grid.kinds]
    sizes = np.multiply.outer(np.diff(grid.row_cuts), np.diff(grid.stored_cuts))
    made_late, made_at_once = int(sizes[~passing & (grid.kinds != SKIP)].sum()), int(sizes[passing].sum())
    if made_at_once < made_late and grid.within is None:
        return None
    left = right = np.empty(0, np.int64)
    if made_late and grid.within is None:
        rest = replace(grid, kinds=np.where(passing, SKIP, grid.kinds))
        pairs = found_pairs(one, step, node.loop, probe.hashes, probe.limits, probe.floors, rest)
        counters.visited += pairs.visited
        kept = node.joined(probe, pairs, rest, False, numbers=True).ids[NUMBER]
        left, right = pairs.left[kept], pairs.right[kept]
    cells = zones.ZoneCells(grid.row_cuts, np.clip(grid.stored_cuts, store.first, store.end), grid.kinds)
    order, dead = store.columns[one.order], store.columns[one.death]
    stored = zones.Laid(False, order, order, dead, store.base, one.in_time_order)
    probing = ProbeKeys(probe.hashes, probe.limits, probe.floors)
    if grid.within is not None:
        counts, found, visited, left_out = zones.within_stretches(probing, stored, cells, by_kind, grid.within)
    else:
        counts, found, visited = zones.settled_stretches(probing, stored, cells, by_kind, left, right)
        left_out = len(found) - len(left)
    counters.visited += visited
    counters.probes += int(np.diff(grid.row_cuts)[(grid.kinds != SKIP).any(axis=1)].sum())
    counters.conditions_avoided += left_out * len(tests)
    step.pairs_per_row = max(len(found) / max(len(rows), 1), step.pairs_per_row / 2)
    made = _combined(one, rows, counts, found, keeps)
    return node.verification.wanted(node.verification.in_windows(made, one.references, probe.join_slice.rows_seen))


def _combined(one: Input, rows: Combinations, counts: Ints, found: Ints, keeps: bool) -> Combinations:
    """Each probing row with its run of stored rows."""
    lineage = None if rows.lineage is None else np.repeat(rows.lineage, counts, axis=0)
    return Combinations(
        {**{r: np.repeat(ids, counts) for r, ids in rows.ids.items()}, **one.expand(found)},
        np.repeat(rows.stamp, counts),
        np.repeat(rows.clock, counts),
        np.minimum(np.repeat(rows.dead, counts), one.deaths(found)) if keeps and rows.dead is not None else None,
        both_lineages(lineage, one.lineage(found)),
    )
