"""The connections of a dashboard: a bounded number, each for a bounded time without a request.

Answer   `bounded_protocol` makes the HTTP protocol of one server. Where all places are taken, a new connection gets the
         place of the oldest one without a request under way; where all have one, the new connection is closed.
         `ConnectionLimit.sweep` closes connections whose next request has not begun within a time limit: its head is
         not whole, or the body of the one before goes on.
State    The open connections in the order in which they began to wait.
Limits   Before the token is known nothing tells a page from a stranger: strangers can keep pages out, never the job
         from its files.
"""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from eddyline.model.clock import WALL

if TYPE_CHECKING:
    from uvicorn.server import ServerState

#: Connections at once, and the part of the file handles of the process that they may have: all others are the job's.
_MOST, _PART = 100, 8
#: Seconds without a whole request after which a connection is closed.
WAIT_SECONDS = 10.0
#: Connections that are accepted in one turn of the event loop: its handles are open beside those of the others for a
#: moment.
AT_ONCE = 8


def most_connections() -> int:
    """How many connections a dashboard in this process has at most."""
    handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if handles == resource.RLIM_INFINITY else max(1, min(_MOST, handles // _PART))


class ConnectionLimit:
    """The connections without a request under way, the one that waits longest first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.since: dict[H11Protocol, float] = {}

    def make_room(self, connections: set[Any]) -> bool:
        """Whether one more connection has a place, after the oldest that waits has left where none was free."""
        if len(connections) < self.most:
            return True
        if not self.since:
            return False
        self.close(next(iter(self.since)))
        return True

    def sweep(self) -> None:
        oldest = WALL.now() - WAIT_SECONDS
        for connection in [one for one, since in self.since.items() if since < oldest]:
            self.close(connection)

    def close(self, connection: H11Protocol) -> None:
        self.since.pop(connection, None)
        # Not `close`: that would wait until a client that reads nothing has taken its answer.
        connection.transport.abort()


def bounded_protocol(limit: ConnectionLimit) -> type[asyncio.Protocol]:
    """The protocol of one server."""

    class Bounded(H11Protocol):
        server_state: ServerState

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            has_place = limit.make_room(self.server_state.connections)
            super().connection_made(transport)
            if has_place:
                limit.since[self] = WALL.now()
            else:
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            limit.since.pop(self, None)
            super().connection_lost(exc)

        def handle_events(self) -> None:
            super().handle_events()
            if self.cycle is not None and not self.cycle.response_complete:
                limit.since.pop(self, None)

        def on_response_complete(self) -> None:
            # First: the next request of the connection may have come already, and then no longer waits.
            limit.since[self] = WALL.now()
            super().on_response_complete()

    return Bounded
