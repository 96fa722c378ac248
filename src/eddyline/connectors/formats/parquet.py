"""Parquet files as blocks of rows.

Answer   Rows of a file from any row number on, decoded a stretch at a time whatever the size of its row groups. Whole
         row groups before the wanted row are left out by their metadata, and those that no query can use by their
         statistics (`row_groups.py`).
Limits   Only needed columns are decoded, provided that no other column could make a row bad: which rows are readable
         never depends on what a query asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.connectors.files.blocks import Asked, FileReading, RecordBlock
from eddyline.connectors.files.parts import FilePart
from eddyline.connectors.formats.conform import bad_row, find_column
from eddyline.connectors.formats.row_groups import GroupFacts, keeps_order
from eddyline.connectors.formats.valid_text import with_valid_text
from eddyline.connectors.guarded.blocks_apart import blocks_apart
from eddyline.connectors.guarded.parsing_marks import UNMARKED
from eddyline.model.schema import Schema
from eddyline.operators.sharing.skipping import Stretch
from eddyline.tuning import InputTuning

PLAIN = InputTuning()


def read_parquet(reading: FileReading, *, tuning: InputTuning = PLAIN) -> Iterator[RecordBlock]:
    """The rows of one file, or of a part of it."""
    file, schema, first, marks, part = reading.file, reading.schema, reading.first, reading.marks, reading.part
    suspect = marks.suspects()
    if suspect:
        # Up to the last row with which a process has died; what comes after it is read as ever.
        end = max(low + count for low, count in suspect)
        if end > first:
            reader = partial(_rows_from, replace(reading, marks=UNMARKED, skipping=None), tuning)
            if (yield from blocks_apart(reader, file, schema, first, end, marks)):
                yield from read_parquet(replace(reading, first=end), tuning=tuning)
            return
    row = first
    try:
        # Mapped files would crash the process when cut short while they are read; plain reads only fail.
        with marks.parsing(first, tuning.parquet_rows):
            opened = pq.ParquetFile(file.path, pre_buffer=False)
        with opened:
            groups, skip, row = _groups_from(opened.metadata, first, part or FilePart())
            names, projected = _projection(opened.schema_arrow, schema, reading.columns)
            for run, stretch in _runs(opened, groups, skip, schema, reading.skipping):
                if stretch is not None:
                    yield RecordBlock(row, stretch.rows, skipped=stretch)
                    row += stretch.rows
                    continue
                batches = opened.iter_batches(tuning.parquet_rows, row_groups=run, columns=names, use_threads=False)
                while True:
                    with marks.parsing(row, tuning.parquet_rows):
                        batch = next(batches, None)
                    if batch is None:
                        break
                    if skip >= batch.num_rows:
                        skip -= batch.num_rows
                        continue
                    rows = with_valid_text(pa.Table.from_batches([batch.slice(skip)]).replace_schema_metadata(None))
                    skip = 0
                    yield RecordBlock(row, rows.num_rows, rows, projected=projected)
                    row += rows.num_rows
            if part is not None and opened.metadata.num_row_groups < (part.end or part.begin):
                row = min(row, opened.metadata.num_rows)
                raise ValueError(f"it has {opened.metadata.num_row_groups} row groups, fewer than when it was listed")
    except (pa.ArrowException, OSError, ValueError) as problem:
        yield RecordBlock(
            row, 1, bad=bad_row(schema, f"{file.shown} cannot be read{_from(row)}: {first_line(problem)}"), last=True
        )


def _rows_from(reading: FileReading, tuning: InputTuning, row: int) -> Iterator[RecordBlock]:
    return read_parquet(replace(reading, first=row), tuning=tuning)


def _from(row: int) -> str:
    return f" from row {row + 1} on" if row else ""


def first_line(problem: BaseException) -> str:
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


def _groups_from(metadata: pq.FileMetaData, first: int, part: FilePart) -> tuple[list[int], int, int]:
    """The row groups of a part that hold row `first` and later ones, how many rows to leave out of the first of them,
    and the number of the first row that is read.

    A part says by its row groups where it begins: who cut it may not have known the rows before it."""
    last = metadata.num_row_groups if part.end is None else min(part.end, metadata.num_row_groups)
    rows = [metadata.row_group(group).num_rows for group in range(last)]
    first = max(first, sum(rows[: part.begin]))
    skip = first
    for group in range(last):
        if skip < rows[group]:
            return list(range(group, last)), skip, first
        skip -= rows[group]
    return [], 0, first


def _runs(
    opened: pq.ParquetFile, groups: list[int], skip: int, schema: Schema, skipping: Asked | None
) -> Iterator[tuple[list[int], Stretch | None]]:
    """Row groups that are read one after another, and, each by itself, those that are skipped.

    Args:
        skip: How many rows of the first one have been taken: then it is read.
        skipping: None: all groups are read.
    """
    run: list[int] = []
    if skipping is not None:
        facts = GroupFacts(opened.metadata, opened.schema_arrow, schema)
        for group in groups:
            said = None if skip and group == groups[0] else skipping()
            stretch = None if said is None else facts.skipped(group, said)
            if stretch is None:
                run.append(group)
            if run and (stretch is not None or said is None):
                # Before the next group is read, what is said may have changed.
                yield run, None
                run = []
            if stretch is not None:
                yield [group], stretch
        groups = run
    if groups:
        yield groups, None


def _projection(present: pa.Schema, schema: Schema, columns: frozenset[str] | None) -> tuple[list[str], bool]:
    """The columns to decode, and whether some were left out: none is where one is missing or of a doubtful type."""
    found = {c.name: find_column(present.names, c.name) for c in schema.columns}
    projected = columns is not None and all(
        found[c.name] >= 0 and keeps_order(present.field(found[c.name]).type, c.type)
        for c in schema.columns
        if c.name not in columns
    )
    if columns is not None and projected:
        found = {name: index for name, index in found.items() if name in columns}
    # With none of the declared columns in the file its rows still count, and each is bad.
    return [present.names[index] for index in found.values() if index >= 0] or present.names[:1], projected
