"""The engines of shards in one process, and their way to storage and back.

Answer   `opened` gives the engine of a shard as of the state that a batch begins with. It takes the one in memory if that
         one ended there, and else makes one from the objects that the header names. `kept` writes what is new,
         then the header, and only then lets the engine be found again.
State    The engines of this process, each with the name of the header that it wrote last.
Limits   An engine of an attempt that failed has a header that no manifest names: it is never used again.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.errors import CheckpointProblem
from eddyline.runtime.recovery.checkpoint_identity import of_another_format
from eddyline.runtime.sharded.ingest.packet import from_blob
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.shard.pipeline import ShardEngine
from eddyline.runtime.sharded.storage.bundles import Bundles, Stamp
from eddyline.runtime.sharded.storage.heads import FORMAT, object_name
from eddyline.runtime.sharded.storage.objects import Objects
from eddyline.state.sealed import RESTORE, sealed, unsealed


class Opened(NamedTuple):
    engine: ShardEngine
    #: memory | state | nothing
    came_from: str
    bundles: Bundles
    #: The streams that were silent in the last epoch.
    idle: frozenset[str]


class Written(NamedTuple):
    #: The object with the header, then those that the state rests on.
    names: list[str]
    #: Bytes of new objects.
    size: int


#: (the run, checkpoint, shard) -> the header that it wrote last, and its engine; most recently used last.
_KNOWN: OrderedDict[tuple[str, str, int], tuple[str, Opened]] = OrderedDict()


class Engines:
    def __init__(self, run: str, layout: JobLayout, kind: type[ShardEngine], most: int) -> None:
        """
        Args:
            run: Engines of another run are not used: it may have had other settings.
            layout: The one that holds in the batch.
            kind: What makes engines.
            most: Those of others would be stale copies that only hold memory.
        """
        self._run, self._layout, self._kind, self._most = run, layout, kind, most
        self._objects = Objects(layout.checkpoint)

    def opened(self, shard: int, header: str | None) -> Opened:
        """
        Args:
            header: The object with the header of the state; None: there is no state yet.
        """
        known = _KNOWN.pop((self._run, self._layout.checkpoint, shard), None)
        if known is not None and header == known[0]:
            return known[1]
        del known
        if header is None:
            return Opened(self._made(shard, Bundles(), None), "nothing", Bundles(), frozenset())
        try:
            body = unsealed(bytes(self._objects.read(header)))
        except (OSError, ValueError) as problem:
            raise self._damaged(shard, header, "the list of what it holds", problem) from problem
        if body["format"] != FORMAT:
            raise of_another_format(f"the state of shard {shard}", body["format"], FORMAT)
        bundles = Bundles.of_header(body)
        return Opened(self._made(shard, bundles, body["pipeline"]), "state", bundles, frozenset(body["idle"]))

    def _made(self, shard: int, bundles: Bundles, header: dict[str, Any] | None) -> ShardEngine:
        read: dict[str, memoryview] = {}

        def load(name: str) -> pa.Table:
            bundle, offset, size = bundles.places[name]
            if bundle not in read:
                read[bundle] = self._read(shard, bundle, bundles.stamps[bundle])
            return from_blob(read[bundle][offset : offset + size])

        engine = self._kind.open(self._layout, header, load)
        engine.shard = shard
        return engine

    def _read(self, shard: int, name: str, stamp: Stamp) -> memoryview:
        try:
            content = self._objects.read(name)
        except OSError as problem:
            raise self._damaged(shard, name, "rows", problem) from problem
        if Stamp.of(content) != stamp:
            raise self._damaged(shard, name, "rows", "the checksum does not fit the content")
        return content

    def kept(self, shard: int, batch: int, opened: Opened, idle: frozenset[str]) -> Written:
        """Write the state of an engine after a batch."""
        name = object_name(shard, batch, uuid.uuid4().hex)
        snapshot = opened.engine.snapshot()
        bundles, contents = opened.bundles.after(snapshot.blocks, name)
        body = {"format": FORMAT, **bundles.header(), "idle": sorted(idle), "pipeline": snapshot.header}
        self._objects.write({**contents, name: (header := sealed(body))})
        _KNOWN[self._run, self._layout.checkpoint, shard] = name, Opened(opened.engine, "memory", bundles, idle)
        while len(_KNOWN) > self._most:
            _KNOWN.popitem(last=False)
        return Written([name, *bundles.stamps], len(header) + sum(map(len, contents.values())))

    def _damaged(self, shard: int, name: str, what: str, problem: object) -> CheckpointProblem:
        detail = f"it held {what} of shard {shard}; {problem}"
        return CheckpointProblem(f"{self._objects.path(name)} is damaged", detail=detail, hint=RESTORE)


def forget(checkpoint: str, shard: int | None = None) -> None:
    """Let go of the engine of a shard, or of all of a checkpoint."""
    for key in [key for key in _KNOWN if key[1] == checkpoint and shard in (None, key[2])]:
        del _KNOWN[key]


def known(checkpoint: str) -> dict[int, ShardEngine]:
    """Shard -> the engine that this process has of it."""
    return {key[2]: found.engine for key, (_, found) in _KNOWN.items() if key[1] == checkpoint}
