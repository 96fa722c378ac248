"""Every function of DuckDB is one of ours, or an error names the nearest of ours."""

from __future__ import annotations

import re

import duckdb
import pytest

from eddyline.language.other_functions import _BY_FORM, _BY_NAME, instead
from eddyline.model.expressions.functions import AGGREGATE_SYNONYMS, AGGREGATES, ALIASES, FUNCTIONS
from tests.language.world import shown

#: Functions that stand with OVER or in FROM, and the operators of other names.
OTHER_PLACES = {"lag", "first_value", "last_value", "row_number", "tumble", "hop", "session"}
OURS = {*FUNCTIONS, *ALIASES, *AGGREGATES, *AGGREGATE_SYNONYMS, "mean", "stddev_samp"} | OTHER_PLACES


def duckdb_functions() -> list[str]:
    rows = duckdb.connect().sql("SELECT DISTINCT function_name FROM duckdb_functions() ORDER BY 1").fetchall()
    return [name for (name,) in rows]


def test_every_function_of_duckdb_is_ours_or_has_a_suggestion() -> None:
    names = duckdb_functions()
    assert len(names) > 500
    assert [name for name in names if name.lower() not in OURS and instead(name) is None] == []


def test_suggestions_name_what_exists() -> None:
    for hint in {hint for hint, _ in _BY_NAME} | {hint for _, hint in _BY_FORM}:
        called = set(re.findall(r"\b([a-z][a-z_0-9]*)\(", hint)) - {"name"}
        assert called <= OURS, hint


def test_no_suggestion_hides_a_function_that_exists() -> None:
    named = {name for _, names in _BY_NAME for name in names.split()}
    assert named & (OURS - {"first_value"}) == set()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("median(price)", "approx_quantile"),
        ("quantile_cont(price, 0.5)", "approx_quantile"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY price)", "approx_quantile"),
        ("regexp_matches(bidder, 'a.*')", "LIKE"),
        ("first(price)", "arg_min"),
        ("bool_or(price > 1)", "count_if"),
        ("now()", "time of rows"),
        ("date_add(ts, INTERVAL 1 DAY)", "ts + INTERVAL"),
    ],
)
def test_an_error_names_what_works(call: str, named: str) -> None:
    with pytest.raises(Exception) as problem:
        shown(f"SELECT {call} AS x FROM bids [RANGE 1 MINUTE]")
    assert named in problem.value.hint


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("bidder -> 'a'", "json_extract(bidder, 'a')"),
        ("bidder ->> 'a'", "json_extract_string(bidder, 'a')"),
        ("bidder ->> '$.a[0]'", "json_extract_string(bidder, '$.a[0]')"),
        ("bidder -> 0", "json_extract(bidder, '$[0]')"),
        ("bidder -> -1", "json_extract(bidder, '$[-1]')"),
        ("bidder -> 'a' ->> 'b'", "json_extract_string(json_extract(bidder, 'a'), 'b')"),
        ("bidder ->> 'a' || 'x'", "json_extract_string(bidder, 'a') || 'x'"),
        ("bidder ->> 'a' = 'x'", "json_extract_string(bidder, 'a') = 'x'"),
        ("lower(bidder -> 'a')", "lower(json_extract(bidder, 'a'))"),
    ],
)
def test_arrows_are_paths_into_json(written: str, meant: str) -> None:
    assert shown(f"SELECT {written} AS x FROM bids") == shown(f"SELECT {meant} AS x FROM bids")


@pytest.mark.parametrize("path", ["bidder", "'/a'", "1.5", "1 + item"])
def test_an_arrow_takes_a_path_that_is_written_out(path: str) -> None:
    with pytest.raises(Exception) as problem:
        shown(f"SELECT bidder -> {path} AS x FROM bids")
    assert problem.value.hint
