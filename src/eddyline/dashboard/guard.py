"""The checks of every request: the token and the origin. The headers of every response.

Answer   A request without the token gets 401. The token comes as `?token=`, as a cookie (set by the first response to
         `?token=`), or as `Authorization: Bearer`. A browser's request from a page of another origin gets 403, a Host or
         Origin that cannot be parsed 400. The headers of every response allow a page to load its own files only.
State    None. The token is compared, never logged.
Limits   No CORS headers: pages of other origins cannot use the interface, programs send the token as a header.
"""

from __future__ import annotations

import contextlib
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
#: Names of hosts that only programs on this machine can reach. The name of a website is not among them, even if it
#: resolves to such an address.
LOOPBACK = re.compile(r"127(\.\d+){3}|localhost|::1", re.IGNORECASE)
_HOST = r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[\w.~-]+))(?::\d{1,5})?"
_WHOLE_HOST = re.compile(_HOST, re.ASCII)
_ORIGIN = re.compile(rf"null|[a-zA-Z][a-zA-Z0-9+.-]*://(?P<host>{_HOST})", re.ASCII)


class Guard:
    def __init__(self, app: ASGIApp, token: str, loopback: bool) -> None:
        self._app = app
        self._token = token
        self._loopback = loopback
        # All ports of a host share their cookies: a name made from the token keeps those of two dashboards apart.
        self._cookie = f"eddyline-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        in_address = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if not self._has_token(headers, in_address):
            text = "a token is needed: it is in the address that the job printed\n"
            await _respond(send, 401, text, ((b"www-authenticate", b"Bearer"),))
            return
        host, origin = _WHOLE_HOST.fullmatch(headers.get("host", "")), _ORIGIN.fullmatch(headers.get("origin", "null"))
        if host is None or origin is None:
            await _respond(send, 400, "Host and Origin name a host and a port\n")
            return
        if not self._is_same_origin(headers, host["six"] or host["name"], scope["method"]):
            await _respond(send, 403, "requests come from the page itself\n")
            return
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        more = [(b"set-cookie", cookie.encode())] if in_address else []

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name, value) for name, value in message.get("headers", ()) if name.lower() != b"cache-control"]
                message = {**message, "headers": [*own, *HEADERS, *more]}
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _has_token(self, headers: dict[str, str], in_address: list[str]) -> bool:
        offered = list(in_address)
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            offered.append(value.strip())
        with contextlib.suppress(CookieError):
            if (found := SimpleCookie(headers.get("cookie", "")).get(self._cookie)) is not None:
                offered.append(found.value)
        return any(hmac.compare_digest(one.encode(), self._token.encode()) for one in offered)

    def _is_same_origin(self, headers: dict[str, str], host: str, method: str) -> bool:
        if self._loopback and LOOPBACK.fullmatch(host) is None:
            # The Host is the name of a website that resolves to this server: a page of that website sent the request.
            return False
        site = headers.get("sec-fetch-site")
        is_page = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if site is not None and site not in ("same-origin", "none") and not is_page:
            return False
        origin = headers.get("origin")
        return origin is None or origin.partition("://")[2] == headers["host"]


async def _respond(send: Send, status: int, text: str, more: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
