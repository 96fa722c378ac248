"""`eddyline shell [FILE …]`: try queries on files.

Answer   Statements end with `;`. A SELECT runs over the declared files from their first row to their last, and the shell
         prints its results as a table. It prints the answer of a REQUEST in the same way. CREATE, DROP, SET and EXPLAIN
         do what they do in a job file. Lines that begin with a point are commands of the shell.
State    The job that the statements so far declare. Every SELECT is a run of its own: it leaves no state behind.
         On a terminal a SELECT with EMIT goes on, and its results are shown as they come, until the user ends it.
Limits   Other results are collected before they are printed. Sinks are checked and not written; `eddyline run` writes
         them.
         Editing and history need prompt_toolkit and a terminal; otherwise lines are read from standard input.
"""

from __future__ import annotations

import argparse
import re
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from eddyline.cli.inference import declaration, stem
from eddyline.cli.interactive.editor import lines
from eddyline.cli.interactive.first_rows import (
    check_first_rows,
    constants,
    file_of,
    is_continuous,
    limited,
    stop_after,
    table_alone,
)
from eddyline.cli.interactive.listing import columns_of, description, listing
from eddyline.cli.interactive.texts import COMMAND_WORDS, OWN_WORDS, command_of, is_blank, own_statement, split
from eddyline.cli.jobs import read_job
from eddyline.connectors.files.files import read_table
from eddyline.connectors.results.sinks import as_rich
from eddyline.dashboard.vocabulary import vocabulary
from eddyline.errors import EddylineError, EddylineWarning, UserError
from eddyline.language import Dropped, ExplainRequest, Job, parse_script, render
from eddyline.language.catalog import DeclaredSink
from eddyline.language.job import DerivedStream, ExplainTemplate
from eddyline.language.syntax import Body, Statement
from eddyline.model.expressions.own_function import OwnFunction
from eddyline.model.patterns.constraint import ConstraintSet
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.model.template import BoundRequests, BoundTemplate, Request, RequestStream, Template
from eddyline.plan.prepare import check, explanation, notices
from eddyline.runtime.front.own_functions import provide
from eddyline.runtime.front.workflows import workflow_rules
from eddyline.session import Session
from eddyline.settings import Settings

HELP = """\
SELECT …;                  run over the declared files, show the results
SELECT … EMIT …;           on a terminal: show results as they come, until q or Ctrl-C
SELECT … LIMIT n;          show the first n results, and read no further
SELECT … FROM 'file' …;    declare a stream over the file, as .open does, and read it
REQUEST … FROM template;   query a template that CREATE TEMPLATE declared, at the end of the files
CREATE … ; DROP … ;        declare streams, tables and queries, or remove them
SET name = value;          change an option for the statements after it
EXPLAIN query|SELECT …;    show the plan
.open NAME PATH [TIME]     declare a stream (or table) over files, columns inferred
.read FILE                 carry out the statements of a file
.run QUERY                 run a query that CREATE QUERY declared
SHOW STREAMS | QUERIES | TABLES | SINKS | SETTINGS | FUNCTIONS;
                           list the entries of one kind
DESCRIBE name|SELECT …;    show the columns of a stream, table or query
.tables, \\d                list what is declared
.schema NAME, \\d NAME      show columns, types and options of a stream, table or query
.limit N                   show at most N rows of a result (20)
.timing on|off             show after each statement how long it took, and its CPU time
.help, help, \\?             show this list
.quit, quit, exit, \\q       leave the shell; the end of input leaves it, too"""

#: What `.tables` calls an entry.
_KINDS = {Stream: "stream", Table: "table", BoundQuery: "query", BoundTemplate: "template", BoundRequests: "requests"}

#: DESCRIBE shows at most so many columns.
MOST_LINES = 10_000


def run(args: argparse.Namespace) -> int:
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # From here on Ctrl-C ends the statement that runs, not the shell.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The shell itself shows what took no part.
    warnings.simplefilter("ignore", EddylineWarning)
    # Outside a terminal a table is as wide as its contents.
    shell = Shell(Console() if sys.stdout.isatty() else Console(width=200), interactive)
    for path in args.files:
        if path.endswith(".sql"):
            shell.attempt(shell.read, path)
        else:
            shell.attempt(lambda path: shell.open(stem(path), path), path)
    if interactive:
        shell.show("eddyline shell; statements end with ; and .help lists the commands")
    for line in lines(shell, interactive):
        if not shell.feed(line):
            break
    else:
        shell.end()
    return 0 if interactive or not shell.mistakes else UserError.exit_code


class Shell:
    def __init__(self, console: Console, interactive: bool = False) -> None:
        self.console = console
        #: Whether a user sits at a terminal, who can end a query.
        self.interactive = interactive
        self.job = Job(workflows=workflow_rules)
        self.limit = 20
        #: Whether each statement is followed by the time that it took.
        self.timing = False
        #: How many statements were refused: with one or more the exit code of a piped shell is 2.
        self.mistakes = 0
        self.pending = ""
        #: The statements of templates, by name.
        self._templates: dict[str, str] = {}
        #: The statements of derived streams, by name.
        self._derived: dict[str, str] = {}
        #: Per command its method, and how many arguments it takes, at least and at most.
        self._commands: dict[str, tuple[Callable[..., None], int, int]] = {
            ".open": (self.open, 2, 3),
            ".read": (self.read, 1, 1),
            ".run": (self.run_query, 1, 1),
            ".tables": (self.tables, 0, 0),
            ".schema": (self.schema, 1, 1),
            ".limit": (self.set_limit, 1, 1),
            ".timing": (self.set_timing, 1, 1),
            ".help": (lambda: self.show(HELP), 0, 0),
        }

    # -- lines in

    def feed(self, line: str) -> bool:
        """Carry out one line; returns False if it ends the shell."""
        command = "" if self.pending else command_of(line)
        if command:
            if command == ".quit":
                return False
            self.attempt(self._command, command)
            return True
        statements, self.pending = split(self.pending + line + "\n")
        for text in statements:
            self.attempt(self._timed, text)
        if is_blank(self.pending):
            self.pending = ""
        return True

    def end(self) -> None:
        """At the end of the input: carry out the text after the last `;` as a statement."""
        rest, self.pending = self.pending, ""
        if rest:
            self.attempt(self._timed, rest)

    def attempt(self, work: Callable[[str], None], text: str) -> None:
        """Call `work` with a text; an error is printed with its hint and does not end the shell."""
        try:
            work(text)
        except EddylineError as problem:
            self.mistakes += 1
            self.console.print(Text(f"error: {problem}"), style="red", soft_wrap=True)
        except KeyboardInterrupt:
            self.show("stopped")

    def show(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def _command(self, line: str) -> None:
        try:
            name, *arguments = shlex.split(line)
        except ValueError as problem:
            raise UserError(f"{line} cannot be read", detail=str(problem)) from None
        if name not in self._commands:
            raise UserError(f"there is no command {line.split()[0]}", hint=".help lists the commands")
        function, least, most = self._commands[name]
        if not least <= len(arguments) <= most:
            usage = next(text for text in HELP.splitlines() if text.startswith(name))
            raise UserError(f"{name} does not take {len(arguments)} words", hint=" ".join(usage.split()))
        function(*arguments)

    # -- statements

    def _timed(self, text: str) -> None:
        began, before = time.perf_counter(), time.process_time()
        try:
            self.execute(text)
        finally:
            if self.timing:
                spent, computed = time.perf_counter() - began, time.process_time() - before
                self.show(f"timing: {spent:.3f} s, {computed:.3f} s of CPU")

    def execute(self, text: str) -> None:
        began = time.perf_counter()
        if own := own_statement(text):
            word, rest = own
            (self._list_entries if word == "SHOW" else self._describe)(rest)
            return
        text = self._with_file_opened(text)
        if (found := constants(text, self.job)) is not None:
            self._show_rows(found, "select", time.perf_counter() - began)
            return
        text, most = limited(text) or (text, None)
        for statement in parse_script(text):
            self._apply(statement, most)

    def _with_file_opened(self, text: str) -> str:
        """The text with the name of a stream for the file that FROM names; the stream is declared if it is not there."""
        found = file_of(text)
        if found is None:
            return text
        path, start, end = found
        known = [name for name, entry in self._sources.items() if entry.options.get("path") == path]
        if not known:
            self.open(stem(path), path)
        return f'{text[:start]}"{known[0] if known else stem(path)}"{text[end:]}'

    def _apply(self, statement: Statement, most: int | None = None) -> None:
        """Carry out a statement. `most`: of a SELECT the first rows, so many."""
        if isinstance(statement, Body):
            if most is not None and (table := table_alone(statement, self.job)) is not None:
                began = time.perf_counter()
                self._show_rows(read_table(table).slice(0, most), table.name, time.perf_counter() - began, most)
                return
            is_live = self.interactive and most is None and is_continuous(statement)
            self._run(self._bound(statement), most, is_live)
            return
        match self.job.apply(statement):
            case ExplainRequest(query):
                self.show(explanation(query, self._sources))
            case ExplainTemplate(template, request):
                from eddyline.plan.template_text import request_text, template_text

                self.show(template_text(template) if request is None else request_text(template, request))
            case Template() as template:
                self._templates[template.name] = render(statement)
                self.show(f"template {template.name}; query it with REQUEST … FROM {template.name};")
            case Request():
                self._answer(self.job.requests.pop())
            case RequestStream() as requests:
                self.show(f"stream of requests {requests.name}; eddyline run answers it")
            case Dropped(kind, entry):
                self._derived.pop(entry.name, None)
                self.show(f"dropped {kind} {entry.name}")
            case DerivedStream(stream):
                self._derived[stream.name] = render(statement)
                self.show(f"stream {stream.name}, {len(stream.schema.columns)} columns")
            case BoundQuery() as query:
                check(query, self._sources)
                self.show(f"query {query.name}; .run {query.name} shows its results")
            case Stream() | Table() as relation:
                self.show(f"{_KINDS[type(relation)]} {relation.name}, {len(relation.schema.columns)} columns")
            case DeclaredSink() as sink:
                self.show(f"sink {sink.name}; the shell shows results and writes none, eddyline run does")
            case ConstraintSet() as found:
                self.show(f"constraints {found.name}, {len(found.rules)} rules")
            case OwnFunction() as own:
                self._provide(own)
            case Settings():
                return

    def _bound(self, body: Body) -> BoundQuery:
        """The query of a SELECT. It is added to a copy of the job: the shell's job does not keep it."""
        job = Job(self.job.settings)
        for known in (*self._sources.values(), *self.job.catalog.functions.values()):
            job.catalog.add(known)
        return job.query("select", body)

    @property
    def _sources(self) -> dict[str, Stream | Table]:
        return {**self.job.catalog.streams, **self.job.catalog.tables}

    def _provide(self, own: OwnFunction) -> None:
        try:
            provide(own, begun=False)
        except EddylineError:
            self.job.catalog.drop("function", own.name)
            raise
        self.show(f"function {own.signature}")

    def _session_of(self, query: BoundQuery, follow: bool = False) -> Session:
        """A session with the streams and tables that a query reads: it does not read the files of other streams."""
        session = Session(query.settings, follow=follow)
        for own in self.job.catalog.functions.values():
            session.job.catalog.add(own)
        read = self._read_by(query.text)
        for entry in (entry for name, entry in self._sources.items() if name in read):
            if entry.name in self._derived:
                session.execute(self._derived[entry.name])
            else:
                session.job.catalog.add(entry)
        return session

    def _read_by(self, text: str) -> set[str]:
        """The streams and tables that a text names, and those of which derived streams among them are made."""
        read: set[str] = set()
        texts = [text]
        while texts:
            words = texts.pop().lower()
            named = {name for name in self._sources if re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", words)}
            texts += [self._derived[name] for name in named - read if name in self._derived]
            read |= named
        return read

    def _run(self, query: BoundQuery, most: int | None = None, live: bool = False) -> None:
        if most is not None:
            check_first_rows(query)
        for warning in notices(query, self._sources):
            self.show(f"warning: {warning}")
        session = self._session_of(query, follow=live)
        registered = session.query(query.name, query.text)
        if live:
            from eddyline.cli.interactive.live import show_live

            began = time.perf_counter()
            count = show_live(self.console, session, registered, query.name, self.limit)
            self.show(f"the query has ended: {count:,} rows in {time.perf_counter() - began:.2f} s")
            self._show_dead(session)
            return
        if most is not None and not any(
            ref.source in self._derived or ref.source not in self._sources for ref in query.references
        ):
            stop_after(session, query.name, most)
        self._print(session, query.name, lambda: registered.table().slice(0, most), most)

    def _answer(self, request: Request) -> None:
        """Print the answer of a request at the end of the files of its template."""
        session = self._session_of(self.job.catalog.template(request.template).query)
        session.execute(self._templates[request.template])
        self._print(session, " ".join(request.text.split()), lambda: session.request(request.text))

    def _print(self, session: Session, title: str, answer: Callable[[], Any], most: int | None = None) -> None:
        """Run a session to the end of its files and print a table: what `answer` gives then."""
        began = time.perf_counter()
        session.run(once=True)
        self._show_rows(answer(), title, time.perf_counter() - began, most)
        self._show_dead(session)

    def _show_dead(self, session: Session) -> None:
        """Name the rows that took no part."""
        stats = session.stats()
        for kind in ("late", "bad"):
            for name, count in stats[kind].items():
                if count:
                    self.show(f"{count:,} {kind} rows of {name} took no part: {_first_reason(session, name, kind)}")

    def _show_rows(self, table: pa.Table, title: str, seconds: float, most: int | None = None) -> None:
        """Print a table and the time that it took: as many rows as `most` says, or else as `.limit` says."""
        self.console.print(as_rich(table, title, self.limit if most is None else most))
        self.show(f"{table.num_rows:,} {'row' if table.num_rows == 1 else 'rows'} in {seconds:.2f} s")

    # -- lists

    def _list_entries(self, kind: str) -> None:
        """SHOW: all entries of a kind, whatever `.limit` says."""
        found = listing(kind, self.job)
        if found.num_rows:
            self.console.print(as_rich(found, kind.lower(), found.num_rows))
        else:
            self.show(f"there are no {kind.lower()}")

    def _describe(self, text: str) -> None:
        if not text:
            raise UserError(
                "DESCRIBE needs a name", detail="nothing follows it", hint="DESCRIBE name; or DESCRIBE SELECT …;"
            )
        if len(text.split()) == 1:
            name = text.strip('"')
            self.console.print(as_rich(description(name, self.job), name, MOST_LINES))
            return
        for statement in parse_script(text):
            if not isinstance(statement, Body):
                raise UserError("DESCRIBE takes a name or a SELECT", detail=f"found {text}", hint="DESCRIBE SELECT …;")
            self.console.print(as_rich(columns_of(self._bound(statement)), "select", MOST_LINES))

    # -- commands

    def open(self, name: str, path: str, time: str | None = None) -> None:
        """Declare a stream over files whose columns are inferred, and show the statement that does so."""
        found = declaration(name, path, time)
        self.job.apply(found.statement)
        self.show(f"{render(found.statement)};")
        for column in found.left_out:
            self.show(f"left out: {column}")

    def read(self, path: str) -> None:
        for statement in parse_script(read_job(path)):
            self._apply(statement)

    def run_query(self, name: str) -> None:
        self._run(self.job.catalog.query(name))

    def tables(self) -> None:
        for relation in self._sources.values():
            self._list(relation, relation.schema.names)
        for query in self.job.queries:
            self._list(query, [output.name for output in query.outputs])
        if not self._sources:
            self.show("nothing is declared; .open NAME PATH")

    def _list(self, entry: Stream | Table | BoundQuery, columns: Iterable[str]) -> None:
        self.show(f"{_KINDS[type(entry)]:6} {entry.name} ({', '.join(columns)})")

    def schema(self, name: str) -> None:
        known = {q.name.lower(): q for q in self.job.queries}
        if name.lower() in known:
            query = known[name.lower()]
            self.show("\n".join([f"{o.name} {o.type}" for o in query.outputs] + [" ".join(query.text.split())]))
            return
        entry = self.job.catalog.relation(name)
        roles = {entry.time: "event time", entry.sequence: "sequence"} if isinstance(entry, Stream) else {}
        for column in entry.schema.columns:
            self.show(f"{column.name} {column.type}" + (f"  -- {roles[column.name]}" if column.name in roles else ""))
        self.show(", ".join(f"{key} = {value}" for key, value in entry.options.items()))

    def set_limit(self, number: str) -> None:
        if not number.isdecimal():
            raise UserError(f".limit does not take {number}", hint="a whole number of rows")
        self.limit = int(number)

    def set_timing(self, wanted: str) -> None:
        if wanted not in ("on", "off"):
            raise UserError(f".timing does not take {wanted}", hint=".timing on, or .timing off")
        self.timing = wanted == "on"

    def words(self) -> dict[str, Sequence[str]]:
        """What the editor completes and colours, by kind."""
        known = vocabulary(self.job.catalog)
        columns = {name for entry in self._sources.values() for name in entry.schema.names}
        return {
            "name": [*self._sources, *(query.name for query in self.job.queries), *sorted(columns)],
            "function": [*self.job.catalog.functions, *(function["name"] for function in known["functions"])],
            "keyword": [*known["keywords"], *OWN_WORDS],
            "command": [*self._commands, *COMMAND_WORDS],
        }


def _first_reason(session: Session, stream: str, kind: str) -> str:
    reasons = session.dead_letters(stream).column("_reason").to_pylist()
    return next(reason for reason in reasons if reason.startswith(kind))
