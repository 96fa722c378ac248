"""From a job and its checkpoint to a layout.

Answer   `reconciled` refuses what does not fit the checkpoint, and notes in the ledger which queries are new or missing.
         The layout has the queries that shards may have to know: those of the job, those that were added while it ran,
         and those that still owe results. Queries that were routed before keep their routes.
State    The ledger, written.
Limits   The caller says how many shards there are where nothing else does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from eddyline.connectors.files.files import read_table
from eddyline.connectors.guarded.parsing_marks import shared_marks
from eddyline.language import Job, parse_script
from eddyline.language.job import DerivedStream
from eddyline.model.expressions.own_function import OwnFunction
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.model.template import Template
from eddyline.plan.shards.routing import RoutingTable
from eddyline.plan.shards.shares import books_of, declared_rates, route_all
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch
from eddyline.runtime.sharded.job.layout import JobLayout, parsing_folder, with_absolute_paths
from eddyline.runtime.sharded.job.ledger import Ledger
from eddyline.settings import Settings


def reconciled(
    checkpoint: str,
    streams: Sequence[Stream],
    queries: Sequence[BoundQuery],
    tables: Sequence[Table],
    settings: Settings,
    usual_shards: int,
    functions: Sequence[OwnFunction] = (),
) -> JobLayout:
    """The layout of a job over a checkpoint, new or continued.

    Args:
        checkpoint: Its folder.
        streams: In catalog order.
        queries: Those of the job.
        tables: Static tables; read now unless the checkpoint has them.
        settings: Of the job.
        usual_shards: How many there are if neither the job nor the checkpoint says it.
        functions: Functions of one's own that its queries may call.
    """
    checkpoint = os.path.abspath(checkpoint)
    ledger = Ledger.read(checkpoint)
    shards = settings.shards or ledger.shards or usual_shards
    streams = with_promises(streams, ledger)
    ledger.reconcile(streams, queries, shards)
    bare = JobLayout(
        streams=promised_at(with_absolute_paths(streams), ledger, committed_batch(checkpoint) + 1),
        queries=(),
        routing=RoutingTable({}, {}),
        width=shards,
        checkpoint=checkpoint,
        tables=tuple(
            ledger.table(table, partial(read_table, marks=shared_marks(parsing_folder(checkpoint)))) for table in tables
        ),
        settings=settings,
        steps=max(ledger.steps, 1),
    )
    layout = laid_out(bare, _definitions(streams, queries, tables, ledger, functions), ledger, is_new=ledger.steps == 0)
    if ledger.steps == 0:
        # The plan of Spark's query has as many stateful operators, for as long as the checkpoint lives.
        ledger.steps = layout.routing.steps
        layout = replace(layout, steps=ledger.steps)
    ledger.write()
    return layout


def with_promises(streams: Sequence[Stream], ledger: Ledger) -> tuple[Stream, ...]:
    """The streams of a job with what CREATE PUNCTUATION said while an earlier run of it ran."""
    job = Job()
    for stream in streams:
        job.catalog.add(stream)
    for derived in {d.name: d for stream in streams for d in stream.promised}.values():
        job.catalog.add(derived)
    for name, (sql, _) in ledger.promised.items():
        if name not in job.catalog.punctuations:
            job.apply(parse_script(sql)[0])
    return tuple(job.catalog.streams[stream.name] for stream in streams)


def promised_at(streams: Sequence[Stream], ledger: Ledger, batch: int) -> tuple[Stream, ...]:
    """The streams as the rows of a batch are read: a batch that runs again is read as it was the first time."""
    later = {name for name, (_, first) in ledger.promised.items() if first > batch}
    found = []
    for stream in streams:
        said, given = (
            tuple(d for d in all_of if d.name not in later) for all_of in (stream.promised, stream.promising)
        )
        found.append(replace(stream, promised=said, promising=given))
    return tuple(found)


def laid_out(layout: JobLayout, queries: tuple[BoundQuery, ...], ledger: Ledger, is_new: bool = False) -> JobLayout:
    """A layout with these queries, routed as the ledger remembers or anew; the ledger notes it. A job that is new has
    as many steps as its
    queries need."""
    rates, names = declared_rates(layout.streams), [stream.name for stream in layout.streams]
    steps = None if is_new else layout.steps
    routing = route_all(queries, names, rates, layout.width, ledger.records(), books_of(layout.streams), steps)
    ledger.route([q.name for q in queries], routing)
    return replace(layout, queries=queries, routing=routing, initial=ledger.initial)


def _definitions(
    streams: Sequence[Stream],
    queries: Sequence[BoundQuery],
    tables: Sequence[Table],
    ledger: Ledger,
    functions: Sequence[OwnFunction],
) -> tuple[BoundQuery, ...]:
    """The queries that shards may have to know; those that only the ledger has are bound from its statements."""
    given = {query.name: query for query in queries}
    names = Job()
    for stream in streams:
        names.catalog.add(stream)
    for made in {query.feeds.name: query.feeds for query in queries if query.feeds is not None}.values():
        names.catalog.add(made)
        names.catalog.makers[made.name] = tuple(q for q in queries if q.feeds is not None and q.feeds.name == made.name)
    for derived in {d.name: d for stream in streams for d in stream.promised}.values():
        names.catalog.add(derived)
    for table in tables:
        names.catalog.add(table)
    for own in functions:
        names.catalog.add(own)
    found: list[BoundQuery] = []
    for name, entry in ledger.routed.items():
        if name in given and not entry.is_leaving:
            found.append(given[name])
        else:
            found.append(_created(names, name, entry.statement))
    return tuple(found)


def _created(job: Job, name: str, statement: str) -> BoundQuery:
    """The query of a name from the statement that creates it: one of several makers of a derived stream, which the
    first one brings."""
    known = next((maker for makers in job.catalog.makers.values() for maker in makers if maker.name == name), None)
    if known is not None:
        return known
    bound = job.apply(parse_script(statement)[0])
    if isinstance(bound, DerivedStream):
        return next(maker for maker in bound.makers if maker.name == name)
    assert isinstance(bound, BoundQuery | Template)
    return bound.as_query if isinstance(bound, Template) else bound
