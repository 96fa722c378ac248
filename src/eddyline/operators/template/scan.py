"""Access path *scan*: every row of the window looks up the requests that it matches.

Answer   `pairs(requests)`: the requests of one selection pattern are hashed, and each row of the stretch that any of
         them covers probes them once. A pattern without a fixed column takes whole ranges of rows. Requests that share
         nothing (`shared` is off), and one that is alone, each compare the rows of their own window.
State    None.
Limits   Reads all rows of the longest window, however few match.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.requests import requests as kernels
from eddyline.kernels.requests.request_blocks import Alone, scan_each
from eddyline.operators.template.probes import Requests
from eddyline.operators.template.rows import TemplateRows
from eddyline.operators.template.visits import Visits
from eddyline.state.columns import Ints


class Scan:
    def __init__(self, rows: TemplateRows, visits: Visits) -> None:
        self.rows = rows
        self.visits = visits
        #: Whether requests share a scan.
        self.shared = True

    def pairs(
        self, requests: Requests, pattern: int, ranged: int, probes: Ints, low: Ints, high: Ints
    ) -> tuple[Ints, Ints]:
        """Pairs (probe, row id), the probes as numbers of `requests`; `low` and `high` are the ids of each probe's
        window."""
        return self.stretch(
            requests, pattern, ranged, probes, low, high, int(low.min(initial=0)), int(high.max(initial=0))
        )

    def stretch(
        self, requests: Requests, pattern: int, ranged: int, probes: Ints, low: Ints, high: Ints, first: int, end: int
    ) -> tuple[Ints, Ints]:
        """The same for the rows first … end-1 only. Ranges may let more rows through: `TemplateRows.within` has the
        last key."""
        low, high = np.maximum(low, first), np.minimum(high, end)
        if len(probes) == 1:
            first, end = int(low[0]), int(high[0])
        elif len(probes) and (low < high).any():
            first, end = int(low[low < high].min()), int(high.max())
        else:
            first = end
        if first >= end:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        wanted = self.rows.wanted(first, end)
        if pattern and (not self.shared or len(probes) == 1):
            return self._each(requests, pattern, probes, low, high, first, end, wanted)
        self.visits.rows += end - first
        if ranged and len(probes) == 1:
            return self._one(requests, ranged, int(probes[0]), int(low[0]), int(high[0]), wanted)
        if pattern == 0:
            return self._ranges(probes, low, high, first, wanted)
        columns = [c for c in range(self.rows.columns) if pattern >> c & 1]
        stretch = kernels.RequestStretch(
            self.rows.key_lines(columns, first, end), self.rows.null_bits(first, end), wanted, first
        )
        keys = np.stack([requests.keys[c][probes] for c in columns])
        heads, following = kernels.table_of(keys)
        probed = kernels.Probes(keys, low, high)
        made: list[tuple[Ints, Ints]] = []
        begin, room = 0, self.rows.tuning.least_room
        while begin < end - first:
            out_probe, out_row = np.empty(room, np.int64), np.empty(room, np.int64)
            begin, count = kernels.scan(stretch, pattern, begin, probed, heads, following, out_probe, out_row)
            made.append((probes[out_probe[:count]], out_row[:count]))
            room *= 2
        return np.concatenate([p for p, _ in made]), np.concatenate([r for _, r in made])

    def _each(
        self,
        requests: Requests,
        pattern: int,
        probes: Ints,
        low: Ints,
        high: Ints,
        first: int,
        end: int,
        wanted: npt.NDArray[np.bool_],
    ) -> tuple[Ints, Ints]:
        """Every probe compares the rows of its own window."""
        keys, single = self.rows.keys, alone(requests, pattern, self.rows, probes, low, high)
        made: list[tuple[Ints, Ints]] = []
        begin, room = 0, self.rows.tuning.room(len(probes))
        while begin < len(probes):
            out_probe, out_row = np.empty(room, np.int64), np.empty(room, np.int64)
            begin, count, visited = scan_each(
                keys.keys, keys.nulls, wanted, first, end, keys.base, begin, single, out_probe, out_row
            )
            self.visits.rows += visited
            made.append((probes[out_probe[:count]], out_row[:count]))
            room *= 2
        return (
            made[0] if len(made) == 1 else (np.concatenate([p for p, _ in made]), np.concatenate([r for _, r in made]))
        )

    def _one(
        self, requests: Requests, ranged: int, probe: int, low: int, high: int, wanted: npt.NDArray[np.bool_]
    ) -> tuple[Ints, Ints]:
        """The rows low … high-1 within the ranges of one probe: whole columns are compared."""
        here = self.rows.null_bits(low, high) & ranged == 0
        for column in [c for c in range(self.rows.columns) if ranged >> c & 1]:
            keys = self.rows.column(column, low, high)
            here &= (keys >= requests.lows[column][probe]) & (keys <= requests.highs[column][probe])
        found = np.flatnonzero(here & wanted if len(wanted) else here) + low
        return np.full(len(found), probe), found

    def _ranges(self, probes: Ints, low: Ints, high: Ints, first: int, wanted: np.ndarray) -> tuple[Ints, Ints]:
        """Every wanted row of each probe's range."""
        if len(wanted):
            ids = np.flatnonzero(wanted) + first
            low, high = np.searchsorted(ids, low), np.searchsorted(ids, high)
        sizes = np.maximum(high - low, 0)
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = np.repeat(low, sizes) + within
        return np.repeat(probes, sizes), ids[rows] if len(wanted) else rows


def alone(requests: Requests, pattern: int, rows: TemplateRows, probes: Ints, low: Ints, high: Ints) -> Alone:
    """The probes of one pattern, as kernels take those that are worked off one after the other."""
    columns = np.array([c for c in range(rows.columns) if pattern >> c & 1], np.int64)
    keys = np.empty((len(columns), len(probes)), np.int64)
    for line, column in enumerate(columns.tolist()):
        keys[line] = requests.keys[column][probes]
    return Alone(columns, pattern, keys, low, high)
