"""`eddyline lab calibrate`: measure what the engine's operations cost on this machine, and keep it for the planner.

Answer   Runs small joins of two to four streams as several trees, with the real stores and kernels, and counts their
         operations. Then finds the costs per operation that explain the CPU time of all runs best. Prints them as JSON.
         For rows: `arrive` (a row of a stream), `probe` (a row that probes a store), `link` (each index of a row beyond
         the first). For combinations: `join` (a combination made). For both: `insert` and `delete` (the beginning and
         end of a stored row or combination). The entry `index` has the costs of an index over address bits: `hash` (a
         column's part of an address), `run` (a run of rows begun) and `visit` (a row of a run).
State    A file below the user's configuration folder, which every later plan reads; `--dry-run` writes nothing.
Limits   CPU time of this process. Each run is repeated and the fastest counts, so that other work of the machine is left
         out. The fixed costs of a batch are spread over its rows: a few thousand per stream. Wide rows, strings and
         conditions that are no equalities cost more than what is measured here.
Reading  docs/design/0002-cost-model.md
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

from eddyline.cli.lab.calibrate_index import measure_index
from eddyline.cli.lab.least_squares import explained
from eddyline.operators.join.group import JoinGroup
from eddyline.plan.tree.budget import keep_costs
from eddyline.plan.tree.cost import UnitCosts
from eddyline.session import Session

#: Rows per stream, rows per stream and epoch, window. A stream has a thousand rows per second of event time, a window
#: eight thousand rows.
_ROWS, _EPOCH, _WINDOW = 48_000, 4_000, "[RANGE 8 SECONDS]"


@dataclass(frozen=True, slots=True)
class Case:
    """Streams a, b, … joined pair by pair, each pair with its number of key values; run as several trees."""

    pairs: tuple[tuple[str, int], ...]
    trees: tuple[str, ...]

    @property
    def streams(self) -> list[str]:
        return sorted({name for pair, _ in self.pairs for name in pair})

    @property
    def sql(self) -> str:
        joins = " AND ".join(f"{pair[0]}.k{pair} = {pair[1]}.k{pair}" for pair, _ in self.pairs)
        return f"SELECT a.ts AS at FROM {', '.join(f'{name} {_WINDOW}' for name in self.streams)} WHERE {joins}"


#: Few and many partners, chains, a star and a ring: counts of operations that differ enough to separate their costs.
CASES = (
    Case((("ab", 2_000),), ("(a b)",)),
    Case((("ab", 4_000), ("bc", 2_000)), ("(a b c)", "((a b) c)")),
    Case((("ab", 800_000), ("bc", 800_000), ("ac", 800_000)), ("(a b c)", "((a b) c)")),
    Case((("ab", 800_000), ("bc", 800_000), ("cd", 800_000), ("ad", 800_000)), ("(a b c d)", "((a b) (c d))")),
    Case((("ab", 4_000), ("bc", 40_000)), ("(a b c)", "((a b) c)", "(a (b c))")),
    Case((("ab", 2_000), ("bc", 16_000), ("ac", 8_000)), ("(a b c)", "((a b) c)", "(a (b c))")),
    Case((("ab", 3_000), ("ac", 8_000), ("ad", 24_000)), ("(a b c d)", "((a b) c d)", "(((a d) c) b)")),
    Case((("ab", 8_000), ("bc", 8_000), ("cd", 8_000)), ("(a b c d)", "((a b) (c d))", "((a b c) d)")),
)


def run(args: argparse.Namespace) -> int:
    repeats = max(args.repeats, 1)
    costs, index = measure(repeats), measure_index(repeats)
    answer: dict[str, object] = {"costs": asdict(costs), "index": asdict(index), "kept": None}
    if not args.dry_run:
        answer["kept"] = str(keep_costs(costs, index))
    print(json.dumps(answer))
    return 0


def measure(repeats: int = 5, rows: int = _ROWS) -> UnitCosts:
    """Seconds per operation on this machine."""
    jobs = [(case, tree) for case in CASES for tree in case.trees]
    # The first run fills caches and loads compiled code; it does not count.
    _once(*jobs[-1], min(rows, 2 * _EPOCH))
    # Round by round, not case by case: other work of the machine then slows one run of each case, not all of one.
    rounds = [[_once(case, tree, rows) for case, tree in jobs] for _ in range(repeats)]
    fastest = [min(runs, key=lambda one: one.seconds) for runs in zip(*rounds, strict=True)]
    row, keep, join, probe, link = explained([one.counts for one in fastest], [one.seconds for one in fastest]).tolist()
    delete = min(min(one.delete for runs in rounds for one in runs), keep / 2)
    costs = (keep - delete, delete, join, probe, link, max(row - keep, 0.0))
    return UnitCosts(*(float(f"{cost:.3g}") for cost in costs))


@dataclass(frozen=True, slots=True)
class _Run:
    """CPU seconds of a run, its counts of operations, and seconds per combination that a sweep removes from a store."""

    seconds: float
    #: Rows, combinations kept, combinations made, probes, further indexes of rows and combinations.
    counts: list[int]
    delete: float


def _once(case: Case, tree: str, rows: int) -> _Run:
    rng = np.random.default_rng(7)
    seconds = 0.0
    with Session(keep_results=False, keep_memory=True) as session:
        for name in case.streams:
            columns = "".join(f"k{pair} BIGINT, " for pair, _ in case.pairs if name in pair)
            session.execute(f"CREATE STREAM {name} ({columns}ts TIMESTAMP) WITH (time = 'ts')")
        session.query("q", case.sql, plan=tree, jit="off", replan="off")
        for first in range(0, rows, _EPOCH):
            ts = pa.array(np.arange(first, first + _EPOCH) * 1000).cast(pa.timestamp("us"))
            for name in case.streams:
                keys = {
                    f"k{pair}": pa.array(rng.integers(0, values, _EPOCH)) for pair, values in case.pairs if name in pair
                }
                session.push(name, pa.table({**keys, "ts": ts}))
            began = process_time()
            session.step()
            seconds += process_time() - began
        group = next(iter(session.pipeline.groups.values()))
        return _Run(seconds, _counts(group), _swept(group))


def _counts(group: JoinGroup) -> list[int]:
    rows = sum(base.store.end for base in group.bases.values())
    further = sum((len(base.store.indexes) - 1) * base.store.end for base in group.bases.values())
    kept = 0
    for node, store in group.nodes:
        if store is not None:
            kept += node.counters.rows_out
            further += (len(store.store.indexes) - 1) * node.counters.rows_out
    made = sum(node.counters.partials + (node.counters.rows_out if store is None else 0) for node, store in group.nodes)
    return [rows, kept, made, sum(node.counters.probes for node, _ in group.nodes), further]


def _swept(group: JoinGroup) -> float:
    """Seconds per combination that a sweep removes; the sweep removes about half of each intermediate store."""
    found = [float("inf")]
    for kept in group.intermediates:
        if kept.store.live < 1000:
            continue
        middle = int(np.median(kept.store.column("dead")))
        live, began = kept.store.live, perf_counter()
        kept.store.keep(kept.store.column("dead") >= middle)
        found.append((perf_counter() - began) / max(live - kept.store.live, 1))
    return min(found)
