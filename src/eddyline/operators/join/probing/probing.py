"""From probing rows to pairs: by a hash index, or by a scan of every stored row.

Answer   `found_pairs` gives the pairs of one probe step, `portions` the same in portions of a bounded size. A scan
         leaves out the stretches of the store that its modes skip; what a hash index finds in them is taken out by the
         node.
State    None.
Limits   Pairs are found by key, order and death. Everything else is verified later. A scan is one portion.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eddyline.kernels.joins import probe as kernels
from eddyline.kernels.joins import zones
from eddyline.operators.join.inputs import Input
from eddyline.operators.join.probing.modes import SKIP, Grid, Pairs, Probe
from eddyline.operators.join.probing.steps import ProbeStep
from eddyline.state.columns import Ints


def found_pairs(
    one: Input, step: ProbeStep, loop: bool, hashes: Ints, limits: Ints, floors: Ints, grid: Grid | None = None
) -> Pairs:
    """Pairs of probing rows and stored rows of an input.

    Args:
        loop: scan every stored row even where there is an index.
    """
    probing = kernels.ProbeKeys(hashes, limits, floors)
    if step.index is None or loop:
        return _scanned(one, step, probing) if grid is None else _scanned_stretches(one, step, probing, grid)
    stored = one.store.indexes[step.index].chains(one.order, one.death, one.in_time_order)
    left, right, visited = kernels.probe_chains(probing, stored)
    return Pairs(left, right, len(hashes), visited)


def of_any_age(keys: Ints) -> kernels.ProbeKeys:
    """Keys that meet all stored rows with equal ones."""
    ends = np.iinfo(np.int64)
    return kernels.ProbeKeys(keys, np.full(len(keys), ends.max), np.full(len(keys), ends.min))


def portions(one: Input, loop: bool, probe: Probe, grid: Grid | None, most: int) -> Iterator[Pairs]:
    """The pairs of a probe, at most about `most` at a time: a row with more is cut."""
    step, bounds = probe.step, (probe.hashes, probe.limits, probe.floors)
    if step.index is None or loop:
        yield found_pairs(one, step, loop, *bounds, grid)
        return
    stored = one.store.indexes[step.index].chains(one.order, one.death, one.in_time_order)
    done, start = 0, -1
    while done < len(probe.rows):
        rest = kernels.ProbeKeys(*(column[done:] for column in bounds)) if done else kernels.ProbeKeys(*bounds)
        left, right, visited, upto, start = kernels.probe_portion(rest, stored, start, most)
        yield Pairs(left + done if done else left, right, upto, visited)
        done += upto


def _scanned(one: Input, step: ProbeStep, probing: kernels.ProbeKeys) -> Pairs:
    store = one.store
    order, dead = store.columns[one.order], store.columns[one.death]
    keys = store.columns[step.index] if step.index is not None else order
    stored = kernels.StoredStretch(keys, order, dead, store.base, store.first, store.end)
    left, right, visited = kernels.probe_scan(probing, step.index is not None, stored)
    if store.dropped:
        # A scan meets the rows that have left their chains.
        held = store.holds(right)
        left, right = left[held], right[held]
    return Pairs(left, right, len(probing.hashes), visited)


def _scanned_stretches(one: Input, step: ProbeStep, probing: kernels.ProbeKeys, grid: Grid) -> Pairs:
    """Every stretch of the rows against the stored stretches that it does not skip."""
    store = one.store
    order, dead = store.columns[one.order], store.columns[one.death]
    keys = store.columns[step.index] if step.index is not None else order
    stored = zones.Laid(step.index is not None, keys, order, dead, store.base, one.in_time_order)
    cells = zones.ZoneCells(grid.row_cuts, np.clip(grid.stored_cuts, store.first, store.end), grid.kinds)
    left, right, kinds, visited = zones.probe_stretches(probing, stored, cells, bool(grid.passed))
    if store.dropped:
        held = store.holds(right)
        left, right, kinds = left[held], right[held], kinds[held] if grid.passed else kinds
    probes = int(np.diff(grid.row_cuts)[(grid.kinds != SKIP).any(axis=1)].sum())
    return Pairs(left, right, probes, visited, kinds=kinds if grid.passed else None, is_sifted=True)
