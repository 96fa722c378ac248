"""Response times: from the arrival of a result's newest row to the moment at which the result is released.

Answer   Per query the mean, the 95th percentile and the largest, in seconds of the driver's clock. A row arrives when
         the epoch that brings it begins; it may have to wait for the frontier in later ones. On Spark each shard
         measures (`drained`), and the driver adds the time from the end of the shard's epoch to the delivery of the
         results.
State    When each stream's rows came, for rows that still wait; per query pairs (response, results), put together when
         they become many: then p95 is at most a two-thousandth of the results too high. Of filters, which may be
         thousands, `SlotTimes` keeps how many results fell into which range of times: their figures are at most a fifth
         off.
Limits   Joins and filters without aggregates: an aggregate's change has no newest row. A virtual clock moves by what
         the joins did and by nothing else, so that times under it are the same in every run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from eddyline.kernels.joins.arrivals import count_kinds, note_arrivals
from eddyline.model.clock import Clock
from eddyline.operators.join.combination import POSITION_BITS, Combinations
from eddyline.operators.join.counters import Counters
from eddyline.runtime.figures.histogram import SecondsHistogram
from eddyline.state.columns import Ints
from eddyline.state.runs import run_begins

#: Pairs of instants that are kept, and to how many they are reduced then. A bound of memory.
_MOST_PAIRS = 16_384
_FEWER_PAIRS = 2_048
#: Ranges of response times of filters: from a microsecond to more than an hour.
_RANGES = 128
_ENDS = (1e-6 * 2.0 ** (np.arange(_RANGES - 1) / 4)).tolist()
#: After this number of hand-outs their response times are added to those of the queries.
_MOST_NOTED = 64


class VirtualClock:
    """A clock that only work moves: a fixed time per probing row, per stored row visited, per combination made.

    >>> clock = VirtualClock(per_visit=1e-6)
    >>> clock.charge(probes=1, visited=500, made=2)
    >>> clock.now()
    0.0005
    """

    def __init__(self, per_probe: float = 0.0, per_visit: float = 1e-6, per_result: float = 0.0) -> None:
        self.per_probe = per_probe
        self.per_visit = per_visit
        self.per_result = per_result
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds

    def charge(self, probes: int, visited: int, made: int) -> None:
        self._now += probes * self.per_probe + visited * self.per_visit + made * self.per_result


class Times:
    """Responses of one query."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.largest = 0.0
        self.pairs: list[tuple[float, int]] = []

    def add(self, responses: np.ndarray, counts: Ints) -> None:
        """Add responses; `counts` has the number of results with each of them."""
        there = np.flatnonzero(counts)
        if not len(there):
            return
        responses, counts = responses[there], counts[there]
        self.count += int(counts.sum())
        self.total += float(responses @ counts)
        self.largest = max(self.largest, float(responses.max()))
        self.pairs += zip(responses.tolist(), counts.tolist(), strict=True)
        if len(self.pairs) > _MOST_PAIRS:
            self._condense()

    def _condense(self) -> None:
        values, counts = self._sorted()
        group = np.minimum(np.cumsum(counts) * _FEWER_PAIRS // self.count, _FEWER_PAIRS - 1)
        last = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)
        sums = np.diff(np.append(0, np.cumsum(counts)[last]))
        self.pairs = list(zip(values[last].tolist(), sums.tolist(), strict=True))

    def _sorted(self) -> tuple[np.ndarray, Ints]:
        values = np.array([value for value, _ in self.pairs])
        counts = np.array([count for _, count in self.pairs], np.int64)
        order = np.argsort(values, kind="stable")
        return values[order], counts[order]

    def summary(self) -> dict[str, float | None]:
        if not self.count:
            return {"mean": None, "p95": None, "max": None}
        values, counts = self._sorted()
        at = int(np.searchsorted(np.cumsum(counts), 0.95 * self.count))
        return {"mean": self.total / self.count, "p95": float(values[at]), "max": self.largest}


class SlotTimes:
    """Responses of the filters of one stream, by slot: the results of a slice whose rows came at one instant have the
    same one."""

    def __init__(self, slots: Mapping[str, int]) -> None:
        #: Query -> slot, as the filter group has it now.
        self.slots = slots
        #: By range of times and slot, how many results. A range ends 2 ** 0.25 times later than the one before.
        self._results = np.zeros((_RANGES, 0), np.int64)
        #: By range, over all slots: results, sum of responses, the largest response.
        self._counts = np.zeros(_RANGES, np.int64)
        self._totals = np.zeros(_RANGES)
        self._largest = np.zeros(_RANGES)

    def note(self, response: float, slots: Ints, counts: Ints) -> None:
        """Results of these slots, each there once and with `counts` results, were released after this time."""
        if len(slots) and int(slots.max()) >= self._results.shape[1]:
            more = np.zeros((_RANGES, 2 * int(slots.max()) + 1 - self._results.shape[1]), np.int64)
            self._results = np.concatenate([self._results, more], axis=1)
        at = bisect_left(_ENDS, response)
        self._results[at][slots] += counts
        results = int(counts.sum())
        self._counts[at] += results
        self._totals[at] += response * results
        self._largest[at] = max(self._largest[at], response)

    def clear(self, slot: int) -> None:
        """Another query has the slot."""
        if slot < self._results.shape[1]:
            self._results[:, slot] = 0

    def _known(self) -> tuple[list[str], Ints, Ints, np.ndarray]:
        """The queries that have results: their names, results by range, results in all, and mean responses."""
        names = [name for name, slot in self.slots.items() if slot < self._results.shape[1]]
        results = self._results[:, [self.slots[name] for name in names]]
        counts = results.sum(axis=0)
        there = np.flatnonzero(counts)
        results, counts = results[:, there], counts[there]
        means = (self._totals / np.maximum(self._counts, 1)) @ results / counts
        return [names[at] for at in there.tolist()], results, counts, means

    def summary(self) -> dict[str, dict[str, float | None]]:
        """Of each query with results: mean, p95 and largest."""
        names, results, counts, means = self._known()
        p95 = self._largest[np.argmax(np.cumsum(results, axis=0) >= 0.95 * counts, axis=0)]
        largest = self._largest[_RANGES - 1 - np.argmax(results[::-1] > 0, axis=0)]
        figures = zip(means.tolist(), p95.tolist(), largest.tolist(), strict=True)
        return {
            name: {"mean": mean, "p95": late, "max": last}
            for name, (mean, late, last) in zip(names, figures, strict=True)
        }

    def drained(self) -> dict[str, list[tuple[float, int]]]:
        """Of each query with results: the mean response and the number of results since the last call, which are
        forgotten here."""
        names, _, counts, means = self._known()
        found = {name: [(round(m, 6), c)] for name, m, c in zip(names, means.tolist(), counts.tolist(), strict=True)}
        for array in (self._results, self._counts, self._totals, self._largest):
            array[:] = 0
        return found


class Responses:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        #: Whether the work of joins moves the clock: `worked` is called then.
        self.is_virtual = isinstance(clock, VirtualClock)
        self.queries: dict[str, Times] = {}
        #: Of all results of all queries, those that have gone too.
        self.histogram = SecondsHistogram()
        #: By unit of filters.
        self._filters: dict[str, SlotTimes] = {}
        #: Per stream: arrival numbers below the first are those of the epoch that began at the second.
        self._came: dict[str, list[tuple[int, float]]] = {}
        #: The streams of which rows of several epochs are known.
        self.mixed: set[str] = set()
        self._epoch_began = clock.now()
        #: From which stamps on, the instant of arrival is another; which instants there are, and which of them it is.
        self._changes: Ints = np.zeros(0, np.int64)
        self._instants = np.zeros(0)
        self._instant_of: Ints = np.zeros(0, np.int64)
        #: By the queries of a hand-out: responses, and how many results of each query had them. `_add_up` adds them up
        #: now and then.
        self._noted: dict[tuple[str, ...], list[tuple[np.ndarray, Ints]]] = {}
        #: Per join group, what its work has moved the clock for.
        self._charged: dict[str, tuple[int, int, int]] = {}

    # -- called by the pipeline

    def begin(self) -> None:
        """An epoch begins: all that it brings arrives at this instant."""
        self._epoch_began = self.clock.now()

    def arrived(self, stream: str, upto: int) -> None:
        """The rows of a stream with numbers below `upto` have arrived, those that had not before, with this epoch."""
        came = self._came.setdefault(stream, [])
        if came and upto < came[-1][0]:
            # Another stream of that name: its rows are counted from 0.
            came.clear()
        if upto > (came[-1][0] if came else 0):
            came.append((upto, self._epoch_began))
            if len(came) > 1:
                self.mixed.add(stream)

    def released(self, first: int, rows: int, streams: Iterable[tuple[str, Ints, Ints]]) -> None:
        """This epoch works on ranks from `first` on: per stream, ranks and arrival numbers of its rows."""
        known = [(came, ranks, numbers) for s, ranks, numbers in streams if len(ranks) and (came := self._came.get(s))]
        arrivals = {instant for came, _, _ in known for _, instant in came}
        if len(arrivals) == 1:
            # All rows came with one epoch.
            self._instants, self._instant_of = np.array([*arrivals]), np.zeros(1, np.int64)
            self._changes = np.array([first << POSITION_BITS])
            return
        began = np.full(rows, np.inf)
        known_rows = 0
        for came, ranks, numbers in known:
            ends, instants = zip(*came, strict=True)
            note_arrivals(began, ranks, first, numbers, np.array(ends), np.array(instants))
            known_rows += len(ranks)
        if known_rows < rows:
            # Ranks whose rows are elsewhere begin with their neighbours: they give no results here.
            there = np.flatnonzero(np.isfinite(began))
            nearest = np.minimum(np.searchsorted(there, np.arange(rows)), len(there) - 1)
            began = began[there[nearest]] if len(there) else np.full(rows, self.clock.now())
        places = np.flatnonzero(run_begins(began))
        self._instants, self._instant_of = np.unique(began[places], return_inverse=True)
        self._changes = (places + first) << POSITION_BITS

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Rows that are released within are forgotten, and those before are known again."""
        before = self._changes, self._instants, self._instant_of
        yield
        self._changes, self._instants, self._instant_of = before

    def forget(self, stream: str, lowest: int) -> None:
        """No row of the stream with a smaller arrival number waits any longer."""
        came = self._came.get(stream, [])
        while len(came) > 1 and came[0][0] <= lowest:
            came.pop(0)
        if len(came) < 2:
            self.mixed.discard(stream)

    def worked(self, group: str, counters: Iterable[Counters]) -> None:
        """Move a virtual clock by what the group's joins have done since the last time; a real one moves by itself."""
        if isinstance(self.clock, VirtualClock):
            all_counters = list(counters)
            now = (
                sum(c.probes for c in all_counters),
                sum(c.visited for c in all_counters),
                sum(c.rows_out for c in all_counters),
            )
            self.clock.charge(*(max(b - a, 0) for a, b in zip(self._charged.get(group, (0, 0, 0)), now, strict=True)))
            self._charged[group] = now

    def note(self, queries: Sequence[str], rows: Combinations, edges: Ints | None = None) -> None:
        """Results of queries, in total order, are released now.

        Args:
            edges: Rows `edges[i]` to `edges[i + 1] - 1` are results of `queries[i]`. None: each query has all rows.
        """
        parts = np.array([0, len(rows)]) if edges is None else edges
        counts: Ints = np.diff(parts)
        if len(self._instants) > 1:
            # Per part, how many results have their newest rows from each of the instants.
            counts = count_kinds(parts, rows.stamp, self._changes, self._instant_of, len(self._instants)).ravel()
        counts = counts.reshape(len(parts) - 1, -1)
        counts = np.broadcast_to(counts, (len(queries), counts.shape[1])) if edges is None else counts
        noted = self._noted.setdefault(tuple(queries), [])
        noted.append((np.maximum(self.clock.now() - self._instants, 0.0), counts))
        if len(noted) == _MOST_NOTED:
            self._add_up()

    def filters(self, unit: str, slots: Mapping[str, int]) -> SlotTimes:
        """The response times of the filters of a unit."""
        if unit not in self._filters:
            self._filters[unit] = SlotTimes(slots)
        return self._filters[unit]

    def forget_filters(self, unit: str) -> None:
        self._filters.pop(unit, None)

    def note_filtered(self, times: SlotTimes, slots: Ints, edges: Ints, ranks: Ints, rows: Ints) -> None:
        """Results `edges[i]` to `edges[i + 1] - 1` of the query in `slots[i]` are released now; result r is of the row
        `rows[r]`."""
        now = self.clock.now()
        if len(self._instants) == 1:
            self._note_slots(times, max(now - float(self._instants[0]), 0.0), slots, np.diff(edges))
            return
        came = self._instant_of[np.searchsorted(self._changes >> POSITION_BITS, ranks[rows], side="right") - 1]
        for at, instant in enumerate(self._instants.tolist()):
            counts = np.diff(np.append(0, np.cumsum(came == at))[edges])
            there = np.flatnonzero(counts)
            if len(there):
                self._note_slots(times, max(now - instant, 0.0), slots[there], counts[there])

    def _note_slots(self, times: SlotTimes, response: float, slots: Ints, counts: Ints) -> None:
        times.note(response, slots, counts)
        self.histogram.add((response,), (int(counts.sum()),))

    def _add_up(self) -> None:
        """Add the collected response times to those of each query."""
        for names, noted in self._noted.items():
            responses = np.concatenate([responses for responses, _ in noted])
            counts = np.concatenate([counts for _, counts in noted], axis=1)
            self.histogram.add(responses, counts.sum(axis=0))
            for name, mine in zip(names, counts, strict=True):
                self.queries.setdefault(name, Times()).add(responses, mine)
        self._noted.clear()

    def drop(self, query: str) -> None:
        self._add_up()
        self.queries.pop(query, None)

    def drained(self) -> dict[str, list[tuple[float, int]]]:
        """Per query the pairs (response, results) since the last call, as JSON values; they are forgotten here."""
        self._add_up()
        found = {
            name: [(round(value, 6), count) for value, count in times.pairs]
            for name, times in self.queries.items()
            if times.count
        }
        self.queries.clear()
        for times in self._filters.values():
            found |= times.drained()
        return found

    def summary(self, names: Iterable[str]) -> dict[str, dict[str, float | None]]:
        self._add_up()
        found = {name: times for unit in self._filters.values() for name, times in unit.summary().items()}
        return {name: found.get(name) or self.queries.get(name, Times()).summary() for name in names}
