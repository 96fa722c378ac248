"""The connections of a dashboard: a bounded number, each for a bounded time without a request.

Answer   `bounded_protocol` makes the HTTP protocol of one server. If the number is reached, a new connection replaces the
         one that has waited longest for a request. If every connection has a request under way, the new one is closed.
         `ConnectionLimit.sweep` closes connections that have no whole head of a next request within `WAIT_SECONDS`.
State    The connections without a request under way, in the order in which they began to wait.
Limits   A connection counts before its token is checked: programs without the token can take all places of pages. They
         cannot take the file handles of the job.
"""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from eddyline.model.clock import WALL

if TYPE_CHECKING:
    from uvicorn.server import ServerState

#: Connections at once; they may have one of so many file handles of the process, the job has the others.
_MOST, _PART = 100, 8
#: Seconds without a whole request after which a connection is closed.
WAIT_SECONDS = 10.0
#: Connections that the event loop accepts in one turn; until they are counted, their handles come on top of the limit.
AT_ONCE = 8


def most_connections() -> int:
    """How many connections a dashboard in this process has at most."""
    handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if handles == resource.RLIM_INFINITY else max(1, min(_MOST, handles // _PART))


class ConnectionLimit:
    """The connections without a request under way: each with the time since when it waits, the oldest first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.since: dict[H11Protocol, float] = {}

    def make_room(self, connections: set[Any]) -> bool:
        """Whether one more connection may stay; if the number is reached, the oldest waiting one is closed for it."""
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
        # Not `close`: that waits until the client has read its response, and a client may never read.
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
            # Before the call: it may begin the next request of the connection, which then no longer waits.
            limit.since[self] = WALL.now()
            super().on_response_complete()

    return Bounded
