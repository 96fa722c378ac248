"""Access path *imp*: sealed blocks of rows, clustered by an address with a few bits of each grouping column.

Answer   `pairs(requests)`: in every sealed block a probe computes the fields of the columns that it fixes and reads one run of rows per
         combination of the bits that it leaves open. The rows behind the last sealed block are scanned.

             address of a row      | field of c | field of b | field of a |      a probe that fixes b reads 2^(bits of c) runs;
                                                                                 the lowest open field makes runs longer, not more

State    Blocks of 65,536 row ids, each with the configuration under which it was built. A block is built when it is first read.
         `reconfigure` changes the configuration: blocks built before are rebuilt a few at a time by `rebuild`, and are read as they are
         until then.
Limits   Ids must not change: `forget` drops all blocks where they do. A pattern that the configuration does not help is scanned.
"""

from __future__ import annotations

import numpy as np

from eddyline.operators.template.blocks import Addressing, Block, FieldAddresses, Fields, build
from eddyline.operators.template.probes import Requests
from eddyline.operators.template.rows import TemplateRows
from eddyline.operators.template.scan import Scan
from eddyline.operators.template.visits import Visits
from eddyline.state.columns import Ints


class Imp:
    def __init__(self, rows: TemplateRows, addressing: Addressing, visits: Visits) -> None:
        self.rows = rows
        self.addressing = addressing
        self.blocks: dict[int, Block] = {}
        self.visits = visits
        #: Blocks built so far.
        self.built = 0
        self._scan = Scan(rows, visits)

    def reconfigure(self, addressing: Addressing) -> None:
        self.addressing = addressing

    def serve_ranges(self, ranged: int) -> None:
        """Columns that are asked for by ranges: blocks that are built from now on cut them at quantiles."""
        found = self.addressing
        if isinstance(found, Fields) and ranged & ~found.ranged:
            self.addressing = Fields(found.bits, found.ranged | ranged)

    def covered(self, requests: Requests, ranged: int, probes: Ints) -> float:
        """How many fields the ranges of a probe cover, on average, judged by the newest block."""
        if not ranged or not self.blocks:
            return 1.0
        addresses = self.blocks[max(self.blocks)].addresses
        fields = addresses.fields if isinstance(addresses, FieldAddresses) else []
        found = 1.0
        for column, field in enumerate(fields):
            if ranged >> column & 1 and field is not None:
                span = field.covered(requests.lows[column][probes], requests.highs[column][probes])
                found *= 1 << field.bits if span is None else max(float(np.maximum(span[1] - span[0], 0).mean()), 1.0)
        return found

    def forget(self) -> None:
        """Row ids have changed, or blocks are no longer wanted."""
        self.blocks = {}

    def stale(self) -> list[int]:
        """Blocks that were built under an earlier configuration, oldest rows first."""
        return sorted(first for first, block in self.blocks.items() if block.addressing != self.addressing)

    def rebuild(self, first: int) -> None:
        self.blocks[first] = build(self.rows, first, self.addressing)
        self.built += 1

    def purge(self) -> None:
        """Forget blocks whose rows have all gone."""
        gone = self.rows.store.first - self.rows.tuning.block_rows
        if self.blocks and min(self.blocks) <= gone:
            self.blocks = {first: block for first, block in self.blocks.items() if first > gone}

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks.values())

    def pairs(self, requests: Requests, pattern: int, ranged: int, probes: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Pairs (probe, row id) of one selection pattern; rows beside a range may be among them."""
        store = self.rows.store
        if not len(probes) or not self.addressing.helps(pattern, ranged):
            return self._scan.pairs(requests, pattern, ranged, probes, low, high)
        columns = [c for c in range(len(self.rows.keys)) if pattern >> c & 1]
        keys = np.stack([requests.words[c][probes] for c in columns]) if columns else np.empty((0, len(probes)), np.int64)
        bounds = {c: (requests.lows[c][probes], requests.highs[c][probes]) for c in range(len(self.rows.keys)) if ranged >> c & 1}
        size = self.rows.tuning.block_rows
        sealed = self.rows.end // size * size
        made: list[tuple[Ints, Ints]] = []
        for first in range(max(int(low.min()), store.first) // size * size, sealed, size):
            asking = np.flatnonzero((low < first + size) & (high > first) & (low < high))
            if not len(asking):
                continue
            if first not in self.blocks:
                self.rebuild(first)
            block = self.blocks[first]
            if block.addressing.helps(pattern, ranged):
                spans = {c: (least[asking], most[asking]) for c, (least, most) in bounds.items()}
                made += block.pairs(pattern, columns, keys[:, asking], spans, probes[asking], low[asking], high[asking], self.visits)
            else:
                made.append(self._scan.stretch(requests, pattern, ranged, probes, low, high, first, first + size))
        made.append(self._scan.stretch(requests, pattern, ranged, probes, low, high, sealed, self.rows.end))
        return np.concatenate([p for p, _ in made]), np.concatenate([r for _, r in made])
