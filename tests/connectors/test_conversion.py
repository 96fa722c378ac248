"""Every file type to every declared type: what fits, what does not, and that nothing is rounded in silence."""

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from eddyline.connectors.formats.conversion import as_text, convert
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal
from tests.seeds import first_seed

INF = float("inf")


def converted(values, kind, source=None):
    """The values that fit, and the places of those that do not."""
    column, fits = convert(pa.chunked_array([pa.array(values, source)]), kind)
    assert column.type == kind.arrow
    wrong = [] if fits is None else [i for i, fit in enumerate(fits.to_pylist()) if not fit]
    return column.to_pylist(), wrong


@pytest.mark.parametrize(
    ("values", "source", "kind", "expected", "wrong"),
    [
        ([1, 2**31, None], pa.int64(), INT, [1, None, None], [1]),
        ([1, 2**63], pa.uint64(), BIGINT, [1, None], [1]),
        ([3.0, 3.5, None, INF, 9.3e18], pa.float64(), BIGINT, [3, None, None, None, None], [1, 3, 4]),
        ([Decimal("3.00"), Decimal("3.50")], pa.decimal128(5, 2), BIGINT, [3, None], [1]),
        (
            ["7", " 8 ", "+9", "4.0", "x", "", "99999999999999999999", "3.5"],
            None,
            BIGINT,
            [7, 8, 9, 4, None, None, None, None],
            [4, 6, 7],
        ),
        ([True], pa.bool_(), BIGINT, [None], [0]),
        ([1, 2**60 + 1], pa.int64(), DOUBLE, [1.0, float(2**60 + 1)], []),
        (["1.5", "1e3", "inf", "abc", None, " 2 "], None, DOUBLE, [1.5, 1000.0, INF, None, None, 2.0], [3]),
        ([Decimal("1.25")], pa.decimal128(5, 2), DOUBLE, [1.25], []),
        (["true", "F", "1", "maybe", None], None, BOOLEAN, [True, False, True, None, None], [3]),
        ([1], pa.int64(), BOOLEAN, [None], [0]),
        ([1, None], pa.int64(), STRING, ["1", None], []),
        (["a", "b"], pa.large_string(), STRING, ["a", "b"], []),
        ([b"ok", b"\xff"], pa.binary(), STRING, ["ok", None], [1]),
        ([[1]], pa.list_(pa.int64()), STRING, ["[1]"], []),
        (["2024-02-29", "2024-02-30", "x"], None, DATE, [date(2024, 2, 29), None, None], [1, 2]),
        ([datetime(2024, 1, 1), datetime(2024, 1, 1, 10)], pa.timestamp("ms"), DATE, [date(2024, 1, 1), None], [1]),
        ([date(2024, 1, 1)], pa.date32(), TIMESTAMP, [datetime(2024, 1, 1)], []),
        (
            [5, -5, None],
            pa.int64(),
            TIMESTAMP,
            [datetime(1970, 1, 1, 0, 0, 0, 5), datetime(1969, 12, 31, 23, 59, 59, 999_995), None],
            [],
        ),
        ([5, 2**63], pa.uint64(), TIMESTAMP, [datetime(1970, 1, 1, 0, 0, 0, 5), None], [1]),
        ([5.0], pa.float64(), TIMESTAMP, [None], [0]),
        (["1700000000"], None, TIMESTAMP, [None], [0]),
        ([1, 10**15], pa.timestamp("s"), TIMESTAMP, [datetime(1970, 1, 1, 0, 0, 1), None], [1]),
        ([1_999], pa.timestamp("ns"), TIMESTAMP, [datetime(1970, 1, 1, 0, 0, 0, 1)], []),
        ([0], pa.timestamp("us", "Europe/Berlin"), TIMESTAMP, [datetime(1970, 1, 1)], []),
        ([5, 1000], pa.int64(), decimal(4, 2), [Decimal("5.00"), None], [1]),
        ([Decimal("1.25"), Decimal("1.255")], pa.decimal128(6, 3), decimal(6, 2), [Decimal("1.25"), None], [1]),
        ([0.1, 1e9, float("nan")], pa.float64(), decimal(4, 2), [Decimal("0.10"), None, None], [1, 2]),
        (
            ["1.5", "+01.50000", "1.555", "-.5", "12345", "x"],
            None,
            decimal(4, 2),
            [Decimal("1.5"), Decimal("1.5"), None, Decimal("-0.5"), None, None],
            [2, 4, 5],
        ),
        ([None, None], pa.null(), BIGINT, [None, None], []),
    ],
)
def test_each_pair_of_types(values, source, kind, expected, wrong):
    found, misfits = converted(values, kind, source)
    assert misfits == wrong
    assert [v for i, v in enumerate(found) if i not in wrong] == [v for i, v in enumerate(expected) if i not in wrong]


def test_times_as_text_with_and_without_zones_and_with_nanoseconds():
    texts = [
        "2024-01-01 10:00:00",
        "2024-01-01T10:00:00Z",
        "2024-01-01T10:00:00.5+02:00",
        "2024-01-01 10:00:00.123456789",
        "2024-01-01",
        "2024-13-01",
        "noon",
        None,
    ]
    found, wrong = converted(texts, TIMESTAMP)
    assert wrong == [5, 6]
    assert found[:5] == [
        datetime(2024, 1, 1, 10),
        datetime(2024, 1, 1, 10),
        datetime(2024, 1, 1, 8, 0, 0, 500_000),
        datetime(2024, 1, 1, 10, 0, 0, 123_456),
        datetime(2024, 1, 1),
    ]


def test_dictionaries_are_their_values():
    column, fits = convert(pa.chunked_array([pa.array(["1", "x", "1"]).dictionary_encode()]), BIGINT)
    assert column.to_pylist() == [1, None, 1]
    assert fits.to_pylist() == [True, False, True]


def test_many_misfits_are_found_in_one_pass():
    values = ["1" if i % 2 else f"x{i}" for i in range(20_000)]
    _, wrong = converted(values, BIGINT)
    assert wrong == list(range(0, 20_000, 2))


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        ([1.5], pa.float64(), "1.5"),
        ([[1, 2]], pa.list_(pa.int64()), "[1, 2]"),
        ([b"\xff"], pa.binary(), "b'\\xff'"),
        ([None], pa.null(), None),
    ],
)
def test_anything_has_a_text(values, kind, text):
    assert as_text(pa.chunked_array([pa.array(values, kind)])).to_pylist() == [text]


@pytest.mark.parametrize(
    ("text", "whole", "exact"),
    [
        ("5.0", 5, Decimal("5.00")),
        ("5.", 5, Decimal("5.00")),
        (".0", 0, Decimal("0.00")),
        ("+500", 500, Decimal("500.00")),
        ("-0500.00", -500, Decimal("-500.00")),
        ("1e3", 1000, Decimal("1000.00")),
        ("+1.5E+1", 15, Decimal("15.00")),
        ("150e-1", 15, Decimal("15.00")),
        ("125e-2", None, Decimal("1.25")),
        ("1255e-3", None, None),
        ("1e18", 10**18, None),
        ("1e19", None, None),
        ("1e99999", None, None),
        ("0x10", None, None),
        ("1_000", None, None),
        ("1,000", None, None),
        ("inf", None, None),
        ("1e", None, None),
    ],
)
def test_one_rule_for_numbers_in_text(text, whole, exact):
    for neighbours in ([], ["7"], ["x"], ["7", "x", None], ["1e2", "2.0"]):
        assert convert(pa.chunked_array([[text, *neighbours]]), BIGINT)[0].to_pylist()[0] == whole
        assert convert(pa.chunked_array([[text, *neighbours]]), decimal(10, 2))[0].to_pylist()[0] == exact


def test_whether_a_text_fits_does_not_depend_on_its_neighbours():
    random = np.random.default_rng(first_seed(700))
    letters = list("0123456789") + list("00.eE+-xX_naif(): TZ") + ["2024-01-01", "nan", "inf", "10:00:00"]
    texts = ["".join(random.choice(letters, random.integers(1, 7))) for _ in range(400)] + [
        "nan(1)",
        "-nan",
        "0x1",
        "1e5",
        "+1e5",
        ".",
        "0" * 45 + "7",
    ]
    kinds = [BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP, decimal(10, 2), decimal(5, 5)]
    for kind in kinds:
        together = converted(texts, kind)
        alone = [converted([text], kind) for text in texts]
        assert [repr(value) for value in together[0]] == [repr(values[0]) for values, _ in alone]
        assert together[1] == [place for place, (_, wrong) in enumerate(alone) if wrong]
