"""Blocks of a snapshot in few, large objects.

Answer   What an epoch adds becomes one bundle, or several where it is large. A block is found by its bundle, offset and
         size.
State    Which bundle holds which block, and what each bundle must be; it lies in the header of the shard's state.
Limits   A bundle goes when its last block does. One that is mostly dead is left: its live blocks are written again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.runtime.sharded.ingest.packet import to_blob

#: A bundle that is no larger is soon mostly dead, and then its bytes are free.
BUNDLE_BYTES = 4 << 20
#: Arrow reads buffers in place where they begin at such multiples.
_ALIGNMENT = 64

Block = Callable[[], pa.Table]


class Stamp(NamedTuple):
    """What a bundle must be: its length and its checksum."""

    size: int
    checksum: int

    @staticmethod
    def of(content: bytes | memoryview) -> Stamp:
        return Stamp(len(content), zlib.crc32(content))


class Place(NamedTuple):
    bundle: str
    offset: int
    size: int


@dataclass
class Bundles:
    stamps: dict[str, Stamp] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    @classmethod
    def of_header(cls, body: Mapping[str, Any]) -> Bundles:
        return cls(
            {name: Stamp(*stamp) for name, stamp in body["bundles"].items()},
            {name: Place(*place) for name, place in body["blocks"].items()},
        )

    def header(self) -> dict[str, Any]:
        return {
            "bundles": {name: list(stamp) for name, stamp in self.stamps.items()},
            "blocks": {name: list(place) for name, place in self.places.items()},
        }

    def after(self, live: Mapping[str, Block], token: str) -> tuple[Bundles, dict[str, bytes]]:
        """The bundles of the next header, and the contents of those that are new; names begin with `token`."""
        kept = {name: place for name, place in self.places.items() if name in live}
        used: dict[str, int] = {}
        for place in kept.values():
            used[place.bundle] = used.get(place.bundle, 0) + place.size
        kept = {name: place for name, place in kept.items() if 2 * used[place.bundle] >= self.stamps[place.bundle].size}
        contents: dict[str, bytes] = {}
        fresh: dict[str, Place] = {}
        parts: list[bytes] = []
        size = 0

        def close() -> None:
            nonlocal size
            if parts:
                contents[f"{token}-{len(contents)}"] = b"".join(parts)
                parts.clear()
                size = 0

        for name, table in live.items():
            if name in kept:
                continue
            blob = to_blob(table())
            if size + len(blob) > BUNDLE_BYTES:
                close()
            fresh[name] = Place(f"{token}-{len(contents)}", size, len(blob))
            padding = -len(blob) % _ALIGNMENT
            parts += [blob, bytes(padding)]
            size += len(blob) + padding
        close()
        names = {place.bundle for place in kept.values()}
        stamps = {name: stamp for name, stamp in self.stamps.items() if name in names}
        stamps |= {name: Stamp.of(content) for name, content in contents.items()}
        return Bundles(stamps, kept | fresh), contents
