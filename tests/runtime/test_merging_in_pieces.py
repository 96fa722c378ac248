"""Results of several shards merged piece by piece: the order of all at once, and no more at hand than pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.model.datatypes import BIGINT, STRING
from eddyline.model.expressions.expression import ColumnRef
from eddyline.operators.aggregate.parts import in_slices
from eddyline.runtime.engine.newest import PLACE, merged
from eddyline.runtime.sharded.output.merging import merged_in_pieces, parts_in_pieces
from tests.seeds import cases, first_seed

AFTER = 1 << 62


def results(random: Random, ordering: str) -> list[pa.Table]:
    """All results of an instant or many, each in one of several shards, in order within it."""
    lots = np.random.default_rng(random.randrange(1 << 30))
    rows, instants = random.choice((0, 1, 30, 300)), random.choice((1, 5, 200))
    times = np.sort(lots.integers(0, instants, rows))
    stream, number = lots.integers(0, 2, rows), lots.permutation(rows)
    waits = lots.random(rows) < 0.1
    place = number + (stream << 56) + np.where(waits, AFTER, 0)
    # Of stream 1, which has a sequence: not in the order of arrival.
    sequence = np.where(stream == 1, lots.integers(0, 20, rows), -1)
    order = np.lexsort((place, sequence, place >> 56, times)) if ordering == "sequence" else np.lexsort((place, times))
    table = pa.table({"row": np.arange(rows), "_ts": pa.array(times).cast(pa.timestamp("us"))})
    if ordering != "none":
        table = table.append_column(PLACE, pa.array(place))
        table = table.take(pa.array(order))
    if ordering == "sequence":
        given = pa.array(sequence[order], mask=sequence[order] < 0)
        table = table.append_column("_sequence_1", given)
    shard = lots.integers(0, random.choice((1, 2, 4)), rows)
    return [table.filter(pa.array(shard == one)) for one in range(4)]


def in_pieces(table: pa.Table, random: Random) -> Iterator[pa.Table]:
    at = 0
    while at < len(table):
        rows = random.choice((0, 1, 3, 40))
        yield table.slice(at, rows)
        at += rows


@pytest.mark.parametrize("ordering", ["none", "place", "sequence"])
def test_pieces_have_the_order_of_all_at_once(ordering: str) -> None:
    for seed in range(first_seed(), first_seed() + cases(200)):
        random = Random(seed)
        shards = results(random, ordering)
        found = [*merged_in_pieces([in_pieces(table, random) for table in shards])]
        whole = merged([table for table in shards if len(table)] or shards[:1])
        assert pa.concat_tables([whole.slice(0, 0), *found]).equals(whole), f"seed {seed}"


@pytest.mark.parametrize("instants", [1, 1000])
def test_what_is_at_hand_is_bounded(instants: int) -> None:
    """Also where all results are of one instant, as when a window closes."""
    rows, piece, shards, read, given = 100_000, 1000, 3, 0, 0
    most = 0

    def run(shard: int) -> Iterator[pa.Table]:
        nonlocal read, most
        number = np.arange(shard, rows * shards, shards)
        times = pa.array(number * instants // (rows * shards)).cast(pa.timestamp("us"))
        table = pa.table({"_ts": times, PLACE: number})
        for at in range(0, rows, piece):
            read += piece
            most = max(most, read - given)
            yield table.slice(at, piece)

    for table in merged_in_pieces([run(shard) for shard in range(shards)]):
        assert len(table) <= shards * 2 * piece
        given += len(table)
    assert given == rows * shards
    assert most <= shards * 3 * piece


GROUP_BY = (ColumnRef("a", "minute", BIGINT), ColumnRef("a", "name", STRING))


def parts_of(random: Random, groups: int, instants: int) -> list[pa.Table]:
    """Parts of groups as three shards keep them, each in the order in which it has met the groups."""
    found = []
    for _ in range(3):
        mine = [group for group in range(groups) if random.random() < 0.6]
        mine.sort(key=lambda group: (group % instants, random.random()))
        due = np.array([group % instants for group in mine], np.int64)
        keys = {
            "key-0": pa.array(due),
            "key-1": pa.array([None if group % 97 == 0 else f"name {group}" for group in mine], pa.string()),
        }
        held = {**keys, "total": pa.array([1 + group for group in mine], pa.int64())}
        table = pa.table({**held, "_ts": pa.array(due).cast(pa.timestamp("us"))})
        found.append(in_slices(table, GROUP_BY, due))
    return found


def test_parts_of_a_group_come_together_and_few_groups_at_a_time() -> None:
    most = 0
    for seed in range(first_seed(), first_seed() + cases(60)):
        random = Random(seed)
        instants = random.choice((1, 3, 500))
        shards = parts_of(random, random.choice((0, 5, 2000)), instants)
        pieces = [*parts_in_pieces([in_pieces(table, random) for table in shards])]
        seen: set[tuple[object, ...]] = set()
        for piece in pieces:
            here = {tuple(row.values())[:2] for table in piece for row in table.to_pylist()}
            assert not here & seen, seed
            seen |= here
        times = [pa.concat_tables(piece).column("_ts").cast(pa.int64()).to_pylist() for piece in pieces]
        assert all(max(earlier) <= min(later) for earlier, later in pairwise(times)), seed
        given, wanted = [
            Counter(tuple(row.values()) for table in of for row in table.to_pylist()) for of in (chain(*pieces), shards)
        ]
        assert given == wanted, seed
        if sum(map(len, shards)) > 3000:
            most = max(most, *(sum(map(len, piece)) for piece in pieces))
    # Forty rows of each run are at hand, and what else a slice has.
    assert 0 < most < 400
