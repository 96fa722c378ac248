"""`eddyline calibrate`: measure on this machine what the engine's operations cost, and keep it for the planner.

Answer   Runs three small joins with the real stores and kernels and prints seconds per operation as JSON: `probe` (a row that looks
         for partners), `join` (a combination made), `insert` and `delete` (a combination kept, over its life).
State    A file under the user's configuration folder, which every later plan reads; `--dry-run` writes nothing.
Limits   Each run is repeated and the fastest counts, so that what else the machine does is left out. Wide rows, strings and
         conditions that are no equalities cost more than what is measured here.
Reading  docs/design/0002-cost-model.md
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from time import perf_counter

import numpy as np
import pyarrow as pa

from eddyline.operators.join.inputs import NodeInput
from eddyline.plan.budget import keep_costs
from eddyline.plan.cost import UnitCosts
from eddyline.session import Session

#: Rows per stream and per epoch; streams bring a thousand rows per second, windows hold ten thousand.
_ROWS, _EPOCH = 40_000, 5_000
_JOIN = "SELECT a.ts AS at FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"
_TREE = "SELECT a.ts AS at FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS] WHERE a.k = b.k AND b.m = c.m"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("calibrate", help="measure what operations cost on this machine, for the planner")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="runs of each kind; the fastest counts (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="print what was measured and keep nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    costs = measure(max(args.repeats, 1))
    answer: dict[str, object] = {"costs": asdict(costs), "kept": None}
    if not args.dry_run:
        answer["kept"] = str(keep_costs(costs))
    print(json.dumps(answer))
    return 0


def measure(repeats: int = 5, rows: int = _ROWS) -> UnitCosts:
    """Seconds per operation of this engine, here."""
    _once(_JOIN, "mjoin", 500, min(rows, 2 * _EPOCH))
    none = _least(_JOIN, "mjoin", 0, rows, repeats)
    probe = none.seconds / none.probes
    many = _least(_JOIN, "mjoin", 500, rows, repeats)
    join = max(many.seconds - probe * many.probes, 0.0) / many.made
    kept = _least(_TREE, "((a b) c)", 500, rows, repeats)
    insert = max(kept.seconds - probe * kept.probes - join * kept.made, 0.0) / kept.made
    return UnitCosts(*(float(f"{cost:.4g}") for cost in (insert, kept.delete, join, probe)))


@dataclass(frozen=True, slots=True)
class _Measured:
    """What the lowest node did in one epoch, in how many seconds; and seconds per combination swept out of its store."""

    seconds: float
    probes: int
    made: int
    delete: float = 0.0


def _least(query: str, plan: str, values: int, rows: int, repeats: int) -> _Measured:
    """The epoch that was disturbed least, and the fastest sweep: each took too short to be interrupted every time."""
    epochs = [epoch for _ in range(repeats) for epoch in _once(query, plan, values, rows)]
    best = min(epochs, key=lambda epoch: epoch.seconds / (epoch.probes + epoch.made))
    return replace(best, delete=min(epoch.delete for epoch in epochs))


def _swept(kept: NodeInput | None) -> float:
    if kept is None:
        return 0.0
    # Half of what is stored dies at once: a sweep that drops about as much as it keeps.
    middle = int(np.median(kept.store.mark("dead")))
    live, began = kept.store.live, perf_counter()
    kept.store.keep(kept.store.mark("dead") >= middle)
    return (perf_counter() - began) / max(live - kept.store.live, 1)


def _once(query: str, plan: str, values: int, rows: int) -> list[_Measured]:
    """One run; keys are drawn from so many values, 0 for keys that never meet."""
    lots = np.random.default_rng(7)
    names = ("a", "b", "c") if plan.startswith("(") else ("a", "b")
    epochs: list[_Measured] = []
    with Session(keep_results=False) as session:
        for name in names:
            session.execute(f"CREATE STREAM {name} (k BIGINT, m BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.query("q", query, plan=plan, jit="off", replan="off")
        for first in range(0, rows, _EPOCH):
            count = min(_EPOCH, rows - first)
            for number, name in enumerate(names):
                keys = lots.integers(0, values, count) if values else 2 * lots.integers(0, 1 << 20, count) + number
                other = np.full(count, number)
                ts = pa.array((np.arange(first, first + count)) * 1000).cast(pa.timestamp("us"))
                session.push(name, pa.table({"k": pa.array(keys), "m": pa.array(other), "ts": ts}))
            node, kept = next(iter(session.pipeline.groups.values())).nodes[0]
            before = replace(node.counters)
            session.step()
            after = node.counters
            if first >= 2 * _EPOCH:
                # The windows are full: from here on every epoch does the same.
                made = after.rows_out - before.rows_out
                epochs.append(_Measured(after.seconds - before.seconds, after.probes - before.probes, made))
        delete = _swept(kept)
    return [replace(epoch, delete=delete) for epoch in epochs]
