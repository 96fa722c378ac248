"""Rows with numbers, written down by what changed.

Answer   `note` takes the numbers of rows that are new, have another content, or are gone. `snapshot` names the blocks
         that hold all rows: those of earlier snapshots, and a new one with the rows that were noted since. `restore`
         reads blocks again, the newest first: the newest content of a row counts.

             block 1 |==============|   block 2 |====|   block 3 |==|   new |=|
                                                └── become one block when they are together not smaller than block 2

State    Per row the block with its newest content, and whether it is there. Per block the numbers of its rows.
Limits   Nothing is kept before the first snapshot, which writes all rows. A row is written again at most about as often
         as the logarithm of the number of rows. Numbers of rows are small: arrays by number are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.kernels.groups import group as kernels
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

#: Fewer blocks than these are not made one: the rows of a snapshot are written once in that many snapshots.
_MOST_SMALL = 8
#: The column with the numbers of rows.
ROW_NUMBER = "row"


@dataclass(slots=True)
class RowBlock:
    """Rows that were noted between two snapshots."""

    number: int
    name: str
    rows: npt.NDArray[np.int32]
    #: How many of the rows have changed in no later block.
    newest: int
    #: Whether some of the rows are gone, which a block of its own says.
    has_gone: bool


class RowBlocks:
    def __init__(self) -> None:
        #: None: there was no snapshot.
        self._blocks: list[RowBlock] | None = None
        self._last = 0
        #: By row, the block with its newest content; 0: none.
        self._newest = np.zeros(0, np.int32)
        self._there = np.zeros(0, np.bool_)
        #: The rows that were noted since the last snapshot.
        self._is_noted = np.zeros(0, np.bool_)
        self._noted: Ints = np.empty(0, np.int64)
        self._count = 0

    def note(self, rows: Ints, *, gone: bool = False) -> None:
        if self._blocks is None or not len(rows):
            return
        self._reserve(int(rows.max()) + 1)
        self._there[rows] = not gone
        self._noted = grown(self._noted, self._count + len(rows))
        self._count = kernels.collect(self._is_noted, rows, self._noted, self._count)

    def _reserve(self, size: int) -> None:
        for name in ("_newest", "_there", "_is_noted"):
            setattr(self, name, grown(getattr(self, name), size))

    def renew(self) -> None:
        """The next snapshot writes all rows."""
        self._is_noted[self._noted[: self._count]] = False
        self._blocks, self._count = None, 0
        self._newest[:] = 0

    # -- a snapshot

    def snapshot(
        self, name: str, live: Callable[[], Ints], content: Callable[[Ints], pa.Table]
    ) -> tuple[list[list[Any]], Blocks]:
        """What the header of the snapshot says, and the blocks.

        Args:
            name: Begins the names of blocks; no other state has it.
            live: Gives the rows that are there, for the first snapshot.
            content: Gives the columns of some rows.
        """
        made: Blocks = {}
        held = self._sealed(name, live)
        for block in held:
            made[block.name] = partial(self._table, block, content)
            if block.has_gone:
                made[_of_gone(block.name)] = partial(self._gone, block)
        return [[block.number, block.name, block.has_gone] for block in held], made

    def _sealed(self, name: str, live: Callable[[], Ints]) -> list[RowBlock]:
        if self._blocks is None:
            self._blocks = []
            self.note(live())
        blocks, rows = self._blocks, self._noted[: self._count]
        self._is_noted[rows] = False
        self._noted, self._count = np.empty(0, np.int64), 0
        # A row that came and went in between was never written.
        rows = rows[self._there[rows] | (self._newest[rows] > 0)]
        if len(rows) or not blocks:
            self._take_from_older(rows)
            first = self._first_merged(len(rows))
            rows = np.concatenate([*map(self._rows_of, blocks[first:]), rows])
            there = self._there[rows]
            if not first:
                # No older block has the rows that are gone.
                self._newest[rows[~there]] = 0
                rows, there = rows[there], there[there]
            self._last += 1
            self._newest[rows] = self._last
            fresh = RowBlock(
                self._last, f"{name}-{self._last}", rows.astype(np.int32), len(rows), not bool(there.all())
            )
            blocks[first:] = [fresh]
        blocks[:] = [block for block in blocks if block.newest or len(blocks) == 1] or blocks[-1:]
        return blocks

    def _take_from_older(self, rows: Ints) -> None:
        """The newest content of these rows will be in another block."""
        assert self._blocks is not None
        numbers = np.array([block.number for block in self._blocks], np.int64)
        known = self._newest[rows]
        lost = np.bincount(np.searchsorted(numbers, known[known > 0]), minlength=len(numbers))
        for block, count in zip(self._blocks, lost.tolist(), strict=True):
            block.newest -= count
        self._newest[rows] = 0

    def _first_merged(self, fresh: int) -> int:
        """The place of the first block that becomes one with the new one: a larger one that stays costs less than it would
        to write it again."""
        assert self._blocks is not None
        found, later = len(self._blocks), fresh
        for place in reversed(range(len(self._blocks))):
            block = self._blocks[place]
            together = later + block.newest
            enough = len(self._blocks) - place >= _MOST_SMALL and block.newest <= later
            if enough or 4 * together <= len(block.rows):
                found = place
            later = together
        return found

    def _rows_of(self, block: RowBlock) -> Ints:
        rows: Ints = block.rows.astype(np.int64)
        return rows[self._newest[rows] == block.number]

    def _table(self, block: RowBlock, content: Callable[[Ints], pa.Table]) -> pa.Table:
        rows = self._rows_of(block)
        rows = rows[self._there[rows]]
        return content(rows).append_column(ROW_NUMBER, pa.array(rows))

    def _gone(self, block: RowBlock) -> pa.Table:
        rows = self._rows_of(block)
        return pa.table({ROW_NUMBER: rows[~self._there[rows]]})

    # -- and back

    def restore(self, saved: Sequence[Sequence[Any]], load: Load) -> pa.Table:
        """The rows that are there, ascending."""
        self._blocks, parts = [], []
        for number, name, has_gone in reversed(saved):
            table = load(name)
            there = table.column(ROW_NUMBER).to_numpy()
            gone = load(_of_gone(name)).column(ROW_NUMBER).to_numpy() if has_gone else there[:0]
            rows = np.concatenate([there, gone])
            self._reserve(int(rows.max(initial=-1)) + 1)
            newest, is_there = self._newest[rows] == 0, np.arange(len(rows)) < len(there)
            self._newest[rows[newest]], self._there[rows[newest]] = number, is_there[newest]
            if not newest.all():
                table = table.filter(pa.array(newest[: len(there)]))
            parts.append(table)
            self._blocks.insert(0, RowBlock(number, name, rows.astype(np.int32), int(newest.sum()), bool(has_gone)))
        self._last = max((block.number for block in self._blocks), default=0)
        whole = pa.concat_tables(parts, promote_options="default").combine_chunks()
        return whole.take(pc.array_sort_indices(whole.column(ROW_NUMBER).combine_chunks()))


def _of_gone(name: str) -> str:
    return f"{name}-gone"


def block_names(saved: Sequence[Sequence[Any]]) -> list[str]:
    """The blocks of what a header says of rows."""
    return [name for _, block, has_gone in saved for name in ((block, _of_gone(block)) if has_gone else (block,))]


class GrownBlocks:
    """Rows that only come: each has the number of its place."""

    def __init__(self) -> None:
        self._rows = RowBlocks()
        self.renew = self._rows.renew
        #: How many rows have been noted.
        self._known = 0

    def snapshot(self, name: str, count: int, content: Callable[[Ints], pa.Table]) -> tuple[list[list[Any]], Blocks]:
        self._rows.note(np.arange(self._known, count))
        self._known = count
        return self._rows.snapshot(name, lambda: np.arange(count), content)

    def restore(self, saved: Sequence[Sequence[Any]], load: Load) -> pa.Table:
        """All rows in their order."""
        table = self._rows.restore(saved, load)
        self._known = len(table)
        return table.drop_columns([ROW_NUMBER])
