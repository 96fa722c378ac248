"""The page of a job on Spark; the tests follow one another, over one job."""

from __future__ import annotations

import pytest

from tests.browser.page import DESK, Page
from tests.dashboard.live import LiveJob

Job = tuple[LiveJob, str]

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def shown(page: Page, on_spark: Job) -> None:
    page.size(DESK)
    if str(on_spark[0].port) not in page.driver.current_url:
        page.open(on_spark[1])


def test_batches_move_the_overview(page: Page) -> None:
    page.go("overview")
    page.wait(lambda: page.text("#rows") not in ("–", "0"), "rows")
    page.changes("#rows")
    page.see("largest worker", "#memory-more")
    assert page.complaints() == []


def test_each_shard_is_shown(page: Page) -> None:
    page.go("shards")
    page.wait(lambda: len(page.all("#each-shard tbody tr")) == 2, "two shards")
    assert "addBatch" in page.see("addBatch") and "× " in page.text("#s-rows")
    assert page.text("h1") == "Shards" and page.violations() == []


def test_a_query_is_drawn(page: Page) -> None:
    page.go("query/sellers")
    page.see("rows stored", "svg.plan")
    page.see("shard", "#plan")


def test_a_query_is_added_and_dropped(page: Page) -> None:
    page.add_and_drop_a_query()


def test_histograms_count_batches_and_results(on_spark: Job) -> None:
    from eddyline.runtime.reporting.places import ReportPlaces, read_json

    document = read_json(ReportPlaces(on_spark[0].state).report)
    found = document["histograms"]
    assert sum(found["epoch"]["counts"]) == document["stats"]["epoch_times"]["count"] > 0
    assert sum(found["response"]["counts"]) > 0 and found["response"]["sum"] > 0


def test_figures_of_the_report_are_those_of_stats(on_spark: Job) -> None:
    """The last test of the job: it ends as a user ends it."""
    from eddyline.runtime.reporting.places import ReportPlaces, read_json

    job, _ = on_spark
    stats = job.stop()
    document = read_json(ReportPlaces(job.state).report)
    assert document["state_of_job"] == "ended"
    for key in (
        "rows_in",
        "late",
        "bad",
        "results",
        "epochs",
        "elapsed_s",
        "operators",
        "peak_stored_rows",
        "frontiers",
    ):
        assert document["stats"][key] == stats[key], key
