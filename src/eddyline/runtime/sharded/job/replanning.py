"""Plans that change on all shards at once: decided on the driver from what all shards saw.

Answer   Shards put what they saw of their join groups into the notes of a batch. `after_batch` adds up the latest of
         every shard and asks the planner of the model (all queries, no rows) whether the plan still fits. A move
         becomes a control record that every shard carries out before the same batch; what it cost comes back with the
         notes.
State    Per group the latest of each shard. Nothing survives a restart: shards keep their plans and say them again.
Limits   Shards sample when they have read enough rows, not all in the same batch: sums mix samples that are some batches
         apart.
Reading  docs/design/0003-replanning.md
"""

from __future__ import annotations

import logging
from functools import reduce
from operator import add
from typing import Any

from eddyline.plan.tree.migration import plan_document, plan_from
from eddyline.plan.tree.statistics import GroupStatistics
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.figures.epoch_times import NEWEST
from eddyline.runtime.planning.planner import running_orders
from eddyline.runtime.sharded.output.delivery import Delivered

log = logging.getLogger("eddyline.planner")


class Replanning:
    def __init__(self, model: Pipeline):
        self.model = model
        #: The newest moves, as `--stats` shows them.
        self.migrations: list[dict[str, Any]] = []
        self._seen: dict[str, dict[int, GroupStatistics]] = {}

    def after_batch(self, delivered: Delivered) -> list[dict[str, object]]:
        """The moves that are due now, as control records."""
        self._note_moves(delivered)
        planner = self.model.planner
        fresh: dict[str, dict[str, Any]] = {}
        for shard, note in sorted(delivered.notes.items()):
            for signature, found in note.get("seen", {}).items():
                self._seen.setdefault(signature, {})[shard] = GroupStatistics.from_document(found["seen"])
                fresh.setdefault(signature, found["plan"])
        records: list[dict[str, object]] = []
        for signature in [s for s in self._seen if s not in planner.watches]:
            del self._seen[signature]
        for signature, plan in fresh.items():
            if signature in self._seen:
                self._follow(signature, plan)
                migration = planner.weigh(signature, reduce(add, self._seen[signature].values()))
                if migration is not None:
                    records.append({"move": {"group": signature, **migration.to_document()}})
        return records

    def _follow(self, signature: str, plan: dict[str, Any]) -> None:
        """The model runs what the shards run: after a restart they know it, and it does not."""
        group = self.model.planner.watches[signature].group
        if plan_document(group.tree, running_orders(group)) != plan:
            self.model.replant(group, *plan_from(plan))

    def _note_moves(self, delivered: Delivered) -> None:
        moves: dict[str, dict[str, Any]] = {}
        for _, note in sorted(delivered.notes.items()):
            for move in note.get("changed", {}).get("moved", ()):
                whole = moves.setdefault(
                    move["group"], {**move, "epoch": delivered.batch, "seconds": 0.0, "rows_rebuilt": 0}
                )
                whole["seconds"] = max(whole["seconds"], move["seconds"])
                whole["rows_rebuilt"] += move["rows_rebuilt"]
        for whole in moves.values():
            del whole["group"]
            if delivered.batch > max((m["epoch"] for m in self.migrations), default=-1) or whole not in self.migrations:
                self.migrations.append(whole)
                del self.migrations[:-NEWEST]
            log.info(
                "%s: %s to %s, %d rows in %.3f s: %s",
                ", ".join(whole["queries"]), whole["from"], whole["to"], whole["rows_rebuilt"], whole["seconds"], whole["reason"],
            )  # fmt: skip
