"""What stands before every request: the token, the origin, the headers of every answer.

Answer   A request without the token gets 401. The token comes as `?token=`, as a cookie (set by the first page that
         brings it), or as `Authorization: Bearer`. A browser's request from another origin gets 403, a Host or Origin
         that is none 400. Every answer says what a page may load: its own files.
State    None: a token is compared, never logged.
Limits   No CORS: programs send the header, pages are our own.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
#: Hosts that only programs on this machine reach. A site's name is none of them, whatever address it leads to.
LOOPBACK = re.compile(r"127(\.\d+){3}|localhost|::1", re.IGNORECASE)
_HOST = r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[\w.~-]+))(?::\d{1,5})?"
_WHOLE_HOST = re.compile(_HOST, re.ASCII)
_ORIGIN = re.compile(rf"null|[a-zA-Z][a-zA-Z0-9+.-]*://(?P<host>{_HOST})", re.ASCII)


class Guard:
    def __init__(self, app: ASGIApp, token: str, loopback: bool) -> None:
        self._app = app
        self._token = token
        self._loopback = loopback
        # Cookies are shared by all ports of a host: the name is that of the token.
        self._cookie = f"eddyline-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        brought = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if not self._is_known(headers, brought):
            await _answer(
                send,
                401,
                "a token is needed: the address that the job printed has it\n",
                ((b"www-authenticate", b"Bearer"),),
            )
            return
        host, origin = _WHOLE_HOST.fullmatch(headers.get("host", "")), _ORIGIN.fullmatch(headers.get("origin", "null"))
        if host is None or origin is None:
            await _answer(send, 400, "Host and Origin name a host and a port\n")
            return
        if not self._is_same_origin(headers, host["six"] or host["name"], scope["method"]):
            await _answer(send, 403, "requests come from the page itself\n")
            return
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict" if brought else None

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name, value) for name, value in message.get("headers", ()) if name.lower() != b"cache-control"]
                more = [] if cookie is None else [(b"set-cookie", cookie.encode())]
                message = {**message, "headers": [*own, *HEADERS, *more]}
            await send(message)

        await self._app(scope, receive, send_on)

    def _is_known(self, headers: dict[str, str], brought: list[str]) -> bool:
        offered = list(brought)
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            offered.append(value.strip())
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            cookies = SimpleCookie()
        if self._cookie in cookies:
            offered.append(cookies[self._cookie].value)
        return any(hmac.compare_digest(one.encode(), self._token.encode()) for one in offered)

    def _is_same_origin(self, headers: dict[str, str], host: str, method: str) -> bool:
        if self._loopback and LOOPBACK.fullmatch(host) is None:
            # The request names another host, whose address leads to this server: a page of another site sent it.
            return False
        site = headers.get("sec-fetch-site")
        is_page = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if site is not None and site not in ("same-origin", "none") and not is_page:
            return False
        origin = headers.get("origin")
        return origin is None or origin.partition("://")[2] == headers["host"]


async def _answer(send: Send, status: int, text: str, more: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS, *more],
    }
    await send(start)
    await send({"type": "http.response.body", "body": text.encode()})
