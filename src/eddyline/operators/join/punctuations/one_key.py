"""The rule of `alive.py` where all references of a join are equal in one key that fits 64 bits: on keys instead of
rows.

Answer   `OneKey.dead` gives, per reference, the stored rows that are in no result to come. All other references are
         children of every row and pinned to its key. Arrays over keys have, per reference, when it was closed, and
         until when one of its rows is in its window.
State    None: it knows the key of every reference.
Limits   Streams only. Rows whose keys no reference has closed are not judged: they are alive.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eddyline.kernels.joins import probe as kernels
from eddyline.model.datatypes import DataType
from eddyline.model.joining import is_exact
from eddyline.model.window import FOREVER, Unbounded
from eddyline.operators.join.combination import any_bit
from eddyline.operators.join.policy import Came
from eddyline.operators.join.probing.inverse import column_of
from eddyline.operators.join.probing.probing import of_any_age
from eddyline.operators.join.punctuations.alive import AliveEvaluation, JoinShape
from eddyline.operators.promises.closed import LONG_AGO
from eddyline.state.closed import distinct, places_of
from eddyline.state.columns import Ints
from eddyline.state.store import DROPPED
from eddyline.tuning import PunctuationTuning

_NONE = np.empty(0, np.bool_)
#: All rows of a reference are swept where there are at most this many of them for each key that is swept.
_WALKED = PunctuationTuning.walked


class OneKey:
    def __init__(self, rule: JoinShape, keys: Mapping[int, tuple[str, str, DataType]]) -> None:
        self.rule = rule
        self.group = rule.group
        #: Reference -> name, column of the stream and type of its key.
        self.keys = keys

    @property
    def serves(self) -> bool:
        return bool(self.keys) and all(is_exact(kind) for _, _, kind in self.keys.values())

    def dead(self, keys: Ints | None, came: Came, frontier: int) -> tuple[dict[int, Ints], int]:
        """The rows with some keys that are in no result to come, by reference, and how many were judged; None: all
        stored rows are."""
        bases, held, columns = self.group.bases, {}, {}
        if keys is None and self.is_pair:
            return self._pair()
        if keys is None:
            held = {position: bases[position].wanted(bases[position].ids()) for position in self.keys}
            columns = {
                position: bases[position].store.at(self.keys[position][0], ids) for position, ids in held.items()
            }
            keys = distinct(np.concatenate([*columns.values()]))
        until = self._closed(keys)
        if not until:
            return {}, 0
        rows, at = {}, {}
        for position in self.keys:
            # A row ends when another reference is closed for its key: keys that none has closed are left out.
            some = np.zeros(len(keys), np.bool_)
            for other, instants in until.items():
                if other != position or len(self.keys) > 2:
                    some |= instants < FOREVER
            here = np.flatnonzero(some)
            if not len(here):
                continue
            if position not in held and _WALKED * len(here) >= bases[position].store.live:
                held[position] = bases[position].wanted(bases[position].ids())
                columns[position] = bases[position].store.at(self.keys[position][0], held[position])
            if position in held:
                place = np.append(np.where(some, np.arange(len(keys)), -1), -1)[places_of(keys, columns[position])]
                rows[position], at[position] = held[position][place >= 0], place[place >= 0]
            else:
                ids, place = self.rows(position, keys[here])
                rows[position], at[position] = ids, here[place]
        return self._over(rows, at, until, len(keys), came, frontier), sum(map(len, rows.values()))

    @property
    def is_pair(self) -> bool:
        """Whether there are two references without windows: a row of one ends when the other is closed for its key."""
        if len(self.keys) != 2:
            return False
        bases = self.group.bases
        return all(
            isinstance(member.window, Unbounded)
            for position in self.keys
            for member in bases[position].port.members.values()
        )

    def _pair(self) -> tuple[dict[int, Ints], int]:
        """As `dead`, for all rows of two references."""
        lost, judged = {}, 0
        (one, _), (other, _) = self.keys.items()
        for position, partner in ((one, other), (other, one)):
            base, (key_name, _, _) = self.group.bases[position], self.keys[position]
            _, column, kind = self.keys[partner]
            closed, regions = self.rule.promised(partner)
            keys = base.store.column(key_name)[: max(base.end - base.store.first, 0)]
            judged += len(keys)
            if closed is None or closed.is_empty or not len(keys):
                continue
            left_out = base.store.column(DROPPED)[: len(keys)] if base.store.dropped else _NONE
            if closed.is_by_key(column, regions) and (ranges := closed.closed_ranges_by_now(column)) is not None:
                ids = kernels.closed_rows(keys, left_out, ranges, FOREVER)
            else:
                over = closed.instants({column: column_of(keys, kind)}, len(keys), regions) < FOREVER
                ids = np.flatnonzero(over & ~left_out if len(left_out) else over)
            if len(ids):
                lost[position] = base.wanted(ids + base.store.first)
        return {position: ids for position, ids in lost.items() if len(ids)}, judged

    def _over(
        self,
        rows: Mapping[int, Ints],
        at: Mapping[int, Ints],
        until: Mapping[int, Ints],
        count: int,
        came: Came,
        frontier: int,
    ) -> dict[int, Ints]:
        """The rows, with the places of their keys, that are in no result to come."""
        none = np.empty(0, np.int64)
        evaluation = AliveEvaluation(self.rule, came, {position: rows.get(position, none) for position in self.keys})
        possible = {}
        for position in self.keys if len(self.keys) > 2 else ():
            old = np.full(count, LONG_AGO)
            # Rows of a key are in order, and later ones stay longer: the last one counts.
            old[at.get(position, none)] = evaluation.window(position)
            possible[position] = np.maximum(until.get(position, FOREVER), old)
        lost = {}
        for position, ids in rows.items():
            others = [other for other in self.keys if other != position]
            # Where there is one other reference, its last new row ends what it makes possible.
            ends = np.full(count, FOREVER) if not possible else np.minimum.reduce([possible[other] for other in others])
            if all(other in until for other in others):
                ends = np.minimum(ends, np.maximum.reduce([until[other] for other in others]))
            over = (ends < frontier)[at[position]] | (evaluation.window(position) < frontier)
            if over.any():
                lost[position] = distinct(ids[over])
        return lost

    def _closed(self, keys: Ints) -> dict[int, Ints]:
        """Per reference of which something near these keys is promised, when it was closed for them."""
        found = {}
        for position, (_, column, kind) in self.keys.items():
            closed, regions = self.rule.promised(position)
            if closed is None or closed.is_empty:
                continue
            if closed.is_by_key(column, regions):
                if closed.is_near(column, keys):
                    found[position] = closed.key_instants(column, keys)
            else:
                found[position] = closed.instants({column: column_of(keys, kind)}, len(keys), regions)
        return found

    def rows(self, position: int, keys: Ints) -> tuple[Ints, Ints]:
        """The rows of a reference with these keys, those of a key in order, and the places of their keys."""
        base = self.group.bases[position]
        index = base.store.indexes[base.need_index(((position, self.keys[position][0]),))]
        at, ids, _ = kernels.probe_chains(of_any_age(keys), index.chains(base.order, base.death, False))
        # A chain begins with the newest row.
        at, ids = at[::-1], ids[::-1]
        reached = ids < base.end
        wanted = base.port.lineage_at(base.store, ids) if len(ids) else None
        if wanted is not None:
            reached &= any_bit(wanted)
        return (ids, at) if reached.all() else (ids[reached], at[reached])
