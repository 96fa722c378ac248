"""Control of a running job through files below its checkpoint: queries are added and dropped without a restart.

Answer   `ControlFolder` keeps three things. `catalog.sql` is what the job was started with; the job writes it, so that others
         can bind a new query before they send it. `control/<number>.json` are records (add these statements, drop these
         names), numbered from 0 without a gap, each written whole by whoever asks. `control/state.json` is what became of
         the queries; the job writes it.
         `apply_record` carries one record out on a `Job`, wholly or not at all; `planned_job` is the job as all records
         written so far will leave it.
State    Files only. Which records have been carried out is the driver's to remember, in its checkpoint.
Limits   Streams and tables cannot be added to a running job, nor sinks FOR ALL. Nothing here knows a driver.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eddyline.errors import EddylineError, Unsupported, UserError
from eddyline.language import Job, Sink, bind_script, parse_script, render
from eddyline.language.syntax import ColumnDefinition, CreateQuery, CreateSink, CreateStream, CreateTable, Option, Set
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Column, Stream
from eddyline.model.window import span_text
from eddyline.settings import Settings
from eddyline.state.whole_file import write_whole

CATALOG = "catalog.sql"
FOLDER = "control"
STATE = "state.json"

Record = dict[str, Any]


class ControlFolder:
    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        self.folder = os.path.join(checkpoint, FOLDER)

    # -- what the job is

    @property
    def exists(self) -> bool:
        return os.path.exists(os.path.join(self.checkpoint, CATALOG))

    def write_catalog(self, text: str) -> None:
        os.makedirs(self.folder, exist_ok=True)
        write_whole(os.path.join(self.checkpoint, CATALOG), text)

    def catalog(self) -> str:
        try:
            with open(os.path.join(self.checkpoint, CATALOG), encoding="utf-8") as file:
                return file.read()
        except OSError:
            message = f"there is no job in {self.checkpoint}"
            raise UserError(message, hint="--job takes the folder that the job was started with: run … --checkpoint DIR") from None

    # -- records

    def append(self, record: Mapping[str, Any]) -> int:
        """Write a record after all others and return its number."""
        os.makedirs(self.folder, exist_ok=True)
        hidden = os.path.join(self.folder, f".{os.getpid()}.part")
        _write(hidden, json.dumps(record))
        number = sum(1 for _ in self.records(0))
        while True:
            try:
                # A link appears whole or not at all, and never over the record of somebody else.
                os.link(hidden, self._path(number))
                break
            except FileExistsError:
                number += 1
        os.remove(hidden)
        return number

    def has(self, number: int) -> bool:
        """Whether there is a record of this number: what a driver asks between two epochs."""
        return os.path.exists(self._path(number))

    def records(self, first: int) -> Iterator[Record]:
        """The records from a number on, oldest first."""
        number = first
        while self.has(number):
            with open(self._path(number), encoding="utf-8") as file:
                yield json.load(file)
            number += 1

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, f"{number:012d}.json")

    # -- what became of it

    def write_state(self, state: Mapping[str, Any]) -> None:
        os.makedirs(self.folder, exist_ok=True)
        write_whole(os.path.join(self.folder, STATE), json.dumps(state))

    def state(self) -> dict[str, Any]:
        """What the job wrote last: `applied` records, `queries` with state, start and stop, `refused` records."""
        try:
            with open(os.path.join(self.folder, STATE), encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
                return found
        except FileNotFoundError:
            return {"applied": 0, "queries": [], "refused": {}}


@dataclass(frozen=True)
class Change:
    """What a record did to a job."""

    added: tuple[BoundQuery, ...] = ()
    #: Dropped queries, each with the sinks that it had.
    dropped: tuple[tuple[BoundQuery, tuple[Sink, ...]], ...] = ()


def add_record(sql: str) -> Record:
    return {"op": "add", "sql": sql}


def drop_record(names: Iterable[str], by: str | None = None) -> Record:
    """`by` says who drops, where that is not somebody outside of the job."""
    record = {"op": "drop", "queries": list(names)}
    return record if by is None else {**record, "by": by}


def apply_record(job: Job, record: Record) -> Change:
    """Carry a record out; an error leaves the job as it was."""
    if record["op"] == "drop":
        names = [job.catalog.query(name).name for name in record["queries"]]
        dropped = []
        for name in dict.fromkeys(names):
            dropped.append((job.catalog.query(name), job.catalog.sinks_of(name)))
            job.catalog.drop("query", name)
        return Change(dropped=tuple(dropped))
    settings = job.settings
    added: list[BoundQuery] = []
    try:
        for statement in parse_script(record["sql"]):
            if isinstance(statement, CreateSink) and (statement.query is None or statement.query.lower() not in _names(added)):
                raise Unsupported(
                    "a running job takes sinks only with the query that they are for",
                    hint="CREATE SINK s FOR q after CREATE QUERY q in the same file",
                    position=statement.position,
                )
            if not isinstance(statement, CreateQuery | CreateSink | Set):
                raise Unsupported(
                    "a running job takes CREATE QUERY, CREATE SINK … FOR it and SET",
                    detail="streams and tables are declared before a job starts",
                    hint="`eddyline query drop` drops queries",
                    position=getattr(statement, "position", None),
                )
            made = job.apply(statement)
            if isinstance(made, BoundQuery):
                added.append(made)
        if not added:
            raise UserError("there is no query to add", hint="CREATE QUERY name AS SELECT …")
    except EddylineError:
        undo(job, added)
        raise
    finally:
        # SET in a record is for the queries of that record.
        job.settings = settings
    return Change(added=tuple(added))


def undo(job: Job, added: Iterable[BoundQuery]) -> None:
    """Take queries of an add record out again, and their sinks with them."""
    for query in added:
        job.catalog.drop("query", query.name)


def replay(job: Job, records: Iterable[Record]) -> list[Change]:
    """Carry records out that were written before; one that the job refused is refused again and changes nothing."""
    changes = []
    for record in records:
        try:
            changes.append(apply_record(job, record))
        except EddylineError:
            continue
    return changes


def planned_job(folder: ControlFolder) -> Job:
    """The job as it will be once every record written so far has been carried out."""
    job = bind_script(folder.catalog())
    replay(job, folder.records(0))
    return job


def _names(queries: Iterable[BoundQuery]) -> set[str]:
    return {query.name.lower() for query in queries}


# ---- the catalog as text


def catalog_text(job: Job) -> str:
    """Statements that declare the job's streams, tables, queries, sinks and settings again."""
    lines = [render(CreateStream(s.name, _definitions(s.schema.columns), _stream_options(s))) for s in job.streams]
    lines += [render(CreateTable(t.name, _definitions(t.schema.columns), _options(t.options))) for t in job.tables]
    lines += [query_text(query) for query in job.queries]
    lines += [render(CreateSink(s.name, s.query, _options(s.options))) for s in job.sinks]
    lines += [render(Set(name, value)) for name, value in _settings(job.settings).items()]
    return "".join(f"{line};\n" for line in lines)


def query_text(query: BoundQuery) -> str:
    """CREATE QUERY with everything that differs from the defaults said in WITH."""
    settings = ", ".join(f"{name} = {_value(value)}" for name, value in _settings(query.settings).items())
    return f'CREATE QUERY "{query.name}"{f" WITH ({settings})" if settings else ""} AS {query.text.rstrip().rstrip(";")}'


def _definitions(columns: Iterable[Column]) -> tuple[ColumnDefinition, ...]:
    return tuple(ColumnDefinition(c.name, c.type) for c in columns)


def _options(options: Mapping[str, Any]) -> tuple[Option, ...]:
    return tuple(Option(name, value) for name, value in options.items())


def _stream_options(stream: Stream) -> tuple[Option, ...]:
    given = dict(stream.options) | {"time": stream.time, "lateness": span_text(stream.lateness).lower()}
    if stream.idle is not None:
        given["idle"] = span_text(stream.idle).lower()
    if stream.sequence is not None:
        given["sequence"] = stream.sequence
    return _options(given)


def _settings(settings: Settings) -> dict[str, Any]:
    return {name: value if isinstance(value, str | int) else str(value) for name, value in settings.changed().items()}


def _value(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
