"""The ranges of the README are those of the result files that the benchmarks keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def results(folder: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((ROOT / "bench" / folder / "results").glob("*.json"))]


def medians(result: dict[str, Any]) -> dict[str, float]:
    """Seconds by contender."""
    return {measure["name"]: measure["median"] for measure in result["measures"]}


def ratios(folder: str, contender: str, other: str) -> list[float]:
    """How many times as fast the contender was, in each run of both."""
    found = [medians(result) for result in results(folder)]
    return [taken[other] / taken[contender] for taken in found if contender in taken and other in taken]


def between(found: list[float]) -> str:
    return f"{min(found):.2g} to {max(found):.2g} times"


def test_ranges_go_from_the_slowest_to_the_fastest_median() -> None:
    rates = [
        result["rows_in"] / taken / 1e6
        for result in results("peers")
        for contender, taken in medians(result).items()
        if contender in ("eddyline", "eddyline-csv")
    ]
    assert f"**{min(rates):.1f} to {max(rates):.1f} million rows/s**" in README
    assert f"{between(ratios('peers', 'eddyline-csv', 'flink'))} as fast as Flink, from the same csv files" in README
    batch = ratios("peers", "eddyline", "duckdb")
    assert f"{min(batch):.1f} to {max(batch):.1f} times as fast as DuckDB's batch join" in README
    assert f"**{between(ratios('nexmark', 'embedded', 'flink'))}**" in README
    shares = ratios("peers", "eddyline-spark", "spark-native")
    assert f"**{between(shares)}** | as fast as Spark's own stream-stream join" in README


def test_the_range_of_shared_queries_is_the_one_that_its_page_names() -> None:
    page = (ROOT / "bench" / "papers" / "cacq" / "README.md").read_text()
    assert "12.3 to 15.2 times as fast in six runs of one day" in page
    assert "**12 to 15 times** | as fast as 100 separate runs" in README
