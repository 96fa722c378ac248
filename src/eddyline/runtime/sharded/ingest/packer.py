"""Rows to packets: each row to the shards that its routes name, each piece's tick to every shard.

Answer   One packet per shard for every piece of a stream. Where a row can arrive at a shard by several routes, or at
         several shards by one, it carries the bits of the routes that sent it, and the home bit on exactly one shard:
         that one keeps the books (late rows are dead-lettered once, however many shards see them).
State    None. What places a row depends only on the row and its place in the source, so a task that runs again packs
         the same packets.
Limits   Null keys place a row in one slice; it joins nothing there, but may be the group of nulls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from eddyline.model.expressions.expression import Expression, columns_of
from eddyline.model.records.records import Records
from eddyline.operators.expressions.evaluate import Issues, compile_expression
from eddyline.operators.stream.keys import keys_of
from eddyline.plan.shards.routing import HOME_BIT, Route
from eddyline.runtime.engine.records.kinds import Splitting
from eddyline.runtime.sharded.ingest.packet import (
    NUMBER_COLUMN,
    PIECE_ROWS,
    ROUTES_COLUMN,
    Packet,
    handed_place,
    records_blob,
    to_blob,
)
from eddyline.runtime.sharded.ingest.record_routes import records_of_shards
from eddyline.runtime.sharded.ingest.wanted import Wanted
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.state.columns import Ints, validity


class Packer:
    """Packs the rows of all streams of a layout; one per worker process and layout."""

    def __init__(self, layout: JobLayout):
        self.layout = layout
        self._splitting = Splitting(layout.streams)
        #: stream -> (bit, route). Rows of a stream that no query reads are spread evenly, so that late ones are
        #: counted.
        self._routes: dict[str, list[tuple[int, Route]]] = {}
        for name in layout.numbers:
            found = [(bit, route) for bit, route in enumerate(layout.routing.routes.get(name, ())) if route is not None]
            self._routes[name] = found or [(0, Route(name, ((layout.width, ()),), 0, layout.width))]
        for name in layout.handed:
            self._routes[name] = [
                (bit, route) for bit, route in enumerate(layout.routing.routes[name]) if route is not None
            ]
        self._compiled = {
            key: compile_expression(key)
            for routes in self._routes.values()
            for _, route in routes
            for keys in route.keys
            for key in keys
        }

    def pack(
        self,
        name: str,
        rows: pa.Table,
        bad: pa.Table | None,
        place: int,
        closed: bool,
        first_row: int = 0,
        said: Sequence[Records] = (),
        wanted: Wanted | None = None,
    ) -> list[Packet]:
        """The packets of one piece.

        Args:
            name: The stream.
            rows: Its readable rows, in source order.
            bad: Rows that could not be read.
            place: Orders the pieces of the stream.
            closed: Nothing comes after this piece.
            first_row: The number of the first row in its file or partition.
            said: Records between these rows, which have no column for them.
            wanted: Which rows are placed; None: all of them.
        """
        stream = self.layout.streams[self.layout.numbers[name]]
        shards = self.layout.shards
        rows, records, misread = self._splitting.split(stream, rows, said)
        if misread is not None:
            bad = misread if bad is None else pa.concat_tables([bad, misread])
        spoken = records_of_shards(self.layout, records, self._routes, self._keys) if records else [[]] * shards
        time = rows.column(stream.time).combine_chunks().view(pa.int64()) if rows.num_rows else pa.array([], pa.int64())
        times = time.to_numpy(zero_copy_only=False) if rows.num_rows else np.empty(0, np.int64)
        blobs: list[bytes | None] = [None] * shards
        if rows.num_rows:
            # Where records stand between rows, the order of the source decides, which event times that ascend do not
            # tell: a row may have the instant of the record before it.
            ordered = not records and bool((times[1:] > times[:-1]).all())
            numbered = name in self.layout.counted or (shards > 1 and not ordered)
            # A row may break a heartbeat that came with it.
            chosen = None if wanted is None or records else wanted(rows, times)
            if chosen is None or len(chosen):
                blobs = self._blobs(name, rows, first_row, numbered, chosen)
        census = times.tobytes() if name in self.layout.counted and rows.num_rows else None
        newest = int(times.max()) if len(times) else None
        # Unreadable rows have no key: the first shard reports them all.
        unread = [to_blob(bad) if bad is not None and bad.num_rows else None] + [None] * (shards - 1)
        number, count = self.layout.numbers[name], rows.num_rows
        return [
            Packet(shard, number, place, newest, count, closed, blob, spoiled, census, records_blob(spoken_to))
            for shard, (blob, spoiled, spoken_to) in enumerate(zip(blobs, unread, spoken, strict=True))
        ]

    def hand_on(self, name: str, maker: int, shard: int, rows: pa.Table) -> Iterator[Packet]:
        """Packets of derived rows that a shard has made, for shards of later steps: those that get some. The place says
        which maker and
        which shard they come from."""
        number = len(self.layout.streams) + list(self.layout.handed).index(name)
        for first in range(0, len(rows), PIECE_ROWS):
            piece = rows.slice(first, PIECE_ROWS).combine_chunks()
            taken, starts, bits = self._placed(self._routes[name], piece, first, False)
            part = piece.take(pa.array(taken))
            if bits is not None:
                part = part.append_column(ROUTES_COLUMN, pa.array(bits))
            place = handed_place(maker, shard, first // PIECE_ROWS)
            for target, (start, stop) in enumerate(pairwise(starts.tolist())):
                if stop > start:
                    blob = to_blob(part.slice(start, stop - start))
                    yield Packet(target, number, place, None, stop - start, False, blob)

    def _blobs(
        self, name: str, rows: pa.Table, first_row: int, numbered: bool, chosen: Ints | None
    ) -> list[bytes | None]:
        """Per shard its rows as a blob; None where it gets none. `chosen` are the places of those that are placed."""
        if chosen is not None:
            rows = rows.take(pa.array(chosen))
        rows = rows.combine_chunks()
        taken, starts, bits = self._placed(self._routes[name], rows, first_row, name in self.layout.whole)
        part = rows.take(pa.array(taken)) if len(starts) > 2 else rows
        if bits is not None:
            part = part.append_column(ROUTES_COLUMN, pa.array(bits))
        if numbered:
            numbers = taken if chosen is None else chosen[taken]
            part = part.append_column(NUMBER_COLUMN, pa.array(numbers.astype(np.int32)))
        return [
            to_blob(part.slice(start, stop - start)) if stop > start else None
            for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        ]

    def _placed(
        self, routes: list[tuple[int, Route]], rows: pa.Table, first_row: int, to_all: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Row numbers ordered by shard, where each shard's begin, and the route bits (None: every row has all of
        them)."""
        count, shards = rows.num_rows, self.layout.shards
        pairs: list[np.ndarray] = []
        bits: list[np.ndarray] = []
        for bit, route in routes:
            places = route.shards_of([[self._keys(rows, key) for key in keys] for keys in route.keys], first_row, count)
            pairs.append((places * count + np.arange(count)[:, None]).ravel())
            flag = np.full(places.shape, np.uint64(1) << np.uint64(bit))
            if not bits:
                flag[:, 0] |= np.uint64(1) << np.uint64(HOME_BIT)
            bits.append(flag.ravel())
        if to_all:
            # Without a bit: seen and counted; no query wants the row.
            pairs.append(np.arange(shards * count))
            bits.append(np.zeros(shards * count, np.uint64))
        whole = np.concatenate(pairs) if len(pairs) > 1 else pairs[0]
        order = np.argsort(whole, kind="stable")
        whole = whole[order]
        route_bits: np.ndarray | None = None
        if len(pairs) > 1 or routes[0][1].replication > 1:
            first = np.flatnonzero(np.concatenate([[True], whole[1:] != whole[:-1]]))
            route_bits = np.bitwise_or.reduceat(np.concatenate(bits)[order], first)
            whole = whole[first]
        starts = np.searchsorted(whole, np.arange(shards + 1) * count)
        return whole % count, starts, route_bits

    def _keys(self, rows: pa.Table, key: Expression) -> np.ndarray:
        values = {(alias, name): rows.column(name).combine_chunks() for alias, name in columns_of(key)}
        found = self._compiled[key](values, rows.num_rows, Issues())
        keys = keys_of(found, key.type)
        valid = validity(found)
        # Nulls are one group: whatever lies at their place in memory, they share one slice.
        return keys if valid is None else np.where(valid, keys, 0)
