"""Text files as runs of records, cut at line ends.

Answer   Blocks of whole lines with the place and the line number of each record. Compressed files (.gz, .zst, .bz2, .lz4)
         are read as what is in them. Blank lines are no records but count as lines.
Limits   A record is one line. With `multiline`, line ends between double quotes belong to the record; a stray quote then
         swallows what follows, up to 32 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

_LONGEST = 32 << 20
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34


@dataclass(frozen=True, slots=True)
class Lines:
    """Records without blank lines between them."""

    data: bytes
    #: Where each record begins and ends (without its line end) in `data`.
    starts: np.ndarray
    ends: np.ndarray
    #: Line in the file, from 1, on which each record begins.
    numbers: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def buffer(self, low: int, high: int) -> pa.Buffer:
        """The text of some records, without copying."""
        begin = int(self.starts[low])
        return pa.py_buffer(self.data).slice(begin, int(self.ends[high - 1]) - begin)

    def text(self, record: int) -> str:
        """One record as text, whatever its bytes are."""
        return self.data[self.starts[record] : self.ends[record]].decode("utf-8", "replace").rstrip("\r")

    def has_many(self, letters: bytes, limit: int, low: int, high: int) -> bool:
        """Whether a record of a range holds more than `limit` of some letters."""
        starts, ends = self.starts[low:high], self.ends[low:high]
        # Most records are shorter than the limit: then nothing is counted.
        if int((ends - starts).max(initial=0)) <= limit:
            return False
        data = np.frombuffer(self.data, np.uint8)[starts[0] : ends[-1]]
        found = data == letters[0]
        for letter in letters[1:]:
            found |= data == letter
        places = np.flatnonzero(found) + starts[0]
        return bool((np.searchsorted(places, ends) - np.searchsorted(places, starts) > limit).any())

    def after(self, count: int) -> Lines:
        return Lines(self.data, self.starts[count:], self.ends[count:], self.numbers[count:])


def read_lines(path: str, portion_bytes: int, multiline: bool = False) -> Iterator[Lines]:
    """All records of a file, which is read in portions of this size.

    Raises:
        OSError: the file, or the rest of it, cannot be read; everything before has been yielded.
    """
    rest, line = b"", 1
    with pa.input_stream(path) as stream:
        problem: OSError | None = None
        while True:
            try:
                portion = stream.read(portion_bytes)
            except OSError as found:
                problem, portion = found, b""
            if line == 1 and not rest:
                portion = portion.removeprefix(b"\xef\xbb\xbf")
            data = rest + portion
            if portion:
                newlines, breaks = _breaks(data, multiline)
                if not len(breaks) and multiline and len(data) > _LONGEST:
                    breaks = newlines
                if not len(breaks):
                    rest = data
                    continue
                cut = int(breaks[-1]) + 1
                whole, rest = data[:cut], data[cut:]
                newlines = newlines[: np.searchsorted(newlines, cut)]
            else:
                # A cut-off last line of a broken file is not a record: its end is not known.
                whole, rest = (data + b"\n" if data and problem is None else b""), b""
                newlines, breaks = _breaks(whole, multiline)
                if len(whole) and not len(breaks):
                    breaks = newlines[-1:]
            if len(whole):
                yield _records(whole, newlines, breaks, line)
                line += len(newlines)
            if not portion:
                break
        if problem is not None:
            raise problem


def _breaks(data: bytes, multiline: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where lines end, and where records end: there, or with multiline only after an even number of quotes."""
    letters = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(letters == _NEWLINE)
    if not multiline or not len(newlines):
        return newlines, newlines
    quotes = np.flatnonzero(letters == _QUOTE)
    return newlines, newlines[np.searchsorted(quotes, newlines) % 2 == 0]


def _records(data: bytes, newlines: np.ndarray, breaks: np.ndarray, line: int) -> Lines:
    starts = np.concatenate(([0], breaks[:-1] + 1))
    letters = np.frombuffer(data, np.uint8)
    if len(newlines) == len(breaks):
        numbers = np.arange(line, line + len(breaks))
    else:
        numbers = line + np.searchsorted(newlines, starts)
    lengths = breaks - starts
    blank = (lengths == 0) | ((lengths == 1) & (letters[starts] == _RETURN))
    if blank.any():
        return _compact(data, starts[~blank], breaks[~blank], numbers[~blank])
    return Lines(data, starts, breaks, numbers)


def _compact(data: bytes, starts: np.ndarray, ends: np.ndarray, numbers: np.ndarray) -> Lines:
    """The same without blank lines, so that what a parser counts are the records."""
    kept = b"".join([data[a : b + 1] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)])
    lengths = ends + 1 - starts
    fresh = np.concatenate(([0], np.cumsum(lengths)[:-1])) if len(lengths) else lengths
    return Lines(kept, fresh, fresh + (ends - starts), numbers)
