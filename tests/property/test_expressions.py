"""Any expression over any columns: our result is DuckDB's, value by value."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eddyline.model.datatypes import BOOLEAN, DataType, from_arrow
from eddyline.operators.expressions.evaluate import Issues, compile_expression, compile_predicate
from tests.property.expression_values import tables
from tests.property.expressions import DuckDB, Piece, any_piece, pieces
from tests.seeds import cases

pytestmark = pytest.mark.property

duck = DuckDB()
quick = settings(max_examples=cases(400), deadline=None, suppress_health_check=list(HealthCheck))


def columns_of_table(table: pa.Table) -> dict[tuple[str, str], pa.Array]:
    return {("t", name): table.column(name).combine_chunks() for name in table.column_names}


def same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return (math.isnan(ours) and math.isnan(theirs)) or ours == theirs or math.isclose(ours, theirs, rel_tol=1e-12)
    return ours == theirs


def plain(array: pa.Array | pa.ChunkedArray, kind: DataType) -> list[object]:
    """Times as numbers, so that years beyond Python's can be compared."""
    if kind.is_temporal:
        return array.cast(pa.int32() if kind.name == "DATE" else pa.int64()).to_pylist()
    return array.to_pylist()


@quick
@given(any_piece(), tables())
def test_every_expression_gives_what_duckdb_gives(piece: Piece, table: pa.Table) -> None:
    ours = compile_expression(piece.expression)(columns_of_table(table), table.num_rows, Issues())
    theirs = duck.compute(table, piece.sql)
    assert ours.type == piece.type.arrow
    ours.validate(full=True)
    assert len(ours) == table.num_rows
    if theirs.null_count < len(theirs):
        # What is always NULL may have any type there.
        assert from_arrow(theirs.type) == piece.type, f"{piece.sql} is {theirs.type}"
    pairs = list(zip(plain(ours, piece.type), plain(theirs, piece.type), strict=True))
    wrong = [(row, a, b) for row, (a, b) in enumerate(pairs) if not same(a, b)]
    assert not wrong, (
        f"{piece.sql}\n{piece.expression}\nrow, ours, DuckDB's: {wrong[:3]}\n{table.slice(wrong[0][0], 1).to_pylist()}"
    )


@settings(max_examples=cases(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(pieces(BOOLEAN), tables())
def test_a_predicate_holds_where_the_expression_is_true(piece: Piece, table: pa.Table) -> None:
    columns = columns_of_table(table)
    mask = compile_predicate(piece.expression)(columns, table.num_rows, Issues())
    value = compile_expression(piece.expression)(columns, table.num_rows, Issues())
    assert mask.dtype == np.bool_
    assert mask.tolist() == [v is True for v in value.to_pylist()]


@settings(max_examples=cases(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(any_piece(), tables(), st.integers(0, 24))
def test_results_and_issues_do_not_depend_on_how_rows_are_cut(piece: Piece, table: pa.Table, cut: int) -> None:
    compiled = compile_expression(piece.expression)
    whole, parts = Issues(), Issues()
    expected = compiled(columns_of_table(table), table.num_rows, whole)
    halves = [table.slice(0, cut), table.slice(cut)]
    found = [compiled(columns_of_table(half), half.num_rows, parts) for half in halves]
    joined = plain(pa.chunked_array(found, piece.type.arrow), piece.type)
    assert [repr(v) for v in joined] == [repr(v) for v in plain(expected, piece.type)]
    assert whole.counts == parts.counts
