"""The routes of a dashboard.

Answer   The page and its files, the interface for programs (`/api/…`), `/events` and `/metrics`. An error of the user has
         status 400 and a JSON body with message, detail, hint and place.
State    The newest report as encoded JSON, once for all pages.
Limits   The body of a request is JSON, has at most 1 MiB and must be complete within ten seconds. Threads beside the
         event loop do the work that reads many files or sends records: at most eight pieces at once, each answered with
         503 after two minutes. A read-only dashboard sends nothing to the job.
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
from eddyline.dashboard.console import JobConsole, problem_document
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
#: Pieces of work in threads at once; seconds for one of them; seconds for the body of a request.
_AT_ONCE, _WORK_SECONDS, _BODY_SECONDS = 8, 120.0, 10.0
#: The longest name of a file of the page.
_LONGEST_NAME = 200
#: Per route that changes the job or sends requests: the key of its text in the body.
_TEXT_KEYS = {"try": "sql", "add": "sql", "renew": "query", "request": "text"}


class _Busy(UserError):
    """Too many requests at once, or one that takes too long."""


class Dashboard:
    def __init__(self, feed: Feed, token: str, *, readonly: bool = False, loopback: bool = True) -> None:
        self.feed = feed
        self.readonly = readonly
        self.console = JobConsole(feed.places.job)
        #: Views of the newest report as JSON, by name.
        self._encoded: dict[str, bytes] = {}
        self.broadcast = Broadcast(feed, self._encoded.clear)
        #: Work in threads that has not ended.
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
                Route(f"/api/{name}", partial(self._send, name=name), methods=["POST"])
                for name in ("try", "renew", "add", "drop", "set", "request")
            ),
        ]
        self.app: ASGIApp = Guard(Starlette(routes=routes), token, loopback)

    # -- reading

    async def _file(self, request: Request, name: str | None = None) -> Response:
        wanted = name or str(request.path_params["name"])
        is_name = len(wanted) <= _LONGEST_NAME and "\0" not in wanted
        is_name &= all(part and not part.startswith(".") for part in wanted.split("/"))
        if not is_name or not (found := self._page.joinpath(wanted)).is_file():
            return _problem(404, "there is no such page")
        kind = _TYPES.get(wanted.rsplit(".", 1)[-1], "application/octet-stream")
        return Response(found.read_bytes(), media_type=kind)

    async def _events(self, request: Request) -> Response:
        stream = self.broadcast.listen(request.query_params.get("query"))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _metrics(self, request: Request) -> Response:
        self._refresh()
        return Response(metrics(self.feed), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _about(self, request: Request) -> Response:
        catalog = self.console.control.catalog() if self.console.control.exists else ""
        about = {"version": version("eddyline"), "readonly": self.readonly, "folder": self.feed.places.job}
        return _json({**about, "catalog": catalog})

    async def _report(self, request: Request) -> Response:
        self._refresh()
        if self.feed.document is None:
            return _problem(404, "the job has written no report yet")
        return _json({**self.feed.document, "running": self.feed.job_runs})

    async def _view(self, request: Request, view: Callable[[Feed], dict[str, Any]]) -> Response:
        """A view of the newest report, encoded once for all requests."""
        self._refresh()
        if view.__name__ not in self._encoded:
            self._encoded[view.__name__] = _body(view(self.feed))
        return Response(self._encoded[view.__name__], media_type="application/json")

    async def _query(self, request: Request) -> Response:
        self._refresh()
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
        return await self._in_thread(lambda: {"query": name, "points": read(since, points)})

    async def _decisions(self, request: Request) -> Response:
        return await self._in_thread(lambda: {"events": list(read_lines(self.feed.places.decisions))[-_EVENTS:]})

    async def _in_thread(self, work: Callable[[], dict[str, Any]]) -> Response:
        """The result of work in a thread. Both the number of threads and the time of the work are bounded."""
        try:
            if len(self._working) >= _AT_ONCE:
                detail = f"{_AT_ONCE} requests are being answered"
                raise _Busy("the dashboard is busy", detail=detail, hint="send the request again in a few seconds")
            working = asyncio.ensure_future(asyncio.to_thread(work))
            self._working.add(working)
            working.add_done_callback(self._working.discard)
            try:
                # Shielded: the thread cannot be stopped, and counts until its work ends.
                return _json(await asyncio.wait_for(asyncio.shield(working), _WORK_SECONDS))
            except TimeoutError:
                detail, hint = f"it has taken {_WORK_SECONDS:.0f} seconds", "request less at once"
                raise _Busy("the request takes too long", detail=detail, hint=hint) from None
        except EddylineError as problem:
            return _json({"error": problem_document(problem)}, 503 if isinstance(problem, _Busy) else 400)

    def _refresh(self) -> None:
        if self.feed.refresh():
            self._encoded.clear()

    # -- sending

    async def _record(self, request: Request) -> Response:
        try:
            number = int(request.query_params.get("number", ""))
        except ValueError:
            return _problem(400, "number is the number of a record")
        return _json(self.console.outcome(number))

    async def _vocabulary(self, request: Request) -> Response:
        return await self._in_thread(self.console.vocabulary)

    async def _send(self, request: Request, name: str) -> Response:
        if self.readonly:
            return _problem(403, "this dashboard is read-only", hint="it was started with --dashboard-readonly")
        try:
            body = await asyncio.wait_for(_read(request), _BODY_SECONDS)
        except ClientDisconnect:
            return _problem(400, "the body of the request is not complete")
        except TimeoutError:
            hint = f"its body must be complete within {_BODY_SECONDS:.0f} seconds"
            return _problem(408, "the body of the request is not complete", hint=hint)
        except EddylineError as problem:
            return _json({"error": problem_document(problem)}, 400)
        return await self._in_thread(partial(self._carry_out, name, body))

    def _carry_out(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if name == "drop":
            names = body.get("queries")
            if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
                raise UserError("queries is a list of names")
            return self.console.drop(names)
        if name == "set":
            query, given = body.get("query"), body.get("settings")
            if not isinstance(query, str) or not isinstance(given, dict):
                raise UserError("query is a name, and settings an object")
            if not all(isinstance(value, str) for value in given.values()):
                raise UserError("the values of settings are texts")
            return self.console.change(query, given)
        text = body.get(_TEXT_KEYS[name])
        if not isinstance(text, str) or not text.strip():
            raise UserError(f"there is no {'query' if name == 'renew' else 'statement'}", hint="write one first")
        methods = {"try": self.console.attempt, "renew": self.console.renew, "request": self.console.request}
        return methods.get(name, self.console.add)(text)


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
        # Fails for half of a surrogate pair, written as an escape: it is no character.
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
