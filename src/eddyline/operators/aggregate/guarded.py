"""Members: combinations of outer joins that count while their rows are in their windows and conditions hold on whether
these rows have partners.

Answer   `Guarded.step` moves members to later instants: members come and end, and answers of questions change (does
         this row have a partner?). It gives the members that begin to count and those that cease to, each at its
         instant; a member may begin again. `PartnerAnswers.step` counts partners, which are members too, and gives the
         answers that change.

             partners ─► begin, cease ─► count per (question, row) ─► answers that change ─┐
             results ──────────────────────────────────────────────────────────────────────┴─► begin, cease ─► aggregate

State    Members until they end, each with the number of its conditions that do not hold; the rows that have partners.
Limits   Instants ascend from step to step. A member that begins and ceases at the same instant does neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.operators.aggregate.accumulators.encoding import ALL, grown
from eddyline.operators.aggregate.accumulators.groups import Dictionary
from eddyline.operators.aggregate.contributions import Contributions, EncodedRows
from eddyline.operators.aggregate.tables import Arrays
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints
from eddyline.state.runs import places_within, run_begins

_NONE: Ints = np.empty(0, np.int64)
#: Larger than any number of conditions: added to the failed conditions of a member that has ended.
_ENDED = 1 << 20
#: The end of a member that no window ends.
LASTING = 1 << 62
#: No row has this number.
NO_ROW = -1


@dataclass(frozen=True, slots=True)
class PartnerCondition:
    """A member counts while this question has this answer for the row in this column."""

    question: int
    column: int
    wanted: bool


@dataclass(slots=True)
class Members(EncodedRows):
    """Combinations on their way in, in the order of time."""

    kind: Ints
    #: One column per reference whose rows are named; NO_ROW where the kind has none.
    rows: Ints
    #: The last instant at which windows of time hold them.
    ends: Ints
    encoded: list[Ints]
    valid: list[Mask]


@dataclass(slots=True)
class Changes:
    """Answers that change: +1 to yes, -1 to no."""

    question: Ints
    row: Ints
    by: Ints
    when: Ints

    @staticmethod
    def none() -> Changes:
        return Changes(_NONE, _NONE, _NONE, _NONE)


@dataclass(slots=True)
class CountedMoves:
    """Members that begin and that cease to count: slots, names and instants, in the order of instants."""

    begun: Ints
    begun_names: Ints
    begun_when: Ints
    ceased: Ints
    ceased_names: Ints
    ceased_when: Ints


class Guarded:
    def __init__(
        self, encoded: int, kinds: Sequence[Sequence[PartnerCondition]], pushed: Sequence[int], columns: int
    ) -> None:
        """`pushed` are the columns of rows that later rows may push out."""
        self.kinds = [list(kind) for kind in kinds]
        self.pushed = list(pushed)
        #: The (question, column) pairs of all conditions.
        self.questions = sorted({(c.question, c.column) for kind in kinds for c in kind})
        self.columns = columns
        named = len(self.pushed) + len(self.questions)
        self.members = Contributions(encoded + columns, 1 + named, named)
        #: Per slot: how many conditions do not hold, and the name under which the member counts, or -1.
        self.wrong: Ints = np.zeros(0, np.int64)
        self.name: Ints = np.zeros(0, np.int64)
        self.serial = 0
        #: Slots of members that have not begun, by the last `add`.
        self._fresh: tuple[Ints, Ints] = (_NONE, _NONE)

    def add(self, members: Members, when: Ints, answers: PartnerAnswers) -> None:
        """Members that come with the next step, each at its instant; `answers` are those before that step."""
        leaving = [members.ends, *(members.rows[:, column] for column in self.pushed)]
        wrong = np.ones(len(members), np.int64)
        for question, column in self.questions:
            row = members.rows[:, column].copy()
            wanted = self._wanted(question, column)[members.kind]
            row[wanted < 0] = NO_ROW
            leaving.append(row)
            holds = answers.holds(question, row)
            wrong += (wanted >= 0) & (holds != (wanted == 1))
        rows = [np.ascontiguousarray(members.rows[:, at]) for at in range(self.columns)]
        slots = self.members.add(
            members.kind, [*members.encoded, *rows], [*members.valid, *([ALL] * self.columns)], leaving
        )
        self.wrong, self.name = grown(self.wrong, self.members.capacity), grown(self.name, self.members.capacity, -1)
        self.wrong[slots], self.name[slots] = wrong, -1
        self._fresh = slots, when

    def _wanted(self, question: int, column: int) -> Ints:
        """By kind: 1 where the answer yes is wanted, 0 where no is, -1 where neither."""
        found = np.full(len(self.kinds), -1, np.int64)
        for at, kind in enumerate(self.kinds):
            for condition in kind:
                if (condition.question, condition.column) == (question, column):
                    found[at] = condition.wanted
        return found

    def step(
        self, changes: Changes, pushed: Sequence[tuple[Ints, Ints]], final: int, instant: Callable[[Ints], Ints]
    ) -> CountedMoves:
        """Moves everything to an instant; per column of `pushed`, rows that were pushed out, ascending, and when."""
        held = self.members
        slots, whens, amounts = [self._fresh[0]], [self._fresh[1]], [np.full(len(self._fresh[0]), -1, np.int64)]
        self._fresh = _NONE, _NONE

        def note(tickets: Ints, when: Ints, by: Ints) -> None:
            live = held.is_live(tickets)
            slots.append(tickets[live] & 0xFFFFFFFF)
            whens.append(when[live])
            amounts.append(by[live])

        keys, tickets = held.queues[0].pop_pairs(final)
        note(tickets, instant(keys + 1), np.full(len(keys), _ENDED, np.int64))
        for at, (names, times) in enumerate(pushed):
            keys, tickets = held.queues[1 + at].pop_pairs(names)
            note(tickets, instant(times[np.searchsorted(names, keys)]), np.full(len(keys), _ENDED, np.int64))
        for at, (question, column) in enumerate(self.questions):
            mine = np.flatnonzero(changes.question == question)
            order = mine[np.argsort(changes.row[mine], kind="stable")]
            # The answer for a row may change several times: every change applies to all members of the row.
            distinct, first, sizes = np.unique(changes.row[order], return_index=True, return_counts=True)
            keys, tickets = held.queues[1 + len(self.pushed) + at].pop_pairs(distinct)
            place = np.searchsorted(distinct, keys)
            times = sizes[place]
            change = order[np.repeat(first[place], times) + places_within(times)]
            tickets = np.repeat(tickets, times)
            sign = np.where(self._wanted(question, column)[held.codes[tickets & 0xFFFFFFFF]] == 1, -1, 1)
            note(tickets, changes.when[change], changes.by[change] * sign)
        return self._moved(np.concatenate(slots), np.concatenate(whens), np.concatenate(amounts))

    def _moved(self, slots: Ints, whens: Ints, amounts: Ints) -> CountedMoves:
        if not len(slots):
            return CountedMoves(*(_NONE,) * 6)
        chosen, _, added, firsts = _running_sums(slots, whens, amounts)
        slots, whens = slots[chosen], whens[chosen]
        wrong = self.wrong[slots] + added
        counts = wrong == 0
        before = np.append(False, counts[:-1])
        before[firsts] = self.name[slots[firsts]] >= 0
        changed = np.flatnonzero(counts != before)
        names = np.where(counts[changed], self.serial + np.cumsum(counts[changed]) - 1, self.name[slots[changed]])
        self.serial += int(counts[changed].sum())
        # A member begins and ceases in turn: where it ceases, it has the name with which it began.
        follows = np.append(False, slots[changed][1:] == slots[changed][:-1]) & ~counts[changed]
        names[follows] = names[np.flatnonzero(follows) - 1]
        lasts = np.append(firsts[1:], True)
        self.wrong[slots[lasts]] = wrong[lasts]
        self.name[slots[changed]] = np.where(counts[changed], names, -1)
        self.members.blocks.note(slots)
        begun, ceased = changed[counts[changed]], changed[~counts[changed]]
        begun_names, ceased_names = names[counts[changed]], names[~counts[changed]]
        a, b = np.argsort(whens[begun], kind="stable"), np.argsort(whens[ceased], kind="stable")
        moves = CountedMoves(
            slots[begun][a], begun_names[a], whens[begun][a], slots[ceased][b], ceased_names[b], whens[ceased][b]
        )  # fmt: skip
        self._ended = slots[lasts][wrong[lasts] >= _ENDED // 2]
        return moves

    _ended: Ints = _NONE

    def forget(self) -> None:
        """Drop the members that have ended; the caller has read their values."""
        if len(self._ended):
            self.members.drop(self._ended)
            self._ended = _NONE

    # -- snapshots

    def snapshot(self, name: str) -> tuple[dict[str, Any], Blocks]:
        """`name` is a name that no other state has."""
        rows, blocks = self.members.snapshot(name, self._kept)
        return {"rows": rows, "serial": self.serial}, blocks

    def _kept(self, slots: Ints) -> Arrays:
        return {"wrong": self.wrong[slots], "name": self.name[slots]} if len(slots) else {"wrong": slots, "name": slots}

    def restore(self, saved: Mapping[str, Any], load: Load) -> None:
        slots, arrays = self.members.load(saved["rows"], load)
        size = self.members.capacity
        self.wrong, self.name = grown(self.wrong, size), grown(self.name, size, -1)
        self.wrong[slots], self.name[slots] = arrays["wrong"], arrays["name"]
        self.serial = saved["serial"]


def _running_sums(keys: Ints, when: Ints, amounts: Ints) -> tuple[Ints, Ints, Ints, Mask]:
    """Amounts summed up per key and instant, in the order of keys and, for a key, of instants.

    Returns:
        The place of one row of each (key, instant), the sum of its amounts, the sum of the key's amounts up to it, and
        whether it is the first of its key.
    """
    order = np.lexsort((when, keys))
    begins = np.flatnonzero(run_begins(keys[order], when[order]))
    sums = np.add.reduceat(amounts[order], begins)
    chosen = order[begins]
    firsts = run_begins(keys[chosen])
    total = np.cumsum(sums)
    before = np.repeat((total - sums)[firsts], np.diff(np.append(np.flatnonzero(firsts), len(chosen))))
    return chosen, sums, total - before, firsts


class PartnerAnswers:
    """Which rows have partners, by question."""

    def __init__(self) -> None:
        self._rows = Dictionary(2)
        self._counts: Ints = np.zeros(256, np.int64)

    def holds(self, question: int, rows: Ints) -> Mask:
        codes = self._rows.find(np.stack((np.full(len(rows), question), rows), axis=1))
        found: Mask = codes >= 0
        return found

    def step(self, question: Ints, row: Ints, by: Ints, when: Ints) -> Changes:
        """Partners come (+1) and go (-1); returns the answers that this changes."""
        if not len(row):
            return Changes.none()
        codes = self._rows.codes(np.stack((question, row), axis=1))
        self._counts = grown(self._counts, self._rows.capacity)
        chosen, sums, added, firsts = _running_sums(codes, when, by)
        codes, when, question, row = codes[chosen], when[chosen], question[chosen], row[chosen]
        after = self._counts[codes] + added
        before = after - sums
        lasts = np.append(firsts[1:], True)
        self._counts[codes[lasts]] = after[lasts]
        self._rows.release(codes[lasts][after[lasts] == 0])
        chosen = np.flatnonzero((before > 0) != (after > 0))
        return Changes(question[chosen], row[chosen], np.where(after[chosen] > 0, 1, -1), when[chosen])

    def snapshot(self, name: str) -> tuple[list[list[Any]], Blocks]:
        """`name` is a name that no other state has."""
        return self._rows.snapshot(name, lambda codes: {"count": self._counts[codes]})

    def restore(self, saved: Sequence[Sequence[Any]], load: Load) -> None:
        codes, arrays = self._rows.load(saved, load)
        self._counts = grown(self._counts, self._rows.capacity)
        self._counts[codes] = arrays["count"]
