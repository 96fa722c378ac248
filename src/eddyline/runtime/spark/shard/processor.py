"""One shard's pipeline as a StatefulProcessor.

Answer   Each micro-batch of a shard is one epoch: packets in, parcels out. The pipeline is kept in the worker process
         and believed only if the token in the state header is the one it ended its last epoch with.

             token matches ─► step                        about every other time on two cores
             token differs ─► blocks from the spool, else from the state store ─► rebuild ─► step

State    One map, `values`, from names to bytes: `header` (token, places of the live blocks, the pipeline's own header)
         and the bundles (Arrow IPC blobs in a row). Every state call is a round trip, and every state variable costs
         each task about ten milliseconds to open, so there is one, and an epoch writes what is new, removes what is
         gone, and the header.
Limits   A failed attempt leaves a pipeline whose token is in no committed header: it is never used again.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, Row, StringType, StructField, StructType

from eddyline.errors import CheckpointProblem
from eddyline.runtime.figures.memory import resident_bytes
from eddyline.runtime.recovery.checkpoint_identity import of_another_format
from eddyline.runtime.sharded.ingest.packet import from_blob
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.output.parcels import Shelf, note, parcels
from eddyline.runtime.sharded.shard.assembly import Assembled, assemble
from eddyline.runtime.sharded.storage.bundles import Bundles
from eddyline.runtime.sharded.storage.spool import Spool, Stamp
from eddyline.runtime.spark.ingest.sources import batch_id
from eddyline.runtime.spark.job.failure import reported
from eddyline.runtime.spark.shard.carrying import divided, handed_packets, onwards, parcel_of
from eddyline.state.sealed import RESTORE, sealed, unsealed

if TYPE_CHECKING:
    from eddyline.runtime.sharded.shard.pipeline import ShardEngine

#: Version of the state's form; another one is refused.
FORMAT = 6

_NAME = StructType([StructField("name", StringType())])
_BLOB = StructType([StructField("blob", BinaryType())])
_HEADER = ("header",)

#: (first layout of the run, checkpoint, shard) -> (token, pipeline), most recently used last.
_PIPELINES: OrderedDict[tuple[str, str, int], tuple[str, ShardEngine]] = OrderedDict()
#: A worker serves few shards of each step at a time; the pipelines of others would be stale copies that only hold
#: memory.
_MOST_PIPELINES = 4


class ShardProcessor(StatefulProcessor):
    def __init__(self, packed: PackedLayout, step: int = 0, steps: int = 1):
        self.packed = packed
        #: Which of the stateful steps of the job this is. What it gets for other steps, and parcels of earlier ones, it
        #: passes on.
        self.step, self.steps = step, steps

    def init(self, handle: StatefulProcessorHandle) -> None:
        # Schemas as objects: as text each would be one more round trip.
        self.values = handle.getMapState("values", _NAME, _BLOB)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        batch = batch_id()
        with reported("the layout of the job"):
            layout = self.packed.at(batch).open()
        shard = layout.labels.index(key[0])
        if self.steps == 1:
            with reported(f"shard {shard} of {layout.shards}"):
                yield from map(parcel_of, self._epoch(layout, shard, batch, list(rows)))
            return
        packets, others = divided(rows, shard // layout.width == self.step)
        with reported(f"shard {shard} of {layout.shards}"):
            made = self._epoch(layout, shard, batch, packets) if packets else ()
            for row in (*others, *made):
                yield (
                    parcel_of(row)
                    if self.step == self.steps - 1
                    else onwards(row, layout.labels[(shard + layout.width) % layout.shards])
                )

    def close(self) -> None:
        """The pipeline stays in the worker for the next batch."""

    def open_engine(
        self, layout: JobLayout, header: dict[str, Any] | None, load: Callable[[str], pa.Table]
    ) -> ShardEngine:
        """What a worker keeps of a shard. The class is named here, by code that Spark carries to its workers, and in no
        folder."""
        # Not at the top: the processes in which Spark plans load processors too, and the engine takes a second that
        # they have no use for.
        from eddyline.runtime.sharded.shard.pipeline import ShardPipeline

        return ShardPipeline.open(layout, header, load)

    def _epoch(self, layout: JobLayout, shard: int, batch: int, packets: list[Any]) -> Iterator[Row]:
        clock = [time.perf_counter()]
        spool = Spool(os.path.join(layout.spool, str(shard)))
        token, bundles, idle, header = self._read_header(shard)
        pipeline, came_from = self._pipeline(layout, shard, token, bundles, header, spool)
        clock.append(time.perf_counter())
        assembled = assemble(layout, packets, pipeline.bounds(), idle)
        clock.append(time.perf_counter())
        changed = pipeline.control(layout, assembled.control)
        shelf = Shelf(
            layout, shard, batch, {name for name, routing in layout.routing.routings.items() if not routing.uses(shard)}
        )
        outcome = pipeline.step(assembled.epoch, shelf.take)
        clock.append(time.perf_counter())
        written = self._persist(layout, shard, pipeline, bundles, assembled.epoch.idle, spool)
        clock.append(time.perf_counter())
        facts = {
            "came_from": came_from,
            "released": time.time(),
            "frontier": outcome.frontier,
            "frontiers": outcome.frontiers,
            "waiting": outcome.waiting,
            "rows_in": assembled.rows_in,
            "bad": _bad_rows(assembled),
            "closing": assembled.epoch.closing,
            "changed": {**changed, "gone": [*changed.get("gone", ()), *outcome.gone]},
            "bytes_written": written,
            "spool_failures": spool.failures,
            "worker_bytes": resident_bytes(),
            "seconds": dict(
                zip(("open", "assemble", "step", "persist"), (b - a for a, b in pairwise(clock)), strict=True)
            ),
            "statistics": pipeline.statistics(),
            "seen": pipeline.observed(),
            "asked": outcome.asked,
        }
        yield from parcels(layout, shard, batch, outcome, shelf)
        yield note(shard, facts)
        if outcome.handed:
            yield from handed_packets(self.packed.at(batch), shard, outcome)

    def _read_header(self, shard: int) -> tuple[str, Bundles, frozenset[str], dict[str, Any] | None]:
        found = self.values.getValue(_HEADER)
        if found is None:
            return "", Bundles(), frozenset(), None
        try:
            body = unsealed(bytes(found[0]))
        except ValueError as problem:
            raise _damaged(shard, "the list of what it holds", str(problem)) from problem
        if body["format"] != FORMAT:
            raise of_another_format(f"the state of shard {shard}", body["format"], FORMAT)
        return body["token"], Bundles.of_header(body), frozenset(body["idle"]), body["pipeline"]

    def _pipeline(
        self, layout: JobLayout, shard: int, token: str, bundles: Bundles, header: dict[str, Any] | None, spool: Spool
    ) -> tuple[ShardEngine, str]:
        """This shard's pipeline as of the committed header, and where it came from."""
        kept = _PIPELINES.pop((self.packed.digest, layout.checkpoint, shard), None)
        if header is not None and kept is not None and kept[0] == token:
            return kept[1], "memory"
        del kept
        opened: dict[str, memoryview] = {}
        from_state = 0

        def load(name: str) -> pa.Table:
            nonlocal from_state
            bundle, offset, size = bundles.places[name]
            if bundle not in opened:
                mapped = spool.load(bundle, bundles.stamps[bundle])
                if mapped is None:
                    from_state += 1
                    mapped = memoryview(self._read_bundle(bundle, shard, bundles.stamps[bundle]))
                    spool.save(bundle, bundles.stamps[bundle], mapped)
                opened[bundle] = mapped
            return from_blob(opened[bundle][offset : offset + size])

        pipeline = self.open_engine(layout, header, load)
        pipeline.shard = shard
        return pipeline, "nothing" if header is None else "state" if from_state else "spool"

    def _read_bundle(self, name: str, shard: int, stamp: Stamp) -> bytes:
        found = self.values.getValue((name,))
        if found is None:
            raise _damaged(shard, f"block {name}", "it is missing")
        content = bytes(found[0])
        if Stamp.of(content, stamp.token) != stamp:
            raise _damaged(shard, f"block {name}", "the checksum does not fit the content")
        return content

    def _persist(
        self, layout: JobLayout, shard: int, pipeline: ShardEngine, old: Bundles, idle: frozenset[str], spool: Spool
    ) -> int:
        """Write what is new, remove what is gone, and only then let the pipeline be found again."""
        token = uuid.uuid4().hex
        snapshot = pipeline.snapshot()
        now, contents = old.after(snapshot.blocks, token)
        for name, content in contents.items():
            self.values.updateValue((name,), (content,))
            spool.save(name, now.stamps[name], content)
        for name in old.stamps.keys() - now.stamps.keys():
            self.values.removeKey((name,))
        spool.keep([*old.stamps.items(), *now.stamps.items()])
        body = {"format": FORMAT, "token": token, **now.header(), "idle": sorted(idle), "pipeline": snapshot.header}
        self.values.updateValue(_HEADER, (sealed(body),))
        _PIPELINES[self.packed.digest, layout.checkpoint, shard] = (token, pipeline)
        while len(_PIPELINES) > _MOST_PIPELINES * layout.steps:
            _PIPELINES.popitem(last=False)
        return sum(map(len, contents.values()))


def _damaged(shard: int, what: str, problem: str) -> CheckpointProblem:
    return CheckpointProblem(
        f"the state of shard {shard} is damaged",
        detail=f"{what}, in the folder state of the checkpoint; {problem}",
        hint=RESTORE,
    )


def _bad_rows(assembled: Assembled) -> dict[str, int]:
    return {name: arrival.bad.num_rows for name, arrival in assembled.epoch.arrivals.items() if arrival.bad is not None}
