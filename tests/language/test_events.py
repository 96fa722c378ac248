"""EVENT and CREATE CONSTRAINTS: what is refused when it is written."""

from __future__ import annotations

import pytest

from eddyline.errors import BindingProblem, SyntaxProblem
from eddyline.language import bind_script

STREAM = "CREATE STREAM s (k BIGINT, kind INT, type STRING, ts TIMESTAMP) WITH (time = 'ts');"


@pytest.mark.parametrize("operator", ["SEQ", "AND", "OR"])
def test_a_pattern_nested_too_deeply_is_refused(operator: str) -> None:
    with pytest.raises(SyntaxProblem, match="nested too deeply"):
        bind_script(f"{STREAM} CREATE QUERY q AS EVENT {f'{operator}(' * 5_000}A{')' * 5_000} FROM s TYPE type;")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE QUERY q AS EVENT SEQ({} a, 1 b) FROM s TYPE kind WITHIN 1 DAY;",
        "CREATE CONSTRAINTS c ON s TYPE kind (PRIOR({}, 1));",
    ],
)
def test_a_type_that_the_column_cannot_hold_is_refused(statement: str) -> None:
    bind_script(STREAM + statement.format(2**31 - 1))
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(BindingProblem, match="does not fit into column kind, which is INT"):
            bind_script(STREAM + statement.format(value))


def test_a_seq_in_a_seq_is_its_members() -> None:
    nested, flat = (
        bind_script(f"{STREAM} CREATE QUERY q AS EVENT {text} FROM s TYPE type WITHIN 1 DAY;").queries[0].pattern
        for text in ("SEQ(SEQ(A, NOT(B)), SEQ(C, D))", "SEQ(A, NOT(B), C, D)")
    )
    assert nested is not None and flat is not None and nested.disjuncts == flat.disjuncts
