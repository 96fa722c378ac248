"""The one join: k inputs, new rows meet older rows.

Answer   Every combination of one row per input that satisfies the equalities and the residual conditions, whose rows
         are in their windows with respect to its newest row; once, produced by that newest row.

             new rows of input i ──probe──► input j ──probe──► input k ──► combinations
                                   each meets only older rows, checked against row i's time

State    None of its own: streams' rows lie in the shared stores, combinations of a child node in the input made for it.
Limits   The epoch's rows are in the stores before any node probes: "older" is a comparison of places in the total
         order.
Reading  docs/operators/join.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from eddyline.model.expressions.expression import Expression, refs_of
from eddyline.model.joining import Equality
from eddyline.operators.expressions.vectors import Issues
from eddyline.operators.join.ageless import AgelessJoin, aged
from eddyline.operators.join.combination import Combinations, concatenate
from eddyline.operators.join.counters import Counters
from eddyline.operators.join.inputs import Input, StreamInput
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.policy import Fresh, JoinPolicy, NodeOutput, Order, overriding
from eddyline.operators.join.probing.modes import SKIP, Grid, Modes, PairCells, Pairs, Probe, both
from eddyline.operators.join.probing.probing import portions
from eddyline.operators.join.probing.steps import UNSEEN, ProbeStep, ProbeSteps
from eddyline.operators.join.probing.untested import untested
from eddyline.operators.join.probing.verification import Verification
from eddyline.operators.stream.keys import combined
from eddyline.tuning import Tuning


class JoinNode:
    """A node of a join tree."""

    def __init__(
        self,
        name: str,
        inputs: list[Input],
        equalities: tuple[Equality, ...],
        residuals: tuple[Expression, ...],
        bases: Mapping[int, StreamInput],
        orders: tuple[Order, ...],
        loop: bool,
        total: int,
        counters: Counters,
        policies: tuple[JoinPolicy, ...] = (),
        issues: Issues | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.references = tuple(sorted(r for i in inputs for r in i.references))
        self.equalities = equalities
        self.bases = bases
        self.orders = orders
        self.loop = loop
        #: How many references the whole join has.
        self.total = total
        self.counters = counters
        tuning = tuning or Tuning()
        #: About how many pairs are made before they are carried further: bounds the memory of a step.
        self.pairs_at_once = tuning.pairs_at_once
        #: The same where an index finds them, whatever rows meet.
        self.pairs_held = min(tuning.results_held, tuning.pairs_at_once)
        mine = frozenset(self.references)
        inner = [frozenset(i.references) for i in inputs]
        #: Conditions that need more than one of the inputs; a child has checked those of its own.
        self.residuals = tuple(
            e for e in residuals if refs_of(e) <= mine and not any(refs_of(e) <= one for one in inner)
        )
        self.verification = Verification(bases, issues)
        routed = bool(overriding(policies, "route"))
        self._steps = ProbeSteps(inputs, equalities, self.residuals, bases, one_index_per_partner=routed)
        #: The probe steps for new rows of an input, in an order.
        self.steps = self._steps.of
        for origin in range(len(inputs)):
            if not self.is_static(origin):
                self.steps(origin, orders[origin])
        self.poll(policies)

    def poll(self, policies: Sequence[JoinPolicy]) -> None:
        """Poll these policies from here on, in this order."""
        self._admitting, self._routing, self._moding, self._observing, self._putting_out = (
            overriding(policies, point) for point in ("admit", "route", "mode", "observed", "put_out")
        )
        #: Whether new rows of an input may be probed in another order than theirs.
        self.parts_rows = bool(self._routing)

    def is_static(self, number: int) -> bool:
        """Whether an input never has new rows."""
        one = self.inputs[number]
        return isinstance(one, StreamInput) and one.stream.is_table

    # -- the points at which policies are polled

    def admitted(self, fresh: Fresh, join_slice: JoinSlice) -> Fresh:
        """The new rows that every policy lets through."""
        self.counters.rows_in += sum(len(rows) for rows in fresh if rows is not None)
        for policy in self._admitting:
            fresh = policy.admit(self, fresh, join_slice)
        return fresh

    def modes(self, probe: Probe) -> tuple[Probe, Modes | None]:
        """The probe without the rows that have nothing to meet, and the modes of all policies together;
        None: as a whole."""
        found: Modes | None = None
        for policy in self._moding:
            if len(probe.rows) and (found is None or (found.found is None and found.taken is None)):
                mode = policy.mode(self, probe)
                found = mode if found is None else both(found, mode)
                if found is not None and found.grid is not None and (left := found.grid.open_rows()) is not None:
                    probe, found = probe.take(left), replace(found, grid=found.grid.of_open_rows())
        return probe, found

    def observe(self, origin: int, step: int, probed: int, produced: int) -> None:
        for policy in self._observing:
            policy.observed(self, origin, step, probed, produced)

    def pass_on(self, made: list[Combinations], output: NodeOutput, join_slice: JoinSlice) -> None:
        """Put out what the node has made, as far as policies let it go."""
        for policy in self._putting_out:
            made = policy.put_out(self, made, output, join_slice)
        if output.kept is None:
            output.parts += made
        elif made:
            output.add(concatenate(made))

    # -- an epoch

    def produce(self, fresh: Fresh, join_slice: JoinSlice, keeps: bool) -> Iterator[Combinations]:
        """All combinations whose newest row is among the fresh ones and that no policy holds back.

        Args:
            keeps: the combinations are stored, so they need the instant at which they die.
        """
        for strand in self.strands(fresh, join_slice, keeps):
            yield from strand

    def strands(self, fresh: Fresh, join_slice: JoinSlice, keeps: bool) -> list[Iterator[Combinations]]:
        """The same apart by the input that the newest row is of: a strand makes its next part when the caller takes it."""
        admitted = enumerate(self.admitted(fresh, join_slice))
        return [
            self._strand(origin, rows, join_slice, keeps) for origin, rows in admitted if rows is not None and len(rows)
        ]

    def _strand(self, origin: int, rows: Combinations, join_slice: JoinSlice, keeps: bool) -> Iterator[Combinations]:
        groups: Iterable[tuple[Combinations, Order]] = ((rows, self.orders[origin]),)
        for policy in self._routing:
            # The first `route` that is not None: rows in groups, each with its probe order.
            found = policy.route(self, origin, rows)
            if found is not None:
                groups = found
                break
        for part, order in groups:
            yield from self._extend(part, origin, self.steps(origin, order), 0, join_slice, keeps)

    def everything(self) -> Iterator[Combinations]:
        """All combinations of rows that are live now, whatever their age: how intermediate stores are rebuilt.

        Rows that are all live now were in each other's windows when the newest of them came, so no window is tested.
        """
        origin = next(n for n in range(len(self.inputs)) if not self.is_static(n))
        one = self.inputs[origin]
        ids = one.ids()
        rows = Combinations(one.expand(ids), ids, ids, one.deaths(ids), one.lineage(ids))
        for made in AgelessJoin(self._steps, self.verification, Counters(), self.pairs_at_once).combinations(
            origin, self.orders[origin], rows
        ):
            yield aged(made.ids, self.bases, made)

    def _extend(
        self, rows: Combinations, origin: int, steps: list[ProbeStep], at: int, join_slice: JoinSlice, keeps: bool
    ) -> Iterator[Combinations]:
        if at == len(steps):
            self.counters.rows_out += len(rows)
            yield rows
            return
        step = steps[at]
        if step.input >= len(self.inputs):
            made = rows.take(self.verification.holds(step.conditions[0], rows))
            self.observe(origin, step.input, len(rows), len(made))
            yield from self._extend(made, origin, steps, at + 1, join_slice, keeps)
            return
        whole = self.probe(origin, at, at + 1 == len(steps), step, rows, join_slice)
        begin = 0
        while begin < len(rows):
            # The first rows of a scan meet every stored row, as far as is known.
            unseen = step.index is None and step.pairs_per_row == UNSEEN
            expected = self.inputs[step.input].store.live if unseen else step.pairs_per_row
            stop = min(len(rows), begin + int(self.pairs_at_once / max(expected, 1.0)) + 1)
            probe, modes = whole if stop - begin == len(rows) else whole.part(begin, stop), None
            if self._moding:
                probe, modes = self.modes(probe)
            probed, begin = stop - begin, stop
            if modes is not None and modes.taken is not None:
                # The policy writes no pairs down: the next portion may be larger.
                step.pairs_per_row = max(step.pairs_per_row / 2, 1.0)
                self.counters.rows_out += modes.taken
                self.observe(origin, step.input, probed, modes.taken)
                continue
            produced = 0
            for made in self._made(probe, modes, keeps):
                produced += len(made)
                if modes is not None and modes.sift is not None:
                    made = modes.sift(made)
                if not len(made):
                    continue
                if len(rows.ids) + len(self.inputs[step.input].references) < self.total:
                    self.counters.partials += len(made)
                yield from self._extend(made, origin, steps, at + 1, join_slice, keeps)
            if self._observing:
                self.observe(origin, step.input, probed, produced)

    def probe(
        self, origin: int, at: int, is_last: bool, step: ProbeStep, rows: Combinations, join_slice: JoinSlice
    ) -> Probe:
        """What a step is about to do for some rows."""
        one = self.inputs[step.input]
        limits, floors = one.limits(rows.stamp), one.floors(rows.clock)
        hashes = (
            combined([self.bases[r].store.at(key, rows.ids[r]) for r, key in step.probe_keys])
            if step.probe_keys
            else limits
        )
        return Probe(origin, at, is_last, step, rows, hashes, limits, floors, join_slice)

    def _made(self, probe: Probe, modes: Modes | None, keeps: bool) -> Iterator[Combinations]:
        """The combinations of a probe, in portions where they are many."""
        step, counters = probe.step, self.counters
        found, grid = (None, None) if modes is None else (modes.found, modes.grid)
        if found is None and grid is not None and (made := untested(self, probe, grid, keeps)) is not None:
            yield made
            return
        total = 0
        for pairs in (
            (found,)
            if found is not None
            else portions(self.inputs[step.input], self.loop, probe, grid, self.pairs_held)
        ):
            counters.probes += pairs.probes
            counters.probes_shared += pairs.shared
            counters.visited += pairs.visited
            total += len(pairs.left)
            yield self.joined(probe, pairs, grid, keeps)
        step.pairs_per_row = max(total / max(len(probe.rows), 1), step.pairs_per_row / 2)

    def joined(self, probe: Probe, pairs: Pairs, grid: Grid | None, keeps: bool, numbers: bool = False) -> Combinations:
        """The combinations of pairs that fulfil everything else; conditions that a mode passes are left out.

        Args:
            numbers: combinations have the numbers of their pairs among their ids; every pair is then in a cell that is
            not skipped.
        """
        step, rows, reads = probe.step, probe.rows, probe.join_slice.reads
        one, rows_seen = self.inputs[step.input], probe.join_slice.rows_seen
        if grid is None:
            is_complete = probe.is_last and len(self.references) == self.total
            if reads is not None and is_complete and not step.verify and not step.conditions:
                # Nothing reads the other references of these combinations.
                rows = rows.only(reads)
            return self.verification.join(one, rows, pairs.left, pairs.right, step, rows_seen, keeps)
        left, right, kinds = pairs.left, pairs.right, pairs.kinds
        if kinds is None and not pairs.is_sifted:
            kinds = grid.at(left, right)
            if (kinds == SKIP).any():
                left, right, kinds = (values[kinds != SKIP] for values in (left, right, kinds))
        cells = None if kinds is None or not grid.passed else PairCells(kinds, grid)
        made = self.verification.join(one, rows, left, right, step, rows_seen, keeps, cells, numbers)
        self.counters.conditions_avoided += 0 if cells is None else cells.avoided
        return made
