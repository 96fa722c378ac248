"""Names of types."""

from __future__ import annotations

import pytest

from eddyline.errors import SyntaxProblem, Unsupported
from eddyline.language.text.datatypes import data_type
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, decimal


@pytest.mark.parametrize("kind", [BOOLEAN, INT, BIGINT, DOUBLE, STRING, DATE, TIMESTAMP])
def test_each_type_has_its_own_name(kind: DataType) -> None:
    assert data_type(kind.name.lower()) == kind


@pytest.mark.parametrize(
    ("word", "kind"), [("INTEGER", INT), ("LONG", BIGINT), ("TEXT", STRING), ("VARCHAR", STRING), ("BOOL", BOOLEAN)]
)
def test_other_names(word: str, kind: DataType) -> None:
    assert data_type(word) == kind


@pytest.mark.parametrize(("sizes", "kind"), [((), decimal(18, 3)), ((5,), decimal(5, 0)), ((38, 38), decimal(38, 38))])
def test_decimals(sizes: tuple[int, ...], kind: DataType) -> None:
    assert data_type("DECIMAL", sizes) == data_type("numeric", sizes) == kind


@pytest.mark.parametrize("sizes", [(0,), (39, 0), (5, 6), (5, 2, 1), (-1,)])
def test_decimals_that_are_none(sizes: tuple[int, ...]) -> None:
    with pytest.raises(SyntaxProblem, match="is not a type"):
        data_type("DECIMAL", sizes)


@pytest.mark.parametrize(
    ("word", "sizes", "hint"), [("FLOAT", (), "DOUBLE"), ("BLOB", (), "types are"), ("INT", (4,), "write INT")]
)
def test_types_we_do_not_have(word: str, sizes: tuple[int, ...], hint: str) -> None:
    with pytest.raises(Unsupported) as caught:
        data_type(word, sizes)
    assert hint in caught.value.hint
