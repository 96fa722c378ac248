"""Just-in-time joins: a producer makes only what its consumers can use now.

Answer   The store of a producer holds at least every combination that, with rows that are here now, may be part of a result.
         What is missing is made when a row comes that asks for it, with the age that it would have had.

             new rows ─► admit ─► probe ─► sift ─► store          suspended: nothing is made, nothing is remembered
             a row with keys new to its store ─► gather ─► not stored yet? ─► sift ─► store          resumed

State    None that could disagree with the stores: a row or pair is suspended because a condition does not hold of it. Counts
         of what was held back, and for `auto` whether the edge listens at all.
Limits   Conditions look at keys and at what is stored, not at ages: they let more pass than is needed, never less. Nothing is
         lost or repeated because (1) a condition turns true only by a row whose keys are new to the asked store, and then
         all its pairs are gathered, and (2) what is gathered late is compared with what the store holds already.
Reading  docs/operators/demand.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from eddyline.model.joining import Equality
from eddyline.model.window import FOREVER
from eddyline.operators.join.combination import Combinations, concatenate
from eddyline.operators.join.demand.admission import Admission
from eddyline.operators.join.demand.edge import Edge, Look
from eddyline.operators.join.demand.gathering import Gathering
from eddyline.operators.join.demand.mns import Condition, alive_components, alive_ids, links_between, wanted_pairs
from eddyline.operators.join.demand.moment import Moment
from eddyline.operators.join.demand.stored import by_rows, not_stored
from eddyline.operators.join.demand.waking import can_wake_pairs, woken_pairs
from eddyline.operators.join.inputs import Input, NodeInput, StreamInput
from eddyline.operators.join.node import Counters, JoinNode, RowsSeen, Step
from eddyline.operators.keys import combined
from eddyline.state.columns import Ints
from eddyline.state.renumbering import Renumbering

#: In which order to probe inputs from one of them: (origin, inputs, equalities) to numbers of inputs.
Follow = Callable[[int, list[Input], tuple[Equality, ...]], tuple[int, ...]]

#: An edge that has not made up its mind looks at the pairs of so many rows of each input.
_SAMPLE = 256
#: A row that is touched on the way to a combination costs so much more where every step is written down.
_STEP_BY_STEP = 8


class NodeDemand:
    """The demand for the combinations of one inner node."""

    def __init__(
        self,
        node: JoinNode,
        kept: NodeInput,
        siblings: tuple[Input, ...],
        targets: tuple[Input, ...],
        mode: str,
        follow: Follow,
        admission: Admission | None = None,
    ) -> None:
        self.node = node
        #: What the combinations are joined with next.
        self.siblings = siblings
        #: What the node's own inputs say of its new rows.
        self.admission = admission
        self.kept = kept
        self.mode = mode
        # Who decides for himself makes everything until he has seen something.
        self.edge = Edge(mode == "auto", bool(targets) and mode != "auto")
        self._follow = follow
        bloomed = mode == "bloom"
        self.conditions: list[Condition] = []
        #: Inputs that the node shares no key with: they only have to hold something.
        self.unlinked: list[Input] = []
        #: Per input of the node, what can be said of its rows alone: (the condition on combinations, the one on rows).
        self.early: list[list[tuple[Condition, Condition]]] = [[] for _ in node.inputs]
        for target in targets:
            links = tuple(link for one in node.inputs for link in links_between(node.equalities, one.references, target))
            if not links:
                self.unlinked.append(target)
                continue
            whole = Condition(target, links, node.bases, bloomed)
            self.conditions.append(whole)
            for number, one in enumerate(node.inputs):
                mine = links_between(node.equalities, one.references, target)
                if mine:
                    alone = whole if mine == links else Condition(target, mine, node.bases, bloomed)
                    self.early[number].append((whole, alone))
        #: The conditions that are asked; with `auto`, those that save more than they cost.
        self.used = list(self.conditions)
        #: The condition that the last probe has asked already.
        self._probed_with: Condition | None = None
        self._waking: dict[Condition, Gathering] = {}
        self._meeting: Gathering | None = None
        self._held_back: dict[int, Ints] = {}
        #: The latest time of the epochs before this one.
        self._last = -FOREVER

    @property
    def checks(self) -> int:
        """Questions asked, and rows touched in order to make later what was held back."""
        early = [alone for pairs in self.early for whole, alone in pairs if alone is not whole]
        return self.edge.woken + sum(c.checked for c in (*self.conditions, *early))

    @property
    def listens_to(self) -> list[str]:
        """Aliases of the references that are asked; together where a node's store is."""
        if not self.edge.listens:
            return []
        asked = [*(c.opposite for c in self.used), *self.unlinked]
        return ["⋈".join(self.node.bases[r].port.alias for r in one.references) for one in asked]

    def as_json(self) -> dict[str, Any]:
        return {**self.edge.as_json(), "checks": self.checks, "listens_to": self.listens_to}

    # -- asked by the node

    def admit(self, origin: int, rows: Combinations) -> Combinations:
        """New rows of one input without those that no combination could be used of: suspended before the first one is made."""
        if self.admission is not None:
            rows = self.admission.admit(origin, rows)
        chosen = self.edge.admitted_by([pair for pair in self.early[origin] if pair[0] in self.used], rows)
        if chosen is None:
            return rows
        one = self.node.inputs[origin]
        if isinstance(one, StreamInput):
            back = np.delete(rows.ids[one.port.position], chosen)
            self._held_back[origin] = np.concatenate([self._held_back.get(origin, back[:0]), back])
        return rows.take(chosen)

    def sift(self, origin: int, made: Combinations) -> Combinations:
        """Combinations without those that nobody can use now."""
        references = frozenset(self.node.inputs[origin].references)
        asked = self.edge.asked_early
        return self._sifted(made, lambda c: c is self._probed_with or (c in asked and c.references <= references))

    def _sifted(self, made: Combinations, known: Callable[[Condition], bool] = lambda _: False) -> Combinations:
        chosen = self._demanded(made, known)
        if chosen is None:
            self.edge.produced += len(made)
            return made
        self.edge.produced += len(chosen)
        self.edge.marks += len(made) - len(chosen)
        return made.take(chosen)

    def probe(
        self, node: JoinNode, origin: int, step: Step, rows: Combinations, part: slice, hashes: Ints, limits: Ints, floors: Ints
    ) -> tuple[Ints, Ints, int] | None:
        """The pairs that the condition which refuses the most lets pass, asked while probing; None where that cannot be done."""
        self._probed_with = None
        partner = node.inputs[step.input]
        if len(node.inputs) > 2 or node.loop or step.index is None or node is not self.node or not isinstance(partner, StreamInput):
            return None
        condition = max(self.used, key=lambda c: c.rate, default=None)
        if condition is None or condition.bloomed:
            return None
        condition.prepare()
        found = wanted_pairs(condition, partner, node.inputs[origin].references, step.index, rows, part, hashes, limits, floors)
        if found is None:
            return None
        left, right, visited, refused = found
        self._probed_with = condition
        condition.checked += len(left) + refused
        condition.rejected += refused
        self.edge.marks += refused
        return left, right, visited

    def _demanded(self, rows: Combinations, known: Callable[[Condition], bool]) -> Ints | None:
        """Positions of the combinations for which every condition holds, but for those `known` to; None: all."""
        chosen: Ints | None = None
        # What has refused the most is asked first: the others then have little left to look at.
        for condition in sorted(self.used, key=lambda c: -c.rate):
            if known(condition):
                continue
            condition.prepare()
            found = condition.passes(rows, chosen)
            if not found.all():
                chosen = np.flatnonzero(found) if chosen is None else chosen[found]
        return chosen

    # -- an epoch

    def produce(self, new: list[Combinations | None], moment: Moment, rows_seen: RowsSeen) -> Combinations | None:
        """Make and store what is demanded; returns what was added, of whatever age."""
        node, kept, edge = self.node, self.kept, self.edge
        aged = any(id(one) in moment.aged for one in node.inputs)
        looks = edge.wants_look() and not aged
        # What is held back cannot be looked at: a few rows are tried out instead.
        rows = sum(len(part) for part in new if part is not None)
        incomplete = looks and edge.listens and self._weigh(*self._tried(new, rows_seen), rows, moment)
        listening = edge.listens
        if listening or aged:
            kept.need_index(by_rows(self.kept))
        parts: list[Combinations] = []
        if not (listening and self._nothing_opposite()):
            node.demand = self if listening else self.admission
            pieces = self._meet(new, moment, rows_seen, listening) if aged else list(node.produce(new, rows_seen, True))
            if pieces:
                whole = concatenate(pieces)
                if looks and not listening:
                    self._weigh(whole, len(whole), rows, moment)
                    whole = self._sifted(whole) if edge.listens else whole
                self._store(not_stored(self.kept, whole) if aged else whole, parts)
        else:
            edge.suspensions += rows
        if listening:
            edge.busy += not self._nothing_opposite()
            self._wake(moment, rows_seen, parts)
            incomplete = edge.gives_up(self.checks - edge.woken, len(self.used)) or incomplete
            self._count_held_back()
        if incomplete:
            kept.need_index(by_rows(self.kept))
            self._store(not_stored(self.kept, self._joined(self._everything(moment, rows_seen))), parts)
        self._last = max(self._last, moment.high)
        if not parts:
            return None
        added = concatenate(parts)
        moment.added[id(kept)] = (kept.store.end - len(added), kept.store.end)
        if (added.stamp < moment.first).any():
            moment.aged.add(id(kept))
        return added

    def _nothing_opposite(self) -> bool:
        """The empty sub-tuple is not demanded: somebody whom all combinations must meet is not there."""
        return self._nothing_unlinked() or any(not c.opposite.store.live for c in self.used)

    def _meet(self, new: list[Combinations | None], moment: Moment, rows_seen: RowsSeen, listening: bool) -> list[Combinations]:
        """New rows, among them combinations older than this epoch, with everything that is here: each pair once."""
        if self._meeting is None:
            self._meeting = Gathering(self.node, None, self.node.orders)
        meeting = self._meeting
        meeting.counters = Counters()
        meeting.demand = self if listening else None
        meeting.bars = {}
        pieces: list[Combinations] = []
        for origin, rows in enumerate(new):
            if rows is not None and len(rows):
                self.node.counters.rows_in += len(rows)
                if meeting.demand is not None:
                    rows = self.admit(origin, rows)
                pieces += meeting.gather(origin, rows, moment.low, rows_seen)
            start, stop = moment.range_of(self.node.inputs[origin])
            if stop > start:
                meeting.bars[origin] = start
        self._charge(meeting.counters, meeting.counters.partials)
        return pieces

    # -- resuming

    def _wake(self, moment: Moment, rows_seen: RowsSeen, parts: list[Combinations]) -> None:
        """Make what new rows of the asked inputs ask for."""
        was_empty = False
        for one in self.unlinked:
            start, stop = moment.range_of(one)
            was_empty = was_empty or (stop > start and start <= one.store.first)
        if was_empty and not self._nothing_opposite():
            self._resume(self._everything(moment, rows_seen), (), parts)
        for condition in self.used:
            start, stop = moment.range_of(condition.opposite)
            if stop <= start or self._nothing_opposite():
                continue
            condition.prepare()
            self.edge.heard += stop - start
            asking = condition.novel(start, stop, self._last)
            if not len(asking):
                continue
            if condition not in self._waking:
                self._waking[condition] = Gathering(self.node, condition.opposite, (self._order_from(condition.opposite),))
            waking = self._waking[condition]
            waking.counters = Counters()
            known = [condition]
            if can_wake_pairs(self.node, condition):
                third = max((c for c in self.used if c is not condition), key=lambda c: c.rate, default=None)
                made, asked = woken_pairs(waking, asking, moment.low, rows_seen, third)
                found = [made] if len(made) else []
                known += [] if asked is None else [asked]
            else:
                found = waking.gather(0, waking.witnesses(asking), moment.low, rows_seen)
            self._charge(waking.counters, 0)
            self.edge.woken += waking.counters.visited
            self._resume(found, known, parts)

    def _resume(self, found: list[Combinations], known: Collection[Condition], parts: list[Combinations]) -> None:
        rows = self._joined(found)
        chosen = self._demanded(rows, lambda c: c in known)
        rows = not_stored(self.kept, rows if chosen is None else rows.take(chosen))
        self.edge.resumptions += len(rows)
        self.node.counters.partials += len(rows)
        self.node.counters.rows_out += len(rows)
        self._store(rows, parts)
        for origin, back in self._held_back.items():
            one = self.node.inputs[origin]
            assert isinstance(one, StreamInput)
            if len(rows) and len(back):
                self._held_back[origin] = back[~np.isin(back, rows.ids[one.port.position])]

    def _everything(self, moment: Moment, rows_seen: RowsSeen) -> list[Combinations]:
        """All combinations of rows that are here."""
        if self._meeting is None:
            self._meeting = Gathering(self.node, None, self.node.orders)
        meeting = self._meeting
        meeting.counters, meeting.demand, meeting.bars = Counters(), None, {}
        origin = next(n for n, one in enumerate(self.node.inputs) if not (isinstance(one, StreamInput) and one.stream.is_table))
        one = self.node.inputs[origin]
        ids = alive_ids(one, self.node.bases)
        rows = Combinations(one.expand(ids), ids, ids, one.deaths(ids), one.words(ids))
        found = meeting.gather(origin, rows, moment.low, rows_seen)
        self._charge(meeting.counters, 0)
        return found

    def _store(self, rows: Combinations, parts: list[Combinations]) -> None:
        if len(rows):
            self.kept.add(rows)
            parts.append(rows)

    def _joined(self, found: list[Combinations]) -> Combinations:
        if not found:
            none = np.empty(0, np.int64)
            return Combinations(dict.fromkeys(self.kept.references, none), none, none, none, None)
        return concatenate(found)

    def _charge(self, counters: Counters, partials: int) -> None:
        mine = self.node.counters
        mine.probes += counters.probes
        mine.visited += counters.visited
        mine.partials += partials
        mine.rows_out += partials

    # -- whether to listen

    def _tried(self, new: list[Combinations | None], rows_seen: RowsSeen) -> tuple[Combinations, float]:
        """What is made of a few new rows if nothing is held back, and how much that would be of all."""
        node = self.node
        mine, node.counters, node.demand = node.counters, Counters(), None
        few = [None if rows is None else rows.take(_spread(len(rows), _SAMPLE)) for rows in new]
        made = self._joined(list(node.produce(few, rows_seen, True)))
        node.counters = mine
        tried = sum(len(part) for part in few if part is not None)
        return made, len(made) * sum(len(part) for part in new if part is not None) / max(tried, 1)

    def _weigh(self, made: Combinations, expected: float, rows: int, moment: Moment) -> bool:
        """Decide which conditions to listen to; whether the store now lacks something."""
        edge, before = self.edge, set(self.used)
        edge.scans(sum(one.store.live for one in self.siblings) if self.node.loop else 0)
        empty = [-1] if self._nothing_unlinked() else [n for n, c in enumerate(self.conditions) if not c.opposite.store.live]
        if edge.sees_little(len(made), expected, bool(empty)):
            return False
        new = [stop - start for start, stop in (moment.range_of(c.opposite) for c in self.conditions)]
        worthy = [n for n, c in enumerate(self.conditions) if (edge.listens and c in before) or edge.may_save(expected, new[n])]
        if not worthy and not empty and not edge.listens:
            edge.put_off()
            return False
        made = made.take(_spread(len(made), _SAMPLE))
        refusals = np.zeros((len(self.conditions), len(made)), np.bool_)
        waking = [(0, 0.0)] * len(self.conditions)
        for number in worthy:
            refusals[number] = ~self.conditions[number].sampled(made.ids)
            waking[number] = self._waking_cost(self.conditions[number], moment)
        look = Look(rows, expected, refusals, waking, empty)
        listened = edge.listens
        chosen = edge.weigh(look, [n for n, c in enumerate(self.conditions) if c in before])
        self.used = [self.conditions[number] for number in chosen]
        return listened and self._held_something() and (not edge.listens or not before <= set(self.used))

    def _held_something(self) -> bool:
        return bool(self.edge.suspensions or self.edge.marks)

    def _waking_cost(self, condition: Condition, moment: Moment) -> tuple[int, float]:
        """How many new rows the asked input has, and how many rows they would touch if their keys were new."""
        start, stop = moment.range_of(condition.opposite)
        if stop <= start:
            return 0, 0.0
        one = self.node.inputs[self._order_from(condition.opposite)[0] - 1]
        links = [link for link in condition.links if link[0] in one.references]
        asking = condition.opposite.expand(start + _spread(stop - start, _SAMPLE))
        words = combined([self.node.bases[there].store.at(key, asking[there]) for _, _, there, key in links])
        held = alive_components(one, self.node.bases)
        stored = np.sort(combined([self.node.bases[r].store.at(key, held[r]) for r, key, _, _ in links]))
        touched = np.searchsorted(stored, words, side="right") - np.searchsorted(stored, words)
        slow = 1 if can_wake_pairs(self.node, condition) else _STEP_BY_STEP
        return stop - start, float((1.0 + touched.mean()) * (stop - start)) * slow

    def _order_from(self, opposite: Input) -> tuple[int, ...]:
        return self._follow(0, [opposite, *self.node.inputs], self.node.equalities)

    def _nothing_unlinked(self) -> bool:
        return any(not one.store.live for one in self.unlinked)

    def _count_held_back(self) -> None:
        total = 0
        for origin, back in self._held_back.items():
            self._held_back[origin] = back = back[self.node.inputs[origin].store.holds(back)]
            total += len(back)
        self.edge.suspended_peak = max(self.edge.suspended_peak, total)

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids: the rows that are held back follow."""
        for origin, back in self._held_back.items():
            if self.node.inputs[origin].store is old_to_new.store:
                self._held_back[origin] = old_to_new.kept(back)


def _spread(size: int, most: int) -> Ints:
    """Positions of at most so many, evenly."""
    return np.arange(size) if size <= most else np.linspace(0, size - 1, most).astype(np.int64)
