"""The routes of a dashboard.

Answer   The page and its files, the interface for programs (`/api/…`), `/events` and `/metrics`. Every mistake of a
         user comes back as JSON with message, detail, hint and place, and status 400.
State    What was encoded of the newest report, for all pages that ask for it.
Limits   A body of at most 1 MiB, as JSON, whole within ten seconds; eight pieces of work at once, each answered with
         503 after two minutes. Read-only: nothing is sent to the job. Work that reads many files runs beside the event
         loop.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from eddyline.dashboard import views
from eddyline.dashboard.ask import Console, problem_document
from eddyline.dashboard.events import Broadcast
from eddyline.dashboard.feed import Feed
from eddyline.dashboard.guard import Guard
from eddyline.dashboard.metrics import metrics
from eddyline.errors import EddylineError, UserError
from eddyline.runtime.reporting.history import read_lines, read_overview, read_query

#: The most bytes of a request's body.
_LARGEST = 1 << 20
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
#: Decisions in an answer; seconds of a history without `seconds`, and its points.
_EVENTS, _HOUR, _POINTS = 500, 3600.0, 600
#: Pieces of work beside the event loop at once; seconds for one of them; seconds for the body of a request.
_AT_ONCE, _WORK_SECONDS, _BODY_SECONDS = 8, 120.0, 10.0
#: The longest name of a file of the page.
_LONGEST_NAME = 200


class _Busy(UserError):
    """Too much has been asked for at once, or it takes too long."""


class Dashboard:
    def __init__(self, feed: Feed, token: str, *, readonly: bool = False, loopback: bool = True) -> None:
        self.feed = feed
        self.readonly = readonly
        self.console = Console(feed.places.job)
        self.broadcast = Broadcast(feed, self._encoded_anew)
        self._encoded: dict[str, bytes] = {}
        #: Work that goes on beside the event loop.
        self._working: set[asyncio.Future[Any]] = set()
        self._page = files("eddyline.dashboard").joinpath("page")
        routes = [
            Route("/", partial(self._file, name="index.html")),
            Route("/page/{name:path}", self._file),
            Route("/events", self._events),
            Route("/metrics", self._metrics),
            Route("/api/about", self._about),
            Route("/api/report", self._report),
            Route("/api/history", self._history),
            Route("/api/overview", partial(self._view, view=views.overview)),
            Route("/api/queries", partial(self._view, view=views.queries)),
            Route("/api/query", self._query),
            Route("/api/shards", partial(self._view, view=views.shards)),
            Route("/api/decisions", self._decisions),
            Route("/api/record", self._record),
            Route("/api/vocabulary", self._vocabulary),
            *(
                Route(f"/api/{name}", partial(self._asked, name=name), methods=["POST"])
                for name in ("try", "renew", "add", "drop", "set", "request")
            ),
        ]
        self.app: ASGIApp = Guard(Starlette(routes=routes), token, loopback)

    # -- looking

    async def _file(self, request: Request, name: str | None = None) -> Response:
        wanted = name or str(request.path_params["name"])
        is_name = len(wanted) <= _LONGEST_NAME and "\0" not in wanted
        if not is_name or not all(part and not part.startswith(".") for part in wanted.split("/")):
            return _problem(404, "there is no such page")
        found = self._page.joinpath(wanted)
        if not found.is_file():
            return _problem(404, "there is no such page")
        return Response(
            found.read_bytes(), media_type=_TYPES.get(wanted.rsplit(".", 1)[-1], "application/octet-stream")
        )

    async def _events(self, request: Request) -> Response:
        stream = self.broadcast.listen(request.query_params.get("query"))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _metrics(self, request: Request) -> Response:
        self._look()
        return Response(metrics(self.feed), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _about(self, request: Request) -> Response:
        catalog = self.console.control.catalog() if self.console.control.exists else ""
        return _json(
            {
                "version": version("eddyline"),
                "readonly": self.readonly,
                "folder": self.feed.places.job,
                "catalog": catalog,
            }
        )

    async def _report(self, request: Request) -> Response:
        self._look()
        if self.feed.document is None:
            return _problem(404, "the job has written no report yet")
        running = self.feed.document["state_of_job"] == "running" and self.feed.is_running
        return _json({**self.feed.document, "running": running})

    async def _view(self, request: Request, view: Callable[[Feed], dict[str, Any]]) -> Response:
        """A view of the newest report, encoded once for all that ask."""
        self._look()
        if view.__name__ not in self._encoded:
            self._encoded[view.__name__] = _body(view(self.feed))
        return Response(self._encoded[view.__name__], media_type="application/json")

    async def _query(self, request: Request) -> Response:
        self._look()
        found = views.query(self.feed, request.query_params.get("name", ""))
        return _problem(404, "there is no such query") if found is None else _json(found)

    async def _history(self, request: Request) -> Response:
        name = request.query_params.get("query")
        try:
            seconds = float(request.query_params.get("seconds", _HOUR))
            points = min(max(int(request.query_params.get("points", _POINTS)), 1), 10_000)
        except ValueError:
            return _problem(400, "seconds and points are numbers")
        places, since = self.feed.places, time.time() - seconds
        read = partial(read_overview, places.overview) if name is None else partial(read_query, places.lines, name)
        return await self._answered(lambda: {"query": name, "points": read(since, points)})

    async def _decisions(self, request: Request) -> Response:
        return await self._answered(lambda: {"events": list(read_lines(self.feed.places.decisions))[-_EVENTS:]})

    async def _answered(self, work: Callable[[], dict[str, Any]]) -> Response:
        """What work beside the event loop gives, which is bounded in number and time."""
        try:
            if len(self._working) >= _AT_ONCE:
                raise _Busy(
                    "the dashboard is busy", detail=f"{_AT_ONCE} requests are worked on", hint="ask again in a moment"
                )
            working = asyncio.ensure_future(asyncio.to_thread(work))
            self._working.add(working)
            working.add_done_callback(self._working.discard)
            try:
                # Shielded: a thread cannot be stopped, and counts until it ends.
                return _json(await asyncio.wait_for(asyncio.shield(working), _WORK_SECONDS))
            except TimeoutError:
                raise _Busy(
                    "the request takes too long",
                    detail=f"it has taken {_WORK_SECONDS:.0f} seconds",
                    hint="ask for less",
                ) from None
        except EddylineError as problem:
            return _json({"error": problem_document(problem)}, 503 if isinstance(problem, _Busy) else 400)

    def _look(self) -> None:
        if self.feed.look():
            self._encoded_anew()

    def _encoded_anew(self) -> None:
        self._encoded.clear()

    # -- asking

    async def _record(self, request: Request) -> Response:
        try:
            number = int(request.query_params.get("number", ""))
        except ValueError:
            return _problem(400, "number is the number of a record")
        return _json(self.console.outcome(number))

    async def _vocabulary(self, request: Request) -> Response:
        return await self._answered(self.console.vocabulary)

    async def _asked(self, request: Request, name: str) -> Response:
        if self.readonly:
            return _problem(403, "this dashboard is read-only", hint="it was started with --dashboard-readonly")
        try:
            body = await asyncio.wait_for(_read(request), _BODY_SECONDS)
        except ClientDisconnect:
            return _problem(400, "the request did not come whole")
        except TimeoutError:
            return _problem(
                408, "the request did not come whole", hint=f"its body comes within {_BODY_SECONDS:.0f} seconds"
            )
        except EddylineError as problem:
            return _json({"error": problem_document(problem)}, 400)
        return await self._answered(partial(self._carried_out, name, body))

    def _carried_out(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        console = self.console
        if name == "drop":
            names = body.get("queries")
            if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
                raise UserError("queries is a list of names")
            return console.drop(names)
        if name == "set":
            query, given = body.get("query"), body.get("settings")
            if not isinstance(query, str) or not isinstance(given, dict):
                raise UserError("query is a name, and settings an object")
            if not all(isinstance(value, str) for value in given.values()):
                raise UserError("the values of settings are texts")
            return console.change(query, given)
        key, act = {
            "try": ("sql", console.attempt),
            "add": ("sql", console.add),
            "renew": ("query", console.renew),
            "request": ("text", console.request),
        }[name]
        text = body.get(key)
        if not isinstance(text, str) or not text.strip():
            raise UserError(f"there is no {'query' if key == 'query' else 'statement'}", hint="write one first")
        return act(text)


async def _read(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise UserError("a request has a body of JSON")
    whole = b""
    async for part in request.stream():
        whole += part
        if len(whole) > _LARGEST:
            raise UserError("the request is too large", detail=f"at most {_LARGEST:,} bytes")
    try:
        found = json.loads(whole)
        # Half of a character that takes two, written as an escape, is no text.
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as problem:
        raise UserError("a request has a body of JSON", detail=str(problem)) from problem
    if not isinstance(found, dict):
        raise UserError("a request has a JSON object as its body")
    return found


def _body(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _json(content: Any, status: int = 200) -> Response:
    return Response(_body(content), status, media_type="application/json")


def _problem(status: int, message: str, hint: str = "") -> Response:
    return _json({"error": {"message": message, "detail": "", "hint": hint, "line": None, "column": None}}, status)


__all__ = ["Dashboard"]
