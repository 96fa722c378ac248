"""The sinks of the queries of a job, and its dead letters, under either driver.

Answer   `open_query` opens what takes a query's results, and with PROPAGATE the punctuations of its results: a folder
         of `--out`, the sinks that are declared for it, and those that the session has. `drop_query` closes them.
State    The open sinks, and the outbox, which decides when results become files. `resume_after` and `flush_sinks` are
         the two ends of exactly-once: a resumed run removes what was written after its checkpoint and writes it again.
Limits   Which results a sink gets, and when, is the driver's.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.connectors.base import Sink
from eddyline.connectors.results.dead_letter import DeadLetters
from eddyline.connectors.results.marked import MarkedSink, with_punctuations
from eddyline.connectors.results.outbox import Outbox
from eddyline.connectors.results.sinks import AllSink, ParquetSink
from eddyline.errors import EddylineWarning
from eddyline.language.catalog import DeclaredSink
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.operators.project import result_schema
from eddyline.runtime.engine.epoch import punctuations_of, results_of

DEAD_LETTER = "_dead_letter"
#: What the reason of a row begins with that breaks a promise or a constraint.
VIOLATION = "violation"

#: Gives the sinks that a session has for a query, or for the punctuations of its results: by name and schema.
SessionSinks = Callable[[str, pa.Schema], Iterable[Sink]]


class QuerySinks:
    def __init__(self, out: str | None, outbox: Outbox, open_declared: Callable[[DeclaredSink], Sink]) -> None:
        self.out = out
        self.outbox = outbox
        self._open_declared = open_declared
        #: By the name of a query, or of the punctuations of its results; without an entry for a name without a sink.
        self.sinks: dict[str, list[Sink]] = {}
        #: The same for every name, with sinks or without.
        self.schemas: dict[str, pa.Schema] = {}
        #: Sinks FOR ALL, by name.
        self.shared: dict[str, AllSink] = {}
        #: Query -> its sinks with results and punctuations of results.
        self.marked: dict[str, list[MarkedSink]] = {}
        #: Sinks of CREATE SINK, by name; of one FOR ALL, or with punctuations, the sink behind it.
        self.declared: dict[str, Sink] = {}
        self.dead = DeadLetters(os.path.join(out, DEAD_LETTER)) if out is not None else None
        #: Dead rows are kept in memory only where a session wants them.
        self.kept_dead: dict[str, list[pa.Table]] | None = None
        #: A dead row of the run at hand has been warned of.
        self.has_warned = False
        #: Gives the sink of a query that is tried; None: the job writes no reports.
        self.tail_of: Callable[[str], Sink] | None = None

    # -- queries

    def open_query(
        self, query: BoundQuery, schema: pa.Schema, declared: Iterable[DeclaredSink], own: SessionSinks
    ) -> None:
        """Open all that takes a query's results."""
        if query.settings.lease is not None:
            # A query that is tried writes nothing: its newest rows are in the report.
            tails = () if self.tail_of is None else (self.tail_of(query.name),)
            self.add_query(query.name, schema, own=tails, files=False)
            return
        self.add_query(query.name, schema, declared, own(query.name, schema))
        if query.settings.propagate != "off":
            channel, columns = punctuations_of(query.name), result_schema(query.outputs)
            self.add_query(channel, columns, own=own(channel, columns))

    def add_query(
        self,
        name: str,
        schema: pa.Schema,
        declared: Iterable[DeclaredSink] = (),
        own: Iterable[Sink] = (),
        files: bool = True,
    ) -> None:
        """A query's results go to `--out` unless `files` is off, to its declared sinks, and to further ones."""
        sinks: list[Sink] = [*own, *(marked.punctuations for marked in self.marked.get(results_of(name), ()))]
        if self.out is not None and files:
            sinks.append(ParquetSink(os.path.join(self.out, name)))
            self.outbox.adopt(sinks[-1], f"out/{name}")
        for sink in declared:
            if sink.query is None:
                if sink.name not in self.shared:
                    self.shared[sink.name] = AllSink(self._opened(sink))
                sinks += self.share(self.shared[sink.name], name, schema)
            else:
                sinks.append(with_punctuations(self._opened(sink), sink.options, self.marked.setdefault(name, [])))
        for one in sinks:
            one.open(schema)
        self.schemas[name] = schema
        if sinks:
            self.sinks[name] = sinks

    def share(self, shared: AllSink, name: str, schema: pa.Schema) -> list[Sink]:
        """A sink FOR ALL takes a query's results too: what `sinks` has of it for this query."""
        return [shared.port(name)]

    def _opened(self, sink: DeclaredSink) -> Sink:
        opened = self.declared[sink.name] = self._open_declared(sink)
        self.outbox.adopt(opened, f"sink/{sink.name}")
        return opened

    def add_sink(self, name: str, sink: Sink, schema: pa.Schema) -> None:
        """One more sink for a query."""
        sink.open(schema)
        self.schemas[name] = schema
        self.sinks[name] = [*self.sinks.get(name, ()), sink]

    def remove_sink(self, name: str, sink: Sink) -> None:
        """A sink that `add_sink` brought gets nothing from here on."""
        left = [one for one in self.sinks.get(name, ()) if one is not sink]
        if left:
            self.sinks[name] = left
        else:
            self.sinks.pop(name, None)

    def drop_query(self, name: str) -> None:
        """Close the sinks that only this query has."""
        if punctuations_of(name) in self.schemas:
            self.drop_query(punctuations_of(name))
        self.marked.pop(name, None)
        self.schemas.pop(name, None)
        for sink in self.sinks.pop(name, ()):
            sink.close()

    # -- rows

    def end_marked(self) -> None:
        """The results and punctuations of an epoch have been written."""
        for marked in [marked for of_query in self.marked.values() for marked in of_query]:
            marked.end_epoch()

    def write_dead(self, epoch: int, stream: Stream, table: pa.Table) -> None:
        if self.dead is not None:
            self.dead.write(epoch, stream, table)
        if self.kept_dead is not None:
            self.kept_dead.setdefault(stream.name, []).append(table)
        if table.num_rows and not self.has_warned:
            self._warn_of_dead(stream, table.column("_reason"))

    def _warn_of_dead(self, stream: Stream, reasons: pa.ChunkedArray) -> None:
        """Say of the first bad or late row of a run why it is one and where all of them are. A row that breaks a promise
        or a constraint may be what the job looks for."""
        reasons = reasons.filter(pc.invert(pc.starts_with(reasons, VIOLATION)))
        if not len(reasons):
            return
        self.has_warned = True
        kept = [] if self.kept_dead is None else [f"session.dead_letters('{stream.name}')"]
        kept += [] if self.dead is None else [os.path.join(self.dead.folder, stream.name)]
        place = f"{' and '.join(kept)} has such rows" if kept else "such rows are kept with Session(out=…) or --out"
        warnings.warn(
            f"a row of stream {stream.name} is a dead letter: {reasons[0]}; {place}, and the figures of "
            "the run count them; no further one is warned of",
            EddylineWarning,
            stacklevel=2,
        )

    # -- checkpoints

    def flush_sinks(self, epoch: int) -> None:
        for sink in self.all_sinks():
            sink.flush(epoch)
        if self.dead is not None and self.dead.sinks:
            self.dead.flush(epoch)

    def resume_after(self, epoch: int, pending: Mapping[str, str] | None = None) -> None:
        """Go back to the checkpoint of an epoch; one that cannot be read leaves the results as they are.

        Args:
            pending: the results in no file that the checkpoint names; None: an earlier version wrote it.
        """
        self.outbox.check(epoch, pending)
        for sink in self.all_sinks():
            sink.truncate_after(epoch)
        if self.dead is not None:
            self.dead.truncate_after(epoch)
        self.outbox.recover(epoch, pending)

    def close_sinks(self) -> None:
        for sink in self.all_sinks():
            sink.close()
        if self.dead is not None and self.dead.sinks:
            self.dead.close()

    def all_sinks(self) -> list[Sink | AllSink]:
        # Copied first: on Spark a report may add or remove a sink in another thread.
        return [sink for sinks in list(self.sinks.values()) for sink in sinks]
