"""Which reader the options of a stream or table choose.

Answer   `reader_of` gives what reads files of their format. A file that is no regular one, or that has become shorter
         than the part of it that is wanted, ends with a bad row that says so. `is_unfinished` says whether a file seems
         to be still in the writing.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from eddyline.connectors.files.blocks import FileReader, FileReading, RecordBlock
from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.formats.conform import bad_row
from eddyline.connectors.formats.parquet import PLAIN, first_line, read_parquet
from eddyline.connectors.formats.text import read_csv, read_json
from eddyline.connectors.guarded.parsing_marks import UNMARKED, FileMarks
from eddyline.errors import SourceProblem
from eddyline.model.schema import Stream
from eddyline.tuning import InputTuning

FORMATS = ("parquet", "csv", "jsonl", "json")


def reader_of(options: Any, what: str, tuning: InputTuning = PLAIN) -> FileReader:
    """What reads the files of a stream or table with these options."""
    return partial(_read_regular, _reader_of_format(options, what, tuning))


def _read_regular(reader: FileReader, reading: FileReading) -> Iterator[RecordBlock]:
    """What the reader of a format gives; a file that is none is one bad row, and is not opened: a pipe would wait for
    ever."""
    file, part = reading.file, reading.part
    try:
        found = os.stat(file.path)
        problem = "" if stat.S_ISREG(found.st_mode) else "it is no regular file"
    except (OSError, ValueError) as refused:
        problem = first_line(refused)
    if problem:
        return iter([_ended(reading, reading.first, f"cannot be read: {problem}")])
    if part is not None and found.st_size < part.least:
        return _shortened(reader, reading, found.st_size)
    return reader(reading)


def _shortened(reader: FileReader, reading: FileReading, size: int) -> Iterator[RecordBlock]:
    """What is left of a part, and then that the rest of it is gone."""
    record = reading.first
    for block in reader(reading):
        yield block
        record = block.first + block.count
    yield _ended(reading, record, f"cannot be read from byte {size} on: it has become shorter since it was listed")


def _ended(reading: FileReading, record: int, problem: str) -> RecordBlock:
    return RecordBlock(record, 1, bad=bad_row(reading.schema, f"{reading.file.shown} {problem}"), last=True)


def _reader_of_format(options: Any, what: str, tuning: InputTuning) -> FileReader:
    name = str(options.get("format", "parquet")).strip().lower()
    if name == "parquet":
        return partial(read_parquet, tuning=tuning)
    if name == "csv":
        delimiter = str(options.get("delimiter", ","))
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1:
            raise SourceProblem(
                f"{what} has the delimiter {delimiter!r}", hint="a delimiter is one character, or 'tab'"
            )
        return partial(
            read_csv,
            delimiter=delimiter,
            header=_flag(options, "header", True),
            multiline=_flag(options, "multiline", False),
            tuning=tuning,
        )
    if name in ("jsonl", "json"):
        return partial(read_json, document=name == "json", tuning=tuning)
    raise SourceProblem(f"{what} has the unknown format {name!r}", hint=f"formats are {', '.join(FORMATS)}")


def _flag(options: Any, name: str, default: bool) -> bool:
    text = str(options.get(name, default)).strip().lower()
    if text not in ("true", "false", "yes", "no", "on", "off", "1", "0"):
        raise SourceProblem(f"option {name} does not take {text!r}", hint="'true' or 'false'")
    return text in ("true", "yes", "on", "1")


def is_unfinished(stream: Stream, file: DataFile, tuning: InputTuning, marks: FileMarks = UNMARKED) -> bool:
    """Whether a file seems to be still in the writing: it changed a moment ago, and its beginning cannot be read."""
    if not is_young(file, tuning):
        return False
    reader = reader_of(stream.options, f"stream {stream.name}")
    first = next(reader(FileReading(file, stream.schema, marks=marks)), None)
    return first is not None and first.last and first.first == 0


def is_young(file: DataFile, tuning: InputTuning) -> bool:
    """Whether a file changed a moment ago: where it is broken from its start it may still be in the writing."""
    try:
        return abs(time.time() - os.stat(file.path).st_mtime) < tuning.give_up_seconds
    except OSError:
        return False
