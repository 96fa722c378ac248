"""CAST of texts: numerals are read exactly, as Python's decimals read them, and all other texts as DuckDB reads
them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from random import Random

import duckdb
import pyarrow as pa
import pytest

from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, decimal
from eddyline.model.expressions.expression import Call, ColumnRef
from eddyline.operators.expressions.evaluate import Issues, compile_expression
from tests.seeds import first_seed

BLANKS = ("", "", " ", "\t", "  ", "\n")
LIMITS = {"INT": 2**31, "BIGINT": 2**63}


def cast(texts: list[str], kind: DataType) -> tuple[list[object], int]:
    """The values, times as numbers, and how many could not be read."""
    issues = Issues()
    found = compile_expression(Call("cast", (ColumnRef("t", "s", STRING),), kind))(
        {("t", "s"): pa.array(texts)}, len(texts), issues
    )
    found.validate(full=True)
    plain = found.cast(pa.int32() if kind == DATE else pa.int64()) if kind.is_temporal else found
    return plain.to_pylist(), issues.total


def numeral(rng: Random) -> str:
    """A number in some notation, mostly; many of them at the ends of types."""
    digits = rng.choice(
        (
            "9" * 38,
            "1" + "0" * 38,
            "12345678901234567890",
            "5",
            "49",
            "0",
            "",
            str(rng.randint(0, 10**9)),
            "9223372036854775807",
        )
    )
    rest = rng.choice(
        ("", ".", ".5", "." + "9" * rng.randint(1, 45), ".4" + "9" * rng.randint(0, 50), f".{rng.randint(0, 10**6):06}")
    )
    power = rng.choice(
        ("", "", "e0", f"e{rng.randint(-60, 60)}", f"E+{rng.randint(0, 30)}", "e-18", "e18", f"e{10**9}", f"e-{10**9}")
    )
    return rng.choice(("", "", "-", "+", "+-", "--")) + "0" * rng.choice((0, 0, 3, 50)) + digits + rest + power


def exactly(text: str, kind: DataType) -> object:
    """What a numeral is in a type; None: it is none, or too large."""
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    if not value:
        return 0 if kind.is_integer else Decimal(0).scaleb(-kind.scale)
    if value.adjusted() > 40:
        return None
    if value.adjusted() < -42:
        value = Decimal(0)
    found = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, Context(prec=200))
    if kind.is_integer:
        return int(found) if -LIMITS[kind.name] <= found < LIMITS[kind.name] else None
    return found if found.copy_abs() < Decimal(10) ** (kind.precision - kind.scale) else None


@pytest.mark.parametrize(
    "kind", [INT, BIGINT, decimal(38, 0), decimal(38, 10), decimal(38, 38), decimal(10, 2), decimal(18, 17)], ids=str
)
def test_numerals_are_read_exactly(kind: DataType) -> None:
    rng = Random(first_seed())
    texts = [rng.choice(BLANKS) + numeral(rng) + rng.choice(BLANKS) for _ in range(3_000)]
    right = [exactly(text, kind) for text in texts]
    found, lost = cast(texts, kind)
    wrong = [(text, a, b) for text, a, b in zip(texts, found, right, strict=True) if a != b]
    assert not wrong, wrong[:5]
    assert lost == right.count(None) and 0 < lost < len(texts) - 300


def test_an_exponent_moves_the_point() -> None:
    found, _ = cast(
        ["1e18", " 1E-3 ", "9.223372036854775807e18", "+-1", "0e99999999999", "1e99999999999"], decimal(38, 10)
    )
    assert [None if v is None else f"{v:f}".rstrip("0").rstrip(".") for v in found] == [
        "1000000000000000000",
        "0.001",
        "9223372036854775807",
        None,
        "0",
        None,
    ]
    assert cast(["9.223372036854775807e18", "+-1", "++1", "+1"], BIGINT)[0] == [2**63 - 1, None, None, 1]
    assert cast(["+-1", "-1", " +1e0 "], DOUBLE)[0] == [None, -1.0, 1.0]


def moment(rng: Random) -> str:
    """A date, mostly with a time of day and a zone, in some spelling, right or wrong."""
    sign = rng.choice("---/\\ .")
    year, month = (
        rng.choice(("2024", "24", "0001", "002024", "9999", "12024", "0")),
        rng.choice(("1", "02", "12", "13", "001")),
    )
    day = rng.choice(("1", "05", "29", "31", "032"))
    date = year + sign + month + (sign if rng.random() < 0.9 else rng.choice("-/")) + day
    hour, minute = rng.choice(("12", "1", "00", "24", "25", "012", "")), rng.choice(("30", "3", "60", "030", ""))
    second = rng.choice(("", "", ":", ":5", ":05.", ":05.1234567", ":60", ":59.9999999"))
    names = ("Z", "z", "UTC", "GMT", "Europe/Berlin", "PM", "a_b", ":5", "+", "-", "a.b", "é")
    offsets = ("+02", "-0530", "+02:30", "+2", "+02:3", "+023", "+02:30:15", "+023015", "+99", "+02:60", "-")
    zone = rng.choice(
        ("", "", *names, *(f" {name}" for name in names), *offsets, *(f" {offset}" for offset in offsets), "  UTC")
    )
    between = rng.choice((" ", " ", "T", "  ", "\t", "\n", "T ", " T", "t", "", "-"))
    date = rng.choice((date, date, date, date, "epoch", "Epoch"))
    return rng.choice((date, date + between + hour + ":" + minute + second + zone))


def some_text(rng: Random, kind: DataType) -> str:
    if kind == BOOLEAN:
        return rng.choice(
            ("true", "FALSE", "t", "f", "T", "1", "0", "yes", "n", "on", "off", "2", "-1", "1.0", "", "null", "tRuE")
        )
    if kind.is_temporal:
        return moment(rng)
    digits = rng.choice(
        (
            "0",
            "7",
            "2147483648",
            "9223372036854775808",
            "3.5",
            "1.",
            ".",
            ".5",
            "1_000",
            "1__0",
            "0x1F",
            "0x1_f",
            "0b10",
            "0x",
        )
    )
    others = (
        "1e",
        "e5",
        "1e0.5",
        "inf",
        "Infinity",
        "nan",
        "1,5",
        "1f",
        "12a",
        "null",
        "",
        "1 2",
        "\u0663",
        f"{rng.random():.25f}",
    )
    plain = (
        f"{rng.randint(0, 99_999)}.{rng.randint(0, 99)}",
        f"{rng.uniform(0, 1e9)}",
        f"{rng.randint(0, 9)}e{rng.randint(0, 5)}",
    )
    return rng.choice(("", "", "-", "+", "--", "- ")) + rng.choice((digits, *others, *plain))


@pytest.mark.parametrize(
    "kind", [INT, BIGINT, DOUBLE, decimal(38, 10), decimal(18, 4), BOOLEAN, DATE, TIMESTAMP], ids=str
)
def test_texts_of_every_spelling_are_read_as_duckdb_reads_them(kind: DataType) -> None:
    """The exceptions are those of the page on types; none of them is drawn here."""
    rng = Random(first_seed())
    texts = [rng.choice(BLANKS) + some_text(rng, kind) + rng.choice(BLANKS) for _ in range(4_000)]
    with duckdb.connect() as connection:
        connection.register("t", pa.table({"s": texts}))
        read = connection.sql(f"SELECT TRY_CAST(s AS {kind}) AS x FROM t").to_arrow_table().column(0)
    right = (read.cast(pa.int32() if kind == DATE else pa.int64()) if kind.is_temporal else read).to_pylist()
    found, lost = cast(texts, kind)
    wrong = [(text, a, b) for text, a, b in zip(texts, found, right, strict=True) if a != b and not (a != a and b != b)]
    assert not wrong, (len(wrong), wrong[:20])
    assert lost == right.count(None) < len(texts)


@pytest.mark.parametrize("texts", [["0x1F "], ["0x1F ", "5"], ["0x1F ", "x", "0b1\n"]])
def test_a_hexadecimal_numeral_has_no_blank_behind_it_whatever_stands_beside_it(texts: list[str]) -> None:
    """Arrow reads a column of plain and hexadecimal integers by itself."""
    assert cast(texts, BIGINT)[0] == [5 if text == "5" else None for text in texts]
    assert cast([" 0x1F", *texts], INT)[0][0] == 31


MOMENTS = (
    "2024-01-31",
    "2024-1-5",
    "1969-12-31",
    "0001-01-01",
    "9999-12-31",
    "2024-02-30",
    "epoch",
    "EPOCH",
    "20240131",
    "0000-01-01",
)
HOURS = ("", "", " 12:30", "  1:2:3", "T23:59:59.5", " 12:30:00Z", " 12:30:00+02", " 12", " 24:00:00", " 12:30:00 UTC")


@pytest.mark.parametrize("kind", [DATE, TIMESTAMP], ids=str)
def test_times_are_read_as_duckdb_reads_them(kind: DataType) -> None:
    texts = [
        a + moment + hours + b
        for a in ("", " ", "\t ")
        for moment in MOMENTS
        for hours in HOURS
        for b in ("", " ", "   ", "\n")
    ]
    with duckdb.connect() as connection:
        connection.register("t", pa.table({"s": texts}))
        days = connection.sql(f"SELECT TRY_CAST(s AS {kind}) AS x FROM t").to_arrow_table().column(0)
    right = days.cast(pa.int32() if kind == DATE else pa.int64()).to_pylist()
    found, lost = cast(texts, kind)
    wrong = [(text, a, b) for text, a, b in zip(texts, found, right, strict=True) if a != b]
    assert not wrong, wrong[:20]
    assert lost == right.count(None) and lost < len(texts) * 2 // 3


@pytest.mark.parametrize("text", ["infinity", "-infinity", "inf", "-0001-01-01", "0044-03-15 (BC)"])
def test_what_no_time_of_ours_holds_is_null_and_counted(text: str) -> None:
    for kind in (DATE, TIMESTAMP):
        assert cast([text, "2024-01-31"], kind) == ([None, cast(["2024-01-31"], kind)[0][0]], 1)
