"""`eddyline shell [FILE …]`: try queries on files.

Answer   Statements end with `;`. A SELECT runs over the declared files from their first row to their last, and its
         results are shown as a table, and so is the answer of a REQUEST; CREATE, DROP, SET and EXPLAIN do what they do
         in a job file. Lines that begin with a point are the shell's own commands.
State    The job as said so far. Every SELECT is a run of its own: nothing is kept between two of them.
Limits   Results are collected before they are shown. Sinks are checked and not written: that is what `eddyline run` is
         for. Editing and history need prompt_toolkit and a terminal; otherwise lines are read as they come.
"""

from __future__ import annotations

import argparse
import re
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from eddyline.cli.inference import declaration, stem
from eddyline.cli.jobs import read_job
from eddyline.connectors.results.sinks import as_rich
from eddyline.errors import EddylineError, EddylineWarning, UserError
from eddyline.language import Dropped, ExplainRequest, Job, parse_script, render
from eddyline.language.catalog import DeclaredSink
from eddyline.language.job import ExplainTemplate
from eddyline.language.syntax import Event, Select, Statement
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
REQUEST … FROM template;   ask a template that CREATE TEMPLATE declared, at the end of the files
CREATE … ; DROP … ;        declare streams, tables and queries, or let them go
SET name = value;          for what comes after it
EXPLAIN query|SELECT …;    how it would be answered
.open NAME PATH [TIME]     declare a stream (or table) over files, columns inferred
.read FILE                 carry out the statements of a file
.run QUERY                 run a query that CREATE QUERY declared
.tables                    what is declared
.schema NAME               columns, types and options of a stream, table or query
.limit N                   show at most N rows of a result (20)
.help                      this list
.quit                      leave; so does the end of input"""

_PIECES = re.compile(r"'(?:[^']|'')*(?:'|\Z)|\"(?:[^\"]|\"\")*(?:\"|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|;", re.S)
_BLANK = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*\Z", re.S)


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "shell", help="try queries on files interactively", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="job files (.sql) to carry out, data files or folders to open"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # From here on Ctrl-C ends what runs, not the shell.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The shell itself shows what took no part.
    warnings.simplefilter("ignore", EddylineWarning)
    # Outside a terminal a table is as wide as its contents.
    shell = Shell(Console() if sys.stdout.isatty() else Console(width=200))
    for path in args.files:
        shell.attempt(lambda path=path: shell.read(path) if path.endswith(".sql") else shell.open(stem(path), path))  # type: ignore[misc]
    if interactive:
        shell.say("eddyline shell; statements end with ; and .help lists what else there is")
    for line in lines(shell, interactive):
        if not shell.feed(line):
            break
    else:
        shell.end()
    return 0 if interactive or not shell.mistakes else UserError.exit_code


class Shell:
    def __init__(self, console: Console) -> None:
        self.console = console
        self.job = Job(workflows=workflow_rules)
        self.limit = 20
        #: How many statements were refused: what the exit code of a piped shell is made of.
        self.mistakes = 0
        self.pending = ""
        #: The statements of templates, by name.
        self._templates: dict[str, str] = {}
        #: Per command what it does and how many words it takes, at least and at most.
        self._commands: dict[str, tuple[Callable[..., None], int, int]] = {
            ".open": (self.open, 2, 3),
            ".read": (self.read, 1, 1),
            ".run": (self.run_query, 1, 1),
            ".tables": (self.tables, 0, 0),
            ".schema": (self.schema, 1, 1),
            ".limit": (self.set_limit, 1, 1),
            ".help": (lambda: self.say(HELP), 0, 0),
        }

    # -- lines in

    def feed(self, line: str) -> bool:
        """Take one line; False: the user has had enough."""
        words = line.strip()
        if not self.pending and words.startswith("."):
            if words.rstrip(";").strip() in (".quit", ".exit"):
                return False
            self.attempt(lambda: self._command(words))
            return True
        statements, self.pending = split(self.pending + line + "\n")
        for text in statements:
            self.attempt(lambda text=text: self.execute(text))  # type: ignore[misc]
        if _BLANK.match(self.pending):
            self.pending = ""
        return True

    def end(self) -> None:
        """The input has ended: what is left is taken for a statement whose `;` was forgotten."""
        rest, self.pending = self.pending, ""
        if rest:
            self.attempt(lambda: self.execute(rest))

    def attempt(self, work: Callable[[], None]) -> None:
        """Do something; a mistake is shown, with its hint, and ends nothing."""
        try:
            work()
        except EddylineError as problem:
            self.mistakes += 1
            self.console.print(Text(f"error: {problem}"), style="red", soft_wrap=True)
        except KeyboardInterrupt:
            self.say("stopped")

    def say(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def _command(self, line: str) -> None:
        try:
            name, *words = shlex.split(line.rstrip(";"))
        except ValueError as problem:
            raise UserError(f"{line} cannot be read", detail=str(problem)) from None
        if name not in self._commands:
            raise UserError(f"there is no command {name}", hint=".help lists the commands")
        function, least, most = self._commands[name]
        if not least <= len(words) <= most:
            usage = next(text for text in HELP.splitlines() if text.startswith(name))
            raise UserError(f"{name} does not take {len(words)} words", hint=" ".join(usage.split()))
        function(*words)

    # -- statements

    def execute(self, text: str) -> None:
        for statement in parse_script(text):
            self._apply(statement)

    def _apply(self, statement: Statement) -> None:
        if isinstance(statement, Select | Event):
            # Under a name of its own in a job of its own, so that nothing stays behind.
            self._show(self._job_of_its_own().query("select", statement))
            return
        match self.job.apply(statement):
            case ExplainRequest(query):
                self.say(explanation(query, self._sources))
            case ExplainTemplate(template, request):
                from eddyline.plan.template_text import request_text, template_text

                self.say(template_text(template) if request is None else request_text(template, request))
            case Template() as template:
                self._templates[template.name] = render(statement)
                self.say(f"template {template.name}; REQUEST … FROM {template.name}; asks it")
            case Request():
                self._answer(self.job.requests.pop())
            case RequestStream() as requests:
                self.say(f"stream of requests {requests.name}; eddyline run answers it")
            case Dropped(kind, entry):
                self.say(f"dropped {kind} {entry.name}")
            case BoundQuery() as query:
                check(query, self._sources)
                self.say(f"query {query.name}; .run {query.name} shows its results")
            case Stream() | Table() as relation:
                self.say(f"{_kind(relation)} {relation.name}, {len(relation.schema.columns)} columns")
            case DeclaredSink() as sink:
                self.say(f"sink {sink.name}; the shell shows results and writes none, eddyline run does")
            case ConstraintSet() as found:
                self.say(f"constraints {found.name}, {len(found.rules)} rules")
            case OwnFunction() as own:
                self._provide(own)
            case Settings():
                return

    @property
    def _sources(self) -> dict[str, Stream | Table]:
        return {**self.job.catalog.streams, **self.job.catalog.tables}

    def _job_of_its_own(self) -> Job:
        own = Job(self.job.settings)
        entries: list[Stream | Table] = [*self.job.streams, *self.job.tables]
        for entry in entries:
            own.catalog.add(entry)
        for function in self.job.catalog.functions.values():
            own.catalog.add(function)
        return own

    def _provide(self, own: OwnFunction) -> None:
        try:
            provide(own, begun=False)
        except EddylineError:
            self.job.catalog.drop("function", own.name)
            raise
        self.say(f"function {own.signature}")

    def _session_of(self, query: BoundQuery) -> Session:
        """A session that knows what a query reads: a stream that it does not mention is not read to its end for
        nothing."""
        session = Session(query.settings)
        for name in dict.fromkeys(reference.source for reference in query.references):
            session.job.catalog.add(self.job.catalog.relation(name))
        for own in self.job.catalog.functions.values():
            session.job.catalog.add(own)
        return session

    def _show(self, query: BoundQuery) -> None:
        for warning in notices(query, self._sources):
            self.say(f"warning: {warning}")
        session = self._session_of(query)
        answer = session.query(query.name, query.text)
        began = time.perf_counter()
        session.run(once=True)
        self._print(session, answer.table(), query.name, time.perf_counter() - began)

    def _answer(self, request: Request) -> None:
        """The answer of a request when the files of its template have been read."""
        session = self._session_of(self.job.catalog.template(request.template).query)
        session.execute(self._templates[request.template])
        began = time.perf_counter()
        session.run(once=True)
        found = session.request(request.text)
        assert isinstance(found, pa.Table)
        self._print(session, found, " ".join(request.text.split()), time.perf_counter() - began)

    def _print(self, session: Session, table: pa.Table, title: str, seconds: float) -> None:
        self.console.print(as_rich(table, title, self.limit))
        self.say(f"{table.num_rows:,} {'row' if table.num_rows == 1 else 'rows'} in {seconds:.2f} s")
        stats = session.stats()
        for kind in ("late", "bad"):
            for name, count in stats[kind].items():
                if count:
                    self.say(f"{count:,} {kind} rows of {name} took no part: {_first_reason(session, name, kind)}")

    # -- commands

    def open(self, name: str, path: str, time: str | None = None) -> None:
        """Declare a stream over files whose columns are inferred, and show the statement that does so."""
        found = declaration(name, path, time)
        self.job.apply(found.statement)
        self.say(f"{render(found.statement)};")
        for column in found.left_out:
            self.say(f"left out: {column}")

    def read(self, path: str) -> None:
        for statement in parse_script(read_job(path)):
            self._apply(statement)

    def run_query(self, name: str) -> None:
        self._show(self.job.catalog.query(name))

    def tables(self) -> None:
        entries: list[Stream | Table] = [*self.job.streams, *self.job.tables]
        for entry in entries:
            self.say(f"{_kind(entry):6} {entry.name} ({', '.join(entry.schema.names)})")
        for query in self.job.queries:
            kind = (
                "template"
                if isinstance(query, BoundTemplate)
                else "requests"
                if isinstance(query, BoundRequests)
                else "query "
            )
            self.say(f"{kind} {query.name} ({', '.join(o.name for o in query.outputs)})")
        if not entries:
            self.say("nothing is declared; .open NAME PATH")

    def schema(self, name: str) -> None:
        known = {q.name.lower(): q for q in self.job.queries}
        if name.lower() in known:
            query = known[name.lower()]
            self.say("\n".join([f"{o.name} {o.type}" for o in query.outputs] + [" ".join(query.text.split())]))
            return
        entry = self.job.catalog.relation(name)
        marks = {entry.time: "event time", entry.sequence: "sequence"} if isinstance(entry, Stream) else {}
        for column in entry.schema.columns:
            self.say(f"{column.name} {column.type}" + (f"  -- {marks[column.name]}" if column.name in marks else ""))
        self.say(", ".join(f"{key} = {value}" for key, value in entry.options.items()))

    def set_limit(self, number: str) -> None:
        if not number.isdecimal():
            raise UserError(f".limit does not take {number}", hint="a whole number of rows")
        self.limit = int(number)

    def names(self) -> list[str]:
        """What may be completed: commands, and the names of what is declared."""
        entries: list[Stream | Table] = [*self.job.streams, *self.job.tables]
        columns = {name for entry in entries for name in entry.schema.names}
        return [
            *self._commands,
            ".quit",
            *(e.name for e in entries),
            *(q.name for q in self.job.queries),
            *sorted(columns),
        ]


def _kind(entry: Stream | Table) -> str:
    return "stream" if isinstance(entry, Stream) else "table"


def _first_reason(session: Session, stream: str, kind: str) -> str:
    reasons = session.dead_letters(stream).column("_reason").to_pylist()
    return next(reason for reason in reasons if reason.startswith(kind))


def split(text: str) -> tuple[list[str], str]:
    """The statements that end with `;`, and the rest; a `;` in quotes or in a comment ends nothing.

    >>> split("SELECT ';' FROM s; SELECT")
    (["SELECT ';' FROM s"], ' SELECT')
    """
    statements, start = [], 0
    for piece in _PIECES.finditer(text):
        if piece[0] == ";":
            statements.append(text[start : piece.start()])
            start = piece.end()
    return [s for s in statements if not _BLANK.match(s)], text[start:]


def lines(shell: Shell, interactive: bool) -> Iterator[str]:
    """The lines of the user: edited on a terminal, as they come otherwise."""
    if not interactive:
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    ask = _prompt(shell)
    while True:
        try:
            yield ask("eddyline> " if not shell.pending else "      ... ")
        except KeyboardInterrupt:
            shell.pending = ""
        except EOFError:
            return


def _prompt(shell: Shell) -> Callable[[str], str]:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
    except ImportError:
        return input
    return PromptSession(completer=WordCompleter(shell.names), complete_while_typing=False).prompt


__all__ = ["Shell", "add_parser", "run", "split"]
