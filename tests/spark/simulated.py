"""A job on several shards in one process: micro-batches, and a driver that dies.

Answer   `Simulated` runs a job with the conductor of one process, and with packer, storage, roster, ledger and delivery
         as they are. What Spark itself does is played: a batch's offsets are written down before it runs, it is
         committed once it is delivered, and after a crash it comes again with the same input.
State    The checkpoint folder, the sinks; a driver object that is thrown away by a crash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline.connectors.memory import MemorySource
from eddyline.connectors.results.sinks import MemorySink
from eddyline.language import Job, bind_script
from eddyline.operators.expressions.own_functions import register
from eddyline.plan.tree.migration import Migration
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record, drop_record
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.conducting import Batches
from eddyline.runtime.sharded.ingest.control import next_control, read_control, write_control
from eddyline.runtime.sharded.ingest.needed import latest_bounds
from eddyline.runtime.sharded.ingest.packer import Packer
from eddyline.runtime.sharded.job import roster
from eddyline.runtime.sharded.job.checkpoint_progress import write_pending
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.job.progress import StreamProgress
from eddyline.runtime.sharded.job.reconciling import reconciled
from eddyline.runtime.sharded.job.saying import say
from eddyline.runtime.sharded.output.delivery import BatchDelivery, Delivered
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.phases import Phases, left_out_of
from eddyline.runtime.sharded.shard.engines import forget
from eddyline.runtime.sharded.storage.heads import Head
from eddyline.settings import Settings
from eddyline.state.sealed import unsealed
from tests.memory import folder_of_a_case
from tests.oracle.intake import Values
from tests.property.compare import Outcome, plain_rows
from tests.property.specs import Case
from tests.property.test_migration import random_orders, random_tree
from tests.spark.conducted import conductor


class Crash(Exception):
    """The driver dies here."""


class Driver:
    """What a driver process has in memory."""

    def __init__(
        self, job: Job, checkpoint: str, shards: int, sink_of: Callable[[str], MemorySink], out: str | None = None
    ) -> None:
        layout = reconciled(
            checkpoint,
            job.streams,
            job.queries,
            job.tables,
            job.settings,
            shards,
            tuple(job.catalog.functions.values()),
        )
        self.delivery = BatchDelivery(
            {s.name: s for s in layout.streams},
            layout.staging,
            out,
            self._delivered,
            settings=layout.settings,
            by_shard=True,
        )
        self.functions = tuple(job.catalog.functions.values())
        self.delivery.kept_dead = {}
        self.roster = roster.ShardedRoster(layout, job.catalog, self.delivery, lambda name, _: [sink_of(name)])
        self.roster.begin()
        self.batches = Batches(layout.checkpoint, layout.shards)
        self.progress = StreamProgress()

    @property
    def layout(self) -> JobLayout:
        """As it holds in the next batch."""
        return self.roster.layout

    def _delivered(self, delivered: Delivered) -> None:
        write_pending(self.layout.checkpoint, delivered.batch, delivered.pending)
        self.progress.take(delivered)
        self.roster.after_batch(delivered)


class Simulated:
    def __init__(
        self,
        text: str,
        checkpoint: str,
        shards: int,
        random: Random,
        forgetful: float = 0.4,
        settings: Settings | None = None,
        out: str | None = None,
        begins: Callable[[], object] = lambda: None,
    ) -> None:
        """
        Args:
            text: The job.
            checkpoint: Its folder.
            shards: How many there are.
            random: Decides what this job is left to choose.
            forgetful: How often a shard is made anew from what it wrote.
            settings: Those that the job begins with.
            out: Folder for results; without one they are in memory alone.
            begins: Called before each start of a driver.
        """
        self.out, self.begins = out, begins
        self.text, self.checkpoint, self.shards, self.random = text, os.path.abspath(checkpoint), shards, random
        self.forgetful = forgetful
        self.settings = settings
        self.folder = ControlFolder(checkpoint)
        self.sinks: dict[str, MemorySink] = {}
        self.dead: dict[str, list[pa.Table]] = {}
        self.batch = 0
        self.heard = 0
        self.place = 0
        self.control_range: tuple[int, int] | None = None
        self.start()

    # -- the driver's life

    def start(self, text: str | None = None) -> None:
        self.begins()
        self.text = text or self.text
        job = bind_script(self.text, self.settings)
        for own in job.catalog.functions.values():
            register(own)
        self.driver = Driver(
            job, self.checkpoint, self.shards, lambda n: self.sinks.setdefault(n, MemorySink()), self.out
        )
        say(self.checkpoint, job.records)

    def add(self, sql: str) -> None:
        self.folder.append(add_record(sql))

    def drop(self, *names: str) -> None:
        self.folder.append(drop_record(names))

    def move_some(self) -> int:
        return move_some(self.driver.roster, self.random)

    def listed(self) -> dict[str, tuple[str, int | None, int | None]]:
        return {q["query"]: (q["state"], q["start"], q["stop"]) for q in self.folder.state()["queries"]}

    # -- batches

    def run(self, rows: Mapping[str, pa.Table] | None = None, closing: bool = False, crashes: float = 0.0) -> None:
        """One micro-batch, repeated after each crash until it is committed."""
        packable = [self._packable(name, table) for name, table in (rows or {}).items()]
        while True:
            chance = self.random.random()
            self.driver.delivery.kept_dead = {}
            try:
                parcels = self._batch(packable, closing, dies=chance < crashes / 4)
                if chance < crashes / 2:
                    raise Crash
                if chance < 3 * crashes / 4:
                    self._deliver_until_crash(parcels)
                self.driver.delivery(parcels, self.batch)
                if chance < crashes:
                    raise Crash
                break
            except Crash:
                forget(self.checkpoint) if self.random.random() < 0.5 else None
                self.start()
        _log(self.checkpoint, "commits", self.batch)
        self.batch += 1
        for name, tables in self.driver.delivery.kept_dead.items():
            self.dead.setdefault(name, []).extend(tables)
        assert self.control_range is not None
        self.heard, self.control_range = self.control_range[1], None

    def settle(self, most: int = 6, crashes: float = 0.0) -> None:
        """Batches without rows, as control records ask for them."""
        for _ in range(most):
            self.driver.roster.request_batch()
            if next_control(self.checkpoint) == self.heard:
                return
            self.run(crashes=crashes)

    def _deliver_until_crash(self, parcels: list[Parcel]) -> None:
        """Die somewhere in the middle of what is done between two batches: after some of the files have been
        written."""
        left = self.random.randrange(4)

        def write(checkpoint: str, record: Mapping[str, object]) -> int:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash
            return write_control(checkpoint, record)

        kept, roster.write_control = roster.write_control, write  # type: ignore[assignment]
        try:
            self.driver.delivery(parcels, self.batch)
        finally:
            roster.write_control = kept  # type: ignore[assignment]
        raise Crash

    def _packable(self, name: str, table: pa.Table) -> tuple[str, Any, int, int]:
        layout = self.driver.layout
        source = MemorySource(layout.streams[layout.numbers[name]])
        source.push(table)
        chunk = source.read(1 << 30)
        self.place += 2
        cut = self.random.randrange(chunk.rows.num_rows + 1) if chunk is not None else 0
        return name, chunk, cut, self.place - 2

    def _batch(self, packable: list[tuple[str, Any, int, int]], closing: bool, dies: bool) -> list[Parcel]:
        _log(self.checkpoint, "offsets", self.batch)
        if self.control_range is None:
            self.control_range = (self.heard, next_control(self.checkpoint))
        first, last = self.control_range

        def planned(head: Head | None) -> tuple[BatchDocument, None]:
            control = [json.loads(read_control(self.checkpoint, number)) for number in range(first, last)]
            control += [{"closing": True}] if closing else []
            before, bounds = ({}, {}) if head is None else (head.before, latest_bounds(head.notes.values()))
            digest = self.driver.roster.packed.digest
            return BatchDocument(self.batch, digest, control=tuple(control), before=before, late_below=bounds), None

        def run(batch: BatchDocument) -> list[Parcel]:
            layout = self.driver.layout
            packer, packets = Packer(layout), []
            for name, chunk, cut, place in packable:
                if chunk is not None:
                    stream = layout.streams[layout.numbers[name]]
                    _, wanted = left_out_of(self.driver.roster.packed, stream, batch)
                    for part, bad, at in ((chunk.rows.slice(0, cut), chunk.bad, 0), (chunk.rows.slice(cut), None, cut)):
                        packets += packer.pack(name, part, bad, place + (at > 0), False, at, wanted=wanted)
            self.random.shuffle(packets)
            phases = Phases(self.driver.roster.first, most_engines=layout.width)
            forgets = lambda: self.random.random() < self.forgetful
            functions = self.driver.functions
            found = conductor(phases, forgets, functions).run(batch, packets)
            if dies:
                raise Crash
            return found

        return self.driver.batches.parcels(self.batch, f"{self.batch} {closing}", planned, run)

    # -- what came of it

    def end(self) -> None:
        """Everything becomes files."""
        self.driver.delivery.close()

    def table(self, name: str) -> pa.Table:
        return self.sinks[name].table()

    def files(self, name: str) -> list[Path]:
        """The result files of a query, in order."""
        return sorted(Path(str(self.out), name).glob("*.parquet"))

    def letters(self, stream: str) -> list[tuple[str, Values]]:
        """The dead letters of a stream: reason and values."""
        rows = plain_rows(self.dead.get(stream, []))
        return [(str(row["_reason"]), {k: v for k, v in row.items() if k != "_reason"}) for row in rows]

    def header(self, shard: int) -> Path:
        """The file with the header of a shard's state after the last batch."""
        heads = self.driver.batches.heads
        head = heads.read(self.batch - 1)
        assert head is not None
        return Path(heads.objects.path(head.before[shard]))

    def headers(self) -> list[dict[str, Any]]:
        return [unsealed(self.header(shard).read_bytes()) for shard in range(self.driver.layout.shards)]

    def close(self) -> None:
        forget(self.checkpoint)


def _log(checkpoint: str, log: str, batch: int) -> None:
    """What Spark writes down before a batch runs, and after it."""
    os.makedirs(os.path.join(checkpoint, log), exist_ok=True)
    with open(os.path.join(checkpoint, log, str(batch)), "w", encoding="utf-8"):
        pass


def move_some(known: roster.ShardedRoster, random: Random) -> int:
    """Tell the shards to go to random trees with random probe orders, as if the planner had said so; returns how many
    groups."""
    moved = 0
    for signature, group in list(known.model.groups.items()):
        if len(group.config.seats) > 1 and random.random() < 0.5:
            seats = list(enumerate(group.config.seats))
            tree = random_tree(random, [p for p, s in seats if not s.is_table], [p for p, s in seats if s.is_table])
            orders = random_orders(random, tree) if random.random() < 0.7 else ()
            record = Migration(tree, orders, "somebody said so", 1.0, 1.0).to_document()
            write_control(known.layout.checkpoint, {"move": {"group": signature, **record}})
            moved += 1
    return moved


def run_simulated(
    case: Case, shards: int, random: Random, crashes: float = 0.0, moves: list[int] | None = None
) -> Outcome:
    """A case as one batch per epoch; with `moves`, plans are changed between them, and how many is noted."""
    with folder_of_a_case() as directory:
        for table in case.tables:
            parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
        job = Simulated(";\n".join(case.statements(directory)), f"{directory}/ck", shards, random)
        said: frozenset[str] = frozenset()
        for epoch, idle in zip(case.epochs(), case.idle(), strict=True):
            if idle != said:
                # The driver says which streams are silent; a shard sees for itself which of them speak.
                write_control(f"{directory}/ck", {"idle": sorted(idle)})
                said = idle
            job.run({name: case.arrow_rows(name, rows) for name, rows in epoch.items() if rows}, crashes=crashes)
            if moves is not None:
                moves.append(job.move_some())
        job.run(closing=True, crashes=crashes)
        found = Outcome()
        found.results = {query.name: plain_rows([job.table(query.name)]) for query in case.queries}
        found.dead = {stream.name: job.letters(stream.name) for stream in case.streams}
        job.close()
        return found
