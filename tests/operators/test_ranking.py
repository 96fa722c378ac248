"""The parts of ranking by themselves: values of earlier rows, and the first rows of every partition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.model.datatypes import BIGINT, STRING
from eddyline.operators.ranking.followed import Following
from eddyline.operators.ranking.ranked import ArrivingRows, RankedRows, RankSpec, first_rows

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
    other.restore(part.saved())
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


def added(ranked: RankedRows, first: int, *rows: tuple[int, str, int]) -> np.ndarray:
    """ArrivingRows (partition, name, v) with the serial numbers from `first` on; their slots."""
    encoded = [
        ranked.encoder.encode(pa.array(list(column)), kind)
        for column, kind in zip(zip(*rows, strict=True), (BIGINT, STRING, BIGINT), strict=True)
    ]
    keys = ranked.encoder.encode_rows([pa.array([k for k, *_ in rows])], (BIGINT,))
    serial = np.arange(first, first + len(rows))
    return ranked.add(ArrivingRows(keys, [w for w, _ in encoded[1:]], [v for _, v in encoded[1:]], serial, serial, []))


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


def test_rows_that_can_never_be_among_the_first_are_dropped() -> None:
    ranked = RankedRows(spec((1, False, False), pruned=True))
    added(ranked, 0, (1, "a", 10), (1, "b", 20), (1, "c", 30), (2, "d", 1))
    ranked.prune()
    assert len(ranked.rows.live()) == 3
