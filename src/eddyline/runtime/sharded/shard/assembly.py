"""Packets of a micro-batch to the epoch of one shard.

Answer   Per stream its rows in source order whatever the order in which tasks delivered them, and what the whole stream
         brought (newest time, census).
Limits   Copies of a row on shards that do not keep its books are taken out when they are late: the home shard reports.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.connectors.formats.conform import with_line_numbers
from eddyline.model.records.records import BEFORE_ALL, Records
from eddyline.model.schema import Stream
from eddyline.plan.shards.routing import HOME_BIT
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.newest import merged
from eddyline.runtime.engine.records.kinds import heartbeats_among, with_home
from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.ingest.packet import (
    NUMBER_COLUMN,
    PACKETS_PER_PIECE,
    ROUTES_COLUMN,
    Packet,
    from_blob,
    maker_of,
    records_from,
    to_blob,
)
from eddyline.runtime.sharded.job.layout import JobLayout


@dataclass
class Assembled:
    epoch: Epoch
    #: stream -> readable rows that the whole stream brought, on every shard the same.
    rows_in: dict[str, int] = field(default_factory=dict)
    #: stream -> lines that have been read of the text file in which the batch ends.
    lines: dict[str, int] = field(default_factory=dict)


def assemble(
    layout: JobLayout,
    batch: BatchDocument,
    shard: int,
    packets: Iterable[Packet],
    bounds: Mapping[str, int | None],
    idle: frozenset[str] = frozenset(),
) -> Assembled:
    """The epoch of one shard.

    Args:
        layout: The one that holds in the batch.
        batch: What all shards know of it.
        shard: Whose epoch.
        packets: Those for it.
        bounds: stream -> the event time below which a row is late in this epoch.
        idle: The streams that were silent in the last epoch; they are until they speak.
    """
    by_stream: dict[int, list[Packet]] = {layout.numbers[name]: [] for name in batch.ended}
    for packet in packets:
        by_stream.setdefault(packet.stream, []).append(packet)
    arrivals: dict[str, Arrival] = {}
    rows_in: dict[str, int] = {}
    lines = dict(batch.lines)
    for number, pieces in sorted(by_stream.items()):
        name = layout.stream_of(number).name
        pieces.sort(key=lambda p: p.place)
        if number >= len(layout.streams):
            arrivals[name] = _handed(layout, name, pieces, bounds.get(name))
            continue
        files = [piece for piece in batch.pieces if piece.stream == name]
        if files:
            pieces, lines[name] = _numbered(files, pieces, lines.get(name, 0))
        arrivals[name] = _arrival(layout, name, pieces, bounds.get(name), name in batch.ended)
        rows_in[name] = sum(p.rows for p in pieces)
    closing = False
    said: list[Records] = []
    for record in batch.control:
        idle = frozenset(record.get("idle", idle))
        closing = closing or bool(record.get("closing"))
        # Every shard gets the records of statements; the first shard counts them.
        said += [with_home(Records.from_document(found), shard == 0) for found in record.get("records", ())]
    idle -= {name for name, rows in rows_in.items() if rows}
    return Assembled(Epoch(arrivals, idle=idle, closing=closing, records=tuple(said)), rows_in, lines)


def _numbered(files: list[FilePiece], packets: list[Packet], begun: int) -> tuple[list[Packet], int]:
    """Packets whose bad rows have the numbers of their lines in the file, each reason once per file, and how many lines
    have been read of the file in which the last piece ends.

    Args:
        files: The pieces of the stream, in order.
        packets: What has been read of them, in order.
        begun: The lines of the first file that earlier batches have read.
    """
    read: dict[int, int] = {}
    for packet in packets:
        piece = packet.place // PACKETS_PER_PIECE
        read[piece] = read.get(piece, 0) + packet.lines
    before: dict[int, int] = {}
    for file in files:
        begun = begun if file.begin else 0
        before[file.number] = begun
        begun = 0 if file.end is None else begun + read.get(file.number, 0)
    names = {file.number: file.name for file in files}
    said: dict[str, list[pa.Array]] = {}

    def numbered(packet: Packet) -> Packet:
        piece = packet.place // PACKETS_PER_PIECE
        if packet.bad is None:
            return packet
        bad = from_blob(packet.bad)
        if before.get(piece):
            bad = with_line_numbers(bad, names[piece], before[piece])
        # What is wrong with the file is said by each part; what is wrong with a row has its number.
        known = said.setdefault(names[piece], [])
        reasons = bad.column("_reason").combine_chunks()
        if known:
            bad = bad.filter(pc.invert(pc.is_in(reasons, pa.concat_arrays(known))))
        known.append(reasons)
        return packet._replace(bad=to_blob(bad) if bad.num_rows else None)

    return [numbered(packet) for packet in packets], begun


def _arrival(layout: JobLayout, name: str, pieces: list[Packet], bound: int | None, ended: bool) -> Arrival:
    stream = layout.streams[layout.numbers[name]]
    tables, numbers, census = [], [], []
    records: list[Records] = []
    before, told = 0, BEFORE_ALL
    for piece in pieces:
        if piece.blob is not None:
            table = _with_all_columns(from_blob(piece.blob), stream)
            if NUMBER_COLUMN in table.column_names:
                numbers.append(table.column(NUMBER_COLUMN).to_numpy() + np.int64(before))
                table = table.drop_columns(NUMBER_COLUMN)
            else:
                numbers.append(np.arange(before, before + table.num_rows))
            tables.append(table)
        if piece.census is not None:
            census.append(np.frombuffer(piece.census, np.int64))
        if piece.records is not None:
            found = [_timely_origins(batch, name, told) for batch in records_from(piece.records)]
            said = heartbeats_among(name, found)
            told = told if said is None else max(told, int(said.instants.max(initial=told)))
            records += [batch.shifted(before) if batch.stream == name else batch for batch in found if len(batch)]
        before += piece.rows
    rows = pa.concat_tables(tables) if tables else stream.schema.arrow.empty_table()
    places = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
    rows, routes, chosen = _timely(rows, stream, bound)
    places = places if chosen is None else places[chosen]
    bad = [from_blob(p.bad) for p in pieces if p.bad is not None]
    counted = name in layout.counted
    return Arrival(
        rows,
        bad=pa.concat_tables(bad) if bad else None,
        newest=max((p.newest for p in pieces if p.newest is not None), default=None),
        closed=ended or any(p.closed for p in pieces),
        routes=routes,
        total=before,
        places=places,
        census=(np.concatenate(census) if census else np.empty(0, np.int64)) if counted else None,
        records=tuple(records),
        row_groups=sum((Counter(json.loads(p.row_groups)) for p in pieces if p.row_groups), Counter()),
    )


def _with_all_columns(table: pa.Table, stream: Stream) -> pa.Table:
    """Rows with the columns that no query needs, which were not read: they are null."""
    if table.column_names[: len(stream.schema.names)] == list(stream.schema.names):
        return table
    there = {*table.column_names}
    declared = [
        (c.name, table.column(c.name) if c.name in there else pa.nulls(table.num_rows, c.type.arrow))
        for c in stream.schema.columns
    ]
    others = [(name, table.column(name)) for name in table.column_names if stream.schema.find(name) is None]
    return pa.table(dict([*declared, *others]))


def _timely_origins(records: Records, name: str, told: int) -> Records:
    """Records of a piece without those that were derived from rows which break a heartbeat in a piece before it."""
    if records.origin != name or records.origin_ts is None:
        return records
    kept = records.origin_ts > told
    return records if kept.all() else records.take(kept)


def _timely(rows: pa.Table, stream: Stream, bound: int | None) -> tuple[pa.Table, np.ndarray | None, np.ndarray | None]:
    """Rows without late copies, their routes, and which of them these are; None: all."""
    routes = rows.column(ROUTES_COLUMN).to_numpy() if ROUTES_COLUMN in rows.column_names else None
    rows = rows.select(list(stream.schema.names))
    if routes is None or bound is None or not rows.num_rows:
        return rows, routes, None
    times = rows.column(stream.time).combine_chunks().view(pa.int64()).to_numpy()
    kept = (times >= bound) | ((routes >> np.uint64(HOME_BIT)) == 1)
    if kept.all():
        return rows, routes, None
    chosen = np.flatnonzero(kept)
    return rows.take(pa.array(chosen)), routes[chosen], chosen


def _handed(layout: JobLayout, name: str, pieces: list[Packet], bound: int | None) -> Arrival:
    """Derived rows that shards of earlier steps have made: of each maker in the order of newest rows, the makers in
    theirs."""
    stream = layout.handed[name]
    by_maker: dict[int, list[pa.Table]] = {}
    for piece in pieces:
        by_maker.setdefault(maker_of(piece.place), []).append(from_blob(piece.blob or b""))
    found = [merged(tables, stream.time) for tables in by_maker.values()]
    rows, routes, _ = _timely(pa.concat_tables(found).combine_chunks(), stream, bound)
    return Arrival(rows, routes=routes)
