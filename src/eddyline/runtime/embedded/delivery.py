"""Results of an embedded job to their sinks, and dead rows to the dead letters.

Answer   Every table of results of a query goes to all its sinks, in order; dead rows go to the dead-letter folder.
         Bundles (results of many queries in one table) go to sinks FOR ALL whole; they are cut only for queries that
         have sinks of their own.
State    The open sinks and the outbox (`QuerySinks`). Which tables of the epoch callbacks have had already.
Limits   `QuerySinks.resume_after` and `flush` are the two ends of exactly-once. A resumed run removes what was written
         after its checkpoint and writes it again. Results that the checkpoint has and no file are in the outbox again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.connectors.base import Sink
from eddyline.connectors.results.outbox import Outbox
from eddyline.connectors.results.sinks import AllSink, CallbackSink, hand_over_problem, open_sink
from eddyline.language.catalog import DeclaredSink
from eddyline.model.schema import Stream
from eddyline.operators.sharing.filter_group import Bundle
from eddyline.runtime.driving.query_sinks import QuerySinks
from eddyline.runtime.engine.epoch import Outcome


class Delivery(QuerySinks):
    def __init__(self, out: str | None = None, outbox: Outbox | None = None) -> None:
        super().__init__(out, outbox or Outbox(), lambda sink: open_sink(sink.options, sink.name))
        #: Queries with a callback or a kept result in this process, which gets results as soon as they are there.
        self.listening: set[str] = set()
        #: Queries that are tried: sinks FOR ALL get no results of them.
        self._tried: set[str] = set()

    def add_query(
        self,
        name: str,
        schema: pa.Schema,
        declared: Iterable[DeclaredSink] = (),
        own: Iterable[Sink] = (),
        files: bool = True,
    ) -> None:
        super().add_query(name, schema, declared, own, files)
        self._listen(name)
        if not files:
            self._tried.add(name)

    def share(self, shared: AllSink, name: str, schema: pa.Schema) -> list[Sink]:
        """`_write_results` writes to all of `shared`."""
        shared.add(name, schema)
        return []

    def add_sink(self, name: str, sink: Sink, schema: pa.Schema) -> None:
        super().add_sink(name, sink, schema)
        self._listen(name)

    def _listen(self, name: str) -> None:
        if any(isinstance(one, CallbackSink) for one in self.sinks.get(name, ())):
            self.listening.add(name)

    def drop_query(self, name: str) -> None:
        self.listening.discard(name)
        self._tried.discard(name)
        super().drop_query(name)

    def drop_sink(self, name: str) -> None:
        """A declared sink gets nothing from here on; what it has is written."""
        dropped = self.declared.pop(name, None)
        if dropped is None:
            return
        self.shared.pop(name, None)
        marked = [one for of_query in self.marked.values() for one in of_query if one.inner is dropped]
        self.marked = {
            query: left for query, had in self.marked.items() if (left := [one for one in had if one not in marked])
        }
        for sinks in self.sinks.values():
            for one in [one for one in sinks if one is dropped or one in marked]:
                sinks.remove(one)
        dropped.close()

    def write(self, epoch: int, outcome: Outcome, streams: Mapping[str, Stream]) -> None:
        """All results and dead letters of an epoch that did not leave before its end.

        Raises:
            UserError: a sink or a callback refuses them.
        """
        with _handing_over():
            self._write_results(epoch, outcome)
            if self.marked:
                self.end_marked()
            for name, tables in outcome.dead.items():
                for table in tables:
                    self.write_dead(epoch, streams[name], table)

    def write_part(self, epoch: int, outcome: Outcome) -> None:
        """Results of an epoch that still runs; what is left of them follows with `write`."""
        with _handing_over():
            self._write_results(epoch, outcome)

    def _write_results(self, epoch: int, outcome: Outcome) -> None:
        for name, tables in outcome.results.items():
            for table in tables:
                for sink in self.sinks.get(name, ()):
                    sink.write(epoch, table)
                for shared in self.shared.values() if "/" not in name and name not in self._tried else ():
                    # Sinks FOR ALL take results; punctuations of results have a folder of their own.
                    shared.write(epoch, name, table)
        for bundle in outcome.bundles:
            self._write_bundle(epoch, bundle)

    def _write_bundle(self, epoch: int, bundle: Bundle) -> None:
        if self.shared:
            queries, table = bundle.queries(), bundle.table
            if self._tried:
                kept = pc.invert(pc.is_in(queries, value_set=pa.array(sorted(self._tried), queries.type)))
                queries, table = queries.filter(kept), table.filter(kept)
            for shared in self.shared.values() if table.num_rows else ():
                shared.write_all(epoch, queries, table)
        if self.sinks:
            for name, table in bundle.pieces():
                for sink in self.sinks.get(name, ()):
                    sink.write(epoch, table)

    def close_files(self, epoch: int, now: float) -> None:
        """After an epoch, and while nothing comes: results that have waited long enough become files."""
        with _handing_over():
            self.outbox.end_epoch(epoch, now)

    def publish(self, epoch: int) -> None:
        """Results and dead letters up to an epoch become files; a later epoch may have handed over a part of its own."""
        self.outbox.close_up_to(epoch)
        if self.dead is not None:
            self.dead.flush(epoch)

    def flush(self, epoch: int, last: bool = False) -> None:
        """A checkpoint of this epoch follows; with `last`, and then the run ends."""
        with _handing_over():
            self.outbox.flush(epoch, last=last)
            self.flush_sinks(epoch)

    def go_on(self) -> None:
        """After `close_sinks`: more results come, in a run of its own."""
        self.has_warned = False
        for name, sinks in self.sinks.items():
            for sink in sinks:
                sink.open(self.schemas[name])
        for shared in self.shared.values():
            shared.open_again()

    def all_sinks(self) -> list[Sink | AllSink]:
        # Copied first: another thread may add a sink.
        return [*(sink for sinks in list(self.sinks.values()) for sink in sinks), *self.shared.values()]


@contextmanager
def _handing_over() -> Iterator[None]:
    try:
        yield
    except Exception as problem:
        raise hand_over_problem(problem) from problem
