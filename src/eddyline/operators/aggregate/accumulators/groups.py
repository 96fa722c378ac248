"""Codes for rows of encoded values: numbers of groups, or of distinct values.

Answer   `codes` gives every row of encoded values its code, a new one where the row is new. `release` frees codes for
         other rows. Codes are small: an array by code is never longer than the largest number of rows that had codes at
         the same time. `snapshot` names the blocks that hold the codes in use, with what the owner keeps of each.
State    The encoded values of every live code and a hash table over them.
Limits   A code that `codes` has given or `release` has freed counts as changed; of other changes `note` must be told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.kernels.groups import group as kernels
from eddyline.operators.aggregate.accumulators.encoding import grown
from eddyline.operators.aggregate.tables import Arrays, arrays_of, as_table
from eddyline.operators.row_blocks import ROW_NUMBER, RowBlocks
from eddyline.state.blocks import Blocks, Load
from eddyline.state.columns import Ints

#: The first size of arrays that double as groups come.
_SMALLEST = 256


def mask_of(codes: Ints, size: int) -> npt.NDArray[np.bool_]:
    """True at these codes, among all below `size`."""
    found = np.zeros(size, np.bool_)
    found[codes] = True
    return found


class Dictionary:
    def __init__(self, width: int) -> None:
        self.heads: Ints = np.full(_SMALLEST, -1, np.int64)
        self.following: Ints = np.full(_SMALLEST, -1, np.int64)
        self.keys: Ints = np.zeros((_SMALLEST, width), np.int64)
        self.free: Ints = np.arange(_SMALLEST - 1, -1, -1)
        self.free_count: Ints = np.array([_SMALLEST])
        self.blocks = RowBlocks()
        #: What is kept of a code has changed.
        self.note = self.blocks.note

    @property
    def capacity(self) -> int:
        """All codes are below."""
        return len(self.following)

    @property
    def held(self) -> int:
        return self.capacity - int(self.free_count[0])

    def codes(self, rows: Ints) -> Ints:
        codes = np.empty(len(rows), np.int64)
        done = 0
        while True:
            done = kernels.find_or_add(
                self.heads, self.following, self.keys, self.free, self.free_count, rows, done, codes
            )
            if done == len(rows):
                self.note(codes)
                return codes
            self._double()

    def find(self, rows: Ints) -> Ints:
        """Codes of rows; -1 where a row is not there."""
        found: Ints = kernels.find(self.heads, self.following, self.keys, rows)
        return found

    def release(self, codes: Ints) -> None:
        kernels.remove(self.heads, self.following, self.keys, self.free, self.free_count, codes)
        self.note(codes, gone=True)

    def _double(self) -> None:
        capacity = self.capacity
        self.following, self.keys = grown(self.following, 2 * capacity), grown(self.keys, 2 * capacity)
        self.free = np.arange(2 * capacity - 1, -1, -1)
        self.free_count[0] = capacity
        self._rehash(np.arange(capacity))

    def _rehash(self, codes: Ints) -> None:
        self.heads = np.full(self.capacity, -1, np.int64)
        kernels.rehash(self.heads, self.following, self.keys, codes)

    def live(self) -> Ints:
        """All codes in use, ascending."""
        return np.flatnonzero(~mask_of(self.free[: self.free_count[0]], self.capacity))

    def snapshot(self, name: str, content: Callable[[Ints], Arrays]) -> tuple[list[list[Any]], Blocks]:
        """`content` gives what the owner keeps of codes; `name` is a name that no other state has."""
        return self.blocks.snapshot(
            name, self.live, lambda codes: as_table({"key": self.keys[codes], **content(codes)})
        )

    def load(self, saved: Sequence[Sequence[Any]], load: Load) -> tuple[Ints, Arrays]:
        """Exactly the rows of a snapshot, with their codes; returns these, and what the owner kept."""
        arrays = arrays_of(self.blocks.restore(saved, load))
        self.restore(arrays[ROW_NUMBER], arrays["key"])
        return arrays[ROW_NUMBER], arrays

    def restore(self, codes: Ints, rows: Ints) -> None:
        """Exactly these rows, with these codes."""
        capacity = _SMALLEST
        while capacity <= (int(codes.max()) if len(codes) else 0):
            capacity *= 2
        self.following = np.full(capacity, -1, np.int64)
        self.keys = np.zeros((capacity, self.keys.shape[1]), np.int64)
        self.keys[codes] = rows
        rest = np.setdiff1d(np.arange(capacity), codes)[::-1]
        self.free = np.zeros(capacity, np.int64)
        self.free[: len(rest)] = rest
        self.free_count[0] = len(rest)
        self._rehash(codes)


class Touched:
    """The codes that were noted since the last `take`, each once."""

    def __init__(self) -> None:
        self.flags = np.zeros(_SMALLEST, np.bool_)
        self.codes: Ints = np.zeros(_SMALLEST, np.int64)
        self.count = 0

    def note(self, codes: Ints, capacity: int) -> None:
        self.flags, self.codes = grown(self.flags, capacity), grown(self.codes, capacity)
        self.count = kernels.collect(self.flags, codes, self.codes, self.count)

    def take(self) -> Ints:
        found = self.codes[: self.count].copy()
        self.flags[found] = False
        self.count = 0
        return found
