"""A payload column whose older rows lie on disk.

Answer   The same as the column it takes the place of: rows are appended to a head in memory; `spill` writes the head to
         an Arrow file and maps it. `gather` reads both, so callers see one column.

             |·· forgotten ··|== file ==|===== file =====|-- head --|
                             gone                      ahead      used

State    Per file its mapped array, the number of its first row and, once rows have left from its middle, the places of
         those that are still held; the head. Rows are numbered from the first one held since `keep`, so that forgetting
         moves one number.
Limits   A file goes when all its rows are forgotten. `keep` reads no file: the next `spill` writes files anew of which
         it left less than half, so that the files take at most about twice the room of their rows. What is mapped is
         not counted as held: the system drops such pages when it needs room. A disk that is full is an error, and
         nothing is lost from memory before a file is whole.
Reading  docs/design/0003-replanning.md#spilling
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import StateProblem
from eddyline.model.datatypes import DataType
from eddyline.state.columns import Ints, StoredColumn, stored_column

#: The first size of a mapped file, in rows.
_LEAST_ROOM = 256
#: Files with gaps are written anew together up to this number of rows: their rows are in memory at the same time.
_ROWS_TOGETHER = 1 << 18
_numbers = count()


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows from number `first` on, mapped from a file."""

    first: int
    values: pa.Array
    path: Path
    nbytes: int
    #: Places in the file of the rows that are held; None: all of them.
    places: npt.NDArray[np.int32] | None = None

    @property
    def rows(self) -> int:
        return len(self.values) if self.places is None else len(self.places)

    @property
    def end(self) -> int:
        return self.first + self.rows

    @property
    def is_sparse(self) -> bool:
        return 2 * self.rows < len(self.values)

    def at(self, numbers: Ints) -> pa.Array:
        """The values of rows of this file."""
        within = numbers - self.first
        return self.values.take(pa.array(within if self.places is None else self.places[within]))

    def kept(self, numbers: Ints, first: int) -> _Piece:
        """The same file with only these of its rows, the first of which gets the number `first`."""
        within = numbers - self.first
        places = within.astype(np.int32) if self.places is None else self.places[within]
        return replace(self, first=first, places=None if len(places) == len(self.values) else places)


class SpilledColumn:
    """Takes over a column that has room for `room` rows; positions stay what they are."""

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
        """Does nothing: the head grows in `append`, and rows on disk need no room in memory."""

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
        numbers = positions + self.gone
        on_disk, first, pieces = int(np.searchsorted(numbers, self.ahead)), 0, []
        for piece in self.pieces:
            mine = numbers[np.searchsorted(numbers, piece.first) : np.searchsorted(numbers, piece.end)]
            if len(mine):
                pieces.append(piece.kept(mine, first))
                first += len(mine)
            else:
                piece.path.unlink(missing_ok=True)
        self.head.keep(numbers[on_disk:] - self.ahead, used + self.gone - self.ahead)
        self.pieces = pieces
        self.gone, self.ahead = 0, on_disk

    def gather(self, positions: Ints) -> pa.Array:
        numbers = positions + self.gone
        if not self.pieces or not len(numbers) or int(numbers.min()) >= self.ahead:
            return self.head.gather(numbers - self.ahead)
        ends = np.array([piece.end for piece in self.pieces])
        place = np.searchsorted(ends, numbers, side="right")
        found = []
        # Rows of one place together, then back into the order of the ids.
        grouped = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[grouped], np.arange(len(ends) + 2))
        for where in np.flatnonzero(np.diff(bounds)):
            asked = numbers[grouped[bounds[where] : bounds[where + 1]]]
            if where == len(ends):
                found.append(self.head.gather(asked - self.ahead))
            else:
                found.append(self.pieces[where].at(asked))
        whole = pa.concat_arrays(found)
        back = np.empty(len(grouped), np.int64)
        back[grouped] = np.arange(len(grouped))
        return whole.take(pa.array(back)) if len(found) > 1 else whole

    @property
    def nbytes(self) -> int:
        return self.head.nbytes + sum(piece.places.nbytes for piece in self.pieces if piece.places is not None)

    # -- on disk

    @property
    def spilled_bytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    def spill(self, folder: Path, name: str, used: int, least: int = 1) -> None:
        """Write the head to a file of its own and map it, unless it has fewer rows than `least`.

        Raises:
            StateProblem: the file cannot be written; the rows are still in memory.
        """
        self._close_gaps(folder, name)
        rows = used + self.gone - self.ahead
        if rows < least:
            return
        self.pieces.append(_written(folder, name, self.ahead, self.head.gather(np.arange(rows))))
        self.ahead += rows
        self.room = _LEAST_ROOM
        self.head = stored_column(self.kind)
        self.head.reserve(self.room, 0)

    def _close_gaps(self, folder: Path, name: str) -> None:
        """Write files anew of which less than half is held, neighbours together up to the size of a file."""
        if not any(piece.is_sparse for piece in self.pieces):
            return
        done, waiting = list[_Piece](), list[_Piece]()
        for piece in [*self.pieces, None]:
            if waiting and (
                piece is None or not piece.is_sparse or sum(one.rows for one in waiting) + piece.rows > _ROWS_TOGETHER
            ):
                values = pa.concat_arrays([one.at(np.arange(one.first, one.end)) for one in waiting])
                done.append(_written(folder, name, waiting[0].first, values))
                for one in waiting:
                    one.path.unlink(missing_ok=True)
                # A disk that fills up later finds every row in a file that is held.
                self.pieces = [*done, *self.pieces[len(done) - 1 + len(waiting) :]]
                waiting = []
            if piece is not None:
                (waiting if piece.is_sparse else done).append(piece)

    def drop_files(self) -> None:
        for piece in self.pieces:
            piece.path.unlink(missing_ok=True)
        self.pieces = []


def _written(folder: Path, name: str, first: int, values: pa.Array) -> _Piece:
    """Values in a file of their own, mapped."""
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
    return _Piece(first, mapped, path, values.nbytes)
