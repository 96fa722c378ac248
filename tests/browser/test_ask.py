"""The page Ask, as a person works with it: completion, results, templates, changes of the job, addresses."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.page import DESK, Page
from tests.dashboard.live import LiveJob

Job = tuple[LiveJob, str]
#: A query of numbers whose results come often.
DEAR = "SELECT item, price FROM bids WHERE price < 50"


@pytest.fixture(autouse=True)
def shown(page: Page, embedded: Job) -> None:
    page.size(DESK)
    if str(embedded[0].port) not in page.driver.current_url:
        page.open(embedded[1])
    page.go("ask")
    page.wait(lambda: page.all("#drop-send"), "what the job knows")


def offers(page: Page) -> list[str]:
    return [
        str(one)
        for one in page.run(
            "return [...document.querySelectorAll('#offers:not([hidden]) b')].map((one) => one.textContent)"
        )
    ]


def written(page: Page) -> str:
    return str(page.run("return document.getElementById('ask-text').value"))


def test_names_functions_and_words_are_completed(page: Page) -> None:
    page.write("#ask-text", "SELECT count(*), b.pr")
    # The alias is not known yet: nothing is offered of it.
    assert offers(page) == []
    page.write("#ask-text", "sel")
    page.wait(lambda: offers(page) == ["SELECT"], "the beginning of a statement")
    page.press(Keys.TAB, " ca")
    page.wait(lambda: {"category", "CASE", "CAST"} <= set(offers(page)), "columns and words")
    page.press(Keys.ESCAPE)
    assert offers(page) == [] and written(page) == "SELECT ca"
    page.press("tegory, cou")
    page.wait(lambda: "count(" in offers(page), "functions")
    assert "rows" in page.text("#offers .help")
    page.press(Keys.TAB, "*) FROM ")
    page.chord(Keys.CONTROL, " ")
    page.wait(lambda: offers(page)[:3] == ["auctions", "bids", "people"], "streams")
    page.press(Keys.ARROW_DOWN, Keys.ENTER, " [RANGE 1 MINUTE] x, auctions WHERE x.p")
    page.wait(lambda: offers(page) == ["price"], "the columns of an alias")
    page.press(Keys.TAB)
    assert written(page) == "SELECT category, count(*) FROM bids [RANGE 1 MINUTE] x, auctions WHERE x.price"
    page.press(" = 'sel")
    assert offers(page) == []


def test_completions_are_accessible(page: Page) -> None:
    page.write("#ask-text", "SELECT p")
    page.wait(lambda: offers(page), "offers")
    assert (
        page.run(
            "return document.getElementById(document.getElementById('ask-text').getAttribute('aria-activedescendant')).ariaSelected"
        )
        == "true"
    )
    assert page.violations() == []
    page.press(Keys.ESCAPE)


def test_a_query_is_tried_in_a_pane_with_its_own_scroll_and_drawn(page: Page, embedded: Job) -> None:
    before = page.run("return document.getElementById('results').offsetHeight")
    page.write("#ask-text", DEAR)
    page.chord(Keys.CONTROL, Keys.ENTER)
    page.see("results so far", "#result-state")
    scroll = "const one = document.querySelector('#result-rows .scroll'); return one !== null && one.scrollHeight > one.clientHeight + 50"
    page.wait(lambda: page.run(scroll), "more rows than the pane shows")
    assert abs(page.run("return document.getElementById('results').offsetHeight") - before) <= 24
    page.run("document.querySelector('#result-rows .scroll').scrollTop = 60")
    page.changes("#result-state")
    assert page.run("return document.querySelector('#result-rows .scroll').scrollTop") == 60
    page.click("#as-chart")
    page.wait(lambda: page.all("#result-chart canvas"), "a chart")
    assert page.text("#result-chart .entry span").split() == ["item", "price"]
    assert page.violations() == []
    page.click("#as-table")
    page.click("#try-stop")
    page.see("was dropped", "#result-state")
    assert not [path for path in (embedded[0].folder / "out").iterdir() if path.name.startswith("try_")]


def test_results_without_numbers_have_no_chart(page: Page) -> None:
    page.write("#ask-text", "SELECT name FROM people")
    page.click("#ask-send")
    page.wait(lambda: page.all("#result-rows tbody tr"), "rows")
    page.click("#as-chart")
    page.see("no column of numbers", "#result-chart")
    page.click("#as-table")
    page.click("#try-stop")
    page.see("was dropped", "#result-state")


def test_a_mistake_is_shown_where_it_is(page: Page) -> None:
    page.write("#ask-text", "SELECT item,\n  prize FROM bids")
    page.press(Keys.ESCAPE)
    page.click("#ask-send")
    said = page.see("line 2, column 3", "#ask-said")
    assert "prize" in said and "hint: " in said
    assert page.find("#ask-text").get_attribute("aria-invalid") == "true"
    chosen = (
        "const one = document.getElementById('ask-text'); return one.value.slice(one.selectionStart, one.selectionEnd)"
    )
    assert page.run(chosen) == "prize"
    assert page.violations() == []


def test_a_template_is_asked_by_a_form(page: Page) -> None:
    assert "prices" in page.text("#template") and page.text(".bench legend").split() == ["groups", "figures"]
    page.write("#only-item", "7, 8, 9")
    page.write("#template-window", "5 MINUTES")
    page.click("#figure-bids")
    page.click("#template-ask")
    page.see("row", "#result-state")
    assert (
        written(page) == "REQUEST item, highest\nFROM prices [RANGE 5 MINUTES]\nWHERE item IN (7, 8, 9)\nGROUP BY item"
    )
    assert page.text("#result-rows thead").startswith("itemhighest")
    page.click("#group-item")
    page.click("#template-ask")
    page.see("1 row", "#result-state")
    assert written(page).endswith("GROUP BY ()")


def test_changes_are_chosen_from_lists_and_confirmed(page: Page) -> None:
    page.run("document.getElementById('add-what').value = 'query'")
    page.click("#add-write")
    assert written(page).startswith("CREATE QUERY name AS") and page.text("#ask-send") == "add …"
    page.write("#ask-text", "CREATE QUERY cheap AS SELECT item, price FROM bids WHERE price < 10")
    page.click("#ask-send")
    page.see("Add this to the job?", "dialog")
    assert page.violations() == []
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.all("dialog"), "the question to go")
    assert "added" not in page.text("#ask-said")
    page.click("#ask-send")
    page.click("#confirm-yes")
    page.see("added cheap", "#ask-said")
    page.wait(lambda: "cheap" in page.text("#drop-name"), "the new query in the list")
    page.run("document.getElementById('set-query').value = 'early'")
    page.write("#set-value", "100")
    page.click("#set-send")
    page.see("purge = 100", "dialog")
    page.click("#confirm-yes")
    page.see("set purge = 100 of early", "#change-said")
    page.run("document.getElementById('drop-name').value = 'cheap'")
    page.click("#drop-send")
    page.see("Drop the query cheap?", "dialog")
    page.click("#confirm-no")
    page.wait(lambda: not page.all("dialog"), "the question to go")
    page.click("#drop-send")
    page.click("#confirm-yes")
    page.see("dropped cheap", "#change-said")


def test_a_text_has_an_address(page: Page, embedded: Job) -> None:
    page.write("#ask-text", DEAR)
    page.wait(lambda: quote(DEAR, safe="()*'!~") in page.driver.current_url, "the text in the address")
    shared = page.driver.current_url
    assert "token=" not in shared
    page.go("overview")
    page.see("Overview", "h1")
    page.driver.get("about:blank")
    page.driver.get(shared)
    page.wait(lambda: page.all("#ask-text") and written(page) == DEAR, "the text")
    # It waits for whoever opened it.
    assert page.text("#result-state") == "results appear here"
    page.click("#share")
    page.wait(lambda: page.text("#ask-said") or page.all("#address"), "the address")
    page.go("query/early")
    page.see("rows stored", "svg.plan")
    page.click("#edit")
    page.wait(lambda: page.all("#ask-text") and "FROM auctions" in written(page), "the text of the query")
