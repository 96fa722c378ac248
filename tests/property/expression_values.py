"""The columns that random expressions are computed on: extremes, texts beyond ASCII, and what rounding and parsing may
get wrong.

Answer   `tables()` draws a table with the columns of `COLUMNS`; `POOLS` has the values worth trying, by type.
"""

from __future__ import annotations

from decimal import Context, Decimal

import pyarrow as pa
from hypothesis import strategies as st

from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, decimal

MONEY = decimal(10, 2)
FINE = decimal(18, 4)
#: The widest ones: without a fraction, with some, and with nothing else.
WIDE = (decimal(38, 0), decimal(38, 4), decimal(38, 38))
#: The columns of the random table, which expressions know as `t.<name>`.
COLUMNS: dict[str, DataType] = {
    "b": BOOLEAN,
    "i": INT,
    "j": INT,
    "l": BIGINT,
    "d": DOUBLE,
    "e": DOUBLE,
    "s": STRING,
    "p": STRING,
    "day": DATE,
    "ts": TIMESTAMP,
    "us": TIMESTAMP,
    "m": MONEY,
    "n": FINE,
    **{f"w{kind.scale}": kind for kind in WIDE},
}
_YEAR_1, _YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
_TEXTS = (
    [
        "",
        "a",
        "A",
        "abc",
        "Abc",
        "abcabc",
        "héllo",
        "日本語",
        "🦆🦆x",
        "ß",
        "Σ",
        " a ",
        "\t b",
        "a%b",
        "a_b",
        "a\\b",
        "it's",
        "a,b,,c",
        "ab\ncd",
    ]
    + [
        "12",
        " 7 ",
        "-3",
        "+4",
        "2.5",
        "-2.5",
        "1e3",
        "99999999999",
        "12345678901234567890",
        "nan",
        "inf",
        ".5",
        "5.",
        "0x",
        "1.2.3",
        "true",
        "F",
        "yes",
        "1e18",
        " +1E-2\t",
        "-2.5e1",
        "9.223372036854775807e18",
        "1e37",
        "99999999999999999999999999999999999999",
        "++1",
        "- 1",
        "--1",
    ]
    + [
        "2024-02-29",
        "2023-02-29",
        "2024-01-31 12:30:45",
        "2024-01-31T23:59:59.123456",
        "2024-1-2 3:04",
        "1969-12-31 23:59:59.5",
        "2024-13-01",
        " 2024-02-29",
        "\t2024-02-29\n",
        "2024-02-29 ",
        " 2024-01-31  12:30:45 ",
        "epoch",
        " Epoch ",
    ]
)
POOLS: dict[DataType, list[object]] = {
    BOOLEAN: [True, False],
    INT: [0, 1, -1, 2, 3, 7, -8, 10, 15, 100, 12345, 2**31 - 1, -(2**31), 2**30, 46341, -46341],
    BIGINT: [0, 1, -1, 2, -3, 5, 10, 25, 1000, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**62, -(2**62) - 1, 3037000500],
    DOUBLE: [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.1,
        0.3,
        100.0,
        1e-7,
        1e16,
        1e300,
        -1e300,
        2147483647.5,
        9.3e18,
    ]
    + [float("nan"), float("inf"), float("-inf"), 5e-324, 0.49999999999999994, 12.345],
    STRING: list(_TEXTS),
    DATE: [0, -1, 1, 19_782, 19_783, -719_162, 2_932_896, 11_016, -25_567, 365],
    TIMESTAMP: [
        0,
        -1,
        1,
        999_999,
        1_709_164_800_000_000,
        1_704_067_199_999_999,
        1_704_067_200_000_000,
        -500_000,
        _YEAR_1,
        _YEAR_9999,
    ]
    + [951_782_400_123_456, -2_208_988_800_000_000, 1_706_745_599_000_001],
    MONEY: [
        Decimal(x)
        for x in ("0.00", "1.00", "-1.00", "1.25", "-1.25", "0.05", "99999999.99", "-99999999.99", "12.50", "3.30")
    ],
    FINE: [
        Decimal(x)
        for x in (
            "0.0000",
            "1.0000",
            "-0.0001",
            "2.5000",
            "-2.5000",
            "99999999999999.9999",
            "0.1250",
            "33.3333",
            "-7.7777",
        )
    ],
}
POOLS |= {
    kind: [
        Decimal(n).scaleb(-kind.scale, Context(prec=38))
        for n in (0, 1, -1, 10**38 - 1, 1 - 10**38, 10**38 - 2, 5 * 10**37, 10**19)
    ]
    for kind in WIDE
}


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 24) -> pa.Table:
    """Columns with nulls, NaN, infinities, extremes and texts beyond ASCII."""
    rows = draw(st.integers(0, max_rows))
    arrays = []
    for kind in COLUMNS.values():
        value = st.one_of(st.none(), st.sampled_from(POOLS[kind]), _any_value(kind))
        arrays.append(pa.array(draw(st.lists(value, min_size=rows, max_size=rows)), kind.arrow))
    return pa.table(arrays, names=list(COLUMNS))


def _any_value(kind: DataType) -> st.SearchStrategy[object]:
    if kind == INT:
        return st.integers(-1000, 1000)
    if kind == BIGINT:
        return st.integers(-(2**63), 2**63 - 1)
    if kind == DOUBLE:
        return st.floats(-1e6, 1e6, width=32)
    if kind == TIMESTAMP:
        return st.integers(_YEAR_1, _YEAR_9999)
    if kind == DATE:
        return st.integers(-100_000, 100_000)
    return st.sampled_from(POOLS[kind])
