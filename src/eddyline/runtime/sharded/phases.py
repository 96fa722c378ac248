"""What tasks of a batch do, wherever they run.

Answer   `read` turns a piece of the batch's input into packets: for each shard its rows, and for every shard the tick
         of the piece. `step` runs the epoch of one shard over all packets for it, and gives packets for shards of later
         steps, parcels, and one note.

             read(piece) ─► packets and ticks ─► step(shard) ─► packets ─► step(shard of the next step) ─► …
                                                     └► parcels, note              └► parcels, note

State    None here; engines stay in the process between batches (`shard/engines.py`).
Limits   No shard steps before the packets of every piece are there: a tick that is missing would let it pass rows that
         are still to come. Whoever runs the phases sees to that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import pyarrow as pa

from eddyline.connectors.files.chunks import read_chunks
from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.files.parts import by_groups
from eddyline.connectors.future_rows import limit_at, within
from eddyline.connectors.guarded.parsing_marks import shared_marks
from eddyline.model.schema import Stream
from eddyline.operators.sharing.skipping import SKIPPED, Stretch
from eddyline.runtime.figures.memory import resident_bytes
from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.needed import NeededColumns
from eddyline.runtime.sharded.ingest.packer import Packer
from eddyline.runtime.sharded.ingest.packet import PACKETS_PER_PIECE, PIECE_ROWS, Packet
from eddyline.runtime.sharded.ingest.wanted import Wanted, WantedRows
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout, parsing_folder
from eddyline.runtime.sharded.output.parcels import Parcel, Shelf, note, parcels
from eddyline.runtime.sharded.shard.assembly import assemble
from eddyline.runtime.sharded.shard.engines import Engines
from eddyline.runtime.sharded.shard.pipeline import ShardEngine, ShardPipeline


@dataclass(frozen=True)
class Phases:
    #: The first layout of the run, with the functions that its queries call.
    packed: PackedLayout
    #: What makes the engines of shards.
    engine: type[ShardEngine] = ShardPipeline
    #: Engines of each step that a process keeps.
    most_engines: int = 4

    def layout(self, batch: BatchDocument) -> JobLayout:
        return self.packed.named(batch.layout).open()

    def serving(self, shards: int) -> Phases:
        """For a process that has as many shards of each step."""
        return replace(self, most_engines=max(self.most_engines, shards))

    def reading_of(self, batch: BatchDocument, piece: FilePiece) -> Hashable:
        """All that decides about the packets of a piece: where it is the same, they are."""
        name, late = piece.stream, batch.late_below
        stream = self.layout(batch).streams[self.layout(batch).numbers[name]]
        known = bool(batch.control), bool(batch.before), name in late, late.get(name)
        return batch.layout, piece, known, limit_at(stream, batch.at)

    def read(self, batch: BatchDocument, piece: FilePiece) -> Iterator[Packet]:
        """A piece of the batch as packets of bounded size; every piece gives at least one for each shard, so that its
        tick is never missing."""
        layout, packer = self.layout(batch), packer_of(self.packed.named(batch.layout))
        stream = layout.streams[layout.numbers[piece.stream]]
        file, limit = DataFile(piece.name, piece.path), limit_at(stream, batch.at)
        part = piece.part
        if part is not None and not by_groups(stream.options):
            part.least = piece.begin + piece.size if piece.end is None else piece.end
        # Records of a part are numbered from its first one.
        marked = piece.path if part is None else f"{piece.path}:{part.begin}"
        marks = shared_marks(parsing_folder(layout.checkpoint)).of(marked)
        place, first_row, size = piece.number * PACKETS_PER_PIECE, 0, 0
        waiting: list[pa.Table] = []
        bad: list[pa.Table] = []
        skipped: list[Stretch] = []
        left_out = 0

        def packed(closed: bool) -> list[Packet]:
            rows = pa.concat_tables(waiting) if waiting else stream.schema.arrow.empty_table()
            letters = pa.concat_tables(bad) if bad else None
            made = packer.pack(stream.name, rows, letters, place, closed, first_row, wanted=wanted)
            if not skipped:
                return made
            newest, count = max(one.greatest for one in skipped), sum(one.rows for one in skipped)
            return [packet._replace(newest=newest, rows=count) for packet in made]

        packing = self.packed.named(batch.layout)
        columns, wanted = left_out_of(packing, stream, batch)
        skipping = _needed_of(packing)[0].skipping(stream, batch)
        asked = None if skipping is None else lambda: skipping
        found = read_chunks(stream, file, marks, part, columns, batch.late_below.get(stream.name), asked)
        for chunk in (within(chunk, stream, limit) for chunk in found):
            # Where a row is late, all columns have been read.
            is_other = bool(waiting) and waiting[0].num_columns != chunk.rows.num_columns
            # Rows that were skipped are packets of their own: a tick.
            is_other = is_other or bool(skipped) != (chunk.skipped is not None)
            if size and (is_other or size + chunk.rows.num_rows > PIECE_ROWS):
                yield from packed(False)
                place, first_row, size = place + 1, first_row + size, 0
                waiting, bad, skipped = [], [], []
            if chunk.skipped is not None:
                left_out += 1
                skipped.append(chunk.skipped)
                size += chunk.skipped.rows
            if chunk.rows.num_rows:
                waiting.append(chunk.rows)
                size += chunk.rows.num_rows
            if chunk.bad is not None:
                bad.append(chunk.bad)
        lines = 0 if part is None else part.lines
        groups = (
            "" if skipping is None else json.dumps({**skipping.counts, **({SKIPPED: left_out} if left_out else {})})
        )
        for packet in packed(piece.is_last):
            yield packet._replace(lines=lines, row_groups="" if packet.shard else groups)

    def step(
        self, batch: BatchDocument, shard: int, packets: Iterable[Packet], beside: int = 0
    ) -> Iterator[Packet | Parcel]:
        """
        Args:
            beside: Memory of another process that is there for this one.
        """
        layout, clock = self.layout(batch), [time.perf_counter()]
        engines = Engines(self.packed.digest, layout, self.engine, self.most_engines * layout.steps)
        opened = engines.opened(shard, batch.before.get(shard))
        engine = opened.engine
        clock.append(time.perf_counter())
        assembled = assemble(layout, batch, shard, packets, engine.bounds(), opened.idle)
        clock.append(time.perf_counter())
        changed = engine.control(layout, batch.control)
        silent = {name for name, routing in layout.routing.routings.items() if not routing.uses(shard)}
        shelf = Shelf(layout, shard, batch.number, silent, batch.untaken)
        outcome = engine.step(assembled.epoch, shelf.take)
        clock.append(time.perf_counter())
        written = engines.kept(shard, batch.number, opened, assembled.epoch.idle)
        clock.append(time.perf_counter())
        arrivals = assembled.epoch.arrivals.items()
        yield from parcels(outcome, shelf)
        facts = {
            "came_from": opened.came_from,
            "state": written.names,
            "released": time.time(),
            "frontier": outcome.frontier,
            "frontiers": outcome.frontiers,
            "waiting": outcome.waiting,
            "rows_in": assembled.rows_in,
            "lines": assembled.lines,
            "late_below": engine.late_below(),
            "bad": {name: arrival.bad.num_rows for name, arrival in arrivals if arrival.bad is not None},
            "closing": assembled.epoch.closing,
            "changed": {**changed, "gone": [*changed.get("gone", ()), *outcome.gone]},
            "bytes_written": written.size,
            "worker_bytes": resident_bytes() + beside,
            "seconds": dict(
                zip(("open", "assemble", "step", "persist"), (b - a for a, b in pairwise(clock)), strict=True)
            ),
            "statistics": engine.statistics(),
            "seen": engine.observed(),
            "asked": outcome.request_outcomes,
        }
        yield note(shard, facts)
        for (stream, maker), rows in outcome.handed.items():
            yield from packer_of(self.packed.named(batch.layout)).hand_on(stream, maker, shard, rows)


def left_out_of(
    packed: PackedLayout, stream: Stream, batch: BatchDocument
) -> tuple[frozenset[str] | None, Wanted | None]:
    """The columns of a stream that the queries of a layout need in a batch, and which rows; None: all."""
    columns, rows = _needed_of(packed)
    return columns.of(stream, batch), rows.of(stream, batch)


@lru_cache(maxsize=2)
def _needed_of(packed: PackedLayout) -> tuple[NeededColumns, WantedRows]:
    columns = NeededColumns(packed.open())
    return columns, WantedRows(packed.open(), columns)


@lru_cache(maxsize=2)
def packer_of(packed: PackedLayout) -> Packer:
    """This process's packer for a layout: compiling keys costs, and tasks are many."""
    return Packer(packed.open())
