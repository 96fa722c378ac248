"""A real browser with the page in it: Chromium from the system's packages, driven by Selenium."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

DESK, PHONE = (1360, 1000), (390, 844)
#: axe-core, as the package selenium-axe-python brings it; of that package nothing else is used.
AXE = Path(getattr(find_spec("selenium_axe_python"), "origin", "")).parent / "axe-core" / "axe.min.js"
#: Seconds that a page may take to show something, on a machine that does other things too.
PATIENCE = 240.0


def installed() -> bool:
    """Whether there is a browser and its driver."""
    return shutil.which("chromium") is not None and shutil.which("chromedriver") is not None


class Page:
    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self._seen = 0

    def open(self, address: str) -> None:
        # What the browser said of an earlier page is no complaint about this one.
        self.driver.get("about:blank")
        self.complaints()
        self.driver.get(address)
        self.see("running", "#status")

    def go(self, view: str) -> None:
        self.driver.execute_script("location.hash = arguments[0]", f"#/{view}")

    def size(self, size: tuple[int, int]) -> None:
        """As large as that, whatever the window's own frame takes."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def find(self, selector: str) -> WebElement:
        return self.wait(lambda: next(iter(self.all(selector)), None), selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """What stands there now, all of it; asked for in one step, for the page changes meanwhile."""
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent).join('\\n')"
        return str(self.driver.execute_script(script, selector))

    def see(self, text: str, selector: str = "main") -> str:
        """Wait until a text stands somewhere."""
        self.wait(lambda: text in self.text(selector), f"{text!r} in {selector}")
        return self.text(selector)

    def changes(self, selector: str) -> str:
        """Wait until a text is another one."""
        before = self.text(selector)
        self.wait(lambda: self.text(selector) != before, f"{selector} to change")
        return self.text(selector)

    def write(self, selector: str, text: str) -> None:
        place = self.find(selector)
        place.clear()
        place.send_keys(text)

    def press(self, *keys: str) -> None:
        """Keys, to whatever has the focus."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def chord(self, held: str, key: str) -> None:
        """A key while another one is held down."""
        ActionChains(self.driver).key_down(held).send_keys(key).key_up(held).perform()

    def point_at(self, selector: str) -> None:
        """Move the mouse to the middle of an element."""
        place = self.find(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
        ActionChains(self.driver).move_to_element(place).perform()

    def focused(self) -> str:
        """What has the focus: its id, or its label, or its text."""
        script = "const one = document.activeElement; return one.id || one.getAttribute('aria-label') || one.textContent.trim()"
        return str(self.driver.execute_script(script))

    def run(self, script: str, *values: object) -> Any:
        return self.driver.execute_script(script, *values)

    def violations(self) -> list[str]:
        """What axe-core finds: each rule with the first element that breaks it."""
        if not self.run("return 'axe' in window"):
            self.run(AXE.read_text(encoding="utf-8"))
        script = """const done = arguments[0], rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
            const failed = (problem) => done([{id: String(problem), nodes: []}]);
            axe.run(document, {runOnly: rules}).then((found) => done(found.violations), failed)"""
        found = self.driver.execute_async_script(script)
        return [f"{one['id']}: {[node['html'][:200] for node in one['nodes'][:3]]}" for one in found]

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def wait(self, found: Callable[[], Any], what: str) -> Any:
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            if value := found():
                return value
            time.sleep(0.1)
        raise AssertionError(f"waited for {what}; the page has: {self.text('body')[:1500]}")

    def add_and_drop_a_query(self) -> None:
        """Add a query on the console, see its results, and drop it on its own page."""
        self.go("ask")
        self.write("#ask-text", "CREATE QUERY cheap AS SELECT item, price FROM bids WHERE price < 10")
        self.click("#ask-send")
        self.click("#confirm-yes")
        self.see("added cheap", "#ask-said")
        self.go("query/cheap")
        self.wait(lambda: self.all("#tail tbody tr"), "results of the query")
        self.click("#drop")
        self.click("#confirm-yes")
        self.see("dropped", "main")

    def is_too_wide(self) -> bool:
        script = "return document.scrollingElement.scrollWidth > document.documentElement.clientWidth"
        return bool(self.driver.execute_script(script))

    def complaints(self) -> list[str]:
        """What the browser says of the page: scripts that fail, files that the policy refuses."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]  # type: ignore[no-untyped-call]


@contextmanager
def opened() -> Iterator[Page]:
    options = webdriver.ChromeOptions()
    for one in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
        "--lang=en",
    ):
        options.add_argument(one)
    options.add_argument(f"--window-size={DESK[0]},{DESK[1]}")
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(PATIENCE)
        page = Page(driver)
        page.size(DESK)
        yield page
    finally:
        driver.quit()
