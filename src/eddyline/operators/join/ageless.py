"""A join without regard to age: rows meet whatever is live in the other inputs, older or newer.

Answer   `combinations` gives the combinations of some rows of one input with everything that is live in the others.
         `aged` gives combinations the stamp, time and death that they would have had. Intermediate stores are rebuilt
         in this way.
State    None of its own.
Limits   Indexes are used where there are any. Windows by count, and lineage by window, are not tested:
         `Verification.in_windows` does that for combinations whose age is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from eddyline.model.window import FOREVER
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.counters import Counters
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.probing.probing import found_pairs
from eddyline.operators.join.probing.steps import ProbeStep, ProbeSteps
from eddyline.operators.join.probing.verification import Verification
from eddyline.operators.stream.keys import combined
from eddyline.state.columns import Ints

_NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class AgelessJoin:
    steps: ProbeSteps
    verification: Verification
    counters: Counters
    #: About how many pairs are made before they are carried further.
    pairs_at_once: int
    #: Combinations are not wanted that are dead by then.
    low: int = -FOREVER
    #: Per input, the first id that is not met.
    bars: Mapping[int, int] = field(default_factory=dict)

    def combinations(
        self,
        origin: int,
        order: tuple[int, ...],
        rows: Combinations,
        sift: Callable[[Combinations], Combinations] | None = None,
    ) -> Iterator[Combinations]:
        """`sift` takes out, of complete combinations, those that are not wanted."""
        yield from self._extend(rows, self.steps.of(origin, order), 0, sift)

    def _extend(
        self, rows: Combinations, steps: list[ProbeStep], at: int, sift: Callable[[Combinations], Combinations] | None
    ) -> Iterator[Combinations]:
        if at == len(steps):
            yield rows
            return
        step = steps[at]
        one = self.steps.inputs[step.input]
        self.counters.probes += len(rows)
        limits, floors = np.full(len(rows), _NEVER), one.floors(np.full(len(rows), self.low))
        bases = self.steps.bases
        hashes = (
            combined([bases[r].store.at(key, rows.ids[r]) for r, key in step.probe_keys]) if step.probe_keys else limits
        )
        begin = 0
        while begin < len(rows):
            stop = min(len(rows), begin + int(self.pairs_at_once / max(step.pairs_per_row, 1.0)) + 1)
            pairs = found_pairs(one, step, False, hashes[begin:stop], limits[begin:stop], floors[begin:stop])
            self.counters.visited += pairs.visited
            left, right = self._met(step, pairs.left + begin, pairs.right)
            step.pairs_per_row = max(len(left) / (stop - begin), step.pairs_per_row / 2)
            made = self.verification.join(one, rows, left, right, step, None, True)
            begin = stop
            if sift is not None and at + 1 == len(steps):
                made = sift(made)
            if len(made):
                self.counters.partials += len(made)
                yield from self._extend(made, steps, at + 1, sift)

    def _met(self, step: ProbeStep, left: Ints, right: Ints) -> tuple[Ints, Ints]:
        """The pairs whose stored row may be met and is still stored."""
        if step.input in self.bars:
            met = right < self.bars[step.input]
            left, right = left[met], right[met]
        for reference, ids in self.steps.inputs[step.input].expand(right).items():
            held = self.steps.bases[reference].store.holds(ids)
            if not held.all():
                return self._met(step, left[held], right[held])
        return left, right


def aged(ids: dict[int, Ints], bases: Mapping[int, StreamInput], made: Combinations) -> Combinations:
    """The combination of these rows: stamp and clock of its newest, death of its first to leave."""
    stamps, clocks, deaths = [], [], []
    for reference, rows in ids.items():
        base = bases[reference]
        stamps.append(base.stamps(rows))
        clocks.append(np.full(len(rows), -FOREVER) if base.stream.is_table else base.store.at("ts", rows))
        deaths.append(base.deaths(rows))
    return Combinations(ids, np.max(stamps, axis=0), np.max(clocks, axis=0), np.min(deaths, axis=0), made.lineage)
