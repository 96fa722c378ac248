"""The prices of a template's access paths, from the costs that `eddyline lab calibrate` keeps.

Answer   `TemplatePrice` prices a scan, the reading of an index and the rebuilding of its blocks, and finds the best
         configuration. For few columns every configuration is priced in every order of its fields. For more, `exact.py`
         searches over the patterns that are not better scanned.
State    None.
Limits   Requests are taken to fix each value of a column equally often.
Reading  docs/operators/templates.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from eddyline.operators.template.search import Found, IndexLayout, PatternLoad
from eddyline.plan.index_choice.candidates import Bits
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.layouts import MOST_FIELDS, arranged, by_weight, orders, run_bits
from eddyline.plan.index_choice.search import choose_index
from eddyline.plan.index_choice.workload import Attribute, Floats, Workload
from eddyline.tuning import TemplateTuning


class TemplatePrice:
    def __init__(self, columns: int, bits: int, costs: IndexCosts, tuning: TemplateTuning | None = None) -> None:
        self.tuning = tuning or TemplateTuning()
        self.columns = columns
        self.bits = bits
        self.costs = costs

    def best(
        self, patterns: list[PatternLoad], values: list[int], window_rows: float, bits: tuple[int, ...] | None = None
    ) -> Found:
        """The cheapest configuration with at most as many bits as this price has; with `bits` given, the cheapest order
        of these. It has no bits where scanning is cheapest."""
        if bits is not None:
            return self._cheapest(patterns, values, window_rows, *self._ordered([bits], patterns))
        attributes = [Attribute("", count) for count in values]
        every = arranged(tuple(a.most_bits for a in attributes), self.bits, self.tuning.most_layouts)
        if every is not None:
            return self._cheapest(patterns, values, window_rows, *every)
        return self._searched(patterns, values, window_rows)

    def _searched(self, patterns: list[PatternLoad], values: list[int], window_rows: float) -> Found:
        """As `best`, where configurations in all their orders are too many: the exact search finds the bits, then their
        orders are priced."""
        best = self._cheapest(patterns, values, window_rows, *self._ordered([(0,) * self.columns], patterns))
        kept = list(patterns)
        # A pattern that is cheaper to scan than to read from the index found is left out of the next search.
        while kept:
            found = []
            for bits in range(self.bits, 0, -self.tuning.step):
                workload = self._workload(kept, values)
                # Runs are priced as if all open bits lay above fixed ones, and as if none did: both are bounds.
                for costs in (self._per_block(kept), replace(self.costs, run=0.0)):
                    found.append(choose_index(workload, costs, bits).bits)
            if found:
                ordered = self._ordered(list(dict.fromkeys(found)), patterns)
                here = self._cheapest(patterns, values, window_rows, *ordered)
                best = min(best, here, key=lambda one: one.price)
            served = [p for p in kept if self.read(p, values, best.layout) < self.scanned(p)]
            if len(served) == len(kept):
                break
            kept = served
        return best

    def _ordered(self, configurations: list[tuple[int, ...]], patterns: list[PatternLoad]) -> tuple[Bits, Bits]:
        """Configurations, each in all orders of its fields, or in one where these are many."""
        few = self.columns <= MOST_FIELDS
        lines = orders(self.columns) if few else by_weight([(p.columns, p.requests) for p in patterns], self.columns)
        bits = np.array(configurations, np.int64).reshape(-1, self.columns)
        return np.repeat(bits, len(lines), axis=0), np.tile(lines, (len(bits), 1))

    def _cheapest(
        self, patterns: list[PatternLoad], values: list[int], window_rows: float, bits: Bits, order: Bits
    ) -> Found:
        price = self._prices(patterns, values, window_rows, bits, order)
        # Of equal ones the first in which the fewest fields have bits.
        equal = np.flatnonzero(price <= price.min() * (1 + 1e-9))
        at = int(equal[np.argmin((bits[equal] > 0).sum(axis=1))])
        return Found(IndexLayout(tuple(bits[at].tolist()), tuple(order[at].tolist())), float(price[at]))

    def _per_block(self, patterns: list[PatternLoad]) -> IndexCosts:
        """The costs of a search that knows one block: each run is begun in all blocks of a window."""
        requests = sum(p.requests for p in patterns)
        blocks = sum(p.requests * max(p.rows / self.tuning.block_rows, 1.0) for p in patterns)
        return replace(self.costs, run=self.costs.run * (blocks / requests if requests else 1.0))

    def of(self, patterns: list[PatternLoad], values: list[int], layout: IndexLayout, window_rows: float) -> float:
        """The price of all requests under a configuration, each pattern by its cheaper path, and of the addresses of new
        rows."""
        return float(self._prices(patterns, values, window_rows, *_lines(layout))[0])

    def _prices(
        self, patterns: list[PatternLoad], values: list[int], window_rows: float, bits: Bits, order: Bits
    ) -> Floats:
        price = window_rows * self.costs.hash * (bits > 0).sum(axis=1)
        for pattern in patterns:
            runs, share = _reaches(pattern.columns, values, bits, order)
            # Without runs the index does not help this pattern, which is scanned.
            scanned = self.scanned(pattern)
            price = price + np.where(runs > 0, np.minimum(scanned, self._reading(pattern, runs, share)), scanned)
        return price

    def rebuilding(self, rows: float) -> float:
        return rows * self.tuning.build

    def scanned(self, pattern: PatternLoad) -> float:
        """One scan serves all requests of a batch; a scan for one request compares whole columns and is cheaper."""
        alone = pattern.requests <= pattern.batches
        return pattern.batches * pattern.rows * (self.tuning.single_scan if alone else self.tuning.shared_scan)

    def read(self, pattern: PatternLoad, values: list[int], layout: IndexLayout) -> float:
        runs, share = _reach(pattern.columns, tuple(values), layout)
        return float(self._reading(pattern, runs, share)) if runs else self.scanned(pattern) * 1.01

    def _reading(self, pattern: PatternLoad, runs: Floats | float, share: Floats | float) -> Floats | float:
        """The price of reading `runs` runs in every block, and of visiting a share of the window."""
        blocks = max(pattern.rows / self.tuning.block_rows, 1.0)
        by_runs = blocks * runs * self.costs.run + pattern.rows * share * self.costs.visit
        # A block with very many runs is read whole.
        return pattern.requests * np.minimum(by_runs, blocks * self.costs.run + pattern.rows * self.costs.visit)

    def _workload(self, patterns: list[PatternLoad], values: list[int]) -> Workload:
        names = [str(c) for c in range(self.columns)]
        attributes = [Attribute(name, count) for name, count in zip(names, values, strict=True)]
        asked = [([n for c, n in enumerate(names) if p.columns >> c & 1], p.requests, p.rows) for p in patterns]
        return Workload.of(attributes, asked, row_rate=0.0, request_rate=sum(p.requests for p in patterns))


def _reaches(pattern: int, values: Sequence[int], bits: Bits, order: Bits) -> tuple[Floats, Floats]:
    """Per configuration: the runs that a request reads in a block (0: the index does not help it), and the share of
    rows behind these."""
    fixed = [c for c in range(bits.shape[1]) if pattern >> c & 1]
    share = np.ones(len(bits))
    for column in fixed:
        attribute = Attribute("", values[column])
        shares = np.array([attribute.share(b) for b in range(int(bits[:, column].max(initial=0)) + 1)])
        share *= shares[bits[:, column]]
    return np.where(bits[:, fixed].any(axis=1), np.ldexp(1.0, run_bits(bits, order, fixed)), 0.0), share


@lru_cache(maxsize=1024)
def _reach(pattern: int, values: tuple[int, ...], layout: IndexLayout) -> tuple[float, float]:
    """The same of one configuration."""
    runs, share = _reaches(pattern, values, *_lines(layout))
    return float(runs[0]), float(share[0])


def _lines(layout: IndexLayout) -> tuple[Bits, Bits]:
    return np.array([layout.bits], np.int64), np.array([layout.order], np.int64)
