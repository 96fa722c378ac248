"""Makes the pictures of the dashboard that stand in the docs: real jobs, a real browser, every view, light and dark,
desk and phone.

make pictures
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT))

from tests.browser.page import DESK, PHONE, Page, installed, opened  # noqa: E402
from tests.dashboard.live import LiveJob  # noqa: E402

#: View, name of its picture, what must be seen on it, height of the picture on a desk.
EMBEDDED = (
    ("overview", "overview", "holds the frontier back", 1100),
    ("queries", "queries", "queries", 760),
    ("query/sellers", "query", "rows stored", 1000),
    ("decisions", "decisions", "the job started", 640),
    ("ask", "ask", "results so far", 860),
)
#: Seconds of rows before the first picture.
_SECONDS = 40


def pictures(page: Page, views: tuple[tuple[str, str, str, int], ...]) -> Iterator[Path]:
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        for view, name, text, height in views:
            page.size((DESK[0], height))
            page.go(view)
            if name == "ask" and scheme == "light":
                ask(page)
            page.see(text)
            time.sleep(4.0)
            yield taken(page, f"dashboard-{name}-{scheme}.png")


def ask(page: Page) -> None:
    page.write("#ask-text", "SELECT item, bidder, price\nFROM bids\nWHERE price > 97 AND ite")
    page.press("\ue00c", "m < 200")
    page.click("#ask-send")
    page.see("results so far", "#result-state")
    page.write("#only-item", "7, 8, 9")
    page.run("scrollTo(0, 0)")


def taken(page: Page, name: str) -> Path:
    path = FOLDER / name
    page.driver.save_screenshot(str(path))
    return path


@contextmanager
def job(engine: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        live = LiveJob(Path(folder), engine) if engine == "embedded" else LiveJob(Path(folder), engine, filters=5)
        try:
            yield live.start()
        finally:
            live.close()


def main() -> int:
    if not installed():
        print("there is no Chromium: make chromium installs it")
        return 2
    FOLDER.mkdir(exist_ok=True)
    with opened() as page:
        with job("embedded") as address:
            page.open(address)
            time.sleep(_SECONDS)
            for path in pictures(page, EMBEDDED):
                print(path.relative_to(ROOT), flush=True)
            page.scheme("light")
            page.size(PHONE)
            page.go("overview")
            page.see("rows in")
            time.sleep(3.0)
            print(taken(page, "dashboard-phone.png").relative_to(ROOT), flush=True)
        with job("spark") as address:
            page.size((DESK[0], 900))
            page.open(address)
            page.go("shards")
            page.see("addBatch")
            time.sleep(_SECONDS / 2)
            for path in pictures(page, (("shards", "shards", "addBatch", 900),)):
                print(path.relative_to(ROOT), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
