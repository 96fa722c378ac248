"""News for open pages: server-sent events, made once and sent to all.

Answer   `Broadcast.listen` is the stream of one page. While pages are open one task looks at the feed, twice a second,
         and gives each page the newest overview, and the query that it looks at. A slow page misses what came in
         between.

             feed ─look─► overview ─► page, page, page
                       └► query a ──► the pages that look at a

State    The open pages. When the last one closes, the task ends and nothing is left.
Limits   Everything runs in the event loop of the server; the job is never waited for, and never waits.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from eddyline.dashboard.feed import Feed
from eddyline.dashboard.views import overview, query

#: Seconds between two looks at the feed, and the longest time without anything sent to a page.
LOOK_SECONDS, BREATH_SECONDS = 0.5, 10.0


@dataclass(eq=False)
class _Page:
    #: The query that it looks at.
    query: str | None
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    #: Kind of news -> the newest of it that the page has not been sent.
    news: dict[str, bytes] = field(default_factory=dict)


class Broadcast:
    def __init__(self, feed: Feed, changed: Callable[[], None] = lambda: None) -> None:
        self.feed = feed
        self.pages: set[_Page] = set()
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._was_running: bool | None = None

    async def listen(self, looks_at: str | None) -> AsyncIterator[bytes]:
        page = _Page(looks_at)
        self.pages.add(page)
        try:
            self.feed.want(self._wanted())
            self.feed.look()
            self._send(page, overview_news(self.feed), {})
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._run())
            yield b"retry: 1000\n\n"
            while True:
                try:
                    await asyncio.wait_for(page.waiting.wait(), BREATH_SECONDS)
                except TimeoutError:
                    yield b": breath\n\n"
                    continue
                page.waiting.clear()
                news, page.news = page.news, {}
                for one in news.values():
                    yield one
        finally:
            self.pages.discard(page)
            if not self.pages:
                self.feed.rest()
                if self._task is not None:
                    self._task.cancel()
                    self._task = None

    def _wanted(self) -> set[str]:
        return {page.query for page in self.pages if page.query is not None}

    async def _run(self) -> None:
        while self.pages:
            await asyncio.sleep(LOOK_SECONDS)
            self.feed.want(self._wanted())
            is_new = self.feed.look()
            is_running = self.feed.is_running
            if is_new or is_running != self._was_running:
                self._was_running = is_running
                self._changed()
                news, single = overview_news(self.feed), dict[str, bytes]()
                for page in self.pages:
                    self._send(page, news, single)

    def _send(self, page: _Page, news: bytes, single: dict[str, bytes]) -> None:
        page.news["overview"] = news
        if page.query is not None:
            if page.query not in single:
                single[page.query] = event(
                    "query", query(self.feed, page.query) or {"name": page.query, "unknown": True}
                )
            page.news["query"] = single[page.query]
        page.waiting.set()


def overview_news(feed: Feed) -> bytes:
    return event("overview", overview(feed))


def event(kind: str, content: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n".encode()
