"""What travels between the stateful steps of a job: packets for later steps, and parcels on their way out.

Answer   `divided` separates what a shard works on from what it passes on; `onwards` and `parcel_of` give these rows the
         form that the operator behind the step reads. `handed_packets` has the derived rows that an epoch made for
         later steps.

             step 0: packets of its shards ─► parcels, packets of derived rows ─┐
                     packets of later steps ────────────────────────────────────┴─► step 1 ─► parcels

State    A packer per layout and worker process.
Limits   Only jobs with several steps have these rows; with one step, parcels leave as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import Row

from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.sharded.ingest.packet import CARRIED, PARCEL
from eddyline.runtime.sharded.job.layout import PackedLayout

if TYPE_CHECKING:
    from eddyline.runtime.sharded.ingest.packer import Packer

_carried = Row(*CARRIED.names)
_parcel = Row(*PARCEL.names)


def divided(rows: Iterable[Any], is_mine: bool) -> tuple[list[Any], list[Any]]:
    """The packets of a shard's own step, and what it passes on."""
    packets: list[Any] = []
    others: list[Any] = []
    for row in rows:
        mine = is_mine and getattr(row, "kind", None) is None
        (packets if mine else others).append(row)
    return packets, others


def onwards(row: Any, label: int) -> Row:
    """A row for the next step: packets as they are, a parcel to the shard with a label."""
    if hasattr(row, "place"):
        found = {name: getattr(row, name, None) for name in CARRIED.names}
        return _row(found if found["kind"] is None else {**found, "shard": label})
    return _row(
        {
            "shard": label,
            "stream": row.shard,
            "rows": row.rows,
            "blob": row.blob,
            "kind": row.kind,
            "name": row.name,
            "path": row.path,
        }
    )


def parcel_of(row: Any) -> Row:
    """A parcel as it leaves the last step."""
    return _parcel(row.kind, row.name, row.stream if hasattr(row, "place") else row.shard, row.rows, row.path, row.blob)


def handed_packets(packed: PackedLayout, shard: int, outcome: Outcome) -> Iterator[Row]:
    for (stream, maker), rows in outcome.handed.items():
        for packet in _packer(packed).hand_on(stream, maker, shard, rows):
            yield _row(packet)


def _row(values: Mapping[str, object]) -> Row:
    return _carried(*(values.get(name) for name in CARRIED.names))


@lru_cache(maxsize=4)
def _packer(packed: PackedLayout) -> Packer:
    # Not at the top: the processes in which Spark plans load this too, and pack nothing.
    from eddyline.runtime.sharded.ingest.packer import Packer

    return Packer(packed.open())
