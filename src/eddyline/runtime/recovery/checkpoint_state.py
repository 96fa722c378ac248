"""What a checkpoint holds, as `eddyline state` shows it: one form for both engines.

Answer   Per shard its live rows, the rows that wait for the frontier, bytes, frontier and queries. An embedded job is
         one shard.
Limits   Words only: each engine reads its own checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShardState:
    shard: int
    #: Rows that a row still to come can meet.
    rows: int
    #: Rows that have arrived and are not answered yet.
    waiting: int
    bytes: int
    #: Event times strictly below are answered.
    frontier: int | None
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckpointState:
    engine: str
    #: Version of the form; another one is refused by a job.
    format: int
    #: The last epoch, or Spark's batch, that is part of it.
    epoch: int
    shards: tuple[ShardState, ...]
