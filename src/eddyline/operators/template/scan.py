"""Access path *scan*: every row of the window looks up the requests that it matches.

Answer   `pairs(probes)`: the probes of one selection pattern are hashed, and each row that lies in a window of any of
         them looks them up once. Probes that fix no column take whole ranges of rows. Where `shared` is off, or a
         probe is alone, each probe compares the rows of its own window.
State    None.
Limits   Reads all rows of the longest window, however few match.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from eddyline.kernels.requests import requests as kernels
from eddyline.kernels.requests.request_blocks import scan_each
from eddyline.operators.template.probes import PatternProbes
from eddyline.operators.template.rows import TemplateRows
from eddyline.operators.template.visits import Visits, read_all
from eddyline.state.columns import Ints
from eddyline.state.runs import places_within


class Scan:
    def __init__(self, rows: TemplateRows, visits: Visits) -> None:
        self.rows = rows
        self.visits = visits
        #: Whether requests share a scan.
        self.shared = True

    def pairs(self, probes: PatternProbes) -> tuple[Ints, Ints]:
        """Pairs (number of a probe, row id)."""
        return self.stretch(probes, int(probes.low.min(initial=0)), int(probes.high.max(initial=0)))

    def stretch(self, probes: PatternProbes, first: int, end: int) -> tuple[Ints, Ints]:
        """The same for the rows first … end-1 only. Pairs with rows outside of ranges may be among them, which
        `TemplateRows.within` removes."""
        low, high = np.maximum(probes.low, first), np.minimum(probes.high, end)
        if len(probes) == 1:
            first, end = int(low[0]), int(high[0])
        elif len(probes) and (low < high).any():
            first, end = int(low[low < high].min()), int(high.max())
        else:
            first = end
        if first >= end:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        probes, rows = replace(probes, low=low, high=high), self.rows
        wanted = rows.wanted(first, end)
        if probes.fixed and (not self.shared or len(probes) == 1):
            # Every probe compares the rows of its own window.
            table = rows.keys.keys, rows.keys.nulls, wanted, first, end, rows.keys.base
            compare = partial(scan_each, *table, probes.alone())
            places, ids = read_all(compare, len(probes), rows.tuning.room(len(probes)), self.visits)
            return probes.numbers[places], ids
        self.visits.rows += end - first
        if probes.ranged and len(probes) == 1:
            return self._one(probes, first, end, wanted)
        if not probes.fixed:
            return self._ranges(probes, first, wanted)
        keys, null_bits = rows.key_lines(probes.columns, first, end), rows.null_bits(first, end)
        stretch = kernels.RequestStretch(keys, null_bits, wanted, first)
        probed = kernels.Probes(probes.keys(), low, high)
        look_up = partial(kernels.scan, stretch, probes.fixed, probed, *kernels.table_of(probed.keys))
        places, ids = read_all(look_up, end - first, rows.tuning.least_room)
        return probes.numbers[places], ids

    def _one(self, probes: PatternProbes, first: int, end: int, wanted: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """The rows first … end-1 within the ranges of one probe: whole columns are compared."""
        here = self.rows.null_bits(first, end) & probes.ranged == 0
        for column, (least, most) in probes.spans().items():
            keys = self.rows.column(column, first, end)
            here &= (keys >= least) & (keys <= most)
        found = np.flatnonzero(here & wanted if len(wanted) else here) + first
        return np.full(len(found), probes.numbers[0]), found

    def _ranges(self, probes: PatternProbes, first: int, wanted: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Every wanted row of each probe's window."""
        low, high = probes.low, probes.high
        if len(wanted):
            ids = np.flatnonzero(wanted) + first
            low, high = np.searchsorted(ids, low), np.searchsorted(ids, high)
        sizes = np.maximum(high - low, 0)
        rows = np.repeat(low, sizes) + places_within(sizes)
        return np.repeat(probes.numbers, sizes), ids[rows] if len(wanted) else rows
