"""The HTTP server of a dashboard.

Answer   `serve` opens the port, so that the caller gets the error of a port in use. `Server.address` has the token.
         `Server.start` serves in a thread, `Server.run` in the calling thread, `Server.stop` ends either.
State    One socket, one event loop, a bounded number of connections (`connections.py`).
Limits   Without a token file only loopback addresses. With one any host; the connection is not encrypted.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from eddyline.dashboard.feed import Document, Feed
from eddyline.dashboard.guard import LOOPBACK
from eddyline.dashboard.token import job_token, token_from
from eddyline.errors import SettingProblem, UserError

if TYPE_CHECKING:
    import uvicorn

    from eddyline.dashboard.app import Dashboard

HOST = "127.0.0.1"


def read_address(text: str) -> tuple[str, int]:
    """The host and port of `[HOST:]PORT`.

    >>> read_address("8080"), read_address("localhost:80"), read_address("[::1]:80")
    (('127.0.0.1', 8080), ('localhost', 80), ('::1', 80))
    """
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise UserError(
            f"{text} is no address for a dashboard",
            hint="--dashboard PORT, or --dashboard HOST:PORT; port 0 takes a free one",
        )
    return host.strip("[]") or HOST, int(port)


def check_installed() -> None:
    """Raise an error if a package of the extra `dashboard` is missing."""
    missing = [name for name in ("starlette", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise SettingProblem(f"the dashboard needs {', '.join(missing)}", hint="pip install 'eddyline[dashboard]'")


#: Seconds between two checks whether `stop` was called.
_STOP_SECONDS = 0.5
#: Connections that the operating system holds until the server accepts them.
_BACKLOG = 128


class Server:
    def __init__(self, opened: socket.socket, dashboard: Dashboard, host: str, token: str) -> None:
        self._socket = opened
        self.dashboard = dashboard
        self.port: int = opened.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.port}/?token={token}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def line(self) -> str:
        """The line that commands print."""
        return f"dashboard: {self.address}"

    def start(self) -> None:
        """Serve in the background until `stop`, or until the process ends."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self.run, args=(ready,), name="eddyline-dashboard", daemon=True)
        self._thread.start()
        ready.wait(10.0)

    def run(self, ready: threading.Event | None = None) -> None:
        import uvicorn

        from eddyline.dashboard.connections import AT_ONCE, ConnectionLimit, bounded_protocol, most_connections

        limit = ConnectionLimit(most_connections())
        config = uvicorn.Config(
            self.dashboard.app, loop="asyncio", http=bounded_protocol(limit), ws="none", lifespan="off", log_level="error",
            access_log=False, timeout_graceful_shutdown=1, server_header=False, date_header=False,
            backlog=AT_ONCE, proxy_headers=False,
        )  # fmt: skip
        self._server = server = uvicorn.Server(config)

        async def main_loop() -> None:
            # The event loop accepts `backlog` connections in one turn; the operating system may hold more of them.
            self._socket.listen(_BACKLOG)
            # uvicorn's own loop wakes up ten times a second, for headers and limits that this server does not use.
            while not server.should_exit:
                await asyncio.sleep(_STOP_SECONDS)
                limit.sweep()

        server.main_loop = main_loop  # type: ignore[method-assign]

        async def serve() -> None:
            if ready is not None:
                asyncio.get_running_loop().call_soon(ready.set)
            await server.serve(sockets=[self._socket])

        asyncio.run(serve())

    def wait(self) -> None:
        """Block until the server has stopped."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(1.0)

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(5.0)
        self._socket.close()


def serve(
    folder: str,
    host: str = HOST,
    port: int = 0,
    *,
    token_file: str | None = None,
    readonly: bool = False,
    latest: Callable[[], Document | None] | None = None,
) -> Server:
    """The server of a dashboard over a job's folder; `start` or `run` begin to serve.

    Args:
        folder: The job's folder: its checkpoint.
        host: Where it listens; other than loopback only with a token file.
        port: 0 takes a free one.
        token_file: A file that holds the token; without it the job's own is used.
        readonly: The dashboard sends nothing to the job.
        latest: Gives the newest report of a job in this process.
    """
    check_installed()
    loopback = LOOPBACK.fullmatch(host) is not None
    if not loopback and token_file is None:
        raise UserError(
            f"a dashboard on {host} needs a token of your own",
            detail="others can reach it",
            hint="--dashboard-token-file FILE names a file that holds it; without it the dashboard listens on 127.0.0.1",
        )
    token = job_token(folder) if token_file is None else token_from(token_file)
    from eddyline.dashboard.app import Dashboard

    dashboard = Dashboard(Feed(folder, latest), token, readonly=readonly, loopback=loopback)
    return Server(_opened(host, port), dashboard, host, token)


def _opened(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        opened = socket.socket(family, kind, protocol)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(address)
            opened.listen(_BACKLOG)
        except OSError:
            opened.close()
            raise
    except OSError as problem:
        message, hint = f"the dashboard cannot listen on {host}:{port}", "choose another port; 0 takes a free one"
        raise UserError(message, detail=problem.strerror or str(problem), hint=hint) from problem
    return opened


__all__: list[Any] = ["HOST", "Server", "check_installed", "read_address", "serve"]
