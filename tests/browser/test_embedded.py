"""The page of an embedded job, as a person sees it; the tests follow one another, over one job."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from eddyline.dashboard.server import serve
from eddyline.runtime.reporting.places import ReportPlaces, read_json
from tests.browser.page import DESK, Page
from tests.dashboard.live import LiveJob

Job = tuple[LiveJob, str]


@pytest.fixture(autouse=True)
def shown(page: Page, embedded: Job) -> None:
    page.size(DESK)
    if str(embedded[0].port) not in page.driver.current_url:
        page.open(embedded[1])


def test_the_overview_moves(page: Page) -> None:
    page.go("overview")
    page.wait(lambda: page.text("#rows") not in ("–", "0"), "rows")
    page.changes("#rows")
    page.wait(lambda: len(page.all("canvas")) == 8, "eight charts")
    assert "rows per second" not in page.text("#rows") and "token=" not in page.driver.current_url
    page.see("bids", ".panel table")
    page.see("late: ", "main")
    assert page.complaints() == []


def test_queries_sort_and_filter(page: Page) -> None:
    page.go("queries")
    page.see("44 queries", "#query-count")
    page.write("input[type=search]", "per_category")
    page.see("1 of 44 queries", "#query-count")
    assert "COUNT(*)" in page.text(".virtual .line")
    page.write("input[type=search]", "dear_3")
    page.see("11 of 44 queries", "#query-count")
    page.click(".virtual .head button[data-key=names]")
    page.wait(lambda: page.text(".virtual .line:first-child .of-names") == "dear_3", "the smallest name first")
    page.click(".virtual .head button[data-key=names]")
    page.wait(lambda: page.text(".virtual .line:first-child .of-names") == "dear_39", "the largest name first")


def test_a_query_is_drawn_with_its_figures(page: Page) -> None:
    page.go("query/sellers")
    page.see("rows stored", "svg.plan")
    assert len(page.all("svg.plan .part")) >= 5 and "rows/s" in page.see("rows/s", "svg.plan .said")
    assert page.text("#plan").startswith("query: sellers")
    page.see("person", "#tail")
    page.changes("#q-results")


def test_values_of_streams_are_text(page: Page) -> None:
    page.go("query/early")
    page.see("<script>alert('x')</script>", "#tail")
    assert page.driver.execute_script("return document.querySelectorAll('main script').length") == 0
    assert page.complaints() == []


def test_decisions_are_listed(page: Page) -> None:
    page.go("decisions")
    page.see("the job started", "#timeline")


def test_a_query_is_added_seen_and_dropped(page: Page) -> None:
    page.add_and_drop_a_query()
    page.go("decisions")
    page.see("query cheap has gone", "#timeline")


def test_ten_thousand_queries_stay_usable(page: Page, embedded: Job, tmp_path: Path) -> None:
    places, copied = ReportPlaces(embedded[0].state), ReportPlaces(str(tmp_path))
    copied.make()
    document, described = read_json(places.report), read_json(places.queries)
    names = [f"query_{n:05d}" for n in range(10_000)]
    document["names"] = names
    document["stats"]["results"] = {name: n for n, name in enumerate(names)}
    document["units"] = dict.fromkeys(names, "filter")
    Path(copied.report).write_text(json.dumps(document))
    Path(copied.queries).write_text(json.dumps(dict.fromkeys(names, described["early"])))
    server = serve(str(tmp_path))
    server.start()
    try:
        page.driver.get(server.address)
        page.go("queries")
        page.see("10,000 queries", "#query-count")
        began = time.monotonic()
        page.click(".virtual .head button[data-key=results]")
        page.see("query_09999", ".virtual .line:first-child")
        page.driver.execute_script("document.getElementById('query-table').scrollTop = 5000 * 30")
        page.see("query_04990", ".virtual .line")
        page.write("input[type=search]", "query_0777")
        page.see("10 of 10,000 queries", "#query-count")
        assert time.monotonic() - began < 80
        assert len(page.all(".virtual .line")) < 100
    finally:
        server.stop()


def test_a_killed_job_is_seen_and_its_return_too(page: Page, embedded: Job) -> None:
    job, address = embedded
    page.open(address)
    page.go("overview")
    job.kill()
    page.see("no connection", "#status")
    page.see("connects again", "#banner")
    assert job.start() == address
    page.see("running", "#status")
    page.changes("#rows")
    page.go("decisions")
    page.see("the job started again", "#timeline")


def test_figures_of_the_page_are_those_of_stats(page: Page, embedded: Job) -> None:
    """The last test of the job: it ends as a user ends it."""
    job, _ = embedded
    stats = job.stop()
    server = serve(job.state)
    server.start()
    try:
        page.driver.get(server.address)
        page.go("overview")
        page.see("ended", "#status")
        rows, late, bad, results = (stats[key] for key in ("rows_in", "late", "bad", "results"))
        assert isinstance(rows, dict) and isinstance(late, dict) and isinstance(bad, dict) and isinstance(results, dict)
        page.wait(lambda: page.text("#rows") == f"{sum(rows.values()):,}", "the rows of --stats")
        assert page.text("#results") == f"{sum(results.values()):,}"
        assert page.text("#dead") == f"{sum(late.values()) + sum(bad.values()):,}"
        page.go("query/early")
        page.wait(lambda: page.text("#q-results") == f"{results['early']:,}", "the results of --stats")
    finally:
        server.stop()
