"""A payload column whose older rows lie on disk.

Answer   The same as the column it takes the place of: rows are appended to a head in memory; `spill` writes the head to an Arrow file
         and maps it. `gather` reads both, so callers see one column.

             |·· forgotten ··|== file ==|===== file =====|-- head --|
                             gone                      ahead      used

State    Per file its mapped array and the number of its first row; the head. Rows are numbered from the first one ever held, so that
         forgetting moves one number.
Limits   A file goes when all its rows are forgotten. What is mapped is not counted as held: the system drops such pages when it
         needs room. A disk that is full is an error, and nothing is lost from memory before a file is whole.
Reading  docs/design/0003-replanning.md#spilling
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from eddyline.errors import StateProblem
from eddyline.model.datatypes import DataType
from eddyline.state.columns import Ints, StoredColumn, stored_column

#: A head of fewer rows is not worth a file.
LEAST_ROWS = 4096
_LEAST_ROOM = 256
_numbers = count()


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows from number `first` on, mapped from a file."""

    first: int
    values: pa.Array
    path: Path
    nbytes: int

    @property
    def end(self) -> int:
        return self.first + len(self.values)


class SpilledColumn:
    """Takes over a column that has room for so many rows; positions stay what they are."""

    def __init__(self, kind: DataType, column: StoredColumn, room: int) -> None:
        self.kind = kind
        self.head = column
        self.pieces: list[_Piece] = []
        #: The number of the row at position 0, of the first row in the head, and the head's capacity.
        self.gone = 0
        self.ahead = 0
        self.room = room

    # -- as any column

    def append(self, values: pa.Array, used: int) -> None:
        mine = used + self.gone - self.ahead
        if mine + len(values) > self.room:
            self.room = max(2 * self.room, mine + len(values), _LEAST_ROOM)
            self.head.reserve(self.room, mine)
        self.head.append(values, mine)

    def reserve(self, capacity: int, used: int) -> None:
        """The head takes what it needs when it needs it: room for rows on disk would be wasted."""

    def forget(self, rows: int, used: int) -> None:
        self.gone += rows
        for piece in self.pieces:
            if piece.end <= self.gone:
                piece.path.unlink(missing_ok=True)
        self.pieces = [piece for piece in self.pieces if piece.end > self.gone]
        if self.gone > self.ahead:
            self.head.forget(self.gone - self.ahead, used - rows + self.gone - self.ahead)
            self.ahead = self.gone

    def keep(self, positions: Ints, used: int) -> None:
        kept = self.gather(positions)
        self.drop_files()
        self.gone = self.ahead = 0
        self.room = max(len(positions), _LEAST_ROOM)
        self.head = stored_column(self.kind)
        self.head.reserve(self.room, 0)
        self.head.append(kept, 0)

    def gather(self, positions: Ints) -> pa.Array:
        numbers = positions + self.gone
        if not self.pieces or not len(numbers) or int(numbers.min()) >= self.ahead:
            return self.head.gather(numbers - self.ahead)
        ends = np.array([piece.end for piece in self.pieces])
        place = np.searchsorted(ends, numbers, side="right")
        found = []
        # Rows of one place together, then back into the order in which they were asked for.
        grouped = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[grouped], np.arange(len(ends) + 2))
        for where in np.flatnonzero(np.diff(bounds)):
            asked = numbers[grouped[bounds[where] : bounds[where + 1]]]
            if where == len(ends):
                found.append(self.head.gather(asked - self.ahead))
            else:
                piece = self.pieces[where]
                found.append(piece.values.take(pa.array(asked - piece.first)))
        whole = pa.concat_arrays(found)
        back = np.empty(len(grouped), np.int64)
        back[grouped] = np.arange(len(grouped))
        return whole.take(pa.array(back)) if len(found) > 1 else whole

    @property
    def nbytes(self) -> int:
        return self.head.nbytes

    # -- on disk

    @property
    def spilled_bytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    def spill(self, folder: Path, name: str, used: int, least: int = 1) -> None:
        """Write the head to a file of its own and map it, unless it has fewer rows than `least`.

        Raises:
            StateProblem: the file cannot be written; the rows are still in memory.
        """
        rows = used + self.gone - self.ahead
        if rows < least:
            return
        values = self.head.gather(np.arange(rows))
        path = folder / f"{name}-{next(_numbers)}.arrow"
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("values", values.type)])) as writer:
                writer.write_batch(pa.record_batch([values], ["values"]))
            mapped = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0).column(0)
        except OSError as problem:
            path.unlink(missing_ok=True)
            raise StateProblem(
                "state cannot be spilled to disk", detail=str(problem), hint="make room there, or SET memory_budget higher"
            ) from problem
        self.pieces.append(_Piece(self.ahead, mapped, path, values.nbytes))
        self.ahead += rows
        self.room = _LEAST_ROOM
        self.head = stored_column(self.kind)
        self.head.reserve(self.room, 0)

    def drop_files(self) -> None:
        for piece in self.pieces:
            piece.path.unlink(missing_ok=True)
        self.pieces = []
