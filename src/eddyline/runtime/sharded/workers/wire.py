"""Messages between two processes of one machine.

Answer   `Wire.send` writes a message to a socket and `Wire.receive` reads it: a named tuple, an error, a number, or
         nothing. Large fields of bytes follow their message as they are: no copy of them is made on either side. A field
         that is lent (`lent.py`) does not travel: its place does, and once per memory and connection a handle to it.
State    The memories that this connection has told of, and how many bytes have passed.
Limits   Messages are pickled: a socket lies in a folder that only its user may enter.
"""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any, NamedTuple

from eddyline.runtime.sharded.workers.lent import Lent, Memory, memory_of

#: Fields of bytes from this size on follow their message.
LARGE = 1 << 12
#: Bytes of the message, how many fields follow it, and how many handles come along.
_HEAD = struct.Struct("<QQQ")
#: A message has a few fields, each in one memory.
_MOST_HANDLES = 16


class _Place(NamedTuple):
    """Which of the memories of a connection has the bytes of a field, and where."""

    memory: int
    offset: int
    size: int


class Wire:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._told: dict[Memory, int] = {}
        self._heard: list[Memory] = []
        #: Bytes that have been sent and received.
        self.passed = 0

    def send(self, thing: Any) -> None:
        """`ConnectionError`: nobody reads any more."""
        aside: list[pickle.PickleBuffer] = []
        fresh: list[Memory] = []
        kind = None
        if isinstance(thing, tuple):
            kind, thing = type(thing), [self._outside(field, fresh) for field in thing]
        body = pickle.dumps((kind, thing), 5, buffer_callback=aside.append)
        buffers = [buffer.raw() for buffer in aside]
        sizes = struct.pack(f"<{len(buffers)}Q", *map(len, buffers))
        head = _HEAD.pack(len(body), len(buffers), len(fresh))
        if fresh:
            sent = socket.send_fds(self.connection, [head], [memory.handle for memory in fresh])
            head = head[sent:]
        self.connection.sendall(head + sizes + body)
        for buffer in buffers:
            self.connection.sendall(buffer)
        self.passed += _HEAD.size + len(sizes) + len(body) + sum(map(len, buffers))

    def _outside(self, field: Any, fresh: list[Memory]) -> Any:
        if isinstance(field, Lent):
            if field.memory not in self._told:
                self._told[field.memory] = len(self._told)
                fresh.append(field.memory)
            return _Place(self._told[field.memory], field.offset, field.size)
        return pickle.PickleBuffer(field) if isinstance(field, bytes) and len(field) >= LARGE else field

    def receive(self) -> Any:
        """`EOFError` or `ConnectionError`: the other process has gone."""
        begun, handles, _, _ = socket.recv_fds(self.connection, _HEAD.size, _MOST_HANDLES)
        self._heard += map(memory_of, handles)
        if not begun:
            raise EOFError
        head = begun + self._exactly(_HEAD.size - len(begun))
        size, count, _ = _HEAD.unpack(head)
        sizes = struct.unpack(f"<{count}Q", self._exactly(8 * count))
        body = self._exactly(size)
        kind, thing = pickle.loads(body, buffers=[self._exactly(one) for one in sizes])
        self.passed += _HEAD.size + 8 * count + size + sum(sizes)
        return thing if kind is None else kind._make(map(self._inside, thing))

    def _inside(self, field: Any) -> Any:
        return Lent(self._heard[field.memory], field.offset, field.size) if isinstance(field, _Place) else field

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self.connection.recv(size, socket.MSG_WAITALL)
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
