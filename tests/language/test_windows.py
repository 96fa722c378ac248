"""Spans of time and the window clause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import SyntaxProblem, Unsupported, UserError
from eddyline.language.parse import parse_select
from eddyline.language.text.windows import LONGEST, parse_span
from eddyline.model.window import UNBOUNDED, Now, Range, Rows, span_text


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0", 0),
        ("0 seconds", 0),
        ("1 microsecond", 1),
        ("500 MILLISECONDS", 500_000),
        ("5ms", 5_000),
        ("10 minutes", 600_000_000),
        ("1 min", 60_000_000),
        ("1 Hour", 3_600_000_000),
        ("1.5 hours", 5_400_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("  2 days ", 172_800_000_000),
        ("1 week", 604_800_000_000),
        ("0.000001 s", 1),
    ],
)
def test_spans(text: str, micros: int) -> None:
    assert parse_span(text) == micros


@pytest.mark.parametrize(
    "text", ["", "minutes", "5", "-5 minutes", "5 parsecs", "5 minutes ago", "0.1 us", "1e3 s", "9999999 weeks"]
)
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(SyntaxProblem):
        parse_span(text)


@pytest.mark.parametrize("text", ["1 month", "2 years", "1 quarter"])
def test_units_without_a_fixed_length(text: str) -> None:
    with pytest.raises(Unsupported, match="no fixed length"):
        parse_span(text)


@given(st.integers(0, LONGEST))
def test_every_span_reads_its_own_text(micros: int) -> None:
    assert parse_span(span_text(micros)) == micros


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("s [RANGE 10 MINUTES]", Range(600_000_000)),
        ("s[range 0 seconds]", Range(0)),
        ("s t [ROWS 1]", Rows(1)),
        ("s [UNBOUNDED] t", UNBOUNDED),
        ("s [RANGE '1 hour 1 second']", Range(3_601_000_000)),
        ("s", None),
    ],
)
def test_window_clause(clause: str, window: object) -> None:
    assert parse_select(f"SELECT x FROM {clause}").sources[0].window == window


@given(st.text("[]RANGEOWS 0123456789MINUTES-.'", max_size=25))
def test_no_window_text_breaks_the_parser(text: str) -> None:
    """Whatever stands between the brackets is a window or an error of the user's."""
    try:
        window = parse_select(f"SELECT x FROM s [{text}]").sources[0].window
    except UserError as problem:
        assert problem.message
    else:
        assert window is None or isinstance(window, Range | Rows | Now) or window == UNBOUNDED
