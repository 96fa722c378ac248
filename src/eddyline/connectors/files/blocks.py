"""What every file reader yields: runs of records in file order.

Answer   A block is a run of records, each of which became a row or a bad row. Records are numbered from 0 in their
         file, so that a position is exact: (file, number of records taken). A `FileReading` says which records of which
         file are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.files.parts import FilePart
from eddyline.connectors.guarded.parsing_marks import UNMARKED, FileMarks
from eddyline.model.schema import Schema
from eddyline.operators.sharing.skipping import Skipping, Stretch


@dataclass(frozen=True, slots=True)
class RecordBlock:
    #: Number of the first record in the file, from 0, and how many records there are.
    first: int
    count: int
    #: The records that became rows, as the file has them.
    rows: pa.Table | None = None
    #: The others, as ready-made bad rows.
    bad: pa.Table | None = None
    #: Number of each of `rows` in the file, from 1, for reasons; None: they follow one another from `first`.
    numbers: np.ndarray | None = None
    #: Where there are rows and bad rows: which records, counted within the block, each of them is.
    places: np.ndarray | None = None
    bad_places: np.ndarray | None = None
    #: What `numbers` count.
    unit: str = "row"
    #: The file ends with this block: what follows cannot be read.
    last: bool = False
    #: Declared columns that no query reads were left out, because none of their values could make a row bad.
    projected: bool = False
    #: The records are a row group that was not read, because no query can use it.
    skipped: Stretch | None = None

    def part(self, offset: int, count: int) -> RecordBlock:
        """Some of its records, without copying."""
        cut = replace(self, first=self.first + offset, count=count)
        if self.places is None or self.bad_places is None:
            return cut._within(offset, offset + count, offset, offset + count)
        low, high = np.searchsorted(self.places, (offset, offset + count)).tolist()
        bad_low, bad_high = np.searchsorted(self.bad_places, (offset, offset + count)).tolist()
        cut = replace(cut, places=self.places[low:high] - offset, bad_places=self.bad_places[bad_low:bad_high] - offset)
        return cut._within(low, high, bad_low, bad_high)

    def _within(self, low: int, high: int, bad_low: int, bad_high: int) -> RecordBlock:
        return replace(
            self,
            rows=None if self.rows is None else self.rows.slice(low, high - low),
            numbers=None if self.numbers is None else self.numbers[low:high],
            bad=None if self.bad is None else self.bad.slice(bad_low, bad_high - bad_low),
        )


#: What row groups need not be read now; None: all are read.
Asked = Callable[[], Skipping | None]


@dataclass(frozen=True, slots=True)
class FileReading:
    """What is read of a file."""

    file: DataFile
    schema: Schema
    #: The number of the first record. Records of a part of a text file are numbered from the part's first one, as its
    #: lines are.
    first: int = 0
    #: Those needed; None: all.
    columns: frozenset[str] | None = None
    #: Of what is being parsed.
    marks: FileMarks = UNMARKED
    #: Of the file; None: all of it.
    part: FilePart | None = None
    #: Row groups of parquet are left out as this says when they are come to; None: all are read.
    skipping: Asked | None = None


#: Reads a file. An unreadable rest is one `bad` block that names the file; nothing is raised.
FileReader = Callable[[FileReading], Iterator[RecordBlock]]
