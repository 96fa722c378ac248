"""What a checkpoint remembers of the job that it belongs to.

Answer   `settle` compares a job with the checkpoint's ledger before anything runs: streams and the number of shards must be
         the same, a query of the same name must have the same text, missing queries are dropped, new ones are new. Static
         tables are read once and kept.
State    `ledger.json` below the checkpoint: shards, streams, and per query its text and routing; `tables/<name>.arrow`.
Limits   A changed query is refused: its stored rows and counts are those of the old text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eddyline.errors import CheckpointProblem
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream, Table
from eddyline.plan.shares import Record, RoutingTable

FORMAT = 1


@dataclass
class Ledger:
    checkpoint: str
    shards: int = 0
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    queries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        return self.shards > 0

    @staticmethod
    def read(checkpoint: str) -> Ledger:
        path = _path(checkpoint)
        if not os.path.exists(path):
            return Ledger(checkpoint)
        with open(path, encoding="utf-8") as text:
            found = json.load(text)
        if found["format"] != FORMAT:
            raise CheckpointProblem(
                f"the checkpoint in {checkpoint} has format {found['format']}",
                detail=f"this version reads format {FORMAT}",
                hint="continue with the version that wrote it, or start anew with an empty checkpoint",
            )
        return Ledger(checkpoint, found["shards"], found["streams"], found["queries"])

    def settle(self, streams: Sequence[Stream], queries: Sequence[BoundQuery], shards: int) -> dict[str, Record]:
        """Refuse what does not fit; return the routing records of the queries that go on."""
        if not self.exists:
            return {}
        if shards != self.shards:
            raise CheckpointProblem(
                f"the checkpoint has {self.shards} shards, the job asks for {shards}",
                detail="stored rows lie where the old number put them",
                hint=f"SET shards = {self.shards}, or start anew with an empty checkpoint",
            )
        for stream in streams:
            if self.streams.get(stream.name) != _described(stream):
                raise CheckpointProblem(
                    f"stream {stream.name} is not the one of the checkpoint",
                    detail=f"declared now: {_described(stream)}; then: {self.streams.get(stream.name, 'not at all')}",
                    hint="declare it as it was, or start anew with an empty checkpoint",
                )
        for query in queries:
            known = self.queries.get(query.name)
            if known is not None and known["text"] != query.text:
                raise CheckpointProblem(
                    f"query {query.name} has another text than in the checkpoint",
                    detail=f"now: {query.text}; then: {known['text']}",
                    hint="give the new query a name of its own",
                )
        return {q.name: Record(self.queries[q.name]["shares"], self.queries[q.name]["bits"]) for q in queries if q.name in self.queries}

    def write(self, streams: Sequence[Stream], queries: Sequence[BoundQuery], routing: RoutingTable, shards: int) -> None:
        records = {q.name: routing.record(q.name) for q in queries}
        body = {
            "format": FORMAT,
            "shards": shards,
            "streams": {s.name: _described(s) for s in streams},
            "queries": {
                q.name: {"text": q.text, "shares": list(records[q.name].shares), "bits": dict(records[q.name].bits)} for q in queries
            },
        }
        path = _path(self.checkpoint)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".part", "w", encoding="utf-8") as text:
            json.dump(body, text, indent=1)
            text.flush()
            os.fsync(text.fileno())
        os.replace(path + ".part", path)

    def table(self, table: Table, read: Callable[[Table], pa.Table]) -> pa.Table:
        """A static table as it was when the checkpoint was new; read now if it is not there yet."""
        path = os.path.join(self.checkpoint, "eddyline", "tables", f"{table.name}.arrow")
        if os.path.exists(path):
            return pa.ipc.open_file(pa.memory_map(path)).read_all()
        rows = read(table)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with pa.OSFile(path + ".part", "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        os.replace(path + ".part", path)
        return rows


def _described(stream: Stream) -> dict[str, Any]:
    """What of a stream cannot change under a checkpoint: its files may lie elsewhere, its rows mean the same."""
    return {
        "columns": [[c.name, str(c.type)] for c in stream.schema.columns],
        "time": stream.time,
        "lateness": stream.lateness,
        "sequence": stream.sequence,
        "position": stream.position,
    }


def _path(checkpoint: str) -> str:
    return os.path.join(checkpoint, "eddyline", "ledger.json")
