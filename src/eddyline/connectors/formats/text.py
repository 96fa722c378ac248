"""CSV and JSON files as blocks of rows, and lines that are neither as bad rows.

Answer   Whole stretches of lines are parsed by Arrow. Where a stretch is refused it is halved until the broken lines
         stand alone; each becomes a bad row with its line number, its text kept in the first column.
         CSV values get their types while they are parsed where that gives what `conform` makes of their text, and
         columns that no query reads are left out where they cannot make a row bad (`csv_types.py`).
Limits   Other CSV values are text until `conform` gives them their types; an empty value is null, `""` is empty text.
         JSON keys match exactly, a missing key is null; a value of another JSON type is taken as its text. A JSON
         document (an array, or objects over several lines) is read whole, for small files.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from eddyline.connectors.files.ahead import side_by_side
from eddyline.connectors.files.blocks import FileReading, RecordBlock
from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.files.parts import FilePart
from eddyline.connectors.formats.conform import bad_row, bad_schema, conform, find_column
from eddyline.connectors.formats.csv_types import Typed, converting, enclosed_text
from eddyline.connectors.formats.json_values import DEEPEST, OPENING, decode, documents, json_text
from eddyline.connectors.formats.lines import Lines, is_utf8, read_header, read_lines
from eddyline.connectors.formats.nested import json_face
from eddyline.connectors.formats.parquet import PLAIN, first_line
from eddyline.connectors.formats.python_values import column_of
from eddyline.connectors.guarded.apart import in_child
from eddyline.connectors.guarded.blocks_apart import blocks_apart
from eddyline.connectors.guarded.parsing_marks import FileMarks
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.schema import Column, Schema
from eddyline.tuning import InputTuning

log = logging.getLogger(__name__)


class Parsed(NamedTuple):
    rows: pa.Table
    #: Records that are no rows: their number within the lines and what is wrong.
    refused: list[tuple[int, str]]
    #: All rows fit their declaration: none of them needs the number of its line.
    fitting: bool = False
    #: Columns that no query reads were left out.
    projected: bool = False


#: Types for which a JSON number and a JSON text of the same digits are read differently.
_TYPED = ("BOOLEAN", "TIMESTAMP")
#: Parses the records from one number to another; raises ValueError where rows cannot be separated.
Parse = Callable[[Lines, int, int], Parsed]


@dataclass(frozen=True, slots=True)
class Parser:
    #: For whole stretches.
    parse: Parse
    #: For what `parse` refuses, at most `few` records at a time.
    careful: Parse
    few: int
    #: Makes the same in another process.
    recipe: Callable[[], Parser]


def read_csv(
    reading: FileReading,
    *,
    delimiter: str = ",",
    header: bool = True,
    multiline: bool = False,
    tuning: InputTuning = PLAIN,
) -> Iterator[RecordBlock]:
    """The records of a CSV file, or of a part of it; the header is not counted as a record."""
    file, schema, part = reading.file, reading.schema, reading.part
    # A file that was begun in parts is finished in parts.
    multiline = multiline and part is None
    make = partial(_csv_parser, schema=schema, columns=reading.columns, delimiter=delimiter, multiline=multiline)
    empty = "it is empty, where a header line was expected"

    def named(text: str) -> Parser:
        return make([name.strip() for name in next(csv.reader([text], delimiter=delimiter))])

    def stretches() -> Iterator[tuple[Lines, Parser]]:
        parser = None if header else make(list(schema.names))
        for lines in read_lines(file.path, tuning.text_bytes, multiline, part):
            if parser is None and len(lines):
                parser = named(lines.text(0))
                lines = lines.part(1, len(lines))
            if parser is not None:
                yield lines, parser
        if parser is None:
            raise ValueError(empty)

    def stretches_of_part(part: FilePart) -> Iterator[tuple[Lines, Parser]]:
        found = read_header(file.path)
        if found is not None:
            parser, begins, end = named(found[0]), found[1], found[2]
            passed = sum(part.begin <= begin < (end if part.end is None else part.end) for begin in begins)
            for lines in read_lines(
                file.path, tuning.text_bytes, part=part, begin=end if end > part.begin else 0, line=1 + passed
            ):
                yield lines, parser
        elif part.begin == 0:
            raise ValueError(empty)

    if part is not None and header:
        return _blocks(reading, stretches_of_part(part), tuning.threaded_bytes)

    return _blocks(reading, stretches(), tuning.threaded_bytes)


def read_json(reading: FileReading, *, document: bool = False, tuning: InputTuning = PLAIN) -> Iterator[RecordBlock]:
    """The records of a file, or of a part of it, with one JSON object per line; with `document`, also of arrays and
    objects over several lines."""
    file, schema, first, marks = reading.file, reading.schema, reading.first, reading.marks
    if document and not _starts_with_a_line(file, tuning):
        reader = partial(_read_document, file, schema)
        return blocks_apart(reader, file, schema, first, 1 << 62, marks) if marks.suspects() else reader(first)
    parser = _json_parser(schema)
    stretches = ((lines, parser) for lines in read_lines(file.path, tuning.text_bytes, part=reading.part))
    return _blocks(reading, stretches, tuning.threaded_bytes)


def _blocks(reading: FileReading, stretches: Iterator[tuple[Lines, Parser]], large: int) -> Iterator[RecordBlock]:
    """Records as blocks. If the remainder of the file cannot be read, it is one bad row. Several cores parse stretches
    of at least `large` bytes."""
    file, schema, marks = reading.file, reading.schema, reading.marks
    record = reading.first

    def made(stretch: _Stretch) -> tuple[int, list[RecordBlock]]:
        at, lines, parser, suspect = stretch
        if suspect:
            parts = _parts_apart(file, schema, stretch, marks)
        else:
            with marks.parsing(at, len(lines)):
                parts = list(_parts(lines, parser, 0, len(lines)))
        return at + len(lines), [
            _block(file, schema, lines, at + low, low, high, parsed) for low, high, parsed in parts
        ]

    try:
        for end, blocks in side_by_side(
            _numbered(stretches, reading.first, marks), made, lambda stretch: len(stretch.lines.data) >= large
        ):
            yield from blocks
            record = end
    except (OSError, ValueError, csv.Error) as problem:
        place = f" after record {record}" if record else ""
        yield RecordBlock(
            record, 1, bad=bad_row(schema, f"{file.shown} cannot be read{place}: {first_line(problem)}"), last=True
        )


class _Stretch(NamedTuple):
    #: The number of its first record.
    at: int
    lines: Lines
    parser: Parser
    #: A process has died that was parsing it.
    suspect: bool


def _numbered(stretches: Iterator[tuple[Lines, Parser]], first: int, marks: FileMarks) -> Iterator[_Stretch]:
    """Stretches without the records before number `first`, cut where suspect records begin and end."""
    at = 0
    for lines, parser in stretches:
        end = at + len(lines)
        if end > first:
            start = max(at, first)
            suspects = [(low, low + count) for low, count in marks.suspects() if low < end and low + count > start]
            cuts = sorted(
                {start, end, *(max(low, start) for low, _ in suspects), *(min(high, end) for _, high in suspects)}
            )
            for low, high in pairwise(cuts):
                yield _Stretch(
                    low, lines.part(low - at, high - at), parser, any(a <= low and high <= b for a, b in suspects)
                )
        at = end


def _parts_apart(file: DataFile, schema: Schema, stretch: _Stretch, marks: FileMarks) -> list[tuple[int, int, Parsed]]:
    """The same as `_parts` of all lines, by a child process; lines that end it alone are refused."""
    at, lines = stretch.at, stretch.lines
    made, fatal, deaths = in_child(partial(_parse_range, stretch.parser.recipe, lines, schema), len(lines))
    # Lines that pass one by one can still end the process together, so the whole stretch stays suspect.
    marks.parsed_apart(at, at + len(lines), [(at, len(lines))] if deaths else [])
    parts = [part for _, _, parts in made for part in parts]
    for record, name in fatal.items():
        log.warning(
            "%s line %d ends every process that parses it (%s): it is a dead letter",
            file.shown,
            lines.numbers[record],
            name,
        )
        parts.append(
            (
                record,
                record + 1,
                Parsed(pa.table({}), [(record, f"the parser ends its process with this line: {name}")]),
            )
        )
    return sorted(parts, key=lambda part: part[0])


def _parse_range(
    recipe: Callable[[], Parser], lines: Lines, schema: Schema, low: int, high: int
) -> Iterator[tuple[int, int, Parsed]]:
    for part in _parts(lines, recipe(), low, high):
        # The parent converts the values later. The child converts them first, so that a crash ends only the child.
        conform(part[2].rows, schema, "", 0)
        yield part


def _parts(lines: Lines, parser: Parser, low: int, high: int) -> Iterator[tuple[int, int, Parsed]]:
    """The records from one number to another, or their halves where these are refused, in order."""
    pending = [(low, high)] if high > low else []
    while pending:
        low, high = pending.pop()
        few = high - low <= parser.few
        try:
            parsed = (parser.careful if few else parser.parse)(lines, low, high)
            if parsed.rows.num_rows + len(parsed.refused) != high - low:
                raise ValueError("the line is not one record")
            yield low, high, parsed
        except ValueError as problem:
            if high - low > 1:
                middle = (low + high) // 2
                pending += [(middle, high), (low, middle)]
            else:
                yield low, high, Parsed(pa.table({}), [(low, first_line(problem))])


def _block(
    file: DataFile, schema: Schema, lines: Lines, first: int, low: int, high: int, parsed: Parsed
) -> RecordBlock:
    rows, refused = parsed.rows, parsed.refused
    if parsed.fitting:
        return RecordBlock(first, high - low, rows, projected=parsed.projected)
    if not refused:
        return RecordBlock(first, high - low, rows, numbers=lines.numbers[low:high], unit="line")
    wrong = np.array([record for record, _ in refused])
    bad = _bad_rows(
        schema,
        [f"{file.shown} line {lines.numbers[record]}: {problem}" for record, problem in refused],
        [lines.text(record) for record, _ in refused],
    )
    if len(refused) == high - low:
        return RecordBlock(first, high - low, bad=bad)
    places = np.setdiff1d(np.arange(high - low), wrong - low)
    return RecordBlock(first, high - low, rows, bad, lines.numbers[low + places], places, wrong - low, "line")


def _bad_rows(schema: Schema, reasons: list[str], texts: list[str | None]) -> pa.Table:
    others = [pa.nulls(len(texts), pa.string())] * (len(schema.names) - 1)
    reason = pa.array([f"bad: {r}" for r in reasons], pa.string())
    return pa.Table.from_arrays([pa.array(texts, pa.string()), *others, reason], schema=bad_schema(schema))


def _csv_parser(
    names: list[str], schema: Schema, columns: frozenset[str] | None, delimiter: str, multiline: bool
) -> Parser:
    found = [find_column(names, name) for name in schema.names]
    kept = [names[i] for i in found if i >= 0] or names[:1]
    as_text = converting({name: pa.string() for name in names}, kept)
    typed = Typed(names, schema, columns)

    def rows(lines: Lines, low: int, high: int, refused: list[tuple[int, str]], options: Any) -> pa.Table:
        def refuse(row: Any) -> str:
            refused.append(
                (low + row.number - 1, f"it has {row.actual_columns} values where {row.expected_columns} were expected")
            )
            return "skip"

        text = enclosed_text(lines, low, high, delimiter)
        # Arrow decodes a refused row before it calls the handler, and prints the error where that fails: without a
        # handler it raises.
        valid = lines.plain or is_utf8(text)
        reading = pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=max(text.size + 1, 1024))
        parsing = pyarrow.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=multiline, invalid_row_handler=refuse if valid else None
        )
        return pyarrow.csv.read_csv(pa.BufferReader(text), reading, parsing, options)

    def careful(lines: Lines, low: int, high: int) -> Parsed:
        refused: list[tuple[int, str]] = []
        if high - low == 1 and not lines.plain and not is_utf8(lines.buffer(low, high)):
            # Replacing invalid bytes by U+FFFD does not change the number of values.
            rows(Lines(lines.text(low).encode() + b"\n", None, 1), 0, 1, refused, as_text)
            if refused:
                return Parsed(pa.table({}), [(low, refused[0][1])])
        return Parsed(rows(lines, low, high, refused, as_text), refused)

    def parse(lines: Lines, low: int, high: int) -> Parsed:
        if not multiline and lines.may_be_cut_anew(low, high):
            raise ValueError("a line may not be one record")
        refused: list[tuple[int, str]] = []
        if not multiline and typed.takes(lines):
            table = typed.checked(lambda options: rows(lines, low, high, refused, options), lines)
            if table is not None and not refused and table.num_rows == high - low:
                return Parsed(table, [], fitting=True, projected=typed.projects(lines))
        return careful(lines, low, high)

    return Parser(parse, careful, 1, partial(_csv_parser, names, schema, columns, delimiter, multiline))


def _json_parser(schema: Schema) -> Parser:
    faces = pa.schema([(c.name, json_face(c.type)) for c in schema.columns])
    # Times are texts or integers; which of them a file has is known once one of the two has been parsed.
    whole = pa.schema(
        [
            (face.name, pa.int64() if c.type == TIMESTAMP else face.type)
            for c, face in zip(schema.columns, faces, strict=True)
        ]
    )
    ways = [
        pyarrow.json.ParseOptions(explicit_schema=way, unexpected_field_behavior="ignore")
        for way in ([faces] if whole == faces else [faces, whole])
    ]

    def read(text: pa.Buffer) -> pa.Table:
        reading = pyarrow.json.ReadOptions(use_threads=False, block_size=text.size + 1024)
        first, *others = tried = tuple(ways)
        try:
            return pyarrow.json.read_json(pa.BufferReader(text), reading, first)
        except pa.ArrowInvalid:
            if not others:
                raise
        found = pyarrow.json.read_json(pa.BufferReader(text), reading, others[0])
        ways[:] = reversed(tried)
        return found

    def parse(lines: Lines, low: int, high: int) -> Parsed:
        # Arrow's parser ends the process where the first value is `null`. It takes values, not lines: only where every
        # line begins with `{` and ends with `}` are as many rows as lines one row per line.
        objects = lines.enclosed(b"{}", low, high)
        if not objects.all():
            others = low + np.flatnonzero(~objects)
            refused = _json_records(lines, others.tolist(), schema).refused
            kept = lines.only(low + np.flatnonzero(objects))
            return Parsed(parse(kept, 0, len(kept)).rows if len(kept) else _json_rows([], schema), refused)
        text = lines.buffer(low, high)
        if lines.has_many(OPENING, DEEPEST, low, high):
            raise ValueError("a line may be nested too deep")
        if not (lines.plain or is_utf8(text)):  # the parser does not look
            raise ValueError("a line is not UTF-8 text")
        return Parsed(read(text), [])

    return Parser(
        parse,
        lambda lines, low, high: _json_records(lines, range(low, high), schema),
        64,
        partial(_json_parser, schema),
    )


def _json_records(lines: Lines, records: Iterable[int], schema: Schema) -> Parsed:
    """A few lines one by one, with every value as text: what `conform` cannot read then makes its row bad."""
    values: list[dict[str, Any]] = []
    refused: list[tuple[int, str]] = []
    for record in records:
        text = lines.text(record)
        try:
            if "\ufffd" in text:
                raise ValueError("the line is not UTF-8 text")
            value = decode(text)
            if not isinstance(value, dict):
                raise ValueError("a JSON object was expected")
            values.append(value)
        except ValueError as problem:
            refused.append((record, first_line(problem)))
    return Parsed(_json_rows(values, schema), refused)


def _json_rows(values: list[dict[str, Any]], schema: Schema) -> pa.Table:
    return pa.table(
        {column.name: _json_column([v.get(column.name) for v in values], column) for column in schema.columns}
    )


def _json_column(values: list[Any], column: Column) -> pa.Array:
    if column.type.name in _TYPED:
        return column_of(values, column.type, None)
    return pa.array([json_text(value) for value in values], pa.string())


def _starts_with_a_line(file: DataFile, tuning: InputTuning) -> bool:
    """Whether a file of format json holds one object per line."""
    try:
        lines = next(read_lines(file.path, tuning.text_bytes), None)
        return lines is None or not len(lines) or isinstance(decode(lines.text(0)), dict)
    except (OSError, ValueError):
        return False


def _read_document(file: DataFile, schema: Schema, first: int) -> Iterator[RecordBlock]:
    record = 0
    try:
        with pa.input_stream(file.path) as stream:
            text = stream.read().decode("utf-8-sig")
        for value in documents(text):
            values = value if isinstance(value, list) else [value]
            skipped = min(len(values), max(0, first - record))
            record += skipped
            if len(values) > skipped:
                yield _document_block(file, schema, record, values[skipped:])
                record += len(values) - skipped
    except (OSError, ValueError) as problem:
        yield RecordBlock(
            max(record, first), 1, bad=bad_row(schema, f"{file.shown} cannot be read: {first_line(problem)}"), last=True
        )


def _document_block(file: DataFile, schema: Schema, record: int, values: list[Any]) -> RecordBlock:
    """Objects as rows, anything else as bad rows."""
    objects = np.array([isinstance(v, dict) for v in values])
    rows = _json_rows([v for v in values if isinstance(v, dict)], schema)
    if objects.all():
        return RecordBlock(record, len(values), rows)
    wrong = np.flatnonzero(~objects)
    reasons = [f"{file.shown} row {record + i + 1}: a JSON object was expected" for i in wrong]
    bad = _bad_rows(schema, reasons, [json_text(values[i]) for i in wrong])
    places = np.flatnonzero(objects)
    return RecordBlock(record, len(values), rows, bad, record + places + 1, places, wrong)
