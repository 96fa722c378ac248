"""Packing and assembling are inverse: every shard gets its rows in source order, every row has one home."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from eddyline.model.datatypes import BOOLEAN
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Column, Schema
from eddyline.model.window import Rows
from eddyline.plan.shards.routing import HOME_BIT
from eddyline.runtime.engine.epoch import Arrival
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.ingest.packer import Packer
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.shard.assembly import assemble
from tests.spark.material import equality, layout, query, rows, stream


def arrivals(of: JobLayout, made: list[list[Packet]], name: str, bound: int | None = None) -> list[Arrival]:
    found = []
    for shard in range(of.shards):
        mine = [packet for piece in made for packet in piece if packet.shard == shard]
        found.append(assemble(of, BatchDocument(0, ""), shard, mine, {name: bound}).epoch.arrivals[name])
    return found


def home(arrival: Arrival) -> np.ndarray:
    if arrival.routes is None:
        return np.ones(arrival.rows.num_rows, bool)
    return (arrival.routes >> np.uint64(HOME_BIT)) == 1


QUERIES = {
    "common key": [query("q", "a b", equality("a.k", "b.k"))],
    "grid": [query("q", "a b c", equality("a.k", "b.k"), equality("b.v", "c.v"))],
    "self-join": [query("q", "a:l a:r", equality("l.k", "r.v"))],
    "two routings": [query("p", "a b", equality("a.k", "b.k")), query("q", "a b", equality("a.v", "b.v"))],
    "cross product": [query("q", "a b")],
    "filter": [query("q", "a")],
    "nobody reads it": [query("q", "b")],
}


@pytest.mark.parametrize("shards", [1, 2, 5, 8])
@pytest.mark.parametrize("kind", QUERIES)
def test_every_row_has_one_home_and_keeps_its_place(kind: str, shards: int, tmp_path: Path) -> None:
    of = layout([stream(name, i) for i, name in enumerate("abc")], QUERIES[kind], shards, tmp_path)
    packer = Packer(of)
    # Tasks deliver in any order: the later piece comes first.
    made = [packer.pack("a", rows(600, 400), None, 1, False, 600), packer.pack("a", rows(0, 600), None, 0, False)]
    found = arrivals(of, made, "a")
    at_home = np.concatenate([np.asarray(a.rows.column("v"))[home(a)] for a in found])
    assert sorted(at_home.tolist()) == list(range(1000))
    for arrival in found:
        assert (np.diff(np.asarray(arrival.rows.column("v"))) > 0).all()
        assert arrival.newest == 999_000
        assert arrival.rows.schema.equals(of.streams[0].schema.arrow)


@pytest.mark.parametrize("shards", [2, 6])
def test_route_bits_say_which_routing_sent_a_row(shards: int, tmp_path: Path) -> None:
    of = layout([stream(name, i) for i, name in enumerate("ab")], QUERIES["two routings"], shards, tmp_path)
    found = arrivals(of, [Packer(of).pack("a", rows(0, 500), None, 0, False)], "a")
    for name in ("p", "q"):
        bit = of.routing.bits(name)["a"]
        sent = [np.asarray(a.rows.column("v"))[(a.routes >> np.uint64(bit)) & np.uint64(1) == 1] for a in found]
        assert sorted(np.concatenate(sent).tolist()) == list(range(500))


def counted(of: BoundQuery) -> BoundQuery:
    return query(of.name, "a b", *of.where, window=Rows(3))


def test_row_numbers_are_those_of_the_whole_stream(tmp_path: Path) -> None:
    of = layout([stream(name, i) for i, name in enumerate("ab")], [counted(QUERIES["common key"][0])], 4, tmp_path)
    packer = Packer(of)
    made = [packer.pack("a", rows(0, 60), None, 0, False), packer.pack("a", rows(60, 40), None, 1, False)]
    for arrival in arrivals(of, made, "a"):
        assert arrival.census is not None and arrival.census.tolist() == [v * 1000 for v in range(100)]
        assert np.asarray(arrival.rows.column("v")).tolist() == arrival.places.tolist()


def test_rows_beside_punctuations_keep_their_places(tmp_path: Path) -> None:
    """A row may have the instant of the punctuation before it: only its place says that it comes after it."""
    schema = Schema((*stream("a", 0).schema.columns, Column("closed", BOOLEAN)))
    streams = [replace(stream("a", 0), schema=schema, punctuation="closed"), stream("b", 1)]
    of = layout(streams, [query("q", "a b", equality("a.k", "b.k"))], 3, tmp_path / "ck")
    table = rows(0, 40).append_column("closed", pa.array([False] * 40))
    said = table.slice(20, 1).set_column(3, "closed", pa.array([True]))
    table = pa.concat_tables([table.slice(0, 20), said, table.slice(20)])
    found = arrivals(of, [Packer(of).pack("a", table, None, 0, False)], "a")
    assert sum(len(arrival.rows) for arrival in found) == 40 and any(len(arrival.records) for arrival in found)
    for arrival in found:
        assert arrival.places is not None and arrival.places.tolist() == arrival.rows.column("v").to_pylist()


def test_bad_rows_and_ends_are_told_once_and_to_all(tmp_path: Path) -> None:
    of = layout([stream("a", 0)], QUERIES["filter"], 3, tmp_path)
    bad = pa.table({"k": ["x"], "v": ["1"], "ts": ["never"], "_reason": ["bad: k"]})
    nothing = of.streams[0].schema.arrow.empty_table()
    found = arrivals(of, [Packer(of).pack("a", nothing, bad, 0, True)], "a")
    assert [a.bad is not None for a in found] == [True, False, False]
    assert all(a.closed and a.newest is None and a.rows.num_rows == 0 for a in found)


def test_late_copies_are_left_to_the_home_shard(tmp_path: Path) -> None:
    of = layout([stream(name, i) for i, name in enumerate("abc")], QUERIES["grid"], 6, tmp_path)
    made = [Packer(of).pack("a", rows(0, 100), None, 0, False)]
    late = [
        np.asarray(a.rows.column("v"))[np.asarray(a.rows.column("v")) < 50]
        for a in arrivals(of, made, "a", bound=50_000)
    ]
    assert sorted(np.concatenate(late).tolist()) == list(range(50))


def test_control_records_reach_every_shard_in_order(tmp_path: Path) -> None:
    of = layout([stream("a", 0)], QUERIES["filter"], 2, tmp_path)
    batch = BatchDocument(0, "", control=({"idle": ["a"]}, {"idle": []}, {"closing": True}))
    for shard in range(of.shards):
        assembled = assemble(of, batch, shard, [], {})
        assert assembled.epoch.idle == frozenset() and assembled.epoch.closing


def test_a_stream_that_ends_without_a_piece_ends_in_every_shard(tmp_path: Path) -> None:
    of = layout([stream("a", 0)], QUERIES["filter"], 2, tmp_path)
    for shard in range(of.shards):
        arrival = assemble(of, BatchDocument(0, "", ended=("a",)), shard, [], {}).epoch.arrivals["a"]
        assert arrival.closed and arrival.total == 0 and not arrival.rows.num_rows
