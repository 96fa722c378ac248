"""The pieces of a batch, each read once for all shards of one machine.

Answer   Every process that steps a shard of the batch calls `SharedPieces.packets`. It reads the pieces that nobody has
         read or is reading, waits for those that others are reading, and gives the packets for its shard.
State    A folder per batch, which whoever conducts it removes: per piece a file with its packets, which readers map into
         their memory, and a file to lock. A piece is read by whoever has its lock.
Limits   Whoever has a lock waits for nothing, and the system takes it from a process that ends: so nobody waits for ever,
         however many shards there are for one process, and a piece whose reader was killed is read by another.
         Packets of a piece are the same whoever reads it. The machine needs locks of files (flock).
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

from eddyline.runtime.sharded.batch import FilePiece
from eddyline.runtime.sharded.ingest.packet import Packet

#: Bytes of the list of packets, which stands at the end of a file, and of all before it.
_TAIL = struct.Struct("<QQ")
#: Fields of bytes from this size on lie in the file as they are, where readers map them.
_LARGE = 1 << 10
#: Arrow reads buffers in place where they begin at such multiples.
_ALIGNMENT = 64


class SharedPieces:
    def __init__(self, folder: str, pieces: Sequence[FilePiece], read: Callable[[FilePiece], Iterable[Packet]]) -> None:
        """
        Args:
            folder: Of the batch, and of no other attempt at it.
            pieces: What the batch reads.
            read: Gives the packets of a piece.
        """
        self._folder, self._pieces, self._read = folder, pieces, read

    def packets(self, shard: int, width: int) -> Iterator[Packet]:
        """Those for a shard, in no order.

        Args:
            shard: Which.
            width: How many take part; each begins with other pieces.
        """
        places = range(len(self._pieces))
        left = [*places[shard % width :: width]]
        left += [place for place in places if place not in left]
        for waits in (False, True):
            busy = []
            for place in left:
                if self._is_read(place, waits):
                    yield from _packets(self._path(place), shard)
                else:
                    busy.append(place)
            left = busy

    def _is_read(self, place: int, waits: bool) -> bool:
        """Whether a piece has been read, if need be by this process; without `waits` it may be that another one is
        reading it."""
        path = self._path(place)
        if os.path.exists(path):
            return True
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            if not os.path.exists(path):
                _write(path, self._read(self._pieces[place]))
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True

    def _path(self, place: int) -> str:
        return os.path.join(self._folder, str(place))


def _write(path: str, packets: Iterable[Packet]) -> None:
    """A file that is whole once it has its name. No power cut matters to it: the batch runs again then."""
    hidden = f"{path}.tmp"
    listed: list[tuple[object, ...]] = []
    with open(hidden, "wb") as file:
        for packet in packets:
            fields: list[object] = []
            for field in packet:
                if isinstance(field, bytes) and len(field) >= _LARGE:
                    file.write(bytes(-file.tell() % _ALIGNMENT))
                    fields.append(slice(file.tell(), file.tell() + len(field)))
                    file.write(field)
                else:
                    fields.append(field)
            listed.append(tuple(fields))
        size, index = file.tell(), pickle.dumps(listed)
        file.write(index)
        file.write(_TAIL.pack(size, len(index)))
    os.replace(hidden, path)


def _packets(path: str, shard: int) -> Iterator[Packet]:
    with open(path, "rb") as file:
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    begin, size = _TAIL.unpack(content[-_TAIL.size :])
    for fields in pickle.loads(content[begin : begin + size]):
        if fields[0] == shard:
            yield Packet._make(content[field] if isinstance(field, slice) else field for field in fields)


def remove(folder: str) -> None:
    """Remove the folder of a batch; a file that is still mapped goes with its readers."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
