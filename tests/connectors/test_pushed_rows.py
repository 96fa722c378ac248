"""Whatever holds rows can be pushed; names are matched, and what is not understood is refused with what works."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import duckdb
import numpy as np
import pandas
import pyarrow as pa
import pytest

from eddyline.connectors.memory import MemorySource
from eddyline.errors import DataProblem
from eddyline.model.datatypes import BIGINT, BOOLEAN, STRING, TIMESTAMP, DataType, array, struct
from eddyline.model.schema import Column, Schema, Stream

SCHEMA = Schema((Column("k", BIGINT), Column("note", STRING), Column("ts", TIMESTAMP)))
NOON = datetime(2024, 1, 1, 12)


def pushed(rows: object, schema: Schema = SCHEMA) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The rows that are read after a push, and the bad ones."""
    source = MemorySource(Stream("s", schema, "ts"))
    count = source.push(rows)  # type: ignore[arg-type]
    chunk = source.read(1_000_000)
    if chunk is None:
        assert count == 0
        return [], []
    bad = [] if chunk.bad is None else chunk.bad.to_pylist()
    assert count == chunk.rows.num_rows + len(bad)
    return chunk.rows.to_pylist(), bad


@dataclass
class Bid:
    ts: datetime
    k: int


Named = namedtuple("Named", "ts note k")


class Streamed:
    """What polars frames and DuckDB relations are for us."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Arrayed:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


class OldFrame(pandas.DataFrame):
    """A frame of a pandas that has no C stream."""

    __arrow_c_stream__ = None  # type: ignore[assignment]


TABLE = pa.table({"ts": pa.array([NOON, NOON], pa.timestamp("us")), "k": [1, 2]})
FORMS: dict[str, Callable[[], object]] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(),
    "C stream": lambda: Streamed(TABLE),
    "C array": lambda: Arrayed(TABLE.to_batches()[0]),
    "duckdb": lambda: duckdb.sql("SELECT TIMESTAMP '2024-01-01 12:00:00' AS ts, unnest([1, 2]) AS k"),
    "pandas": lambda: pandas.DataFrame({"ts": [NOON, NOON], "K": [1, 2]}),
    "an old pandas": lambda: OldFrame({"ts": [NOON, NOON], "K": [1, 2]}),
    "pandas by its index": lambda: pandas.DataFrame({"ts": [NOON, NOON], "k": [1, 2]}).set_index("ts"),
    "columns": lambda: {"ts": [NOON, NOON], "k": np.array([1, 2])},
    "columns of Arrow": lambda: {"k": pa.chunked_array([[1], [2]]), "ts": (NOON, NOON)},
    "records of NumPy": lambda: np.array([(1, NOON), (2, NOON)], [("k", "i8"), ("ts", "M8[us]")]),
    "tuples": lambda: [(1, None, NOON), (2, None, NOON)],
    "lists": lambda: ([k, None, NOON] for k in (1, 2)),
    "mappings": lambda: ({"TS": NOON, "k": k} for k in (1, 2)),
    "objects": lambda: [Bid(NOON, 1), Bid(NOON, 2)],
    "named tuples": lambda: [Named(NOON, None, 1), Named(NOON, None, 2)],
    "all sorts of rows": lambda: iter([(1, None, NOON), {"K": 2, "ts": NOON}]),
    "set of rows": lambda: {(1, None, NOON): None, (2, None, NOON): None}.keys(),
}


@pytest.mark.parametrize("form", FORMS)
def test_whatever_holds_rows_can_be_pushed(form: str) -> None:
    assert pushed(FORMS[form]()) == ([{"k": k, "note": None, "ts": NOON} for k in (1, 2)], [])


@pytest.mark.parametrize("row", [{"ts": NOON, "K": 1}, (1, None, NOON), Bid(NOON, 1), Named(NOON, None, 1)], ids=repr)
def test_one_row_can_be_pushed(row: object) -> None:
    assert pushed(row) == ([{"k": 1, "note": None, "ts": NOON}], [])


def test_a_polars_frame_is_collected() -> None:
    class LazyFrame:
        def collect(self) -> Streamed:
            return Streamed(TABLE)

    LazyFrame.__module__ = "polars.lazyframe.frame"
    assert len(pushed(LazyFrame())[0]) == 2
    if "polars" in sys.modules or __import__("importlib.util").util.find_spec("polars"):
        import polars

        assert len(pushed(polars.from_arrow(TABLE))[0]) == len(pushed(polars.from_arrow(TABLE).lazy())[0]) == 2


def test_no_rows_are_no_rows() -> None:
    for nothing in ([], {}, iter(()), TABLE.slice(0, 0), pandas.DataFrame({"k": [], "ts": []}), {"k": []}):
        assert pushed(nothing) == ([], [])


@pytest.mark.parametrize(
    ("rows", "message", "detail"),
    [
        ("abc", "an object of type str", ""),
        (b"abc", "an object of type bytes", ""),
        (5, "an object of type int", ""),
        (None, "an object of type NoneType", ""),
        ([1, 2], "an object of type list", "of type int, which is no row"),
        (["a"], "an object of type list", "of type str, which is no row"),
        pytest.param(pa.array([1, 2]), "an object of type pyarrow.lib.Int64Array", "", id="array"),
        pytest.param(Bid, "an object of type type", "", id="class"),
        ([(1, None, NOON), 5], "a pushed row is an object of type int", ""),
    ],
)
def test_what_holds_no_rows_is_refused_with_what_does(rows: object, message: str, detail: str) -> None:
    with pytest.raises(DataProblem) as found:
        pushed(rows)
    assert message in found.value.message and detail in found.value.detail
    assert all(word in found.value.hint for word in ("pandas", "polars", "DuckDB", "Arrow", "mapping", "dataclass"))


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"k": [1], "nope": [2]}),
        pandas.DataFrame({"k": [1], "nope": [2]}),
        {"k": [1], "nope": [2]},
        [{"k": 1}, {"nope": 2}],
        {"k": 1, "nope": 2},
    ],
    ids=repr,
)
def test_an_unknown_name_is_a_typing_mistake(rows: object) -> None:
    with pytest.raises(DataProblem, match="unknown columns: nope") as found:
        pushed(rows)
    assert found.value.detail == "columns are k, note, ts"


def test_a_name_that_comes_twice_and_columns_of_several_lengths_are_refused() -> None:
    with pytest.raises(DataProblem, match="column k comes more than once"):
        pushed({"k": [1], "K": [1]})
    with pytest.raises(DataProblem, match="two columns k"):
        pushed(pandas.DataFrame([[1, 2]], columns=["k", "k"]))
    with pytest.raises(DataProblem, match="column ts has 1 values, another one has 2"):
        pushed({"k": [1, 2], "ts": [NOON]})


def test_a_push_that_is_refused_pushes_nothing() -> None:
    source = MemorySource(Stream("s", SCHEMA, "ts"))

    def rows() -> Iterator[dict[str, object]]:
        yield from ({"k": k, "ts": NOON} for k in range(70_000))
        yield {"nope": 1}

    with pytest.raises(DataProblem, match="nope"):
        source.push(rows())
    assert source.waiting_rows == 0


def test_values_of_pandas_that_are_not_there_are_null() -> None:
    frame = pandas.DataFrame(
        {
            "k": pandas.Series([1, None, 2.5], dtype=object),
            "note": ["a", float("nan"), None],
            "ts": [NOON, NOON.replace(tzinfo=UTC), pandas.NaT],
        },
        dtype=object,
    )
    rows, bad = pushed(frame)
    assert rows == [{"k": 1, "note": "a", "ts": NOON}, {"k": None, "note": None, "ts": NOON}]
    assert [b["_reason"] for b in bad] == ["bad: pushed row 3: column k is declared as BIGINT and holds 2.5"]


def test_each_value_has_the_meaning_of_its_own_type() -> None:
    berlin = timezone(timedelta(hours=1))
    rows, bad = pushed(
        [
            (1.5, None, NOON),
            (2.0, b"bytes", NOON.replace(tzinfo=UTC)),
            ("3", 1.5, datetime(2024, 1, 1, 13, tzinfo=berlin)),
            (True, None, NOON),
            (Decimal("4.00"), [1, {"a": Decimal("1.50")}], "2024-01-01T13:00:00+01:00"),
            (np.int16(5), {"b": None}, np.datetime64("2024-01-01T12")),
            (10**20, "\ud800", pandas.Timestamp(NOON)),
            ("x", None, NOON.date()),
        ]
    )
    assert [(r["k"], r["note"]) for r in rows] == [
        (2, "bytes"),
        (3, "1.5"),
        (4, '[1, {"a": 1.50}]'),
        (5, '{"b": null}'),
    ]
    assert {r["ts"] for r in rows} == {NOON}
    assert [(b["k"], str(b["_reason"]).rpartition("holds ")[2]) for b in bad] == [
        ("1.5", "1.5"),
        ("true", "true"),
        ("100000000000000000000", "'100000000000000000000'"),
        ("x", "'x'"),
    ]


def test_nested_values_are_converted_part_by_part() -> None:
    kind = struct([("x", BIGINT), ("ok", BOOLEAN), ("t", TIMESTAMP)])
    schema = Schema((Column("a", array(BIGINT)), Column("o", kind), Column("ts", TIMESTAMP)), "s")
    noon = 1_704_110_400
    rows, bad = pushed(
        [
            {"a": [1, "2", None, 3.0], "o": {"X": "7", "ok": True, "t": noon}, "ts": noon},
            {"a": [1.5], "ts": noon},
            {"a": [], "o": Bid(NOON, 1), "ts": noon},
            {"a": "[4]", "o": '{"x": 3}', "ts": noon},
            {"o": {"ok": 1}, "ts": noon},
            {"a": {"x": 1}, "ts": noon},
            {"a": None, "o": [1], "ts": noon},
        ],
        schema,
    )
    assert [(r["a"], r["o"]) for r in rows] == [
        ([1, 2, None, 3], {"x": 7, "ok": True, "t": NOON}),
        ([], {"x": None, "ok": None, "t": None}),
        ([4], {"x": 3, "ok": None, "t": None}),
    ]
    assert [str(b["_reason"]).rpartition("holds ")[2] for b in bad] == [
        "'[1.5]'",
        "'{\"ok\": 1}'",
        "'{\"x\": 1}'",
        "'[1]'",
    ]


@pytest.mark.parametrize(("unit", "count"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_integers_are_times_in_the_unit_of_the_stream(unit: str, count: int) -> None:
    schema, noon = Schema(SCHEMA.columns, unit), 1_704_110_400 * count
    for value in (noon, np.int64(noon), str(noon)):
        assert pushed([{"ts": value}], schema)[0][0]["ts"] == NOON
    assert pushed(pa.table({"ts": [noon]}), schema)[0][0]["ts"] == NOON
    assert len(pushed([{"ts": 2**62}, {"ts": float(noon)}], schema)[1]) == (1 if unit == "ns" else 2)


def viewed(values: list[str], kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, kind or pa.string_view())


POLARS = {
    "text": viewed(["1", "x", "2"]),
    "category": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.uint32()), viewed(["1", "x", "2"])),
    "runs": pa.RunEndEncodedArray.from_arrays([1, 2, 3], pa.array(["1", "x", "2"])),
    "bytes": pa.array([b"1", b"x", b"2"], pa.binary_view()),
}


@pytest.mark.parametrize("name", POLARS)
def test_rows_that_do_not_fit_leave_frames_of_polars(name: str) -> None:
    """Arrow has no rows to take of views and of runs, in which frames of polars keep texts."""
    note = viewed(["a", "b", "c"])
    rows, bad = pushed(pa.table({"k": POLARS[name], "note": note, "ts": [NOON] * 3}))
    assert [(row["k"], row["note"]) for row in rows] == [(1, "a"), (2, "c")]
    assert [(row["k"], row["note"]) for row in bad] == [("x", "b")]
    rows, bad = pushed(pa.table({"k": [1, 2, 3], "note": POLARS[name], "ts": [NOON] * 3}))
    assert [row["note"] for row in rows] == ["1", "x", "2"] and not bad


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        (array(STRING), pa.list_(pa.string_view()), [["a"], ["c"]]),
        (array(STRING), pa.list_(pa.string_view(), 1), [["a"], ["c"]]),
        (struct([("x", STRING)]), pa.struct([("x", pa.string_view())]), [{"x": "a"}, {"x": "c"}]),
    ],
)
def test_nested_texts_of_polars(kind: DataType, given: pa.DataType, found: list[object]) -> None:
    plain = [{"x": text} if pa.types.is_struct(given) else [text] for text in "abc"]
    table = pa.table({"k": viewed(["1", "x", "2"]), "note": pa.array(plain, given), "ts": [NOON] * 3})
    rows, bad = pushed(table, Schema((SCHEMA.columns[0], Column("note", kind), SCHEMA.columns[2])))
    assert [row["note"] for row in rows] == found and len(bad) == 1


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    """It became a question mark, which is another value."""
    rows, bad = pushed(
        [{"note": "\ud800", "ts": NOON}, {"note": "\ud83e\udd8a", "ts": NOON}, {"note": "?", "ts": NOON}]
    )
    assert [row["note"] for row in rows] == ["?"] and len(bad) == 2
    assert "note is declared as STRING and holds b'\\xed\\xa0\\x80'" in str(bad[0]["_reason"])
    rows, bad = pushed({"note": np.array(["\ud800", "ok"]), "ts": [NOON, NOON]})
    assert [row["note"] for row in rows] == ["ok"] and len(bad) == 1
    texts = Schema((Column("note", array(STRING)), Column("ts", TIMESTAMP)))
    rows, bad = pushed([{"note": ["\ud800"], "ts": NOON}, {"note": ["ok"], "ts": NOON}], texts)
    assert [row["note"] for row in rows] == [["ok"]] and len(bad) == 1
