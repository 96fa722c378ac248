"""What a checkpoint remembers of the job that it belongs to.

Answer   `reconcile` compares a job with the checkpoint's ledger before anything runs: streams and the number of shards
         must be the same, a query of the same name must have the same text. New queries wait for their start, those
         that the job no longer has wait for their stop. Queries that were added to the running job go on without being
         in the job; those that were dropped from it stay dropped. Static tables are read once and kept.

             (new) ─► prepared ─► running ─► dropping ─► stopping ─► dropped
                         │ control record      │ control record  │ its last result is out
                         └ start               └ stop

State    `ledger.json` below the checkpoint, sealed: shards, streams, how many control records have been taken up; per
         query its text, routing and state; `tables/<name>.<digest>.arrow`.
Limits   A changed query is refused: its stored rows and counts are those of the old text. Of queries that have gone it
         keeps the newest thousand, without their texts, and those that a job file may still name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from eddyline.errors import CheckpointProblem
from eddyline.model.query import BoundQuery, one_line
from eddyline.model.schema import Stream, Table
from eddyline.plan.shards.chains import PlacedKeys
from eddyline.plan.shards.routing import Record, RoutingTable
from eddyline.runtime.recovery.catalog_text import created_by, statement_text
from eddyline.runtime.recovery.checkpoint_identity import of_another_format
from eddyline.runtime.recovery.stream_identity import check_identities, identity
from eddyline.runtime.sharded.job.document import from_document, to_document
from eddyline.runtime.sharded.job.static_table import StaticTable, forget, keep, kept
from eddyline.state.sealed import RESTORE, damaged, read_sealed, write_sealed
from eddyline.state.whole_file import make_folder

#: Also counts the forms of the shards' state: Spark would take state under other names for none.
FORMAT = 8

JOB, CONTROL = "job", "control"
#: How many of the newest queries that have gone, and of the newest refused records, are remembered.
NOTES = 1_000

HELD = "shards, streams and queries of the job"


@dataclass
class LedgerEntry:
    """A query and what became of it."""

    text: str
    #: What creates it, with all its settings: for a query that no job file has.
    statement: str = ""
    #: Its own sinks: name and options.
    sinks: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    shares: list[int] = field(default_factory=list)
    bits: dict[str, int] = field(default_factory=dict)
    #: Whether shards keep parts of its groups.
    merged: bool = False
    #: Derived stream -> the keys of its rows, as documents, where the query is spread over shards.
    placed: dict[str, Any] = field(default_factory=dict)
    #: Of a chain in several steps: per query of it the step, the first shard and the shares.
    steps: dict[str, list[int]] = field(default_factory=dict)
    state: str = "running"
    #: Where it came from, and what dropped it: the job's file or a control record.
    origin: str = JOB
    dropped_by: str = JOB
    start: int | None = None
    stop: int | None = None
    #: The batch that brought its last result.
    gone: int | None = None
    #: Whether that batch can no longer run again.
    final: bool = False

    @property
    def is_routed(self) -> bool:
        """Whether shards may still have to know it."""
        return not self.final

    @property
    def has_begun(self) -> bool:
        return self.state != "prepared"

    @property
    def is_leaving(self) -> bool:
        return self.state in ("dropping", "stopping", "dropped")


@dataclass
class Ledger:
    checkpoint: str
    shards: int = 0
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    queries: dict[str, LedgerEntry] = field(default_factory=dict)
    #: Control records that have been taken up, and why some were refused, by number.
    applied: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    #: Names of what statements have said at instants: a control record has it.
    said: list[str] = field(default_factory=list)
    #: CREATE PUNCTUATION statements that came while the job ran, by name, each with the first batch whose rows it
    #: speaks of.
    promised: dict[str, tuple[str, int]] = field(default_factory=dict)
    #: Names of the static tables that the checkpoint keeps.
    tables: list[str] = field(default_factory=list)
    #: How many steps the job has: the first run decides. 0: it is not decided.
    steps: int = 0

    @property
    def exists(self) -> bool:
        return self.shards > 0

    @staticmethod
    def read(checkpoint: str) -> Ledger:
        try:
            found = read_sealed(ledger_path(checkpoint), HELD)
        except FileNotFoundError:
            return Ledger(checkpoint)
        if not isinstance(found, dict) or "format" not in found:
            raise CheckpointProblem(
                f"{ledger_path(checkpoint)} is not of this version's form", detail=f"it held {HELD}", hint=RESTORE
            )
        if found["format"] != FORMAT:
            raise of_another_format(f"the checkpoint in {checkpoint}", found["format"], FORMAT)
        try:
            queries = {name: LedgerEntry(**entry) for name, entry in found["queries"].items()}
            said, promised = (
                found.get("said", []),
                {name: (sql, first) for name, (sql, first) in found.get("promised", {}).items()},
            )
            known = (found["shards"], found["streams"], queries, found["applied"], found["refused"])
            return Ledger(checkpoint, *known, said, promised, found.get("tables", []), found.get("steps", 1))
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise damaged(ledger_path(checkpoint), HELD, problem) from problem

    # -- a job that begins or goes on

    def reconcile(self, streams: Sequence[Stream], queries: Sequence[BoundQuery], shards: int) -> list[str]:
        """Refuse what does not fit and note what is new and what is missing; the queries of the job that are to be
        known."""
        if not self.exists:
            self.shards = shards
            self.streams = {s.name: identity(s) for s in streams}
            said = statements_of(queries)
            self.queries = {q.name: LedgerEntry(q.identity, said[q.name]) for q in queries}
            return [q.name for q in queries]
        if shards != self.shards:
            raise CheckpointProblem(
                f"the checkpoint has {self.shards} shards, the job asks for {shards}",
                detail="stored rows lie where the old number put them",
                hint=f"SET shards = {self.shards}, or start anew with an empty checkpoint",
            )
        check_identities(streams, self.streams)
        said = statements_of(queries)
        for query in queries:
            self._reconcile_query(query, said[query.name])
        named = {q.name for q in queries}
        for name, entry in self.queries.items():
            if name not in named and entry.origin == JOB and not entry.is_leaving:
                # Without its statement (checkpoints of the first release) its outstanding results cannot be computed.
                entry.state, entry.dropped_by, entry.final = (
                    "dropping" if entry.statement else "dropped",
                    JOB,
                    not entry.statement,
                )
        return [q.name for q in queries if self.queries[q.name].is_routed]

    def _reconcile_query(self, query: BoundQuery, statement: str) -> None:
        entry = self.queries.get(query.name)
        if entry is None or (entry.final and entry.dropped_by == JOB):
            self.queries.pop(query.name, None)
            self.queries[query.name] = LedgerEntry(query.identity, statement, state="prepared")
        elif entry.is_leaving and entry.dropped_by == JOB:
            raise CheckpointProblem(
                f"query {query.name} was dropped and still has results to give",
                detail="it was missing in the job that ran last",
                hint="give the query another name, or run the job without it until it has gone",
            )
        elif not entry.is_leaving and not same_text(entry.text, query.identity):
            raise CheckpointProblem(
                f"query {query.name} has another text than in the checkpoint",
                detail=f"now: {query.identity}; then: {entry.text}",
                hint="give the new query a name of its own",
            )

    # -- queries that are known

    @property
    def routed(self) -> dict[str, LedgerEntry]:
        """The queries that shards may have to know."""
        return {name: entry for name, entry in self.queries.items() if entry.is_routed}

    @property
    def initial(self) -> frozenset[str]:
        return frozenset(name for name, entry in self.routed.items() if entry.has_begun)

    def records(self) -> dict[str, Record]:
        """The routing of those that have one."""
        return {name: _record(entry) for name, entry in self.routed.items() if entry.shares}

    def route(self, names: Iterable[str], routing: RoutingTable) -> None:
        for name in names:
            record = routing.record(name)
            entry = self.queries[name]
            entry.shares, entry.bits, entry.merged = list(record.shares), dict(record.bits), record.merged
            entry.placed = {stream: to_document(found) for stream, found in record.placed.items()}
            entry.steps = {part: list(found) for part, found in record.steps.items()}

    def promise(self, name: str, sql: str, first: int, streams: Iterable[Stream]) -> None:
        """CREATE PUNCTUATION came: `streams` are those that it names, as they are declared now."""
        self.promised[name] = (sql, first)
        self.streams |= {stream.name: identity(stream) for stream in streams}

    def refuse(self, number: int, reason: str) -> None:
        """Note why a control record was not taken."""
        self.refused[str(number)] = reason
        for oldest in list(self.refused)[:-NOTES]:
            del self.refused[oldest]

    def forget_oldest(self) -> None:
        """Of queries that have gone only the newest are kept, for `query list`; one that the job's file may still have
        stays dropped."""
        gone = [
            (entry.gone or 0, n)
            for n, entry in self.queries.items()
            if entry.final and (entry.origin, entry.dropped_by) != (JOB, CONTROL)
        ]
        for _, name in sorted(gone)[:-NOTES]:
            del self.queries[name]
        for entry in self.queries.values():
            if entry.final:
                entry.text, entry.statement, entry.sinks, entry.shares, entry.bits, entry.placed = (
                    "",
                    "",
                    [],
                    [],
                    {},
                    {},
                )
                entry.steps = {}

    def write(self) -> None:
        body = {
            "format": FORMAT,
            "shards": self.shards,
            "streams": self.streams,
            "queries": {name: asdict(entry) for name, entry in self.queries.items()},
            "applied": self.applied,
            "refused": self.refused,
            "said": self.said,
            "promised": self.promised,
            "tables": self.tables,
            "steps": self.steps,
        }
        path = ledger_path(self.checkpoint)
        make_folder(os.path.dirname(path))
        write_sealed(path, body)

    def table(self, table: Table, read: Callable[[Table], pa.Table]) -> StaticTable:
        """A static table as it was when the checkpoint was new; read now if it is not there yet."""
        folder = tables_folder(self.checkpoint)
        found = kept(folder, table)
        if found is None:
            if table.name in self.tables:
                # What lies in its source by now may be something else.
                held = f"it held the rows of table {table.name}"
                raise CheckpointProblem(
                    f"{os.path.join(folder, table.name)}.….arrow is missing", detail=held, hint=RESTORE
                )
            found = keep(folder, table, read(table))
        if table.name not in self.tables:
            self.tables.append(table.name)
        return found

    def forget_table(self, name: str) -> None:
        """The next run reads a table's source again."""
        if name in self.tables:
            self.tables.remove(name)
            self.write()
        forget(tables_folder(self.checkpoint), name)


def _record(entry: LedgerEntry) -> Record:
    placed = {stream: from_document(PlacedKeys, found) for stream, found in entry.placed.items()}
    return Record(entry.shares, entry.bits, entry.merged, placed, entry.steps)


def statements_of(queries: Sequence[BoundQuery]) -> dict[str, str]:
    """Query -> the statement that creates it; all makers of a derived stream have the one that creates the stream."""
    first = {query.name: query for query in queries}
    found = {}
    for query in queries:
        makers = () if query.feeds is None else query.feeds.makers
        found[query.name] = created_by(first[makers[0]]) if makers and makers[0] in first else statement_text(query)
    return found


def same_text(one: str, other: str) -> bool:
    return one_line(one) == one_line(other)


def tables_folder(checkpoint: str) -> str:
    return os.path.join(checkpoint, "eddyline", "tables")


def ledger_path(checkpoint: str) -> str:
    return os.path.join(checkpoint, "eddyline", "ledger.json")
