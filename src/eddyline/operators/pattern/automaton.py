"""Patterns as machines: what the kernel knows of the disjuncts of all registered patterns of a book.

Answer   `MachineTable.add` gives the disjuncts of a pattern consecutive numbers; `kernel` lays all of them out as
         arrays. Leaf conditions are slots of one grouped filter: equal ones of different patterns are one slot.
         Conditions between two names that fit keys become tests of the kernel, the others stay in `Machine.rest` and
         `Machine.gap_rest` for columns.
State    Machines by number, filter slots with their uses, key columns.
Limits   Texts are compared by hash in the kernel, and once more on columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa

from eddyline.kernels.patterns.automaton_arrays import CHECK, EVENT, GAP, OFF, PRUNE, TAIL, Machines
from eddyline.model.datatypes import BOOLEAN, DataType
from eddyline.model.expressions.expression import (
    Call,
    ColumnRef,
    Expression,
    Literal,
    conjunction,
    refs_of,
    rename_refs,
)
from eddyline.model.patterns.constraint import EventType
from eddyline.model.patterns.pattern import TRACE, Disjunct, Failing, Gap
from eddyline.model.window import FOREVER
from eddyline.operators.expressions.evaluate import Compiled, Issues, compile_expression
from eddyline.operators.pattern.config import PatternConfig
from eddyline.operators.pattern.monitor import MonitorTable
from eddyline.operators.sharing.column_keys import has_keys, number_keys
from eddyline.operators.sharing.grouped_filter import GroupedFilter
from eddyline.operators.stream.keys import keys_of
from eddyline.state.columns import Ints

_OPERATORS = {"=": 0, "<>": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
_MODES = {"off": OFF, "check": CHECK, "prune": PRUNE}
#: The alias of an event in filters and key columns.
_EVENT = "e"
NEVER = np.iinfo(np.int64).max


@dataclass
class Machine:
    """One disjunct: its leaves (events, then gaps) with their filter slots, tests over keys, and conditions that need
    columns."""

    config: PatternConfig
    disjunct: Disjunct
    failing: Failing | None
    kinds: list[int]
    before: list[int]
    after: list[int]
    slots: list[int]
    gaps: tuple[Gap, ...]
    tests: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    rest: tuple[Expression, ...] = ()
    gap_rest: dict[int, tuple[Expression, ...]] = field(default_factory=dict)
    start: int = 0
    stop: int = NEVER

    @property
    def events(self) -> int:
        return len(self.disjunct.leaves)

    def last_of(self, leaves: int) -> int:
        """Of these bits of leaves those that none of the others comes after."""
        return leaves & ~self._union(self.before[at] for at in self._places(leaves))

    def first_of(self, leaves: int) -> int:
        """Of these bits of leaves those that come after none of the others."""
        return self._union(1 << at for at in self._places(leaves) if not self.before[at] & leaves)

    def is_plain(self, place: int) -> bool:
        """Whether a place is a gap that each of its events fills, without any condition on other leaves."""
        return self.kinds[place] == GAP and place not in self.gap_rest and not self._named(place)

    def needs(self, place: int) -> int:
        """Bits of the leaves that must have events before the kernel can test the events of a gap; all bits where it
        cannot."""
        return (1 << 64) - 1 if place in self.gap_rest else self.first_of(self.after[place]) | self._named(place)

    def _named(self, place: int) -> int:
        """Bits of the leaves that conditions compare with a gap."""
        sides = [(left, right) for left, _, _, right, _ in self.tests if place in (left, right)]
        return self._union(1 << (right if left == place else left) for left, right in sides)

    def _places(self, leaves: int) -> list[int]:
        return [at for at in range(self.events) if leaves >> at & 1]

    @staticmethod
    def _union(parts: Iterable[int]) -> int:
        return reduce(or_, parts, 0)


class KeyColumns:
    """Expressions over one event as keys that compare like their values; NULLs are marked."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._compiled: list[tuple[Compiled, DataType]] = []

    def __len__(self) -> int:
        return len(self._compiled)

    @property
    def names(self) -> set[str]:
        """The columns that the expressions read."""
        return {name for compiled, _ in self._compiled for _, name in compiled.columns}

    def number(self, expression: Expression) -> int:
        bare = rename_refs(expression, dict.fromkeys(refs_of(expression), _EVENT))
        key = f"{bare.type}:{bare}"
        if key not in self.numbers:
            self.numbers[key] = len(self._compiled)
            self._compiled.append((compile_expression(bare), bare.type))
        return self.numbers[key]

    def keys(self, columns: Mapping[str, pa.Array], rows: int, issues: Issues | None) -> tuple[Ints, np.ndarray]:
        keys = np.zeros((rows, len(self)), np.int64)
        nulls = np.zeros((rows, len(self)), np.bool_)
        for at, (compiled, kind) in enumerate(self._compiled):
            values = compiled({name: columns[name[1]] for name in compiled.columns}, rows, issues)
            keys[:, at] = number_keys(values, kind) if has_keys(kind) else keys_of(values, kind)
            if values.null_count:
                nulls[:, at] = ~np.asarray(values.is_valid())
        return keys, nulls


class MachineTable:
    def __init__(self, monitor: MonitorTable, issues: Issues | None) -> None:
        self.monitor = monitor
        self.filter = GroupedFilter(issues)
        self.columns = KeyColumns()
        self.machines: list[Machine | None] = []
        #: Condition as text -> its slot, and how many leaves use it.
        self._slots: dict[str, int] = {}
        self._uses: dict[int, int] = {}
        self._kernel: Machines | None = None
        #: Numbers below the last machine's that no machine has.
        self._holes = 0

    # -- patterns

    def add(self, config: PatternConfig, start: int) -> range:
        """The machines of a pattern, side by side."""
        first = self._room(len(config.disjuncts))
        made = range(first, first + len(config.disjuncts))
        for at, disjunct, failing in zip(made, config.disjuncts, config.failing, strict=True):
            self.machines[at] = self._machine(config, disjunct, failing, start)
        self._kernel = None
        return made

    def remove(self, numbers: range) -> None:
        for number in numbers:
            machine = self.machines[number]
            assert machine is not None
            for slot in machine.slots:
                self._uses[slot] -= 1
                if not self._uses[slot]:
                    self.filter.remove(slot)
                    del self._uses[slot]
                    self._slots = {text: s for text, s in self._slots.items() if s != slot}
            self.machines[number] = None
        self._holes += len(numbers)
        while self.machines and self.machines[-1] is None:
            self.machines.pop()
            self._holes -= 1
        self._kernel = None

    def stop(self, numbers: range, stop: int) -> None:
        for number in numbers:
            machine = self.machines[number]
            assert machine is not None
            machine.stop = stop
        self._kernel = None

    def _room(self, count: int) -> int:
        if self._holes >= count:
            for first in range(len(self.machines) - count + 1):
                if all(m is None for m in self.machines[first : first + count]):
                    self._holes -= count
                    return first
        self.machines += [None] * count
        return len(self.machines) - count

    def _machine(self, config: PatternConfig, disjunct: Disjunct, failing: Failing | None, start: int) -> Machine:
        pattern = config.pattern
        gaps = disjunct.gaps
        conjuncts = pattern.conjuncts_of(disjunct)
        single = [c for c in conjuncts if len(refs_of(c)) == 1 and TRACE not in refs_of(c)]
        machine = Machine(
            config,
            disjunct,
            failing,
            [EVENT] * len(disjunct.leaves) + [TAIL if gap.after == 0 else GAP for gap in gaps],
            [*disjunct.before, *(gap.before for gap in gaps)],
            [0] * len(disjunct.leaves) + [gap.after for gap in gaps],
            [],
            gaps,
            start=start,
        )
        names = [pattern.leaves[number].name for number in (*disjunct.leaves, *(gap.leaf for gap in gaps))]
        for place, number in enumerate((*disjunct.leaves, *(gap.leaf for gap in gaps))):
            leaf = pattern.leaves[number]
            own = (
                single
                if place < len(disjunct.leaves)
                else pattern.conjuncts_of_gap(disjunct, gaps[place - len(disjunct.leaves)])
            )
            parts = [c for c in own if refs_of(c) == {leaf.name}]
            machine.slots.append(self._slot(config, leaf.type, leaf.condition, parts, leaf.name))
        rest = [c for c in conjuncts if c not in single and not self._as_test(machine, c, names)]
        machine.rest = tuple(rest)
        for place, gap in enumerate(gaps, len(disjunct.leaves)):
            several = [c for c in pattern.conjuncts_of_gap(disjunct, gap) if refs_of(c) != {names[place]}]
            # A gap at the end of a pattern is tested on columns as its events come.
            open_parts = [c for c in several if gap.after == 0 or not self._as_test(machine, c, names)]
            if open_parts:
                machine.gap_rest[place] = tuple(open_parts)
        return machine

    def _slot(
        self, config: PatternConfig, value: EventType, condition: Expression | None, parts: list[Expression], name: str
    ) -> int:
        kind = config.kind
        typed = Call("=", (ColumnRef(_EVENT, config.pattern.book.type, kind), Literal(value, kind)), BOOLEAN)
        whole = conjunction(
            (
                typed,
                *(rename_refs(p, {name: _EVENT}) for p in ((() if condition is None else (condition,)) + tuple(parts))),
            )
        )
        text = str(whole)
        slot = self._slots.get(text)
        if slot is None:
            slot = next(n for n in range(len(self._uses) + 1) if n not in self._uses)
            self._slots[text] = slot
            self._uses[slot] = 0
            self.filter.add(slot, whole, _EVENT)
        self._uses[slot] += 1
        return slot

    def _as_test(self, machine: Machine, part: Expression, names: list[str]) -> bool:
        """Add a condition to the kernel's tests if keys can decide it at least in part. Returns whether they decide it
        fully."""
        if not isinstance(part, Call) or part.function not in _OPERATORS:
            return False
        left, right = part.args
        if len(refs_of(left)) != 1 or len(refs_of(right)) != 1 or left.type != right.type or TRACE in refs_of(part):
            return False
        exact = has_keys(left.type)
        if not exact and not (left.type.name == "STRING" and part.function == "="):
            return False
        (a,), (b,) = refs_of(left), refs_of(right)
        sides = names.index(str(a)), self.columns.number(left), names.index(str(b)), self.columns.number(right)
        machine.tests.append((sides[0], sides[1], _OPERATORS[part.function], sides[2], sides[3]))
        return exact

    # -- arrays

    @property
    def kernel(self) -> Machines:
        if self._kernel is None:
            self._kernel = _laid_out(self.machines, self.monitor)
        return self._kernel


def _laid_out(machines: list[Machine | None], monitor: MonitorTable) -> Machines:
    sizes = [0 if m is None else len(m.kinds) for m in machines]
    there = [m for m in machines if m is not None]
    tests = [[] if m is None else m.tests for m in machines]
    flat = np.array([test for some in tests for test in some], np.int64).reshape(-1, 5)
    targets: dict[int, list[tuple[int, int]]] = {}
    for number, machine in enumerate(machines):
        for leaf, slot in enumerate(() if machine is None else machine.slots):
            targets.setdefault(slot, []).append((number, leaf))
    found = [targets.get(slot, []) for slot in range(max(targets, default=-1) + 1)]
    pairs = np.array([pair for some in found for pair in some], np.int64).reshape(-1, 2)
    failing = _failing_conditions(machines, monitor)
    return Machines(
        first=_starts(sizes)[:-1],
        size=np.array(sizes, np.int64),
        leaves=np.array([0 if m is None else m.events for m in machines], np.int64),
        whole=np.array([0 if m is None else (1 << m.events) - 1 for m in machines], np.uint64),
        sinks=np.array([0 if m is None else m.disjunct.sinks for m in machines], np.uint64),
        within=np.array([_within(m) for m in machines], np.int64),
        start=np.array([0 if m is None else m.start for m in machines], np.int64),
        stop=np.array([0 if m is None else m.stop for m in machines], np.int64),
        mode=np.array([0 if m is None else _MODES[m.config.mode] for m in machines], np.int8),
        kind=np.array([kind for m in there for kind in m.kinds], np.int8),
        before=np.array([mask for m in there for mask in m.before], np.uint64),
        last_before=np.array([m.last_of(mask) for m in there for mask in m.before], np.uint64),
        after=np.array([m.first_of(mask) for m in there for mask in m.after], np.uint64),
        stored=np.array([kept for m in there for kept in _stored(m)], np.bool_),
        open_gap=np.array([at in m.gap_rest for m in there for at in range(len(m.kinds))], np.bool_),
        plain_gap=np.array([m.is_plain(at) for m in there for at in range(len(m.kinds))], np.bool_),
        needs=np.array([m.needs(at) for m in there for at in range(len(m.kinds))], np.uint64),
        order=np.array([leaf for m in there for leaf in _order(m)], np.int64),
        test_first=_starts([len(some) for some in tests]),
        test_left=flat[:, 0].copy(),
        test_left_column=flat[:, 1].copy(),
        test_operator=flat[:, 2].copy(),
        test_right=flat[:, 3].copy(),
        test_right_column=flat[:, 4].copy(),
        target_first=_starts([len(some) for some in found]),
        target_machine=pairs[:, 0].copy(),
        target_leaf=pairs[:, 1].copy(),
        plus=failing.plus,
        minus=failing.minus,
        local=failing.local,
        mask_first=_starts(failing.mask_counts),
        mask_types=np.array(failing.masks, np.uint64).reshape(len(failing.masks), monitor.width),
        mask_whole=np.array(failing.mask_whole, np.bool_),
        watched=failing.watched(machines),
        single=_single(machines),
    )


def _single(machines: list[Machine | None]) -> Ints:
    """Patterns with FIRST MATCH of which the kernel itself decides every match, as numbers of machines."""
    found = np.full(len(machines), -1, np.int64)
    of_query: dict[str, list[int]] = {}
    for number, machine in enumerate(machines):
        if machine is not None:
            of_query.setdefault(machine.config.name, []).append(number)
    for numbers in of_query.values():
        mine = [machines[number] for number in numbers]
        if all(
            m is not None and m.config.pattern.first and not m.config.pattern.waits and not m.rest and not m.gap_rest
            for m in mine
        ):
            found[numbers] = numbers[0]
    return found


def _starts(sizes: list[int]) -> Ints:
    return np.cumsum([0, *sizes]).astype(np.int64)


def _within(machine: Machine | None) -> int:
    within = None if machine is None else machine.config.pattern.within
    return FOREVER if within is None else within


@dataclass
class _FailingConditions:
    """Failing conditions by type and machine."""

    plus: np.ndarray
    minus: np.ndarray
    local: np.ndarray
    masks: list[np.ndarray] = field(default_factory=list)
    mask_whole: list[bool] = field(default_factory=list)
    mask_counts: list[int] = field(default_factory=list)

    def watched(self, machines: list[Machine | None]) -> np.ndarray:
        """Bits of the types whose conditions can prune a machine."""
        prunes = np.array([m is not None and _MODES[m.config.mode] == PRUNE for m in machines], np.bool_)
        by_type = ((self.plus != 0) | (self.local != 0) | (self.minus != 0).any(axis=2))[:, prunes].any(axis=1)
        bits = np.zeros(self.minus.shape[2], np.uint64)
        for t in np.flatnonzero(by_type).tolist():
            bits[t >> 6] |= np.uint64(1 << (t & 63))
        return bits


def _failing_conditions(machines: list[Machine | None], monitor: MonitorTable) -> _FailingConditions:
    count, types = len(machines), max(1, len(monitor.types))
    found = _FailingConditions(
        np.zeros((types, count), np.int8),
        np.zeros((types, count, monitor.width), np.uint64),
        np.zeros((types, count), np.uint64),
    )
    for number, machine in enumerate(machines):
        failing = None if machine is None else machine.failing
        found.mask_counts.append(0 if failing is None else len(failing.masks))
        if failing is None:
            continue
        for t, whole_only in failing.plus.items():
            found.plus[monitor.code[t], number] = 2 if whole_only else 1
        for t, needed in failing.minus.items():
            found.minus[monitor.code[t], number] = monitor.bits(needed)
        for t, dead in failing.local.items():
            found.local[monitor.code[t], number] = dead
        for mask in failing.masks:
            found.masks.append(monitor.bits(mask.types))
            found.mask_whole.append(mask.whole_only)
    return found


def _stored(machine: Machine) -> list[bool]:
    """Whether events of a leaf are kept: not those of the one leaf that is always last, nor of a NOT at the end."""
    sinks = machine.disjunct.sinks
    alone = sinks if sinks & (sinks - 1) == 0 else 0
    return [kind != TAIL and not (kind == EVENT and alone >> at & 1) for at, kind in enumerate(machine.kinds)]


def _order(machine: Machine) -> list[int]:
    """The leaves with most leaves before them first: each comes after all that follow it; gaps are not assigned."""
    events = sorted(range(machine.events), key=lambda at: -machine.before[at].bit_count())
    return events + [0] * (len(machine.kinds) - machine.events)
