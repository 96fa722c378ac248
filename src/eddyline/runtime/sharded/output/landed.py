"""Results of one query in one batch, written as the files that its sinks will have.

Answer   `Landed` writes results, piece by piece, once per target, and the places that order them among those of other
         shards beside the first one. They have hidden names (`connectors/results/landing.py`) until the driver has
         sinks adopt them. `landed_run` reads them back with their places.
State    The open files.
Limits   The first target is a parquet file: rows can only be read back from that.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline.connectors.formats.encoders import ENCODERS, Encoding
from eddyline.connectors.results.landing import FileTarget, landed_places
from eddyline.runtime.engine.newest import ordering_columns
from eddyline.state.whole_file import make_folder, sync_folder

_BY_SUFFIX = {encoder.suffix: encoder for encoder in ENCODERS.values()}
#: Rows that are decoded at once.
_PIECE_ROWS = 1 << 16


class Landed:
    def __init__(self, targets: Sequence[FileTarget], batch: int, who: str) -> None:
        """
        Args:
            targets: Where it goes.
            batch: Its number.
            who: What the names of the files begin with.
        """
        token = f"{who}-{uuid.uuid4().hex}"
        self.paths = [target.landed(batch, token) for target in targets]
        self.rows = 0
        self._targets = targets
        self._files: list[Encoding] = []
        self._places: parquet.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        """The next results, in order."""
        places = ordering_columns(table)
        plain = table.drop_columns(places)
        if not self._files:
            for path, target in zip(self.paths, self._targets, strict=True):
                make_folder(os.path.dirname(path), private=False)
                self._files.append(_BY_SUFFIX[target.suffix].opened(path, plain.schema))
            if places:
                self._places = places_file(landed_places(self.paths[0]), table.select(places).schema)
        for file in self._files:
            file.write(plain)
        if self._places is not None:
            self._places.write_table(table.select(places))
        self.rows += len(table)

    def close(self) -> None:
        """When this returns, the files survive a power cut."""
        for file in self._files:
            file.close()
        written = list(self.paths)
        if self._places is not None:
            self._places.close()
            written.append(landed_places(self.paths[0]))
        for path in written:
            make_sure(path)
        for folder in {os.path.dirname(path) for path in self.paths}:
            sync_folder(folder)


def places_file(path: str, schema: pa.Schema) -> parquet.ParquetWriter:
    """Places are mostly whole numbers that grow: their differences take a few bits."""
    deltas = {field.name: "DELTA_BINARY_PACKED" for field in schema if pa.types.is_integer(field.type)}
    return parquet.ParquetWriter(path, schema, use_dictionary=False, column_encoding=deltas, write_statistics=False)


def make_sure(path: str) -> None:
    """Sync a file that is written."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def landed_run(path: str, places: str) -> Iterator[pa.Table]:
    """The rows of a parquet file in pieces, with their places where it has some."""
    if not os.path.exists(places):
        yield from _pieces(path)
        return
    waiting = _pieces(places)
    rest = next(waiting)
    for rows in _pieces(path):
        while len(rest) < len(rows):
            rest = pa.concat_tables([rest, next(waiting)])
        for name in rest.column_names:
            rows = rows.append_column(name, rest.column(name).slice(0, len(rows)))
        rest = rest.slice(len(rows))
        yield rows


def _pieces(path: str) -> Iterator[pa.Table]:
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(_PIECE_ROWS):
            yield pa.Table.from_batches([batch])
