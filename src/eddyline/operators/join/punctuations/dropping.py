"""New rows that can be in no result: a partner of theirs is closed, and no row of it is stored.

Answer   `Dropping.refused` judges rows before they are stored, `impossible` those that are. Each is judged at its own
         place: of each partner that an equality fixes, the promises before the row count, and the stored
         rows that are in their windows at the row's time. All rows of a closed partner come before its promise, so
         that they are stored when the row is judged.
State    What is promised lies in `Closings`. Here is only by which links the last rows were lost, and which links have
         been judged.
Limits   The partners that share a key with the row, not those behind them. Rows of a ROWS window count while they are
         stored. Values whose keys are hashes count as stored where another value of the same hash is.
Reading  docs/punctuations.md
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.joins import probe as kernels
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.port import NewRows
from eddyline.operators.join.punctuations.alive import JoinShape, Link
from eddyline.operators.promises.covering import Mask
from eddyline.operators.stream.keys import combined
from eddyline.state.columns import Ints


class Dropping:
    def __init__(self, rule: JoinShape) -> None:
        self.rule = rule
        #: References and partners for which rows were dropped the last time: the range pre-check is skipped for them.
        self._losing: set[tuple[int, int]] = set()
        #: References and partners for which the rows of the slice at hand were judged before they were stored.
        self._judged: set[tuple[int, int]] = set()

    def refused(self, position: int, new: NewRows, asked: Ints) -> Mask | None:
        """Which of some rows that are about to be stored are in no result, now or later; None: nothing tells. Partners
        count whose rows of
        the slice are stored, in another store."""
        bases = self.rule.group.bases
        base = bases[position]
        lost: Mask | None = None
        for link in self.rule.links[position]:
            child = bases[link.child]
            if (
                child.port.source not in self.rule.closings.stored
                or child.store is base.store
                or self._is_open(link, child)
            ):
                continue
            rows = kernels.ProbeColumns(_plain(new.keys[link.keys[0]]), _plain(new.ranks), _plain(new.ts), 0)
            if self._is_far(link, child, base, _keys(rows, asked)):
                self._judged.add((position, link.child))
            elif (unmet := self._unmet(link, child, base, asked, rows)) is not None:
                self._judged.add((position, link.child))
                lost = unmet if lost is None else lost | unmet
        return lost

    def end_slice(self) -> None:
        """The rows of a slice have been joined."""
        self._judged.clear()

    def impossible(self, position: int, ids: Ints) -> Mask | None:
        """Which of the new rows of a reference are in no result, now or later; None: each may be in one."""
        bases = self.rule.group.bases
        base = bases[position]
        lost: Mask | None = None
        for link in self.rule.links[position]:
            child = bases[link.child]
            if (position, link.child) in self._judged or self._is_open(link, child):
                continue
            columns = base.store.columns
            rows = kernels.ProbeColumns(columns[link.keys[0]], columns[base.order], columns["ts"], base.store.base)
            if self._is_far(link, child, base, _keys(rows, ids)):
                continue
            lost = np.zeros(len(ids), np.bool_) if lost is None else lost
            if (unmet := self._unmet(link, child, base, ids, rows)) is not None:
                lost |= unmet
                continue
            closed = self._closed(link, child, base, ids)
            if closed is not None and closed.any():
                chosen = np.flatnonzero(closed & ~lost)
                lost[chosen[~self._held(link, child, base, ids[chosen])]] = True
        return lost

    def _is_open(self, link: Link, child: StreamInput) -> bool:
        """Whether nothing is promised of a partner."""
        if child.stream.is_table or any(pin.ends is not None for pin in link.pins):
            return False
        closed = self.rule.closings.closed.get(child.port.source)
        return closed is None or closed.is_empty

    def _is_by_key(self, link: Link, child: StreamInput) -> bool:
        """Whether one key of a row decides for which of them a partner is closed."""
        pin = link.pins[0]
        if (
            child.stream.is_table
            or len(link.pins) != 1
            or pin.ends is not None
            or not pin.is_column
            or pin.column is None
        ):
            return False
        return self.rule.closings.closed[child.port.source].is_by_key(pin.column, self.rule.regions[link.child])

    def _is_far(self, link: Link, child: StreamInput, base: StreamInput, keys: Ints) -> bool:
        """Whether nothing is promised of a partner near these keys; it is skipped where rows were lost the last
        time."""
        if (base.port.position, link.child) in self._losing or not self._is_by_key(link, child):
            return False
        column = link.pins[0].column
        return column is not None and not self.rule.closings.closed[child.port.source].is_near(column, keys)

    def _unmet(
        self, link: Link, child: StreamInput, base: StreamInput, ids: Ints, asked: kernels.ProbeColumns
    ) -> Mask | None:
        """Which rows have a partner that is closed and not stored, where one key decides; None: it does not."""
        pin, index = (
            link.pins[0],
            child.store.indexes.get(child.stream.index_name(tuple(pin.key for pin in link.pins))),
        )
        if index is None or pin.column is None or not self._is_by_key(link, child):
            return None
        ranges = self.rule.closings.closed[child.port.source].closed_ranges(pin.column)
        if ranges is None:
            return None
        found: Mask = kernels.unmet(ids, asked, child.port.span, ranges, index.chains(child.order, child.death, True))
        (self._losing.add if found.any() else self._losing.discard)((base.port.position, link.child))
        return found

    def _closed(self, link: Link, child: StreamInput, base: StreamInput, ids: Ints) -> Mask | None:
        """For which rows their partner is closed at their places; None: nothing is promised of it."""
        if child.stream.is_table:
            # A table that is read again can bring a row at any time.
            return None if child.stream.changes else np.ones(len(ids), np.bool_)
        closings, source = self.rule.closings, child.port.source
        closed = closings.closed.get(source)
        found: Mask | None = None
        if closed is not None and not closed.is_empty:
            regions, first = self.rule.regions[link.child], link.pins[0]
            if (
                len(link.pins) == 1
                and first.is_column
                and first.column is not None
                and closed.is_by_key(first.column, regions)
            ):
                found = closed.keys_before(
                    first.column, base.store.at(link.keys[0], ids), lambda: base.store.at(base.order, ids)
                )
            else:
                columns = {
                    pin.column: pin.turned(base.values_of(column, ids))
                    for pin, column in zip(link.pins, link.keys, strict=True)
                    if pin.column is not None and pin.turned is not None
                }
                found = closed.before(columns, base.store.at(base.order, ids), regions)
        for pin, column in zip(link.pins, link.keys, strict=True):
            if pin.ends is not None:
                over = pin.ends.due(base.store.at(column, ids)) <= base.store.at("ts", ids)
                found = over if found is None else found | over
        return found

    def _held(self, link: Link, child: StreamInput, base: StreamInput, ids: Ints) -> Mask:
        """For which rows a row of their partner is stored and in its window."""
        keys = combined([base.store.at(column, ids) for column in link.keys])
        columns = tuple(pin.key for pin in link.pins)
        index = child.store.indexes.get(child.stream.index_name(columns))
        if index is None:
            return np.isin(keys, combined([child.store.column(column) for column in columns]))
        return kernels.held(keys, child.floors(base.store.at("ts", ids)), index.chains(child.order, child.death, True))


def _keys(asked: kernels.ProbeColumns, ids: Ints) -> Ints:
    """The keys of rows with rising ids, without a copy where there are no gaps between them."""
    if len(ids) and ids[-1] - ids[0] == len(ids) - 1:
        return asked.keys[ids[0] - asked.base : ids[-1] + 1 - asked.base]
    return asked.keys[ids - asked.base]


def _plain(values: npt.NDArray[np.generic]) -> Ints:
    """The values as kernels have them: one after the other, in memory that may be written."""
    return np.require(values, np.int64, ["C", "W"])
