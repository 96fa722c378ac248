"""Messages between two processes of one machine.

Answer   `send` writes a message to a socket and `receive` reads it: a named tuple, an error, a number, or nothing. Large
         fields of bytes follow their message as they are: no copy of them is made on either side.
State    None.
Limits   Messages are pickled: a socket lies in a folder that only its user may enter.
"""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

#: Fields of bytes from this size on follow their message.
_LARGE = 1 << 12
#: Bytes of the message, and how many fields follow it.
_HEAD = struct.Struct("<QQ")


def send(to: socket.socket, thing: Any) -> None:
    """`ConnectionError`: nobody reads any more."""
    aside: list[pickle.PickleBuffer] = []
    kind = None
    if isinstance(thing, tuple):
        large = (isinstance(field, bytes) and len(field) >= _LARGE for field in thing)
        kind, thing = (
            type(thing),
            [pickle.PickleBuffer(field) if is_large else field for field, is_large in zip(thing, large, strict=True)],
        )
    body = pickle.dumps((kind, thing), 5, buffer_callback=aside.append)
    buffers = [buffer.raw() for buffer in aside]
    sizes = struct.pack(f"<{len(buffers)}Q", *map(len, buffers))
    to.sendall(_HEAD.pack(len(body), len(buffers)) + sizes + body)
    for buffer in buffers:
        to.sendall(buffer)


def receive(sender: socket.socket) -> Any:
    """`EOFError` or `ConnectionError`: the other process has gone."""
    size, count = _HEAD.unpack(_exactly(sender, _HEAD.size))
    sizes = struct.unpack(f"<{count}Q", _exactly(sender, 8 * count))
    body = _exactly(sender, size)
    kind, thing = pickle.loads(body, buffers=[_exactly(sender, one) for one in sizes])
    return thing if kind is None else kind._make(thing)


def _exactly(sender: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = sender.recv(size, socket.MSG_WAITALL)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
