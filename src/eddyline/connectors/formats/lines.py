"""Text files as runs of records, cut at line ends.

Answer   Blocks of whole lines with the place and the line number of each record. Compressed files (.gz, .zst, .bz2,
         .lz4) are read as what is in them. Blank lines are no records but count as lines. Where nothing but the number
         of records is asked for, their places are not looked for.
         A part of a file has the lines whose first byte lies in it; they are numbered from its first line.
Limits   A record is one line. With `multiline`, line ends between double quotes belong to the record; a stray quote
         then swallows what follows, up to 32 MB.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.connectors.files.parts import FilePart
from eddyline.kernels.texts.text import enclosed, survey

#: Bytes after which a quote that does not end hides no line ends any more. A bound of memory.
_LONGEST = 32 << 20
#: Bytes of text files.
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
_ANY_RETURN = re.compile(b"\r")
#: What makes a parser of csv find fewer lines, where it takes returns for line ends: quotes, and lines without a letter.
_FEWER = re.compile(rb'"|\A\r|[\r\n]\r')
#: How a file may say that it is UTF-8.
MARK = b"\xef\xbb\xbf"


class _Places(NamedTuple):
    starts: np.ndarray
    ends: np.ndarray
    numbers: np.ndarray


class Lines:
    """Records without blank lines between them.

    Args:
        data: their text, with its line ends.
        places: where records are; None: every line of `data` is one, the last with a line end too.
        count: how many records there are.
        line: number of the first line in the file, from 1.
        plain: the text is ASCII.
        hexadecimal: it may hold numbers such as 0x10.
    """

    def __init__(
        self,
        data: bytes | pa.Buffer,
        places: _Places | None,
        count: int,
        line: int = 1,
        *,
        plain: bool = False,
        hexadecimal: bool = True,
    ) -> None:
        self.data, self.plain, self.hexadecimal = data, plain, hexadecimal
        self._given, self._count, self._line = places, count, line

    @cached_property
    def _places(self) -> _Places:
        if self._given is not None:
            return self._given
        ends = np.flatnonzero(np.frombuffer(self.data, np.uint8) == _NEWLINE)
        return _Places(np.concatenate(([0], ends[:-1] + 1)), ends, np.arange(self._line, self._line + len(ends)))

    @property
    def starts(self) -> np.ndarray:
        """Where each record begins in `data`."""
        return self._places.starts

    @property
    def ends(self) -> np.ndarray:
        """Where each record ends, without its line end."""
        return self._places.ends

    @property
    def numbers(self) -> np.ndarray:
        """Line in the file, from 1, on which each record begins."""
        return self._places.numbers

    def __len__(self) -> int:
        return self._count

    def buffer(self, low: int, high: int) -> pa.Buffer:
        """The text of some records, without copying."""
        if self._given is None and low == 0 and high == self._count:
            return pa.py_buffer(self.data).slice(0, len(self.data) - 1)
        begin = int(self.starts[low])
        return pa.py_buffer(self.data).slice(begin, int(self.ends[high - 1]) - begin)

    def text(self, record: int) -> str:
        """One record as text, whatever its bytes are."""
        return bytes(self.data[self.starts[record] : self.ends[record]]).decode("utf-8", "replace").rstrip("\r")

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

    @cached_property
    def _returns(self) -> np.ndarray:
        """Where carriage returns are that do not belong to a line end."""
        if _ANY_RETURN.search(self.data) is None:
            return np.empty(0, np.int64)
        letters = np.frombuffer(self.data, np.uint8)
        found = np.flatnonzero(letters[:-1] == _RETURN)
        return found[letters[found + 1] != _NEWLINE]

    def may_be_cut_anew(self, low: int, high: int) -> bool:
        """Whether a parser may find other lines in a range, and yet as many. It takes a carriage return for a line end; a
        quote that is open there may join two lines, and an empty line is none for it."""
        if high - low < 2 or not len(self._returns):
            return False
        begin, end = int(self.starts[low]), int(self.ends[high - 1])
        cuts = np.searchsorted(self._returns, (begin, end))
        return bool(cuts[1] > cuts[0]) and _FEWER.search(memoryview(self.data)[begin:end]) is not None

    def enclosed(self, letters: bytes, low: int, high: int) -> np.ndarray:
        """Which records of a range begin with the first letter and end with the second, blanks around them aside."""
        return enclosed(
            np.frombuffer(self.data, np.uint8), self.starts[low:high], self.ends[low:high], letters[0], letters[1]
        )

    def only(self, records: np.ndarray) -> Lines:
        """Some of the records, one after the other; `records` rises."""
        if not len(records):
            return Lines(b"", _Places(records, records, records), 0)
        breaks = np.flatnonzero(np.diff(records) != 1) + 1
        firsts, lasts = (
            records[np.concatenate(([0], breaks))],
            records[np.concatenate((breaks - 1, [len(records) - 1]))],
        )
        runs = zip(self.starts[firsts].tolist(), self.ends[lasts].tolist(), strict=True)
        # The last record of a file may lack its line end.
        text = memoryview(self.data)
        kept = b"".join([bytes(text[a:b]) + b"\n" for a, b in runs])
        lengths = self.ends[records] + 1 - self.starts[records]
        starts = np.cumsum(lengths) - lengths
        return Lines(kept, _Places(starts, starts + lengths - 1, self.numbers[records]), len(records))

    def part(self, low: int, high: int) -> Lines:
        """The records from one number to another, without copying."""
        if low == 0 and high == len(self):
            return self
        places = _Places(self.starts[low:high], self.ends[low:high], self.numbers[low:high])
        return Lines(self.data, places, high - low, plain=self.plain, hexadecimal=self.hexadecimal)


def read_lines(
    path: str, portion_bytes: int, multiline: bool = False, part: FilePart | None = None, begin: int = 0, line: int = 1
) -> Iterator[Lines]:
    """All records of a file, which is read in portions of this size.

    Args:
        path: of the file.
        portion_bytes: what is read at once.
        multiline: line ends between double quotes belong to a record.
        part: of the file; then `part.lines` is known when all records of it have been given.
        begin: where reading begins, at the first byte of a line or at 0, and the number of the line there.
        line: see `begin`.

    Raises:
        OSError: the file, or the rest of it, cannot be read; everything before has been yielded.
    """
    with pa.input_stream(path) as stream:
        if multiline:
            yield from _quoted_lines(stream, portion_bytes)
            return
        part = part or FilePart()
        if begin == 0 and part.begin:
            begin = _next_line(stream, part.begin, portion_bytes)
        elif begin:
            stream.seek(begin)
        part.lines = line - 1
        if part.end is None or begin < part.end:
            yield from _plain_lines(stream, portion_bytes, part, begin)


def read_header(path: str) -> tuple[str, list[int], int] | None:
    """The first line of a file that is not blank, where that line and those before it begin, and where it ends; None:
    there is none."""
    with open(path, "rb") as file:
        starts, at = [], 0
        for line in file:
            starts.append(at)
            at += len(line)
            text = line.removeprefix(MARK) if len(starts) == 1 else line
            if text.rstrip(b"\n") not in (b"", b"\r"):
                return text.rstrip(b"\n").decode("utf-8", "replace").rstrip("\r"), starts, at
    return None


def is_utf8(text: pa.Buffer) -> bool:
    ends = pa.py_buffer(np.array([0, text.size], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, ends, text]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _next_line(stream: pa.NativeFile, begin: int, portion_bytes: int) -> int:
    """Where the first line begins that does not begin before a byte; the stream is there afterwards."""
    at = begin - 1
    stream.seek(at)
    size = 4096
    while len(text := stream.read(size)):
        found = text.find(b"\n")
        if found >= 0:
            stream.seek(at + found + 1)
            return at + found + 1
        at, size = at + len(text), portion_bytes
    return at


def _plain_lines(stream: pa.NativeFile, portion_bytes: int, part: FilePart, begin: int) -> Iterator[Lines]:
    """Every line is a record. Text is not copied: what follows the last line end of a portion is read again, where a
    file allows that."""
    rest, repeats = pa.py_buffer(b""), stream.seekable()
    problem: OSError | None = None
    at, end = begin, part.end
    while end is None or at < end:
        try:
            portion = stream.read_buffer(portion_bytes)
        except OSError as found:
            problem, portion = found, pa.py_buffer(b"")
        data = pa.py_buffer(rest.to_pybytes() + portion.to_pybytes()) if len(rest) else portion
        if at == 0 and not len(rest):
            data, at = _without_mark(data)
            # The first line begins with these bytes.
            end = end if end is None else max(end, at + 1)
        if not len(portion):
            break
        cut = _last_line_end(data if end is None else _before(data, end - at))
        whole, rest = data.slice(0, cut), data.slice(cut)
        if not cut:
            continue
        at += cut
        lines, passed = _whole_lines(whole, part.lines + 1)
        part.lines += passed
        yield lines
        if repeats and len(rest):
            stream.seek(-len(rest), os.SEEK_CUR)
            rest = pa.py_buffer(b"")
    # A cut-off last line of a broken file is not a record: its end is not known.
    if len(rest) and problem is None and (end is None or at < end):
        lines, passed = _whole_lines(pa.py_buffer(rest.to_pybytes() + b"\n"), part.lines + 1)
        part.lines += passed
        yield lines
    if problem is not None:
        raise problem


def _before(data: pa.Buffer, end: int) -> pa.Buffer:
    """The lines that begin before a place in a buffer, which begins with a line."""
    if end >= len(data):
        return data
    size = 4096
    for low in range(max(end - 1, 0), len(data), size):
        found = data.slice(low, min(size, len(data) - low)).to_pybytes().find(b"\n")
        if found >= 0:
            return data.slice(0, low + found + 1)
    return data


def _quoted_lines(stream: pa.NativeFile, portion_bytes: int) -> Iterator[Lines]:
    """Line ends between double quotes belong to a record."""
    rest, line = b"", 1
    problem: OSError | None = None
    while True:
        try:
            portion = stream.read(portion_bytes)
        except OSError as found:
            problem, portion = found, b""
        if line == 1 and not rest:
            portion = portion.removeprefix(MARK)
        data = rest + portion if rest else portion
        if portion:
            newlines, breaks = _breaks(data, True)
            if not len(breaks) and len(data) > _LONGEST:
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
            newlines, breaks = _breaks(whole, True)
            if len(whole) and not len(breaks):
                breaks = newlines[-1:]
        if len(whole):
            yield _records(whole, newlines, breaks, line)
            line += len(newlines)
        if not portion:
            break
    if problem is not None:
        raise problem


def _without_mark(data: pa.Buffer) -> tuple[pa.Buffer, int]:
    """The text without the bytes that say that it is UTF-8, and how many these are."""
    # A copy, which begins at the address of a word as `survey` wants it.
    if bytes(memoryview(data)[: len(MARK)]) != MARK:
        return data, 0
    return pa.py_buffer(data.slice(len(MARK)).to_pybytes()), len(MARK)


def _last_line_end(data: pa.Buffer) -> int:
    """The place after the last line end; 0 where there is none."""
    end, size = len(data), 4096
    while end > 0:
        begin = max(end - size, 0)
        found = data.slice(begin, end - begin).to_pybytes().rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end, size = begin, 2 * size
    return 0


def _whole_lines(data: pa.Buffer, line: int) -> tuple[Lines, int]:
    """Records of whole lines, and how many lines they are with the blank ones."""
    newlines, plain, hexadecimal, blank = survey(np.frombuffer(data, np.uint8))
    if not blank:
        return Lines(data, None, newlines, line, plain=plain, hexadecimal=hexadecimal), newlines
    breaks = _breaks(data, False)[0]
    return _records(data, breaks, breaks, line), newlines


def _breaks(data: bytes | pa.Buffer, multiline: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where lines end, and where records end: there, or with multiline only after an even number of quotes."""
    letters = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(letters == _NEWLINE)
    if not multiline or not len(newlines):
        return newlines, newlines
    quotes = np.flatnonzero(letters == _QUOTE)
    return newlines, newlines[np.searchsorted(quotes, newlines) % 2 == 0]


def _records(data: bytes | pa.Buffer, newlines: np.ndarray, breaks: np.ndarray, line: int) -> Lines:
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
    return Lines(data, _Places(starts, breaks, numbers), len(starts))


def _compact(data: bytes | pa.Buffer, starts: np.ndarray, ends: np.ndarray, numbers: np.ndarray) -> Lines:
    """The same without blank lines, so that what a parser counts are the records."""
    text = memoryview(data)
    kept = b"".join([text[a : b + 1] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)])
    lengths = ends + 1 - starts
    fresh = np.concatenate(([0], np.cumsum(lengths)[:-1])) if len(lengths) else lengths
    return Lines(kept, _Places(fresh, fresh + (ends - starts), numbers), len(fresh))
