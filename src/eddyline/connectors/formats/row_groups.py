"""What the statistics of a parquet file say of its row groups.

Answer   `GroupFacts.skipped` gives the stretch of a row group that need not be read. The statistics are bounds: for
         each column the least and the greatest value, and whether nulls are there.
State    Where each declared column is in the file.
Limits   All declared columns are there, and their values always fit the declared types and keep their order. A column
         of whole numbers without a sign, of half floats or of lists has no bounds; the greatest DOUBLE is none, because
         statistics leave NaN out. Statistics that cannot be read are no statistics.
Reading  docs/formats.md
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.connectors.formats.conform import EARLIEST, LATEST, find_column
from eddyline.model.datatypes import DataType
from eddyline.model.schema import Schema
from eddyline.operators.sharing.column_keys import has_keys, literal_key
from eddyline.operators.sharing.skipping import Skipping, Stretch
from eddyline.operators.sharing.value_sets import KEYS, Span, ValueSet

_FEW_ROWS = "a row group has few rows"
_NO_STATISTICS = "a row group has no statistics of event times"
_DOUBTFUL = "a declared column is missing in a file, or has another type"
_TICKS = {"us": 1, "ns": 1000}


class _Column(NamedTuple):
    #: Its place among the columns of the file that have statistics.
    leaf: int
    #: The type of its values in the file.
    source: pa.DataType
    declared: DataType


class GroupFacts:
    def __init__(self, metadata: pq.FileMetaData, present: pa.Schema, schema: Schema) -> None:
        self._metadata, self._present, self._schema = metadata, present, schema

    @cached_property
    def _columns(self) -> dict[str, _Column] | None:
        """The declared columns that may have statistics; None: one is missing, or its values are doubtful."""
        leaves = {self._metadata.schema.column(place).path: place for place in range(self._metadata.num_columns)}
        columns: dict[str, _Column] = {}
        for column in self._schema.columns:
            found = find_column(self._present.names, column.name)
            if found < 0 or not keeps_order(kind := self._present.field(found).type, column.type):
                return None
            if self._present.names[found] in leaves:
                columns[column.name] = _Column(leaves[self._present.names[found]], _plain(kind), column.type)
        return columns

    def skipped(self, group: int, skipping: Skipping) -> Stretch | None:
        """The stretch of a row group that nothing can use; None: it is read."""
        reason = skipping.problem
        if not reason and self._metadata.row_group(group).num_rows < skipping.least_rows:
            reason = _FEW_ROWS
        if not reason and self._columns is None:
            reason = _DOUBTFUL
        stretch = None if reason else self._stretch(group, skipping)
        if not reason:
            reason = _NO_STATISTICS if stretch is None else skipping.reason(stretch)
        if not reason:
            return stretch
        skipping.counts[reason] += 1
        return None

    def _stretch(self, group: int, skipping: Skipping) -> Stretch | None:
        found = self._metadata.row_group(group)
        try:
            times = self._values(found, skipping.time)
            if times is None or times.null or not times.spans or not found.num_rows:
                return None
            values = {name: known for name in skipping.columns if (known := self._values(found, name)) is not None}
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return None
        least, greatest = times.spans[0][0], times.spans[-1][1] - 1
        if least < EARLIEST or greatest > LATEST:
            return None
        return Stretch(found.num_rows, least, greatest, values)

    def _values(self, group: pq.RowGroupMetaData, name: str) -> ValueSet | None:
        """The values that a column of a row group may have; None: any."""
        place = (self._columns or {}).get(name)
        if place is None:
            return None
        column = group.column(place.leaf)
        known = column.statistics if column.is_stats_set else None
        if known is None:
            return None
        has_null = not known.has_null_count or known.null_count > 0
        if known.has_null_count and known.null_count == group.num_rows:
            return ValueSet((), True)
        span = _span(known, place.source, place.declared) if known.has_min_max else None
        return None if span is None else ValueSet((span,), has_null)


def keeps_order(kind: pa.DataType, declared: DataType) -> bool:
    """Whether values of a type always fit a declared one, and greater ones stay greater or become equal."""
    if kind == declared.arrow or pa.types.is_null(kind):
        return True
    if pa.types.is_dictionary(kind):
        return keeps_order(kind.value_type, declared)
    if declared.name == "TIMESTAMP":
        return pa.types.is_timestamp(kind) and kind.unit in _TICKS
    if declared.name == "DOUBLE":
        return pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if declared.name == "BIGINT":
        return pa.types.is_integer(kind) and kind != pa.uint64()
    return declared.name == "STRING" and (pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _span(known: Any, source: pa.DataType, declared: DataType) -> Span | None:
    """From the cut before the least value to the one after the greatest; None: they are not known."""
    if declared.name == "STRING":
        return ((known.min_raw, 0), (known.max_raw, 1))
    if not has_keys(declared):
        return None
    if pa.types.is_timestamp(source):
        low, high = (_micros(int(raw), _TICKS[source.unit]) for raw in (known.min_raw, known.max_raw))
        return (low, high + 1)
    if declared.name == "DOUBLE":
        if not (pa.types.is_signed_integer(source) or pa.types.is_float32(source) or pa.types.is_float64(source)):
            return None
        low = literal_key(known.min_raw, declared)
        return (low, literal_key(known.max_raw, declared) + 1 if pa.types.is_integer(source) else KEYS.top)
    if declared.name == "DECIMAL":
        return (literal_key(known.min, declared), literal_key(known.max, declared) + 1)
    if pa.types.is_signed_integer(source) or pa.types.is_boolean(source) or pa.types.is_date32(source):
        return (int(known.min_raw), int(known.max_raw) + 1)
    return None


def _micros(ticks: int, each: int) -> int:
    """An instant as it is read: what is finer than a microsecond is cut off, before 1970 too."""
    return ticks // each if ticks >= 0 else -(-ticks // each)
