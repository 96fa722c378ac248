"""What a session asks of an engine, and what the engine returns: one form for all engines.

Answer   `Runner` carries out what the front door says: declare, register, run, stop, look in. `Handle` is one query of
         it: its results and its place in time. An `Observer` may look at the `Report` of the job after every epoch.
Limits   Words only. The engines are `embedded/runner.py`, `cores/runner.py` and `spark/runner.py`; none knows another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from eddyline.connectors.base import Sink
from eddyline.language.catalog import DeclaredSink
from eddyline.model.query import BoundQuery
from eddyline.model.records.records import Records
from eddyline.model.schema import Schema, Stream, Table
from eddyline.model.template import Request
from eddyline.plan.shape import Part
from eddyline.runtime.figures.report import Report

#: Called after every epoch; what it is given makes the report of the job at the end of this epoch, without the texts of
#: plans.
Observer = Callable[[Callable[[], Report]], None]


class Handle(Protocol):
    """One registered query, as long as the session holds it: also after it was dropped."""

    @property
    def start(self) -> int | None: ...

    @property
    def stop(self) -> int | None: ...

    @property
    def schema(self) -> pa.Schema: ...

    def take(self) -> list[pa.Table]:
        """Results that came since the last call, in order."""

    def peek(self) -> Iterable[pa.Table]:
        """What the next `take` gives, without taking it."""

    @property
    def waiting(self) -> int:
        """How many rows the next `take` gives."""

    def take_punctuations(self) -> list[pa.Table]:
        """Punctuations of its results that came since the last call, in order."""

    def to_dataframe(self, streaming: bool) -> Any: ...


class Runner(Protocol):
    #: Called after every epoch, in this order.
    observers: list[Observer]
    #: Every query that the session may ask about, by name.
    handles: dict[str, Handle]

    @property
    def begun(self) -> bool:
        """Whether rows have been asked for: what is declared from here on joins a running job."""

    @property
    def is_running(self) -> bool:
        """Whether the job runs in the background."""

    # -- saying what there is

    def schema_of(self, name: str, given: object) -> Schema | None:
        """The columns of something that can be read as a stream; None: it is nothing of the kind."""

    def declare(self, stream: Stream, given: object = None) -> None: ...

    def load(self, table: Table) -> None: ...

    def register(self, query: BoundQuery) -> None: ...

    def drop(self, name: str) -> None: ...

    def forget(self, kind: str, name: str) -> None:
        """A stream, table or sink has been dropped: what is created under its name later is another one."""

    def check_sink(self, sink: DeclaredSink) -> str | None:
        """Refuse a sink that cannot be written here; what is worth knowing about one that can."""

    def add_sink(self, query: str, sink: Sink) -> None: ...

    def sink(self, name: str) -> Sink:
        """A declared sink of a session that has begun."""

    # -- running

    def push(self, stream: Stream, rows: object) -> int: ...

    def push_record(self, stream: Stream, kind: str, body: Mapping[str, Any] | pa.Table) -> None:
        """Records of a kind that stand right after the newest row pushed so far, one per line of the body."""

    def promise(self, streams: Sequence[Stream]) -> None:
        """CREATE PUNCTUATION in a job that runs: the streams that it names, as they are declared now."""

    def announce(self, records: Sequence[Records]) -> None:
        """Records with places of their own."""

    def step(self) -> None: ...

    def step_pending(self) -> None: ...

    def run(self, once: bool, final: bool | None = None) -> None:
        """Work until the sources end, or until `stop`; with `final` the streams end with the run."""

    def start(self) -> None: ...

    def stop(self, final: bool | None = None) -> None: ...

    def request(self, requests: Sequence[Request], timeout: float | None) -> list[pa.Table]:
        """One table per request to a template; a request for a later instant waits where the job runs in the
        background."""

    def ask_to_stop(self) -> None:
        """Let `run` return after the epoch at hand; safe in a signal handler."""

    def give_up(self, anything: bool = False) -> str | None:
        """Give up the epoch that is being computed, or with `anything` whatever the next run repeats, in a process that
        ends now: what to say of it. None: nothing is given up."""

    def abandon(self) -> None:
        """Stop without a word: the program has failed elsewhere."""

    # -- looking in

    def explain(self, query: BoundQuery) -> str: ...

    def plan(self, query: BoundQuery) -> tuple[str, Part]:
        """How a query is, or would be, answered: as text and as parts."""

    def analysis(self, name: str) -> str: ...

    def stats(self) -> dict[str, Any]: ...

    def latest_report(self) -> dict[str, Any] | None:
        """The newest report as files and pages have it; None: there is none yet."""

    def report_folder(self) -> str:
        """The folder below which the job writes its reports and reads control records: its checkpoint, or one that goes
        with it."""

    def dead_letters(self, stream: Stream) -> list[pa.Table]: ...
