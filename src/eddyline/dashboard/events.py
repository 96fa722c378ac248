"""Server-sent events for open pages, encoded once for all of them.

Answer   `Broadcast.listen` is the event stream of one page. While pages are open, one task refreshes the feed twice a
         second and sends each page the newest overview, and the query that the page shows. A slow page gets only the
         newest of each.

             feed ─refresh─► overview ─► page, page, page
                          └► query a ──► the pages that show a

State    The open pages. The task ends when the last page closes.
Limits   Everything runs in the event loop of the server; neither the job nor the server waits for the other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from eddyline.dashboard.feed import Feed
from eddyline.dashboard.views import overview, query

#: Seconds between two refreshes of the feed, and seconds without an event after which a page gets a comment line.
REFRESH_SECONDS, SILENT_SECONDS = 0.5, 10.0


@dataclass(eq=False)
class _Page:
    #: The query that it shows.
    query: str | None
    #: Set while there are events to send.
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    #: Kind of event -> the newest event of it, if it has not been sent.
    unsent: dict[str, bytes] = field(default_factory=dict)


class Broadcast:
    def __init__(self, feed: Feed, changed: Callable[[], None] = lambda: None) -> None:
        self.feed = feed
        self.pages: set[_Page] = set()
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._was_running: bool | None = None

    async def listen(self, shown: str | None) -> AsyncIterator[bytes]:
        page = _Page(shown)
        self.pages.add(page)
        try:
            self._refresh()
            self._queue(page, event("overview", overview(self.feed)), {})
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._run())
            yield b"retry: 1000\n\n"
            while True:
                try:
                    await asyncio.wait_for(page.ready.wait(), SILENT_SECONDS)
                except TimeoutError:
                    yield b": breath\n\n"
                    continue
                page.ready.clear()
                events, page.unsent = page.unsent, {}
                for one in events.values():
                    yield one
        finally:
            self.pages.discard(page)
            if not self.pages:
                self.feed.want_nothing()
                if self._task is not None:
                    self._task.cancel()
                    self._task = None

    def _refresh(self) -> bool:
        self.feed.want({page.query for page in self.pages if page.query is not None})
        return self.feed.refresh()

    async def _run(self) -> None:
        while self.pages:
            await asyncio.sleep(REFRESH_SECONDS)
            is_new, is_running = self._refresh(), self.feed.is_running
            if is_new or is_running != self._was_running:
                self._was_running = is_running
                self._changed()
                newest, encoded = event("overview", overview(self.feed)), dict[str, bytes]()
                for page in self.pages:
                    self._queue(page, newest, encoded)

    def _queue(self, page: _Page, newest: bytes, encoded: dict[str, bytes]) -> None:
        """Queue the events of a page; `encoded` has the events of queries that other pages show, too."""
        page.unsent["overview"] = newest
        if page.query is not None:
            if page.query not in encoded:
                found = query(self.feed, page.query) or {"name": page.query, "unknown": True}
                encoded[page.query] = event("query", found)
            page.unsent["query"] = encoded[page.query]
        page.ready.set()


def event(kind: str, content: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n".encode()
