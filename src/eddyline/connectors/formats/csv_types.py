"""Types of CSV values, given while they are parsed.

Answer   `Typed.checked` gives a stretch of records with the declared types where all values fit them. The rows are
         equal to those that `conform` makes of the text. Of any other stretch it gives None, and the caller reads the
         values as text. Columns of text that no query reads are left out.
State    A file in which a stretch did not fit is not tried again.
Limits   Only where no column has another type than STRING, integers, DOUBLE, DATE and TIMESTAMP. Arrow parses
         a value in a file and casts it from text alike, except numbers such as 0x10 and nan(1); those are detected, and
         their stretch is taken as text. So is a stretch with a null time, or with one before the year 1: it may have a
         bad row.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from eddyline.connectors.formats.conform import EARLIEST, LATEST, find_column
from eddyline.connectors.formats.lines import MARK, Lines
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.schema import Schema

#: Types that Arrow's parser may give.
_DIRECT = ("INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP")


class Typed:
    """What the parser is asked for in one file.

    Args:
        names: the columns of the file.
        schema: what is declared.
        columns: declared columns that queries need; None: all.
    """

    def __init__(self, names: list[str], schema: Schema, columns: frozenset[str] | None) -> None:
        found = {column.name: find_column(names, column.name) for column in schema.columns}
        # Each declared column is one of the file's, and each name of the file is there once.
        self._may_parse_typed = all(place >= 0 for place in found.values()) and len(set(names)) == len(names)
        kinds = {names[found[column.name]]: column.type for column in schema.columns if found[column.name] >= 0}
        types = {name: kind.arrow if kind.name in _DIRECT else pa.string() for name, kind in kinds.items()}
        #: Columns of integers that are times, where the stream says their unit. A file with other times is read as text.
        self._unit = schema.time_unit
        self._counted = [name for name, kind in kinds.items() if kind == TIMESTAMP and self._unit is not None]
        types |= dict.fromkeys(self._counted, pa.int64())
        text = {column.name for column in schema.columns if column.type.name == "STRING"}
        needed = [names[found[name]] for name in schema.names if columns is None or name in columns or name not in text]
        self._integers = bool(self._counted) or any(kind.name in ("INT", "BIGINT") for kind in kinds.values())
        # A value of another type may fail conversion later, when its text is gone.
        self._may_parse_typed &= all(kind.name in (*_DIRECT, "STRING") for kind in kinds.values())
        self._projects = len(needed) < len(types)
        self._whole, self._part = (converting(types, chosen) for chosen in (list(types), needed))

    def takes(self, lines: Lines) -> bool:
        """Whether to try at all."""
        return self._may_parse_typed and not (self._integers and lines.hexadecimal)

    def projects(self, lines: Lines) -> bool:
        """Whether columns are left out: only where all text is ASCII, because text that is not UTF-8 makes a row
        bad."""
        return self._projects and lines.plain

    def checked(self, parse: Callable[[pa.csv.ConvertOptions], pa.Table], lines: Lines) -> pa.Table | None:
        """The rows in their types; nothing where some value may not fit."""
        try:
            table = self._with_times(parse(self._part if self.projects(lines) else self._whole))
        except pa.ArrowInvalid:
            table = None
        self._may_parse_typed = table is not None and all(_certain(column) for column in table.columns)
        return table if self._may_parse_typed else None

    def _with_times(self, table: pa.Table) -> pa.Table:
        """The table with times in place of integers.

        Raises:
            pa.ArrowInvalid: one of them is no time of a row.
        """
        for place, name in enumerate(table.column_names):
            if name in self._counted:
                instants = pc.cast(
                    table.column(place).cast(pa.timestamp(self._unit)),
                    options=pc.CastOptions(TIMESTAMP.arrow, allow_time_truncate=True),
                )
                if len(instants) and (pc.max(instants.cast(pa.int64())).as_py() or 0) > LATEST:
                    raise pa.ArrowInvalid("a time lies after the year 9999")
                table = table.set_column(place, name, instants)
        return table


def converting(types: dict[str, pa.DataType], chosen: list[str]) -> pa.csv.ConvertOptions:
    """How values become the types of their columns, of which some are chosen: an empty value is null, `""` is empty
    text."""
    return pa.csv.ConvertOptions(
        column_types=types,
        include_columns=chosen,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _certain(column: pa.ChunkedArray) -> bool:
    """Whether no value of a column could be read in another way, or make its row bad."""
    if pa.types.is_timestamp(column.type):
        return not column.null_count and (not len(column) or pc.min(column.cast(pa.int64())).as_py() >= EARLIEST)
    if pa.types.is_floating(column.type):
        return not pc.any(pc.is_nan(column)).as_py()
    return True


def enclosed_text(lines: Lines, low: int, high: int, delimiter: str) -> pa.Buffer:
    """The text of some records, of which Arrow reads the first and the last as it reads those between others.

    It leaves out a mark of UTF-8 where the text begins. Where the text ends with an empty value after one in quotes, it
    takes that value for one in quotes too."""
    text = lines.buffer(low, high)
    if bytes(text.slice(0, min(len(MARK), text.size))) == MARK:
        text = pa.py_buffer(MARK + text.to_pybytes())
    ending = f'"{delimiter}'.encode()
    if text.size > len(ending) and bytes(text.slice(text.size - len(ending))) == ending:
        last = bytes(memoryview(lines.data)[int(lines.starts[high - 1]) : int(lines.ends[high - 1])])
        # A value in quotes begins with one; within other values a quote is a letter.
        begins = rb"(^|" + re.escape(delimiter.encode()) + rb')"'
        if not re.search(begins, re.sub(begins + rb'(?:[^"]|"")*"', rb"\1", last)):
            text = pa.py_buffer(text.to_pybytes() + b"\n")
    return text
