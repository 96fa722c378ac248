"""Dead letters: rows that no query reads, kept with the reason.

Answer   `<folder>/<stream>/*.parquet` holds each row of a stream once that is late, bad or breaks a punctuation: the
         declared columns as text, and `_reason`. All reasons have one schema: values of bad rows have no other type.
State    One sink per stream that has had such rows.
Limits   A stream without such rows has no folder.
"""

from __future__ import annotations

import os

import pyarrow as pa

from eddyline.connectors.formats.conform import bad_schema
from eddyline.connectors.formats.conversion import as_text
from eddyline.connectors.results.output import FileSink, Writer, arranged
from eddyline.connectors.results.sinks import ParquetSink
from eddyline.model.schema import Schema, Stream


class DeadLetters:
    """The dead-letter folder of a run, usually `<out>/_dead_letter`."""

    def __init__(self, folder: str, writer: Writer | None = None):
        self.folder = folder
        self._writer = writer
        #: By stream; a stream has one from its first dead row on.
        self.sinks: dict[str, FileSink] = {}

    def write(self, epoch: int, stream: Stream, table: pa.Table) -> None:
        """Keep rows of a stream: declared columns (typed, or text already) and `_reason`."""
        if table.num_rows == 0:
            return
        sink = self.sinks.get(stream.name)
        if sink is None:
            sink = self.sinks[stream.name] = ParquetSink(os.path.join(self.folder, stream.name), self._writer)
            sink.open(bad_schema(stream.schema))
        sink.write(epoch, text_rows(stream.schema, table))

    def flush(self, epoch: int) -> None:
        for sink in self.sinks.values():
            sink.flush(epoch)

    def truncate_after(self, epoch: int) -> None:
        """Remove later rows from the folders of all streams, also of those that only an earlier run wrote."""
        if os.path.isdir(self.folder):
            for name in os.listdir(self.folder):
                sink = self.sinks.get(name) or ParquetSink(os.path.join(self.folder, name), self._writer)
                sink.truncate_after(epoch)
                if name not in self.sinks and not os.listdir(sink.folder):
                    os.rmdir(sink.folder)

    def close(self) -> None:
        for sink in self.sinks.values():
            sink.close()
        self.sinks = {}


def text_rows(schema: Schema, table: pa.Table) -> pa.Table:
    """Dead letters with all values as text; columns that the source did not read are null."""
    target = bad_schema(schema)
    texts = {name: as_text(table.column(name)) for name in target.names if name in table.column_names}
    return arranged(pa.table(texts), target)
