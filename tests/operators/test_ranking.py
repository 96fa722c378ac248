"""The parts of ranking by themselves: values of earlier rows, and the first rows of every partition."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from eddyline.model.datatypes import BIGINT, STRING
from eddyline.operators.aggregate.instant_queue import InstantQueue
from eddyline.operators.ranking.followed import Following
from eddyline.operators.ranking.ranked import ArrivingRows, RankedRows, RankSpec, first_rows
from eddyline.operators.ranking.saved import RankedBlocks

SCHEMA = pa.schema([("name", pa.string()), ("v", pa.int64()), ("_op", pa.string()), ("_ts", pa.timestamp("us"))])


def taken(part: Following, keys: str, values: list[object], otherwise: object = None) -> list[object]:
    """The values that rows get, `keys` their partitions letter by letter."""
    given = None if otherwise is None else pa.array([otherwise] * len(values), part.kind.arrow)
    return part.take(pa.array(values, part.kind.arrow), [pa.array(list(keys))], given).to_pylist()


def test_the_example_of_the_page() -> None:
    assert taken(Following("lag", BIGINT, (STRING,), 1), "abaa", [1, 2, 3, 4]) == [None, None, 1, 3]
    assert taken(Following("first_value", BIGINT, (STRING,), 1), "abaa", [1, 2, 3, 4]) == [1, 2, 1, 1]
    assert taken(Following("last_value", BIGINT, (STRING,), 1), "abaa", [1, 2, 3, 4]) == [1, 2, 3, 4]


@pytest.mark.parametrize("cuts", [(), (1,), (3,), (1, 2, 3, 4, 5)])
def test_a_distance_reaches_over_calls(cuts: tuple[int, ...]) -> None:
    part, found = Following("lag", STRING, (STRING,), 2), []
    rows = list(zip("aabaab", "uvwxyz", strict=True))
    for begin, stop in zip((0, *cuts), (*cuts, len(rows)), strict=True):
        piece = rows[begin:stop]
        found += taken(part, "".join(k for k, _ in piece), [v for _, v in piece], "none")
    assert found == ["none", "none", "none", "u", "v", "none"]


def test_an_earlier_null_is_a_value_and_a_missing_row_is_not() -> None:
    part = Following("lag", BIGINT, (STRING,), 1)
    assert taken(part, "ab", [None, 7], 99) == [99, 99]
    assert taken(part, "ab", [1, 2], 99) == [None, 7]


@pytest.mark.parametrize("function", ["lag", "first_value"])
def test_what_was_saved_goes_on(function: str) -> None:
    part, other = (Following(function, BIGINT, (BIGINT,), 2) for _ in range(2))
    keys = [pa.array([1, 2, 1])]
    part.take(pa.array([10, 20, 11]), keys, None)
    state, blocks = part.snapshot("run")
    other.restore(state, lambda name: blocks[name]())
    assert other.take(pa.array([12, 21, 13]), keys, None).equals(part.take(pa.array([12, 21, 13]), keys, None))


def spec(*order: tuple[int, bool, bool], most: int = 2, pruned: bool = False) -> RankSpec:
    return RankSpec(SCHEMA, (STRING, BIGINT), (BIGINT,), order, most, (), pruned=pruned)


def ranks(given: RankSpec, rows: list[tuple[int, str, int | None]]) -> list[tuple[str, int | None]]:
    """The first rows of each partition, of rows (partition, name, v) at one time."""
    table = pa.table(
        {
            "name": [name for _, name, _ in rows],
            "v": pa.array([v for *_, v in rows], pa.int64()),
            "_ts": pa.array([0] * len(rows), pa.timestamp("us")),
        }
    )
    found = first_rows(given, table, [pa.array([k for k, *_ in rows], pa.int64())])
    return list(zip(found.column("name").to_pylist(), found.column("v").to_pylist(), strict=True))


ROWS = [(1, "p", 5), (2, "q", 1), (1, "r", None), (1, "s", 7), (2, "t", 9), (1, "u", 5)]


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ((1, False, False), ["p", "u", "q", "t"]),
        ((1, True, False), ["s", "p", "t", "q"]),
        ((1, False, True), ["r", "p", "q", "t"]),
        ((1, True, True), ["r", "s", "t", "q"]),
        ((0, True, False), ["u", "s", "t", "q"]),
    ],
)
def test_the_first_rows_of_each_partition(order: tuple[int, bool, bool], wanted: list[str]) -> None:
    assert [name for name, _ in ranks(spec(order), ROWS)] == wanted


def test_the_second_key_decides_among_equal_rows() -> None:
    assert [name for name, _ in ranks(spec((1, False, False), (0, True, False), most=1), ROWS)] == ["u", "q"]


def arriving(ranked: RankedRows, first: int, *rows: tuple[int, str, int | None]) -> ArrivingRows:
    """Rows (partition, name, v) with the serial numbers from `first` on; these are their times too."""
    keys, names, values = zip(*rows, strict=True)
    partition = ranked.encoder.encode_rows([pa.array(keys)], (BIGINT,))
    columns = [pa.array(names), *([pa.array(values, pa.int64())] * (len(ranked.spec.kinds) - 1))]
    serial = np.arange(first, first + len(rows))
    return ArrivingRows(serial, partition, *ranked.encoder.encode_columns(columns, ranked.spec.kinds), [], serial)


def added(ranked: RankedRows, first: int, *rows: tuple[int, str, int | None]) -> np.ndarray:
    """Rows (partition, name, v) with the serial numbers from `first` on; their slots."""
    return ranked.add(arriving(ranked, first, *rows))


def said(table: pa.Table | None) -> list[str]:
    return [] if table is None else sorted(f"{row['_op']}{row['name']}" for row in table.to_pylist())


def test_changes_are_the_rows_that_enter_and_leave_the_first_ones() -> None:
    ranked = RankedRows(spec((1, False, False)))
    slots = added(ranked, 0, (1, "a", 10), (1, "b", 20), (1, "c", 30))
    assert said(ranked.changes(0)) == ["+a", "+b"]
    added(ranked, 3, (1, "d", 15), (2, "e", 1))
    assert said(ranked.changes(1)) == ["+d", "+e", "-b"]
    ranked.leave(slots[:1])
    assert said(ranked.changes(2)) == ["+b", "-a"]
    assert said(ranked.changes(3)) == []


def test_an_epoch_costs_what_it_touches() -> None:
    """Bytes that an epoch allocates at most: the same at 4,000 and at 64,000 stored rows."""

    def allocated(stored: int) -> int:
        ranked = RankedRows(spec((1, False, False), most=1))
        added(ranked, 0, *((key, "a", key) for key in range(stored)))
        ranked.changes(0)
        peaks = []
        for epoch in range(1, 4):
            rows = arriving(ranked, epoch * stored, *((key, "b", -epoch) for key in range(50)))
            tracemalloc.start()
            slots = ranked.add(rows)
            assert len(said(ranked.changes(epoch))) == 100
            ranked.leave(slots)
            assert len(said(ranked.changes(epoch))) == 100
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        return min(peaks)

    assert allocated(64_000) < 1.1 * allocated(4_000)


def test_rows_that_can_never_be_among_the_first_are_dropped() -> None:
    ranked = RankedRows(spec((1, False, False), pruned=True))
    added(ranked, 0, (1, "a", 10), (1, "b", 20), (1, "c", 30), (2, "d", 1))
    ranked.prune()
    assert len(ranked.rows.live()) == 3


def test_a_number_that_moves_is_a_change() -> None:
    ranked = RankedRows(RankSpec(SCHEMA, (STRING, BIGINT), (BIGINT,), ((1, False, False),), 2, (1,)))
    slots = added(ranked, 0, (1, "a", 10), (1, "b", 20), (1, "c", 30))
    shown = ranked.changes(0)
    assert shown is not None and dict(zip(shown["name"].to_pylist(), shown["v"].to_pylist(), strict=True)) == {
        "a": 1,
        "b": 2,
    }
    ranked.leave(slots[:1])
    moved = ranked.changes(1)
    assert said(moved) == ["+b", "+c", "-a", "-b"]
    assert moved is not None and [row["v"] for row in moved.to_pylist() if row["_op"] == "+"] == [1, 2]


def test_rows_of_equal_columns_take_each_others_place_in_silence() -> None:
    ranked = RankedRows(spec((1, False, False), most=1))
    slots = added(ranked, 0, (1, "a", 10), (1, "a", 10))
    assert said(ranked.changes(0)) == ["+a"]
    ranked.leave(slots[:1])
    assert ranked.changes(1) is None


@pytest.mark.parametrize("gone", [0, 2])
def test_ranked_rows_that_were_saved_go_on(gone: int) -> None:
    one = RankedRows(spec((1, False, False), (0, False, False)))
    slots = added(one, 0, (1, "a", 10), (1, "b", None), (1, "c", 30), (2, "d", 1))
    one.changes(0)
    kept = RankedBlocks(one)
    _, first = kept.snapshot("run")
    tables = {name: block() for name, block in first.items()}
    one.leave(slots[gone : gone + 1])
    one.changes(1)
    state, blocks = kept.snapshot("run")
    tables |= {name: block() for name, block in blocks.items() if name not in tables}
    queue = InstantQueue(ArrivingRows)
    for rows in (arriving(one, 4, (1, "e", 5), (3, "f", 2)), arriving(one, 6, (2, "a", None))):
        queue.append(rows)
    queued, more = queue.snapshot("waiting")
    # What is written of texts: those of the rows that wait came after the snapshot.
    state, blocks = kept.snapshot("run")
    tables |= {name: block() for name, block in (blocks | more).items() if name not in tables}
    other = RankedRows(one.spec)
    RankedBlocks(other).restore(state, tables.__getitem__)
    restored = InstantQueue(ArrivingRows)
    restored.restore(queued, tables.__getitem__)
    waiting = restored.until(6)
    assert other.rows.held == one.rows.held == 3
    for ranked in (one, other):
        for rows in waiting:
            ranked.add(rows)
    expected = one.changes(7)
    assert said(other.changes(7)) == said(expected) and "+e" in said(expected)


def test_texts_that_no_row_names_are_forgotten() -> None:
    ranked = RankedRows(spec((1, False, False), pruned=True))
    added(ranked, 0, (1, "a", 10), (1, "b", 20), (1, "c", 30))
    ranked.prune()
    waiting = arriving(ranked, 3, (1, "d", 1))
    ranked.encoder.kept = -(10**6)
    assert ranked.encoder.is_full and ranked.encoder.held == 4
    ranked.sweep([waiting])
    assert ranked.encoder.held == 3
    ranked.add(waiting)
    assert said(ranked.changes(4)) == ["+a", "+d"]
