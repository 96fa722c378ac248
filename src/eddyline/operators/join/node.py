"""The one join: k inputs, new rows meet older rows.

Answer   Every combination of one row per input that satisfies the equalities and the residual conditions, whose rows are in
         their windows with respect to its newest row; once, produced by that newest row.

             new rows of input i ──probe──► input j ──probe──► input k ──► combinations
                                   each meets only older rows, checked against row i's time

State    None of its own: streams' rows lie in the shared stores, combinations of a child node in the input made for it.
Limits   The epoch's rows are in the stores before anyone probes; "older" is a comparison, not a matter of who came first.
Reading  docs/operators/join.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from eddyline.kernels import order as order_kernels
from eddyline.kernels import probe as probe_kernels
from eddyline.model.expression import Expression, refs_of
from eddyline.model.joining import Equality
from eddyline.model.window import FOREVER
from eddyline.operators.evaluate import Predicate, compile_predicate
from eddyline.operators.join.combination import Combinations, any_bit
from eddyline.operators.join.inputs import Input, NodeInput, StreamInput
from eddyline.operators.join.policy import JoinPolicy
from eddyline.operators.join.sharing.expansion import Expansion
from eddyline.operators.join.sharing.shared_probes import Ask, Met, SharedProbes
from eddyline.operators.keys import combined
from eddyline.operators.vectors import Issues
from eddyline.state.columns import Ints, StringColumn

#: About so many pairs are made before they are carried further: bounds the memory of a step.
_PAIRS_AT_ONCE = 1 << 20


@dataclass(slots=True)
class Counters:
    """Exact counts of what joins did."""

    probes: int = 0
    #: Rows whose probe had been made for another group, or for this one among others.
    probes_shared: int = 0
    visited: int = 0
    partials: int = 0
    seconds: float = 0.0
    rows_in: int = 0
    rows_out: int = 0


@dataclass(slots=True)
class Step:
    """One probe: which input, by which index, and what else must hold. Or one condition: a number beyond the inputs."""

    input: int
    index: str | None
    probe_keys: tuple[tuple[int, str], ...]
    verify: tuple[Equality, ...]
    conditions: tuple[Predicate, ...] = field(default=())
    #: How many pairs a probing row gives, as seen lately: sizes the next portion.
    pairs_per_row: float = 64.0


RowsSeen = Callable[[int, Ints], Ints]


class Demand(Protocol):
    """What consumers tell a node: which new rows, and which of its combinations, somebody can use now."""

    def admit(self, origin: int, rows: Combinations) -> Combinations: ...

    def sift(self, origin: int, made: Combinations) -> Combinations: ...

    def probe(
        self, node: JoinNode, origin: int, step: Step, rows: Combinations, part: slice, hashes: Ints, limits: Ints, floors: Ints
    ) -> tuple[Ints, Ints, int] | None: ...


class JoinNode:
    """A node of a join tree. `aliases[r]` is the name under which residual conditions know reference r."""

    one_index_per_partner = True

    def __init__(
        self,
        name: str,
        inputs: list[Input],
        equalities: tuple[Equality, ...],
        residuals: tuple[Expression, ...],
        bases: Mapping[int, StreamInput],
        orders: tuple[tuple[int, ...], ...],
        loop: bool,
        total: int,
        counters: Counters,
        policy: JoinPolicy,
        issues: Issues | None = None,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.references = tuple(sorted(r for i in inputs for r in i.references))
        self.equalities = equalities
        self.bases = bases
        self.orders = orders
        self.loop = loop
        self.total = total
        self.counters = counters
        self.policy = policy
        self.issues = issues
        #: Says what of this node's output can be used now; None: all of it.
        self.demand: Demand | None = None
        #: Takes the last probes of this step, where they go to many queries and need nothing else.
        self._into: Expansion | None = None
        #: Probes that other groups make too.
        self.shared: SharedProbes | None = None
        self._predicates: dict[Expression, Predicate] = {}
        self._by_alias = {bases[r].port.alias: r for r in self.references}
        mine = frozenset(self._by_alias)
        inner = [frozenset(bases[r].port.alias for r in i.references) for i in inputs]
        #: Conditions that need more than one of the inputs; a child has checked those of its own.
        self.residuals = tuple(e for e in residuals if refs_of(e) <= mine and not any(refs_of(e) <= one for one in inner))
        self._steps: dict[tuple[int, tuple[int, ...]], list[Step]] = {}
        for origin in range(len(inputs)):
            if not self._is_static(origin):
                self.steps(origin, orders[origin])

    def _is_static(self, number: int) -> bool:
        one = self.inputs[number]
        return isinstance(one, StreamInput) and one.stream.is_table

    # -- what to do for new rows of one input

    def steps(self, origin: int, order: tuple[int, ...]) -> list[Step]:
        """The probe steps for one origin and order, worked out once."""
        key = (origin, order)
        if key not in self._steps:
            covered = frozenset(self.inputs[origin].references)
            apart = any(number >= len(self.inputs) for number in order)
            steps = []
            for number in order:
                if number >= len(self.inputs):
                    steps.append(Step(number, None, (), (), (self._predicate(self.residuals[number - len(self.inputs)]),)))
                    continue
                added = frozenset(self.inputs[number].references)
                step = self._step(number, covered, added)
                steps.append(replace(step, conditions=()) if apart else step)
                covered |= added
            self._steps[key] = steps
        return self._steps[key]

    def _step(self, number: int, covered: frozenset[int], added: frozenset[int]) -> Step:
        joining = [(e, s) for e in self.equalities if (s := e.sides(covered, added)) is not None]
        indexed = joining
        if len(self.inputs) > 2 and joining and self.policy.draws_orders and self.one_index_per_partner:
            # Drawn orders differ from batch to batch, and with them what is covered: one index per partner serves them all.
            # With fixed orders an origin needs one index of an input anyway; it has all keys, so that no pair is made in vain.
            partners = [s[0] for _, s in joining]
            best = max(sorted(set(partners)), key=partners.count)
            indexed = [(e, s) for e, s in joining if s[0] == best]
        # Of several equalities on one key of the added side one is enough: spread equalities would only lengthen the hash.
        indexed = [pair for n, pair in enumerate(indexed) if pair[1][2:] not in [other[1][2:] for other in indexed[:n]]]
        index = None
        if indexed:
            index = self.inputs[number].need_index(tuple((s[2], s[3]) for _, s in indexed))
        known = [indexed[0][0]] if len(indexed) == 1 and indexed[0][0].exact else []
        verify = tuple(e for e, _ in joining if not (e.exact and _follows(e, covered, added, self.equalities, known)))
        now = frozenset(self.bases[r].port.alias for r in covered | added)
        before = frozenset(self.bases[r].port.alias for r in covered)
        late = tuple(e for e in self.residuals if refs_of(e) <= now and not refs_of(e) <= before)
        probe_keys = tuple((s[0], s[1]) for _, s in indexed)
        return Step(number, index, probe_keys, verify, tuple(self._predicate(e) for e in late))

    def _predicate(self, condition: Expression) -> Predicate:
        if condition not in self._predicates:
            self._predicates[condition] = compile_predicate(condition)
        return self._predicates[condition]

    # -- an epoch

    def produce(
        self, fresh: list[Combinations | None], rows_seen: RowsSeen, keeps: bool, into: Expansion | None = None
    ) -> Iterator[Combinations]:
        """All combinations whose newest row is among the fresh ones. `fresh[i]`: what is new in input i, or None.

        `keeps`: the combinations will be stored, so somebody will ask when they die. `into`: takes last probes as a whole.
        """
        self._into = into
        for origin, rows in enumerate(fresh):
            if rows is None or not len(rows):
                continue
            self.counters.rows_in += len(rows)
            rows = self.policy.admit(self, origin, rows)
            if self.demand is not None:
                rows = self.demand.admit(origin, rows)
            for group in self.policy.groups(self, origin, rows):
                steps = self.steps(origin, self.policy.route(self, origin))
                yield from self._extend(group, origin, steps, 0, rows_seen, keeps)

    def everything(self) -> Iterator[Combinations]:
        """All combinations of rows that are live now, whatever their age: how intermediate stores are rebuilt.

        Rows that are all live now were in each other's windows when the newest of them came, so no window is looked at.
        """
        origin = next(n for n in range(len(self.inputs)) if not self._is_static(n))
        one = self.inputs[origin]
        ids = one.store.ids()
        words = one.words(ids)
        rows = Combinations(one.expand(ids), np.full(len(ids), np.iinfo(np.int64).max), np.full(len(ids), 0), one.deaths(ids), words)
        for made in self._extend(rows, origin, self.steps(origin, self.orders[origin]), 0, None, True):
            made.stamp = np.max([self.bases[r].port.stamps(self.bases[r].store.at("seq", made.ids[r])) for r in made.ids], axis=0)
            newest = [np.where(self.bases[r].stream.is_table, -FOREVER, self.bases[r].store.at("ts", made.ids[r])) for r in made.ids]
            made.clock = np.max(newest, axis=0)
            yield made

    def _extend(
        self, rows: Combinations, origin: int, steps: list[Step], at: int, rows_seen: RowsSeen | None, keeps: bool
    ) -> Iterator[Combinations]:
        if at == len(steps):
            self.counters.rows_out += len(rows)
            yield rows
            return
        step = steps[at]
        if step.input >= len(self.inputs):
            made = rows.take(self._holds(step.conditions[0], rows))
            self.policy.observed(self, origin, step.input, len(rows), len(made))
            yield from self._extend(made, origin, steps, at + 1, rows_seen, keeps)
            return
        if self._into is not None and at + 1 == len(steps) and rows_seen is not None and self._is_plain(step):
            self.counters.probes += len(rows)
            pairs = self._into.probe(self, step, rows, rows_seen)
            self.counters.rows_out += pairs
            self.policy.observed(self, origin, step.input, len(rows), pairs)
            return
        met = self._met(origin, step, len(steps) == 1) if at == 0 and rows_seen is not None else None
        if met is None:
            self.counters.probes += len(rows)
        else:
            self.counters.probes_shared += len(rows)
        limits, floors = self._bounds(step, rows, rows_seen)
        hashes = combined([self.bases[r].store.at(key, rows.ids[r]) for r, key in step.probe_keys]) if step.probe_keys else limits
        begin = 0
        while begin < len(rows):
            stop = min(len(rows), begin + int(_PAIRS_AT_ONCE / max(step.pairs_per_row, 1.0)) + 1)
            part = slice(begin, stop)
            found = None
            if met is not None:
                found = self._taken(met, origin, step, rows, part, floors[part])
            elif self.demand is not None and at + 1 == len(steps):
                found = self.demand.probe(self, origin, step, rows, part, hashes[part], limits[part], floors[part])
            left, right, visited = found or self._probe(step, hashes[part], limits[part], floors[part])
            self.counters.visited += visited
            step.pairs_per_row = max(len(left) / (stop - begin), step.pairs_per_row / 2)
            made = self._join(rows, left + begin if begin else left, right, step, rows_seen, keeps)
            self.policy.observed(self, origin, step.input, stop - begin, len(made))
            if self.demand is not None and at + 1 == len(steps):
                made = self.demand.sift(origin, made)
            begin = stop
            if not len(made):
                continue
            if len(made.ids) < self.total:
                self.counters.partials += len(made)
            yield from self._extend(made, origin, steps, at + 1, rows_seen, keeps)

    def ask(self, origin: int, step: Step) -> Ask | None:
        """What a first probe asks for, in words that do not depend on this node; None: nobody else could."""
        mine, other = self.inputs[origin], self.inputs[step.input]
        if self.loop or step.index is None or not isinstance(mine, StreamInput) or not isinstance(other, StreamInput):
            return None
        if other.stream.is_table or mine.stream is other.stream:
            return None
        return Ask(mine.stream.name, tuple(key for _, key in step.probe_keys), other.stream.name, step.index)

    def _met(self, origin: int, step: Step, last: bool) -> Met | None:
        """What new rows meet in this step, where other groups ask for the same."""
        if self.shared is None or (last and self.demand is not None):
            return None
        ask = self.ask(origin, step)
        if ask is None or not self.shared.is_shared(ask):
            return None
        met, probes, visited = self.shared.pairs(ask)
        self.counters.probes += probes
        self.counters.visited += visited
        return met

    def _taken(self, met: Met, origin: int, step: Step, rows: Combinations, part: slice, floors: Ints) -> tuple[Ints, Ints, int]:
        mine, other = self.inputs[origin], self.inputs[step.input]
        assert isinstance(mine, StreamInput) and isinstance(other, StreamInput)
        left, right = met.pairs(rows.ids[mine.port.position][part], floors, other)
        return left, right, 0

    def _is_plain(self, step: Step) -> bool:
        """Whether equal words, age and lineage are all that a probe has to look at."""
        hashed = step.index is not None and not self.loop and isinstance(self.inputs[step.input], StreamInput)
        return hashed and not step.verify and not step.conditions

    def _bounds(self, step: Step, rows: Combinations, rows_seen: RowsSeen | None) -> tuple[Ints, Ints]:
        if rows_seen is None:
            return np.full(len(rows), np.iinfo(np.int64).max), np.full(len(rows), np.iinfo(np.int64).min)
        one = self.inputs[step.input]
        return one.limits(rows.stamp), one.floors(rows.clock)

    def _probe(self, step: Step, hashes: Ints, limits: Ints, floors: Ints) -> tuple[Ints, Ints, int]:
        one = self.inputs[step.input]
        store = one.store
        order, dead = store.marks[one.order], store.marks[one.death]
        if step.index is None or self.loop:
            keys = store.marks[step.index] if step.index is not None else order
            left, right, visited = probe_kernels.probe_scan(
                hashes, limits, floors, step.index is not None, keys, order, dead, store.base, store.first, store.end
            )
            if store.dropped:
                # A scan meets the rows that have left their chains.
                held = store.holds(right)
                left, right = left[held], right[held]
            return left, right, visited
        index = store.indexes[step.index]
        return probe_kernels.probe_chains(
            hashes, limits, floors, index.heads, index.back, index.keys, order, dead, store.base, store.first, one.in_time_order
        )

    def _join(self, rows: Combinations, left: Ints, right: Ints, step: Step, rows_seen: RowsSeen | None, keeps: bool) -> Combinations:
        """The pairs that stand up to everything else: counted windows, lineage, verification, residual conditions."""
        one = self.inputs[step.input]
        added = one.expand(right)
        made = Combinations(
            {**{r: ids[left] for r, ids in rows.ids.items()}, **added},
            rows.stamp[left],
            rows.clock[left],
            np.minimum(rows.dead[left], one.deaths(right)) if keeps and rows.dead is not None else None,
            _both(None if rows.words is None else rows.words[left], one.words(right)),
        )
        made = self._in_windows(made, tuple(added), rows_seen)
        if made.words is not None:
            wanted = any_bit(made.words)
            if not wanted.all():
                made = made.take(wanted)
        for equality in step.verify:
            same = self._same(equality, made)
            if not same.all():
                made = made.take(same)
        for condition in step.conditions:
            if len(made):
                made = made.take(self._holds(condition, made))
        return made

    def _in_windows(self, made: Combinations, added: tuple[int, ...], rows_seen: RowsSeen | None) -> Combinations:
        if rows_seen is None:
            return made
        for reference in added:
            base = self.bases[reference]
            port = base.port
            if base.stream.is_table or not port.tells_windows_apart or not len(made):
                continue
            if port.most_rows:
                # An id that the store has forgotten is out of every counted window, and can no longer be looked up.
                held = base.store.holds(made.ids[reference])
                if not held.all():
                    made = made.take(held)
            ids = made.ids[reference]
            counts = None
            if not port.most_rows and made.words is not None:
                alive = port.keep_within(made.words, made.clock - base.store.at("ts", ids))
                if not alive.all():
                    made = made.take(alive)
                continue
            if port.most_rows:
                counts = rows_seen(reference, made.rank) - base.store.at("num", ids)
            inside = port.inside(made.clock - base.store.at("ts", ids), counts)
            words = inside if made.words is None else made.words & inside
            alive = any_bit(words)
            made.words = words if len(port.members) > 1 or made.words is not None else None
            if not alive.all():
                made = made.take(alive)
        return made

    def _same(self, equality: Equality, made: Combinations) -> npt.NDArray[np.bool_]:
        a, b = self.bases[equality.left], self.bases[equality.right]
        at_a, at_b = made.ids[equality.left], made.ids[equality.right]
        same: npt.NDArray[np.bool_] = a.store.at(equality.left_key, at_a) == b.store.at(equality.right_key, at_b)
        if equality.exact or not len(made):
            return same
        one, other = (s.store.columns.get(c) for s, c in zip((a, b), equality.text_columns or ("", ""), strict=True))
        if isinstance(one, StringColumn) and isinstance(other, StringColumn):
            texts: npt.NDArray[np.bool_] = order_kernels.equal_strings(
                one.offsets, one.data, one.shift, at_a - a.store.base, other.offsets, other.data, other.shift, at_b - b.store.base
            )
            return same & texts
        return same & self._holds(self._predicate(equality.condition), made)

    def _holds(self, condition: Predicate, made: Combinations) -> npt.NDArray[np.bool_]:
        columns = {}
        for alias, column in condition.columns:
            reference = self._by_alias[alias]
            columns[alias, column] = self.bases[reference].store.gather(column, made.ids[reference])
        return condition(columns, len(made), self.issues)


def _follows(
    asked: Equality, covered: frozenset[int], added: frozenset[int], equalities: tuple[Equality, ...], known: list[Equality]
) -> bool:
    """Whether exact equalities that hold already, on either side or by the index, say that this one holds."""
    within = [e for e in equalities if e.exact and any({e.left, e.right} <= side for side in (covered, added))]
    same = {(asked.left, asked.left_key)}
    grown = True
    while grown:
        grown = False
        for e in (*known, *within):
            ends = {(e.left, e.left_key), (e.right, e.right_key)}
            if len(ends & same) == 1:
                same |= ends
                grown = True
    return (asked.right, asked.right_key) in same


def _both(a: npt.NDArray[np.uint64] | None, b: npt.NDArray[np.uint64] | None) -> npt.NDArray[np.uint64] | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b


__all__ = ["Counters", "Equality", "JoinNode", "NodeInput", "Step", "StreamInput"]
