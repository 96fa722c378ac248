"""A batch of a job on several shards, carried out once.

Answer   A `Conductor` runs the phases of a batch: all that read before any shard steps, and all shards of a step before
         any of the next. `Batches.parcels` has a conductor run a batch that does not count yet, checks that every shard
         has spoken once, and writes its manifest; of a batch that counts it gives the parcels again. `InProcess` is the
         plainest conductor: one task after the other, in this process.
State    Manifests (`storage/heads.py`).
Limits   `InProcess` encodes and decodes all that travels, as others must.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

from eddyline.errors import CheckpointProblem, Fault
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.output.parcels import Parcel
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.shard.engines import forget
from eddyline.runtime.sharded.storage.heads import Head, Heads
from eddyline.state.sealed import RESTORE


class Conductor(Protocol):
    def run(self, batch: BatchDocument, packets: Any) -> list[Parcel]:
        """Run all phases of a batch.

        Args:
            packets: Those of rows that are in no piece of the document, in the conductor's own form.
        """


class Batches:
    def __init__(self, checkpoint: str, shards: int) -> None:
        self.heads = Heads(checkpoint)
        self._shards = shards

    def parcels(
        self,
        number: int,
        source: str,
        planned: Callable[[Head | None], tuple[BatchDocument, Any]],
        run: Callable[[BatchDocument], Iterable[Parcel]],
    ) -> list[Parcel]:
        """All parcels of a batch, which counts when this returns. The one before it is committed.

        Args:
            number: The batch.
            source: The digest of what has fixed its input.
            planned: Its document after the manifest of the batch before, and where the next batch begins.
            run: Has a conductor run it.
        """
        head = self.heads.find(number)
        if head is None:
            batch, position = planned(self.heads.read(number - 1))
            head = self._run(batch, source, position, list(run(batch)))
            self.heads.write(head)
        elif head.source != source:
            raise CheckpointProblem(
                f"batch {number} has another input than when it ran",
                detail="its results may be out, and what it was to read was planned anew, as after a power cut",
                hint=RESTORE,
            )
        return list(head.parcels)

    def _run(self, batch: BatchDocument, source: str, position: Any, parcels: list[Parcel]) -> Head:
        said = sorted(parcel.shard for parcel in parcels if parcel.kind == "note")
        if said != list(range(self._shards)):
            raise Fault(f"batch {batch.number} has notes of shards {said}", hint="please report it")
        head = Head(batch.number, source, batch.layout, position, {}, parcels)
        notes = head.notes
        # Ticks reach every shard: what they say of whole streams is the same.
        if any(note["rows_in"] != notes[0]["rows_in"] for note in notes.values()):
            raise Fault(
                f"shards have seen different rows in batch {batch.number}",
                hint="a file may have changed while it was read; the same command runs the batch again",
            )
        return replace(head, state={shard: note["state"] for shard, note in notes.items()})


class InProcess:
    """A conductor that runs one task after the other."""

    def __init__(self, phases: Phases, forgets: Callable[[], bool] = lambda: False) -> None:
        """
        Args:
            phases: What tasks do.
            forgets: Asked before each step of a shard: whether its engine is made anew from what was written.
        """
        self.phases = phases
        self.forgets = forgets

    def run(self, batch: BatchDocument, packets: Iterable[Packet] = ()) -> list[Parcel]:
        batch = pickle.loads(pickle.dumps(batch))
        layout = self.phases.layout(batch)
        travelling = [pickle.dumps(packet) for packet in packets]
        for piece in batch.pieces:
            travelling += map(pickle.dumps, self.phases.read(batch, piece))
        mine: dict[int, list[Packet]] = {}
        found: list[Parcel] = []
        for shard in range(layout.shards):
            for one in map(pickle.loads, travelling):
                mine.setdefault(one.shard, []).append(one)
            travelling.clear()
            if self.forgets():
                forget(layout.checkpoint, shard)
            for made in self.phases.step(batch, shard, mine.pop(shard, [])):
                if isinstance(made, Packet):
                    travelling.append(pickle.dumps(made))
                else:
                    found.append(pickle.loads(pickle.dumps(made)))
        return found
