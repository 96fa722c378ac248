"""Control of a running job through files below its checkpoint: queries are added and dropped without a restart.

Answer   `ControlFolder` reads and writes the files. `apply_record` carries one record out on a `Job`, wholly or not at
         all. `planned_job` gives the job as all records written so far will leave it.
State    Files only; the driver keeps in its checkpoint which records it has carried out.

             file                    written by   content
             catalog.sql             job          the statements that declare the job at its start
             control/parts.json      job          where each query stands in catalog.sql: a process binds only those it needs
             control/<number>.json   processes    one record: add, drop, set (other triggers) or request
             control/folded.json     job          the effect of all records below a number, which the job has removed
             control/refused/        job          the records that the job refused
             control/state.json      job          the state of each query
             control/answers/        job          answers to requests (`request_answers.py`)

Limits   A running job takes no further streams and tables, and no sinks FOR ALL. Writers and the job lock the folder for
         each change; the lock ends with its process.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eddyline.errors import CheckpointProblem, EddylineError, Unsupported, UserError
from eddyline.language import DeclaredSink, Job, bind_script, parse_script
from eddyline.language.job import DerivedStream
from eddyline.language.syntax import CreateDerived, CreatePunctuation, CreateQuery, CreateSink, Set
from eddyline.model.query import BoundQuery
from eddyline.model.records.punctuation import DerivedPunctuation
from eddyline.model.schema import Stream
from eddyline.model.triggers import checked
from eddyline.runtime.control.control_fold import Fold
from eddyline.runtime.control.control_record import (
    Malformed,
    Record,
    RefusedRecords,
    read_record,
    record_name,
    record_numbers,
)
from eddyline.runtime.recovery.catalog_text import CatalogText
from eddyline.state.sealed import checksum, read_sealed, write_sealed
from eddyline.state.whole_file import make_folder, sync_folder, write_whole

CATALOG = "catalog.sql"
FOLDER = "control"
STATE = "state.json"
FOLDED = "folded.json"
PARTS = "parts.json"
#: The job folds its records together when there are so many.
FOLD_RECORDS = 64


class ControlFolder:
    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        self.folder = os.path.join(checkpoint, FOLDER)
        self.refused = RefusedRecords(self.folder)

    # -- the job at its start

    @property
    def exists(self) -> bool:
        return os.path.exists(os.path.join(self.checkpoint, CATALOG))

    def write_catalog(self, catalog: CatalogText) -> None:
        make_folder(self.folder)
        write_whole(os.path.join(self.checkpoint, CATALOG), catalog.text)
        parts = {"of": checksum(catalog.text.encode()), "queries": catalog.queries}
        write_sealed(os.path.join(self.folder, PARTS), parts, synced=False)

    def parts(self, text: str) -> list[tuple[str, int, int]]:
        """The name of each query in the text of the catalog, and where its statement begins and ends; empty if the file
        is missing, damaged or that of another text."""
        try:
            found = read_sealed(os.path.join(self.folder, PARTS), "the places of queries in the catalog")
        except (OSError, CheckpointProblem):
            # The text can be bound without it, and every start of the job writes it anew.
            return []
        if not isinstance(found, dict) or found.get("of") != checksum(text.encode()):
            return []
        return [(name, begin, end) for name, begin, end in found["queries"]]

    def catalog(self) -> str:
        try:
            with open(os.path.join(self.checkpoint, CATALOG), encoding="utf-8") as file:
                return file.read()
        except OSError:
            hint = "--job takes the folder that the job was started with: run … --checkpoint DIR"
            raise UserError(f"there is no job in {self.checkpoint}", hint=hint) from None

    # -- records

    def append(self, record: Mapping[str, Any]) -> int:
        """Write a record after all others and return its number."""
        make_folder(self.folder)
        hidden = os.path.join(self.folder, f".{uuid.uuid4().hex}.part")
        write_whole(hidden, json.dumps(record), synced=False)
        try:
            with self._locked():
                written = [number + 1 for number in record_numbers(self.folder)[-1:]]
                number = max([self.folded()[0], self.state()["applied"], *written])
                while True:
                    try:
                        # `link` creates the whole record at once, and fails if another process has taken the number.
                        os.link(hidden, self._path(number))
                        sync_folder(self.folder)
                        return number
                    except FileExistsError:
                        number += 1
        finally:
            os.remove(hidden)

    def has(self, number: int) -> bool:
        """Whether there is a record of this number; drivers call this between two epochs."""
        return os.path.lexists(self._path(number))

    def waiting(self, first: int) -> list[int]:
        """The numbers of the records from a number on; a record that a user removed leaves a gap."""
        return [number for number in record_numbers(self.folder) if number >= first]

    def read(self, number: int) -> Record:
        """A record.

        Raises:
            Malformed: the file is not a record.
        """
        return read_record(self._path(number))

    def records(self, first: int) -> Iterator[Record]:
        """The records from a number on, oldest first; files that are malformed are left out."""
        for number in self.waiting(first):
            with contextlib.suppress(Malformed):
                yield self.read(number)

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, record_name(number))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        file = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    # -- the effect of records together

    def fold(self, applied: int, fold: Fold, refused: Mapping[str, str]) -> None:
        """Write the effect of the records below a number, and remove them. The checkpoint has the effect already.

        Args:
            refused: the records that the job refused, with the reason.
        """
        path = os.path.join(self.folder, FOLDED)
        if applied == 0 and fold == Fold() and not os.path.exists(path):
            return
        with self._locked():
            write_sealed(path, {"applied": applied, **fold.as_json()})
            for number in record_numbers(self.folder):
                if number < applied:
                    self._remove(number, refused.get(str(number)))
            self.refused.forget_oldest()

    def _remove(self, number: int, refused: str | None) -> None:
        if refused is None:
            try:
                os.unlink(self._path(number))
                return
            except OSError as problem:
                refused = str(problem.strerror)
        self.refused.set_aside(number, refused)

    def folded(self) -> tuple[int, Fold]:
        """The number below which records are folded, and their effect."""
        try:
            hint = "start the job once more: it writes the file again"
            found = read_sealed(os.path.join(self.folder, FOLDED), "what control records have done so far", hint)
        except FileNotFoundError:
            return 0, Fold()
        return int(found["applied"]), Fold.of(found)

    # -- the state of queries

    def write_state(self, state: Mapping[str, Any]) -> None:
        make_folder(self.folder)
        write_whole(os.path.join(self.folder, STATE), json.dumps(state))

    @property
    def state_path(self) -> str:
        """The file that `state` reads."""
        return os.path.join(self.folder, STATE)

    def state(self) -> dict[str, Any]:
        """What the job wrote last: the number of `applied` records, `queries` with state, start and stop, `refused`
        records."""
        unknown: dict[str, Any] = {"applied": 0, "queries": [], "refused": {}}
        try:
            with open(self.state_path, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError, RecursionError):
            # The job writes the file anew with its next change.
            return unknown
        return found if isinstance(found, dict) and unknown.keys() <= found.keys() else unknown


@dataclass(frozen=True)
class Change:
    """What a record did to a job."""

    #: Added queries, and the queries that make added derived streams.
    added: tuple[BoundQuery, ...] = ()
    #: Dropped queries, each with the sinks that it had. A query over a derived stream stands before the makers of it.
    dropped: tuple[tuple[BoundQuery, tuple[DeclaredSink, ...]], ...] = ()
    #: The punctuations of CREATE PUNCTUATION.
    promised: tuple[DerivedPunctuation, ...] = ()
    #: A query, and the settings of its triggers that change.
    triggers: tuple[str, Mapping[str, str]] | None = None

    @property
    def names(self) -> list[str]:
        """The names of added or dropped queries and derived streams, as statements use them."""
        queries = [*self.added, *(query for query, _ in self.dropped)]
        return list(dict.fromkeys(query.name if query.feeds is None else query.feeds.name for query in queries))


def apply_record(job: Job, record: Record) -> Change:
    """Carry a record out; an error leaves the job as it was. A request changes nothing."""
    if record["op"] == "request":
        return Change()
    if record["op"] == "set":
        query = job.catalog.query(record["query"]).name
        return Change(triggers=(query, checked(query, record["settings"])))
    if record["op"] == "drop":
        return Change(dropped=tuple(_drop(job, record["queries"])))
    settings = job.settings
    added: list[BoundQuery] = []
    promised: list[DerivedPunctuation] = []
    try:
        for statement in parse_script(record["sql"]):
            if isinstance(statement, CreateSink) and (statement.query or "").lower() not in _names(added):
                raise Unsupported(
                    "a running job takes sinks only with the query that they are for",
                    hint="CREATE SINK s FOR q after CREATE QUERY q in the same file",
                    position=statement.position,
                )
            if not isinstance(statement, CreateQuery | CreateDerived | CreateSink | CreatePunctuation | Set):
                raise Unsupported(
                    "a running job takes CREATE QUERY, CREATE STREAM … AS, CREATE SINK … FOR a query, CREATE PUNCTUATION and SET",
                    detail="other streams and tables are declared before a job starts",
                    hint="`eddyline query drop` drops queries",
                    position=getattr(statement, "position", None),
                )
            made = job.apply(statement)
            if isinstance(made, BoundQuery):
                added.append(made)
            if isinstance(made, DerivedStream):
                added += made.makers
            if isinstance(made, DerivedPunctuation):
                promised.append(made)
        if not added and not promised:
            raise UserError("there is no query to add", hint="CREATE QUERY name AS SELECT …")
    except BaseException as problem:
        undo(job, added, promised)
        if isinstance(problem, RecursionError):
            hint = "write the expression with fewer parentheses"
            raise UserError("the statements are nested too deeply", hint=hint) from problem
        raise
    finally:
        # SET in a record is for the queries of that record.
        job.settings = settings
    return Change(added=tuple(added), promised=tuple(promised))


def undo(job: Job, added: Iterable[BoundQuery], promised: Iterable[DerivedPunctuation] = ()) -> None:
    """Remove the queries and punctuations of an add record from a job again; sinks go with their query."""
    for query in reversed(list(added)):
        if query.feeds is None:
            job.catalog.drop("query", query.name)
        elif query.feeds.name in job.catalog.makers:
            job.catalog.drop("stream", query.feeds.name)
    for derived in promised:
        job.catalog.drop("punctuation", derived.name)


def _drop(job: Job, names: Iterable[str]) -> list[tuple[BoundQuery, tuple[DeclaredSink, ...]]]:
    """Remove queries and derived streams from a job; an error leaves the job as it was."""
    catalog, known = job.catalog, {name.lower(): name for name in job.catalog.queries}
    streams = {name.lower(): name for name in catalog.makers if name.lower() not in known}
    wanted = dict.fromkeys(streams.get(name.lower()) or catalog.query(name).name for name in names)
    made = [name for name in wanted if name in catalog.makers and name.lower() not in known]
    dropped: list[tuple[BoundQuery, tuple[DeclaredSink, ...]]] = [
        (catalog.query(name), catalog.sinks_of(name)) for name in wanted if name not in made
    ]
    for query, _ in dropped:
        catalog.drop("query", query.name)
    taken: list[tuple[Stream, tuple[BoundQuery, ...]]] = []
    try:
        # The newest stream first: it may read the others.
        for name in sorted(made, key=lambda name: -catalog.streams[name].position):
            makers = catalog.makers[name]
            stream = catalog.drop("stream", name)
            assert isinstance(stream, Stream)
            taken.append((stream, makers))
    except BaseException:
        for stream, makers in reversed(taken):
            catalog.add(stream)
            catalog.makers[stream.name] = makers
        for query, sinks in dropped:
            catalog.add(query)
            for sink in sinks:
                if sink.query is not None:
                    catalog.add(sink)
        raise
    return dropped + [(maker, ()) for _, makers in taken for maker in reversed(makers)]


def replay(job: Job, records: Iterable[Record]) -> list[Change]:
    """Carry out records that the job may have carried out already. A record that the job refused fails here, too, and
    changes nothing."""
    changes = []
    for record in records:
        try:
            changes.append(apply_record(job, record))
        except Exception:  # no error of a record ends a job
            continue
    return changes


def planned_job(folder: ControlFolder) -> Job:
    """The job as it will be once every record written so far has been carried out."""
    while True:
        job = _started_with(folder)
        applied, fold = folder.folded()
        fold.plan(job)
        replay(job, folder.records(applied))
        # The job may have folded records while they were read.
        if folder.folded()[0] == applied:
            return job


def _started_with(folder: ControlFolder) -> Job:
    """The job of the catalog. Each query is bound when it is first read."""
    text = folder.catalog()
    parts = folder.parts(text)
    if not parts:
        return bind_script(text)
    job = Job()
    for name, begin, end in parts:
        job.defer(name, text[begin:end], certain=True)
    for statement in parse_script(text[: parts[0][1]] + text[parts[-1][2] :]):
        job.apply(statement)
    return job


def refusal(problem: Exception) -> str:
    """The reason why the job refuses a record, for a user to read."""
    return str(problem) if isinstance(problem, EddylineError | Malformed) else f"{type(problem).__name__}: {problem}"


def _names(queries: Iterable[BoundQuery]) -> set[str]:
    return {query.name.lower() for query in queries}
