"""Constraints of one book: types as codes, rules as bits for the kernel, violations as text.

Answer   `MonitorTable` gives every type that a rule names a code, and the kernel's `Monitor`. `reason` says which rule
         an event broke.
State    None that changes: the rules of a book hold for the whole run.
Limits   A type that no rule names has no code, and no rule can reject it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.kernels.patterns.automaton_arrays import Monitor
from eddyline.model.patterns.constraint import EventType, Rules
from eddyline.state.columns import Ints

#: Types per 64-bit integer of a trace's seen types.
_BITS = 64


class MonitorTable:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.types: tuple[EventType, ...] = tuple(sorted(rules.types, key=str))
        self.code = {t: at for at, t in enumerate(self.types)}
        self.width = max(1, -(-len(self.types) // _BITS))
        self.kernel = self._kernel()

    def bits(self, types: frozenset[EventType] | set[EventType] | tuple[EventType, ...]) -> np.ndarray:
        """A set of types as bits."""
        found = np.zeros(self.width, np.uint64)
        for t in types:
            code = self.code[t]
            found[code // _BITS] |= np.uint64(1) << np.uint64(code % _BITS)
        return found

    def set_of(self, bits: np.ndarray) -> set[EventType]:
        return {t for t, code in self.code.items() if int(bits[code // _BITS]) >> code % _BITS & 1}

    def codes(self, values: pa.Array) -> Ints:
        """The code of each event's type; -1: no rule names it, or it is null."""
        if not self.types:
            return np.full(len(values), -1, np.int64)
        found = pc.index_in(values, pa.array(self.types, values.type))
        return np.asarray(pc.fill_null(found, -1)).astype(np.int64)

    def _kernel(self) -> Monitor:
        rules, count = self.rules, max(1, len(self.types))
        after = np.zeros((count, self.width), np.uint64)
        requires = np.zeros((count, self.width), np.uint64)
        for t, code in self.code.items():
            after[code] = self.bits({b for a, b in rules.priors if a == t})
            requires[code] = self.bits(rules.closure((t,)))
        clauses = [horn for horn in rules.horns if len(horn.given) > 1]
        return Monitor(
            checks=rules.checks,
            end_after=-1 if rules.end_after is None else rules.end_after,
            has_begin=bool(rules.begin),
            begin=self._flags(rules.begin),
            end=self._flags(rules.end),
            after=after,
            requires=requires,
            clause_given=self._stacked([horn.given for horn in clauses]),
            clause_needed=np.array([self.code[horn.needed] for horn in clauses], np.int64),
            never=self._stacked([never.types for never in rules.nevers]),
            cyclic=self.bits(self._cyclic()),
        )

    def _flags(self, types: frozenset[EventType]) -> np.ndarray:
        return np.array([t in types for t in self.types] or [False], np.bool_)

    def _stacked(self, sets: list[frozenset[EventType]]) -> np.ndarray:
        return np.array([self.bits(s) for s in sets], np.uint64).reshape(len(sets), self.width)

    def _cyclic(self) -> set[EventType]:
        """Types from which PRIOR leads back to themselves through another type."""
        edges: dict[EventType, set[EventType]] = {t: set() for t in self.types}
        for a, b in self.rules.priors:
            if a != b:
                edges[a].add(b)
        found = set()
        for t in self.types:
            reached: set[EventType] = set()
            ahead = set(edges[t])
            while ahead:
                reached |= ahead
                ahead = {b for a in ahead for b in edges[a]} - reached
            if t in reached:
                found.add(t)
        return found

    def reason(self, seen: set[EventType], t: EventType, whole: bool) -> str:
        """The rule that an event of type t broke after the types seen, as the dead letters name it."""
        rules = self.rules
        for (a, b), rule in rules.priors.items():
            if a == t and b in seen:
                return str(rule)
        now = seen | {t}
        closed = rules.closure(now)
        for never in rules.nevers:
            if never.types <= closed:
                return str(never.rule)
        circle = [
            str(rule)
            for (a, b), rule in rules.priors.items()
            if a != b and a in closed and b in closed and self._leads(b, a, closed)
        ]
        if circle:
            return " and ".join(circle)
        for (a, b), rule in rules.priors.items():
            if a in closed - now and b in now:
                return str(rule)
        for horn in rules.horns:
            if horn.given <= closed and horn.needed not in now:
                return str(horn.rule)
        return f"END({t})"

    def _leads(self, start: EventType, goal: EventType, among: frozenset[EventType]) -> bool:
        reached, ahead = {start}, {start}
        while ahead:
            ahead = {b for a, b in self.rules.priors if a in ahead and b in among} - reached
            reached |= ahead
        return goal in reached
