"""The prices of a template's access paths, from the costs that `eddyline calibrate` keeps.

Answer   `TemplatePrice` prices a scan, the reading of an index and the rebuilding of its blocks, and finds the best configuration with the
         exact search over the patterns that are not better scanned.
State    None.
Limits   Values of a column are taken to be asked for equally often.
Reading  docs/operators/templates.md
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.operators.template.search import Found, Pattern
from eddyline.plan.index_choice.search import choose_index
from eddyline.plan.index_choice.workload import Attribute, Workload
from eddyline.plan.index_costs import IndexCosts
from eddyline.tuning import TemplateTuning


class TemplatePrice:
    def __init__(self, columns: int, bits: int, costs: IndexCosts, tuning: TemplateTuning | None = None) -> None:
        self.tuning = tuning or TemplateTuning()
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
            for bits in range(self.bits, 0, -self.tuning.step):
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
        blocks = sum(p.requests * max(p.rows / self.tuning.block_rows, 1.0) for p in patterns) / asked if asked else 1.0
        return replace(self.costs, run=self.costs.run * blocks)

    def of(self, patterns: list[Pattern], values: list[int], bits: tuple[int, ...], requests: float, window_rows: float) -> float:
        """What all requests cost under a configuration, each pattern by its cheaper path, and the addresses of the rows that come."""
        asked = sum(min(self.scanned(p), self.read(p, values, bits)) for p in patterns)
        return asked + window_rows * self.costs.hash * sum(b > 0 for b in bits)

    def rebuilding(self, rows: float) -> float:
        return rows * self.tuning.build

    def scanned(self, pattern: Pattern) -> float:
        """One scan serves all requests of a batch; a scan for one request compares whole columns and is cheaper."""
        alone = pattern.requests <= pattern.batches
        return pattern.batches * pattern.rows * (self.tuning.single_scan if alone else self.tuning.shared_scan)

    def read(self, pattern: Pattern, values: list[int], bits: tuple[int, ...]) -> float:
        fixed = [c for c in range(self.columns) if pattern.columns >> c & 1]
        if not any(bits[c] for c in fixed):
            return self.scanned(pattern) * 1.01
        share = 1.0
        for column in fixed:
            share *= Attribute("", values[column]).share(bits[column])
        runs = 2.0 ** sum(bits[c] for c in range(self.columns) if c not in fixed)
        blocks = max(pattern.rows / self.tuning.block_rows, 1.0)
        return pattern.requests * (blocks * runs * self.costs.run + pattern.rows * share * self.costs.visit)

    def _workload(self, patterns: list[Pattern], values: list[int], requests: float) -> Workload:
        names = [str(c) for c in range(self.columns)]
        attributes = [Attribute(name, count) for name, count in zip(names, values, strict=True)]
        asked = [([n for c, n in enumerate(names) if p.columns >> c & 1], p.requests, p.rows) for p in patterns]
        return Workload.of(attributes, asked, row_rate=0.0, request_rate=requests)
