"""Access path *imp*: sealed blocks of rows, clustered by an address with a few bits of each grouping column.

Answer   `pairs(probes)`: in every sealed block a probe computes the fields of the columns that it fixes and reads one
         run of rows per combination of the bits that it leaves open. The newest rows are scanned until that has cost as
         much as clustering them.

             address of a row      | field of c | field of b | field of a |

             A probe that fixes b reads 2^(bits of c) runs; the lowest open field makes runs longer, not more.

State    Blocks of 65,536 row ids, each with the configuration under which it was built. A block is built when it is
         first read. Rows behind the last full block lie in *pieces*, smaller blocks. A new piece takes in the pieces
         before it that have no more rows than itself: so there are few pieces, and a row is clustered a few times.
         `reconfigure` changes the configuration: blocks built before are rebuilt a few at a time by `rebuild`, and are
         read as they are until then.
Limits   Ids must not change: `forget` drops all blocks where they do. A pattern that the configuration does not help is
         scanned.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from eddyline.kernels.requests.request_blocks import read_blocks
from eddyline.operators.template.blocks import Addressing, FieldAddresses, Fields, IndexBlock, build
from eddyline.operators.template.probes import PatternProbes
from eddyline.operators.template.rows import TemplateRows
from eddyline.operators.template.scan import Scan
from eddyline.operators.template.visits import Visits, read_all
from eddyline.state.columns import Ints, joined_pairs


class Imp:
    def __init__(self, rows: TemplateRows, addressing: Addressing, visits: Visits) -> None:
        self.rows = rows
        self.addressing = addressing
        self.blocks: dict[int, IndexBlock] = {}
        self.visits = visits
        self._scan = Scan(rows, visits)
        #: The blocks as kernels read them; None: they have changed.
        self._table: Ints | None = None
        #: Bytes of all blocks; None: they have changed.
        self._nbytes: int | None = None
        #: Seconds that were spent on rows behind the last full block since these were clustered.
        self._owed = 0.0

    @property
    def shared(self) -> bool:
        """Whether requests share a scan."""
        return self._scan.shared

    @shared.setter
    def shared(self, shared: bool) -> None:
        self._scan.shared = shared

    def reconfigure(self, addressing: Addressing) -> None:
        self.addressing = addressing

    def serve_ranges(self, ranged: int) -> None:
        """Note columns that requests bound by ranges: blocks built from now on cut them at quantiles."""
        found = self.addressing
        if isinstance(found, Fields) and ranged & ~found.ranged:
            self.addressing = Fields(found.bits, found.ranged | ranged)

    def covered(self, probes: PatternProbes) -> float:
        """How many fields the ranges of a probe cover, on average, in the newest block."""
        if not probes.ranged or not self.blocks:
            return 1.0
        addresses = self.blocks[max(self.blocks)].addresses
        fields = addresses.fields if isinstance(addresses, FieldAddresses) else []
        found = 1.0
        for field, (least, most) in ((fields[c], span) for c, span in probes.spans().items() if c < len(fields)):
            if field.bits:
                span = field.covered(least, most)
                found *= 1 << field.bits if span is None else max(float(np.maximum(span[1] - span[0], 0).mean()), 1.0)
        return found

    def forget(self) -> None:
        """Row ids have changed, or blocks are no longer wanted."""
        self.blocks = {}
        self._table = self._nbytes = None

    def stale(self) -> list[int]:
        """Blocks that were built under an earlier configuration, oldest rows first."""
        return sorted(first for first, block in self.blocks.items() if block.addressing != self.addressing)

    def rebuild(self, first: int) -> None:
        """Cluster the rows of a block under the present configuration."""
        self._build(first, self.blocks[first].stop)

    def _build(self, first: int, stop: int) -> None:
        """Cluster the rows first … stop-1; pieces among them go."""
        for piece in [at for at in self.blocks if first < at < stop]:
            del self.blocks[piece]
        self.blocks[first] = build(self.rows, first, stop, self.addressing)
        self._table = self._nbytes = None

    def purge(self) -> None:
        """Forget blocks whose rows have all gone."""
        gone = self.rows.store.first
        if any(block.stop <= gone for block in self.blocks.values()):
            self.blocks = {first: block for first, block in self.blocks.items() if block.stop > gone}
            self._table = self._nbytes = None

    @property
    def nbytes(self) -> int:
        if self._nbytes is None:
            self._nbytes = sum(block.nbytes for block in self.blocks.values())
        return self._nbytes

    def pairs(self, probes: PatternProbes) -> tuple[Ints, Ints]:
        """Pairs (number of a probe, row id); rows outside of ranges may be among them."""
        if not len(probes) or not self.addressing.helps(probes.fixed, probes.ranged):
            return self._scan.pairs(probes)
        low, high = probes.low, probes.high
        first, end = (int(low[0]), int(high[0])) if len(probes) == 1 else (int(low.min()), int(high.max()))
        covered = self._cover(first, end, len(probes))
        made = [self._scan.stretch(probes, covered, end)] if covered < end else []
        if not probes.fixed or probes.ranged:
            made += self._by_ranges(probes)
        elif first < covered:
            made.append(self._alone(probes))
        return joined_pairs(made)

    def _cover(self, first: int, end: int, probes: int) -> int:
        """Build the blocks that are read for the first time; returns the id after the last row that lies in a block.

        Rows behind the last block are scanned until that has cost as much as clustering them does.
        """
        size, tuning = self.rows.tuning.block_rows, self.rows.tuning
        full = self.rows.end // size * size
        for start in range(max(first, self.rows.store.first) // size * size, min(end, full), size):
            if start not in self.blocks or self.blocks[start].stop < start + size:
                self._build(start, start + size)
        if end <= full:
            return end
        pieces = [full]
        while (piece := self.blocks.get(pieces[-1])) is not None:
            pieces.append(piece.stop)
        covered = pieces.pop()
        self._owed += max(end - max(covered, first), 0) * probes * tuning.single_scan
        begin, stop = covered, self.rows.end
        if (stop - begin) * tuning.least_piece < size or self._owed <= (stop - begin) * tuning.build:
            return covered
        while pieces and begin - pieces[-1] <= stop - begin:
            begin = pieces.pop()
        self._build(begin, stop)
        self._owed = 0.0
        return stop

    def _alone(self, probes: PatternProbes) -> tuple[Ints, Ints]:
        """Every probe reads all blocks, one probe after the other."""
        if self._table is None:
            self._table = np.stack([self.blocks[first].line(self.rows.columns) for first in sorted(self.blocks)])
        read, room = partial(read_blocks, self._table, probes.alone()), self.rows.tuning.room(len(probes))
        places, ids = read_all(read, len(probes), room, self.visits)
        return probes.numbers[places], ids

    def _by_ranges(self, probes: PatternProbes) -> list[tuple[Ints, Ints]]:
        """Probes with ranges read block after block."""
        low, high = probes.low, probes.high
        made: list[tuple[Ints, Ints]] = []
        for first, block in sorted(self.blocks.items()):
            here = np.flatnonzero((low < block.stop) & (high > first) & (low < high))
            if len(here) and block.addressing.helps(probes.fixed, probes.ranged):
                made.append(block.pairs(probes.some(here), self.visits))
            elif len(here):
                made.append(self._scan.stretch(probes, first, block.stop))
        return made
