"""The configuration of a template's index: it follows the columns that requests fix.

Answer   `note` counts requests by selection pattern, with a decay. `due`: whether enough requests came since the last
         search. `choose` gives the configuration that the exact search finds for these counts, or None. A change has to
         save more over one window length than it costs to rebuild the blocks. Counts that resemble those of the last
         search are not searched again.
State    Decayed counts per pattern; requests, epochs and rows since the last search.
Limits   Frequencies are counted, never timed; the same requests and epochs give the same choice.
Reading  docs/operators/templates.md
"""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.kernels.requests.block_building import number_distinct
from eddyline.operators.template.rows import TemplateRows
from eddyline.operators.template.search import IndexLayout, IndexPricing, PatternLoad
from eddyline.state.columns import Ints
from eddyline.tuning import TemplateTuning


@dataclass(frozen=True, slots=True)
class SearchInputs:
    """The inputs of a search: for inputs that resemble these another search would find the same."""

    #: Per pattern its share of all requests, and the rows in the window of one.
    shares: dict[int, float]
    rows: dict[int, float]
    values: tuple[int, ...]
    #: Requests of a window length, and the configuration that was running.
    requests: float
    running: IndexLayout

    @classmethod
    def of(cls, patterns: list[PatternLoad], values: list[int], running: IndexLayout) -> SearchInputs:
        total = sum(p.requests for p in patterns) or 1.0
        shares = {p.columns: p.requests / total for p in patterns}
        return cls(shares, {p.columns: p.rows for p in patterns}, tuple(values), total, running)

    def resembles(self, other: SearchInputs, tuning: TemplateTuning) -> bool:
        """Whether shares differ by little in all, and every number by a small factor."""
        patterns = {*self.shares, *other.shares}
        moved = sum(abs(self.shares.get(p, 0.0) - other.shares.get(p, 0.0)) for p in patterns)
        if self.running != other.running or moved > tuning.moved_shares:
            return False
        pairs = [(self.rows[p], other.rows[p]) for p in self.rows if p in other.rows]
        pairs += [*zip(self.values, other.values, strict=True), (self.requests, other.requests)]
        return all(max(a, b) <= tuning.moved_factor * min(a, b) for a, b in pairs)


class Adjustment:
    def __init__(self, price: IndexPricing, tuning: TemplateTuning) -> None:
        self.price = price
        self.tuning = tuning
        #: Per pattern: requests, and rows in their windows, both decayed.
        self.counts: dict[int, float] = {}
        self.rows: dict[int, float] = {}
        #: Batches in which requests of the pattern came, decayed.
        self.batches: dict[int, float] = {}
        self.requests = 0
        self.epochs = 0
        self.searches = 0
        self.changes = 0
        #: The inputs of the last search.
        self._searched: SearchInputs | None = None
        #: Distinct values per grouping column, the id up to which rows were counted for them, and how often that was
        #: done.
        self._values: list[int] = []
        self._counted_upto = 0
        self.counted = 0
        #: The id after the newest row when `choose` was last called.
        self._upto = 0

    def note(self, pattern: int, requests: int, rows: float, batches: int) -> None:
        """Requests of one pattern came; `rows` is the sum of the rows in their windows, `batches` the number of scans
        that would answer them."""
        self.counts[pattern] = self.counts.get(pattern, 0.0) + requests
        self.rows[pattern] = self.rows.get(pattern, 0.0) + rows
        self.batches[pattern] = self.batches.get(pattern, 0.0) + batches
        self.requests += requests

    def after_epoch(self, end: int) -> None:
        """`end` is the id after the newest row."""
        self.epochs += 1
        if not self.requests:
            # Rows are counted from the first request on.
            self._upto = end

    @property
    def due(self) -> bool:
        return self.requests >= self.tuning.requests_between or (
            self.requests > 0 and self.epochs >= self.tuning.epochs_between
        )

    def choose(
        self, rows: TemplateRows, running: IndexLayout, window_rows: float, bits: tuple[int, ...] | None = None
    ) -> IndexLayout | None:
        """Another configuration that pays for its migration, or another order of given bits; None: the running one
        stays."""
        came, self._upto = max(rows.store.end - self._upto, 1), rows.store.end
        # As many requests as one window length brings.
        scale = min(max(window_rows / came, self.tuning.least_scale), self.tuning.most_scale)
        patterns = [
            PatternLoad(p, self.counts[p] * scale, self.rows[p] / self.counts[p], self.batches[p] * scale)
            for p in self.counts
            if p and self.counts[p] > 0
        ]
        values = self.values(rows)
        self._decay()
        self.requests = self.epochs = 0
        inputs = SearchInputs.of(patterns, values, running)
        if not patterns or (self._searched is not None and self._searched.resembles(inputs, self.tuning)):
            return None
        self._searched = inputs
        self.searches += 1
        found = self.price.best(patterns, values, window_rows, bits)
        if found.layout == running:
            return None
        now = self.price.of(patterns, values, running, window_rows)
        if now - found.price <= self.price.rebuilding(window_rows):
            return None
        self.changes += 1
        return found.layout

    def _decay(self) -> None:
        for pattern in list(self.counts):
            for kept in (self.counts, self.rows, self.batches):
                kept[pattern] *= self.tuning.keep
            if self.counts[pattern] < 0.01:
                del self.counts[pattern], self.rows[pattern], self.batches[pattern]

    def values(self, rows: TemplateRows) -> list[int]:
        """How many distinct values each grouping column has among the newest rows, or had a little earlier."""
        end = rows.end
        first = max(rows.store.first, end - self.tuning.sample)
        came = end - self._counted_upto
        if not self._values or came < 0 or came * self.tuning.new_share > end - first:
            nulls: Ints = rows.null_bits(first, end)
            lines = (rows.column(column, first, end) for column in range(rows.columns))
            self._values = [
                max(1, len(number_distinct(keys, nulls, column, end - first)[0])) for column, keys in enumerate(lines)
            ]
            self._counted_upto = end
            self.counted += 1
        return self._values

    # -- snapshots

    def saved(self) -> dict[str, object]:
        kept = {"counts": self.counts, "rows": self.rows, "batches": self.batches}
        return {name: {str(p): value for p, value in found.items()} for name, found in kept.items()}

    def restore(self, saved: dict[str, dict[str, float]]) -> None:
        self.counts, self.rows, self.batches = (
            {int(p): value for p, value in saved[name].items()} for name in ("counts", "rows", "batches")
        )
