"""The figures of a checkpoint that `eddyline state` shows, in one form for both engines.

Answer   Per shard its live rows, the rows that wait for the frontier, bytes, frontier and queries. An embedded job is
         one shard.
State    None.
Limits   Only the form: each engine reads its own checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShardState:
    shard: int
    #: Rows that a later row can join.
    rows: int
    #: Rows that have arrived and are in no result yet.
    waiting: int
    bytes: int
    #: All results with event times strictly below are complete.
    frontier: int | None
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckpointState:
    engine: str
    #: Version of the checkpoint's format; a job refuses another one.
    format: int
    #: The last epoch, or batch on Spark, that is part of the checkpoint.
    epoch: int
    shards: tuple[ShardState, ...]
