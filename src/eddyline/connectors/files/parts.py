"""Parts of a file that are read apart from each other.

Answer   A `FilePart` is a range of bytes of a text file, or a range of row groups of a parquet file. `is_divisible` says
         whether files of a stream may be read in parts; `text_parts` and `group_parts` cut one. Parts that follow one
         another have together the records of the whole file, in its order.
State    `row_groups` keeps those of the files that it was asked for last.
Limits   A line belongs to the part in which its first byte lies, so cuts may lie anywhere. Only a file in which every
         line is one record is cut: csv without `multiline`, and jsonl, not compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

#: Endings of text files that are compressed: Arrow goes by them too.
PACKED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass
class FilePart:
    #: The first byte or row group.
    begin: int = 0
    #: Where the next part begins; None: the part goes to the end of the file.
    end: int | None = None
    #: Rows of the file before it, where they are known: in parquet.
    first: int = 0
    #: Bytes that a text file has, unless it has become shorter since the part was cut; 0: it is not known.
    least: int = 0
    #: How many lines begin in it; known once it has been read.
    lines: int = 0


class RowGroup(NamedTuple):
    rows: int
    #: Its share of the bytes of the file.
    size: int


def is_divisible(options: Mapping[str, str], name: str) -> bool:
    """Whether a file of a stream with these options may be read in parts."""
    kind = _kind(options)
    if kind == "csv" and str(options.get("multiline", "false")).strip().lower() in ("true", "yes", "on", "1"):
        return False
    return kind == "parquet" or (kind in ("csv", "jsonl") and not name.lower().endswith(PACKED))


def by_groups(options: Mapping[str, str]) -> bool:
    """Whether parts are counted in row groups."""
    return _kind(options) == "parquet"


def _kind(options: Mapping[str, str]) -> str:
    return str(options.get("format", "parquet")).strip().lower()


@lru_cache(maxsize=64)
def row_groups(path: str, size: int, changed: int) -> tuple[RowGroup, ...]:
    """The row groups of a parquet file, each with its share of the file's bytes; none where they cannot be read.

    Args:
        path: of the file.
        size: of the file, in bytes.
        changed: when it changed last: a file that was written anew is another one.
    """
    import pyarrow as pa  # processes that plan batches load it when a file must be cut
    import pyarrow.parquet as pq

    try:
        found = pq.read_metadata(path)
    except (pa.ArrowException, OSError, ValueError):
        return ()
    rows = [found.row_group(number).num_rows for number in range(found.num_row_groups)]
    total = max(sum(rows), 1)
    return tuple(RowGroup(count, size * count // total) for count in rows)


def text_parts(begin: int, end: int | None, size: int, most: int) -> Iterator[tuple[FilePart, int]]:
    """A range of bytes of a text file in about equal parts of at most `most` bytes, each with its bytes."""
    whole = max((size if end is None else end) - begin, 0)
    count = max(-(-whole // most), 1)
    cuts = [begin + whole * number // count for number in range(count)]
    for low, high in zip(cuts, [*cuts[1:], None], strict=True):
        yield FilePart(low, end if high is None else high), (begin + whole if high is None else high) - low


def group_parts(groups: tuple[RowGroup, ...], begin: int, end: int | None, most: int) -> Iterator[tuple[FilePart, int]]:
    """A range of row groups in parts of at most `most` bytes, at least one group each."""
    last = len(groups) if end is None else min(end, len(groups))
    low, size, first = begin, 0, sum(group.rows for group in groups[:begin])
    rows = 0
    for number in range(begin, last):
        if number > low and size + groups[number].size > most:
            yield FilePart(low, number, first), size
            low, size, first, rows = number, 0, first + rows, 0
        size += groups[number].size
        rows += groups[number].rows
    yield FilePart(low, end, first), size
