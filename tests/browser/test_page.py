"""Every view for every user: headings, keys, contrast, widths; and charts that show one range and one instant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from eddyline.dashboard.server import serve
from tests.browser.page import DESK, PHONE, Page
from tests.browser.still import SPAN, still_job
from tests.dashboard.live import LiveJob

Job = tuple[LiveJob, str]
#: View -> its title, and a text that stands on it when it is whole.
VIEWS = {
    "overview": ("Overview", "holds the frontier back"),
    "queries": ("Queries", "44 queries"),
    "query/sellers": ("sellers", "rows stored"),
    "query/selers": ("selers", "There is no query selers"),
    "decisions": ("Decisions", "the job started"),
    "ask": ("Ask", "Change the job"),
}


@pytest.fixture(autouse=True)
def shown(page: Page, embedded: Job) -> None:
    page.size(DESK)
    page.scheme("light")
    if str(embedded[0].port) not in page.driver.current_url:
        page.open(embedded[1])


@pytest.fixture
def still(page: Page, embedded: Job, tmp_path: Path, shown: None) -> Iterator[Page]:
    """The page of a job that has ended."""
    page.go("overview")
    page.wait(lambda: page.text("#rows") not in ("–", "0"), "a report of the live job")
    server = serve(still_job(embedded[0].state, tmp_path / "still"))
    server.start()
    try:
        page.driver.get(server.address)
        page.go("overview")
        page.see("ended", "#status")
        page.wait(lambda: len(page.all("canvas")) >= 7, "charts")
        yield page
    finally:
        page.driver.get("about:blank")
        server.stop()
        page.open(embedded[1])


def test_every_view_has_one_heading_and_a_title(page: Page) -> None:
    for view, (title, text) in VIEWS.items():
        page.go(view)
        page.see(text)
        assert page.text("h1") == title and len(page.all("h1")) == 1, view
        assert page.driver.title.startswith(title) and page.driver.title.endswith("· eddyline"), view


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: Page, scheme: str) -> None:
    page.scheme(scheme)
    for size in (DESK, PHONE):
        page.size(size)
        for view, (_, text) in VIEWS.items():
            page.go(view)
            page.see(text)
            assert page.violations() == [], (view, scheme, size)
    page.size(DESK)
    page.go("overview")
    page.click(".panel button.small")
    page.see("time", ".points th")
    assert page.violations() == []


def test_cards_fill_their_rows(page: Page) -> None:
    script = """const box = document.querySelector('.cards').getBoundingClientRect(), rows = new Map();
        for (const card of document.querySelectorAll('.card')) {
          const one = card.getBoundingClientRect(), row = rows.get(Math.round(one.top)) ?? [Infinity, 0];
          rows.set(Math.round(one.top), [Math.min(row[0], one.left), Math.max(row[1], one.right)]);
        }
        return [...rows.values()].filter(([left, right]) => Math.abs(left - box.left) > 1.5 || Math.abs(right - box.right) > 1.5).length"""
    for view in ("overview", "query/sellers"):
        page.go(view)
        page.wait(lambda: page.all(".card"), "cards")
        for width in (360, 400, 620, 660, 820, 900, 1050, 1100, 1300, 1340, 1600, 2200):
            page.size((width, 900))
            assert page.run(script) == 0, (view, width)
            # Charts follow the width of their panels once these have been laid out.
            page.wait(lambda: not page.is_too_wide(), f"{view} that fits into {width}")


def test_every_view_fits_three_widths_in_both_colours(page: Page) -> None:
    """On a phone, a tablet and a desk: nothing scrolls sideways, the ground is as dark or light as was asked for, and the
    browser has no complaint."""
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        for size in (PHONE, (820, 1180), DESK):
            page.size(size)
            for view, (_, text) in VIEWS.items():
                page.go(view)
                page.see(text)
                page.wait(lambda: not page.is_too_wide(), f"{view} that fits into {size}")
                ground = luminance(page.run("return getComputedStyle(document.body).backgroundColor"))
                assert ground > 0.8 if scheme == "light" else ground < 0.1, (view, scheme)
    assert page.complaints() == []


def test_units_cover_no_labels_of_axes(still: Page) -> None:
    script = """const panels = [...document.querySelectorAll('.panel:has(.plot)')];
        return panels.filter((panel) => !panel.querySelector('.plot').hidden).map((panel) => {
        const unit = panel.querySelector('.unit').getBoundingClientRect(), plot = panel.querySelector('.plot').getBoundingClientRect();
        return [unit.width > 0, unit.bottom <= plot.top];
    })"""
    for width in (360, 900, 1600):
        still.size((width, 900))
        found = still.run(script)
        assert len(found) >= 7 and all(shown and apart for shown, apart in found), width


def test_one_range_for_all_charts(still: Page) -> None:
    page = still
    for name, low, high in (("5min", 200, 305), ("1h", 3_400, 3_605), ("all", SPAN - 100, SPAN + 5)):
        page.click(f"#range-{name}")
        page.wait(lambda low=low, high=high: all(low <= span <= high for span in spans(page)), f"the range {name}")
        assert [one.get_attribute("aria-pressed") for one in page.all(".range button")].count("true") == 1
    page.go("query/sellers")
    page.wait(lambda: page.all("#range-all[aria-pressed=true]"), "the same range on another view")
    page.click("#range-1h")


def spans(page: Page) -> list[int]:
    """The seconds that the charts with figures say that they show; at least one that none has reached."""
    labels = page.run(
        "return [...document.querySelectorAll('.plot')].filter((one) => !one.hidden).map((one) => one.ariaLabel)"
    )
    found = [re.search(r"(\d\d):(\d\d):(\d\d) to (\d\d):(\d\d):(\d\d)", label) for label in labels]
    times = [[int(one) for one in match.groups()] for match in found if match is not None]
    return (
        [((b[3] - b[0]) * 3600 + (b[4] - b[1]) * 60 + b[5] - b[2]) % 86_400 for b in times] if len(times) >= 7 else [-1]
    )


def test_all_charts_show_the_values_of_one_instant(still: Page) -> None:
    page = still
    page.click("#range-5min")
    page.wait(lambda: all(200 <= span <= 305 for span in spans(page)), "five minutes")
    before = values(page)
    page.point_at(".plot .u-over")
    page.wait(lambda: page.text("#instant") != "values: newest", "an instant")
    instant = page.text("#instant").removeprefix("values: ")
    page.wait(lambda: sum(a != b for a, b in zip(before, values(page), strict=True)) >= 2, "other values")
    # The table of another chart says the same of that instant.
    memory = page.find('button[aria-label="Memory as a table"]')
    shown = page.run(
        "return [...arguments[0].closest('.panel').querySelectorAll('.entry b')].map((one) => one.textContent)", memory
    )
    page.run("arguments[0].click()", memory)
    assert row_at(page, instant) == [instant, *shown]
    page.run("arguments[0].click()", memory)
    page.point_at("#view h1")
    page.see("values: newest", "#instant")
    page.wait(lambda: values(page) == before, "the newest values again")
    assert re.fullmatch(r"\d\d:\d\d:\d\d", instant)


def values(page: Page) -> list[str]:
    return [
        str(one) for one in page.run("return [...document.querySelectorAll('.entry b')].map((one) => one.textContent)")
    ]


def row_at(page: Page, instant: str) -> list[str]:
    """The row of an instant in the table of a chart."""
    script = """const texts = (row) => [...row.cells].map((cell) => cell.textContent);
        return [...document.querySelectorAll('.points tbody tr')].map(texts).find((row) => row[0] === arguments[0])"""
    return [str(one) for one in page.run(script, instant)]


def test_keys_choose_an_instant_and_the_table_has_the_same_values(still: Page) -> None:
    page = still
    page.run("document.querySelector('.plot').focus()")
    page.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    said = page.wait(lambda: page.text(".panel:has(.plot) .unseen").strip(), "values in words")
    instant = page.text("#instant").removeprefix("values: ")
    assert instant in said and "auctions" in said
    shown = page.run(
        "return [...document.querySelector('.legend').querySelectorAll('.entry')].map((one) => one.lastChild.textContent)"
    )
    page.click(".panel button.small")
    assert row_at(page, instant) == [instant, *shown] and len(page.all(".points tbody tr")) > 50
    page.click(".panel button.small")
    page.wait(lambda: page.find(".plot").is_displayed(), "the chart again")
    page.run("document.querySelector('.plot').focus()")
    page.press(Keys.ESCAPE)
    page.see("values: newest", "#instant")


def test_charts_are_told_in_words_and_lines_can_be_hidden(still: Page) -> None:
    page = still
    label = str(page.find(".plot").get_attribute("aria-label"))
    assert label.startswith("Rows in, rows per second, ") and "bids: newest " in label and "lowest" in label
    page.click(".entry")
    assert page.find(".entry").get_attribute("aria-pressed") == "false"
    page.click(".entry")
    assert page.find(".entry").get_attribute("aria-pressed") == "true"


def test_streams_that_replay_old_data_are_shown_on_demand(still: Page) -> None:
    page = still
    page.see("show streams that replay old data: bids", "#replayed-note")
    lines = ".panel:has(#replayed) .entry span"
    assert "bids" not in page.text(lines) and "auctions" in page.text(lines)
    page.click("#replayed")
    page.wait(lambda: "bids" in page.text(lines), "the old stream")
    page.click("#replayed")
    page.wait(lambda: "bids" not in page.text(lines), "the new streams alone")


def test_dead_letters_are_grouped_by_kind(still: Page) -> None:
    page = still
    assert page.text("#dead-letters h3").splitlines() == [
        "bidsbad: column item is declared as BIGINT and holds another value",
        "bidslate: event time lies before the instant, the newest seen minus lateness",
    ]
    assert page.text("#dead-letters .dead > p").count("40 rows, the newest at ") == 2
    bad, late = page.all("#dead-letters table")
    assert late.text.splitlines()[0].split() == ["instant", "item", "reason"]
    assert late.text.splitlines()[1].startswith("2026-11-19 03:45:39 39 late: ")
    assert bad.text.splitlines()[0].split() == ["item", "reason"] and "word 39" in bad.text


def test_an_unknown_query_says_so_and_lists_the_queries(page: Page) -> None:
    page.go("query/selers")
    page.see("There is no query selers", "#unknown")
    page.wait(lambda: page.all("#unknown li a"), "names")
    assert page.all("#unknown li a")[0].text == "sellers" and not page.find(".cards").is_displayed()
    page.all("#unknown li a")[0].click()
    page.see("rows stored", "svg.plan")


def test_the_plan_has_the_colours_of_the_page(page: Page) -> None:
    page.go("query/sellers")
    page.see("rows stored", "svg.plan")
    script = """const style = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
        const parts = ['rect', '.title', '.line'].map((part) => style(`svg.plan .join ${part}`, 'fill'));
        return [...parts, style('body', 'color'), style('svg.plan .edge', 'stroke')]"""
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        box, title, line, ink, edge = page.run(script)
        assert title == line == ink and contrast(box, title) >= 4.5, scheme
        assert (
            contrast(edge, page.run("return getComputedStyle(document.querySelector('.panel')).backgroundColor")) >= 3
        )
        assert (luminance(box) < 0.1) == (scheme == "dark")


def luminance(colour: str) -> float:
    parts = [int(one) / 255 for one in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_keys_reach_everything(page: Page) -> None:
    page.go("queries")
    page.see("44 queries", "#query-count")
    page.run("document.getElementById('query-table').focus()")
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    name = page.focused()
    assert name == page.text(".virtual .line:nth-child(3) .of-names")
    page.press(Keys.END)
    page.wait(lambda: page.focused() not in (name, "query-table"), "the last line")
    page.press(Keys.HOME, Keys.ENTER)
    page.wait(lambda: page.run("return location.hash").startswith("#/query/"), "a query")
    assert page.focused() == "view"
    page.go("overview")
    page.see("Overview", "h1")
    page.driver.refresh()
    page.see("Overview", "h1")
    page.press(Keys.TAB)
    assert page.focused() == "skip"
    page.press(Keys.ENTER)
    assert page.focused() == "view"
    page.go("ask")
    page.wait(lambda: page.all("#set-send"), "the forms")
    page.find("#ask-text").click()
    seen = []
    for _ in range(40):
        page.press(Keys.TAB)
        seen.append(page.focused())
    wanted = [
        "ask-send",
        "share",
        "as-table",
        "as-chart",
        "template",
        "template-ask",
        "add-what",
        "drop-name",
        "drop-send",
        "set-option",
        "set-value",
        "set-send",
    ]
    assert [one for one in wanted if one not in seen] == []
