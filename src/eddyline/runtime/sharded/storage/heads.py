"""What each batch left: one manifest per batch, which says what counts.

Answer   `Heads.write` makes a batch count: before it nothing of the batch does, after it everything. A manifest names
         per shard the header of its state and the objects that this state rests on. It carries every parcel of the
         batch: notes, results or the files that hold them, dead letters, answers. It carries the digest of what had
         fixed the batch's input, that of its layout, and where the next batch begins.
State    `heads/<batch, 12 digits>.json`, sealed, for the last two batches; objects of the state in `segments/<shard>/`.
         The name of an object begins with the batch that wrote it and has a token that no other attempt has.
Limits   One writer: the driver of the job.

Exactly once. The input of batch N is fixed before its first task: by what the conductor has written down (on Spark
`offsets/N`, the lists of files, control records) and by where heads/N-1 says that it begins. The state before N is what
heads/N-1 names, and a task of N reads nothing else. A task is therefore a function of durable things. What it writes
has a name of its own and counts only if heads/N names it, and heads/N names what the one attempt wrote whose note came
back. So an attempt that failed, was overtaken or ran on a machine that was lost leaves objects without a use.

    the driver dies                   the next start
    before heads/N                    N runs from heads/N-1; what its tasks had written is removed later
    between heads/N and its commit    the digest is compared: no task runs, the parcels of heads/N are published
    after its commit                  N+1 runs from heads/N

Where the digest differs, N was planned anew although it had run: a power cut took the plan, which Spark does not sync.
Results of the first plan may be out, so the job ends and says so. A layout that differs is no reason: the job's file
was changed between the two runs, and what it brings begins with the batch after N.
Publication is the delivery's: it removes what sinks have of N and later batches before its first batch.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eddyline.errors import CheckpointProblem
from eddyline.runtime.recovery.checkpoint_identity import of_another_format
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.storage.objects import Objects
from eddyline.state.sealed import RESTORE, damaged, sealed, unreadable, unsealed

#: Version of the form of manifests and of the shards' state; another one is refused.
FORMAT = 8

HELD = "what a batch has left: the state of each shard, results and notes"
_HEADS, SEGMENTS = "heads", "segments"
#: Batches between two searches for objects that attempts have left which do not count.
_SEARCH_BATCHES = 64


@dataclass(frozen=True)
class Head:
    batch: int
    #: Of what had fixed the input.
    source: str
    layout: str
    #: Where the next batch begins, in the words of the conductor.
    position: Any
    #: Shard -> the object with the header of its state, then those that it rests on.
    state: Mapping[int, Sequence[str]]
    parcels: Sequence[Parcel]

    @property
    def before(self) -> dict[int, str]:
        """What the document of the next batch says of the shards' state."""
        return {shard: names[0] for shard, names in self.state.items()}

    @property
    def named(self) -> set[str]:
        return {name for names in self.state.values() for name in names}

    @property
    def notes(self) -> dict[int, dict[str, Any]]:
        """Shard -> what it said of its epoch."""
        return {parcel.shard: json.loads(parcel.blob or b"") for parcel in self.parcels if parcel.kind == "note"}

    def sealed(self) -> bytes:
        parcels = [[*parcel[:-1], parcel.blob and base64.b64encode(parcel.blob).decode()] for parcel in self.parcels]
        state = {str(shard): list(names) for shard, names in self.state.items()}
        body = {"format": FORMAT, "batch": self.batch, "source": self.source, "layout": self.layout}
        return sealed({**body, "position": self.position, "state": state, "parcels": parcels})

    @staticmethod
    def of(content: bytes, what: str) -> Head:
        body = unsealed(content)
        if body["format"] != FORMAT:
            raise of_another_format(what, body["format"], FORMAT)
        state = {int(shard): names for shard, names in body["state"].items()}
        parcels = [Parcel._make([*one[:-1], one[-1] and base64.b64decode(one[-1])]) for one in body["parcels"]]
        return Head(body["batch"], body["source"], body["layout"], body["position"], state, parcels)


class Heads:
    def __init__(self, checkpoint: str) -> None:
        self.objects = Objects(checkpoint)
        #: BatchDocument -> its manifest, of the newest ones.
        self._known: dict[int, Head] = {}
        self._searched = -1

    def find(self, batch: int) -> Head | None:
        """The manifest of a batch; None: it does not count."""
        if batch not in self._known:
            name = _name(batch)
            try:
                content = bytes(self.objects.read(name))
            except FileNotFoundError:
                return None
            except OSError as problem:
                raise unreadable(self.objects.path(name), HELD, problem) from problem
            try:
                self._known[batch] = Head.of(content, f"the manifest of batch {batch}")
            except (ValueError, KeyError, TypeError, AttributeError) as problem:
                raise damaged(self.objects.path(name), HELD, problem) from problem
        return self._known[batch]

    def read(self, batch: int) -> Head | None:
        """The manifest of a batch that has been committed; None before the first one."""
        found = self.find(batch) if batch >= 0 else None
        if found is None and batch >= 0:
            path = self.objects.path(_name(batch))
            raise CheckpointProblem(f"{path} is missing", detail=f"it held {HELD}", hint=RESTORE)
        return found

    def write(self, head: Head) -> None:
        """From now on the batch counts."""
        self.objects.write({_name(head.batch): head.sealed()})
        self._known[head.batch] = head
        self._forget(head)

    def _forget(self, head: Head) -> None:
        """Remove what neither this batch nor the one before it needs: the one before that is committed by now."""
        before = self._known.get(head.batch - 1)
        needed = head.named | (set() if before is None else before.named)
        for batch in [batch for batch in self._known if batch < head.batch - 1]:
            for name in self._known.pop(batch).named - needed:
                self.objects.delete(name)
            self.objects.delete(_name(batch))
        if self._searched < 0 or head.batch >= self._searched + _SEARCH_BATCHES:
            self._searched = head.batch
            for name in self.objects.names(SEGMENTS):
                if name not in needed and written_by(name) < head.batch:
                    self.objects.delete(name)
            for name in self.objects.names(_HEADS):
                if name < _name(head.batch - 1):
                    self.objects.delete(name)


def _name(batch: int) -> str:
    return f"{_HEADS}/{batch:012d}.json"


def object_name(shard: int, batch: int, token: str) -> str:
    """The beginning of the names of all objects that one attempt of a task writes."""
    return f"{SEGMENTS}/{shard}/{batch:012d}-{token}"


def written_by(name: str) -> int:
    """The batch that wrote an object."""
    return int(name.rpartition("/")[2].partition("-")[0])
