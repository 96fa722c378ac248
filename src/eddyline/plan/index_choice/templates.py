"""The prices of a template's access paths, from the costs that `eddyline calibrate` keeps.

Answer   `TemplatePrice` prices a scan, the reading of an index and the rebuilding of its blocks, and finds the best configuration with the
         exact search over the patterns that are not better scanned.
State    None.
Limits   Values of a column are taken to be asked for equally often.
Reading  docs/operators/templates.md
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.operators.template.blocks import BLOCK_ROWS
from eddyline.operators.template.search import Found, Pattern
from eddyline.plan.index_choice.search import choose_index
from eddyline.plan.index_choice.workload import Attribute, Workload
from eddyline.plan.index_costs import IndexCosts

#: Seconds per row of a scan that many requests share (a hash and a look into their table), and of one that a single request makes.
#: Both were measured over a million rows with `python -m bench.micro templates`.
SHARED_SCAN = 4.0e-9
SINGLE_SCAN = 1.0e-9
#: Seconds per row to cluster a block.
_BUILD = 40e-9
#: Between two numbers of address bits that are tried: more bits look at fewer rows and begin more runs.
_STEP = 3


class TemplatePrice:
    def __init__(self, columns: int, bits: int, costs: IndexCosts) -> None:
        self.columns = columns
        self.bits = bits
        self.costs = costs

    def best(self, patterns: list[Pattern], values: list[int], requests: float, window_rows: float) -> Found:
        """The cheapest configuration of at most `bits` bits; no bits where every pattern is better scanned."""
        nothing = (0,) * self.columns
        scanning = sum(self.scanned(p) for p in patterns)
        if self.bits == 0:
            return Found(nothing, scanning)
        kept = list(patterns)
        best = Found(nothing, scanning)
        # A pattern that the index found for all does not serve leaves the search, which then serves the others better.
        while kept:
            for bits in range(self.bits, 0, -_STEP):
                choice = choose_index(self._workload(kept, values, requests), self._per_block(kept), bits).bits
                price = self.of(patterns, values, choice, requests, window_rows)
                if price < best.price:
                    best = Found(choice, price)
            served = [p for p in kept if self.read(p, values, best.bits) < self.scanned(p)]
            if len(served) == len(kept):
                break
            kept = served
        return best

    def _per_block(self, patterns: list[Pattern]) -> IndexCosts:
        """The costs of a search that knows one block: each run is begun in all blocks of a window."""
        asked = sum(p.requests for p in patterns)
        blocks = sum(p.requests * max(p.rows / BLOCK_ROWS, 1.0) for p in patterns) / asked if asked else 1.0
        return replace(self.costs, run=self.costs.run * blocks)

    def of(self, patterns: list[Pattern], values: list[int], bits: tuple[int, ...], requests: float, window_rows: float) -> float:
        """What all requests cost under a configuration, each pattern by its cheaper path, and the addresses of the rows that come."""
        asked = sum(min(self.scanned(p), self.read(p, values, bits)) for p in patterns)
        return asked + window_rows * self.costs.hash * sum(b > 0 for b in bits)

    def rebuilding(self, rows: float) -> float:
        return rows * _BUILD

    def scanned(self, pattern: Pattern) -> float:
        """One scan serves all requests of a batch; a scan for one request compares whole columns and is cheaper."""
        return pattern.batches * pattern.rows * (SINGLE_SCAN if pattern.requests <= pattern.batches else SHARED_SCAN)

    def read(self, pattern: Pattern, values: list[int], bits: tuple[int, ...]) -> float:
        fixed = [c for c in range(self.columns) if pattern.columns >> c & 1]
        if not any(bits[c] for c in fixed):
            return self.scanned(pattern) * 1.01
        share = 1.0
        for column in fixed:
            share *= Attribute("", values[column]).share(bits[column])
        runs = 2.0 ** sum(bits[c] for c in range(self.columns) if c not in fixed)
        blocks = max(pattern.rows / BLOCK_ROWS, 1.0)
        return pattern.requests * (blocks * runs * self.costs.run + pattern.rows * share * self.costs.visit)

    def _workload(self, patterns: list[Pattern], values: list[int], requests: float) -> Workload:
        names = [str(c) for c in range(self.columns)]
        attributes = [Attribute(name, count) for name, count in zip(names, values, strict=True)]
        asked = [([n for c, n in enumerate(names) if p.columns >> c & 1], p.requests, p.rows) for p in patterns]
        return Workload.of(attributes, asked, row_rate=0.0, request_rate=requests)
