"""What demand costs and saves on this machine: the unit costs that `auto` weighs, measured.

Answer   `python bench/papers/just-in-time/costs.py` times the parts of a just-in-time join over random rows and writes
         `results/costs.json`: nanoseconds per combination made (probed, joined, stored under one index, purged, and met
         by its consumer), per question asked, per opposite row that may be new, per row touched in order to resume,
         per combination resumed, per row scanned, and per epoch and condition whatever
         the rows. `operators/join/demand/edge.py` has them as ratios.
Limits   CPU time of this process, medians of several rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np
import pyarrow as pa

from bench import harness
from eddyline import Session
from eddyline.operators.join.demand.gathering import Gathering
from eddyline.operators.join.demand.node_demand import NodeDemand
from eddyline.operators.join.demand.novelty import Novelty
from eddyline.operators.join.demand.policy import Demand
from eddyline.operators.join.demand.waking import woken_pairs
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.policy import NodeOutput
from eddyline.operators.join.probing.probing import found_pairs
from eddyline.state.columns import Ints

HERE = Path(__file__).parent
ROUNDS = 7
WINDOW, ROWS, VALUES = 12_000, 3_000, 200
COLUMNS = ["ab", "ac", "bc"]


def session(jit: str, rows: int = ROWS, epochs: int = 8, values: int = VALUES) -> Session:
    """((a b) c) over a clique, some epochs in: the windows are full. `values`: of the key that a and b share."""
    made = Session()
    made.set("plan", "((a b) c)")
    made.set("jit", jit)
    for stream in "abc":
        columns = ", ".join(f"x_{pair} BIGINT" for pair in COLUMNS if stream in pair)
        made.execute(f"CREATE STREAM {stream} ({columns}, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')")
    where = " AND ".join(f"{x}.x_{x}{y} = {y}.x_{x}{y}" for x, y in ("ab", "ac", "bc"))
    window = f"[RANGE {WINDOW} SECONDS]"
    made.execute(f"CREATE QUERY q AS SELECT a.ts AS t FROM a {window}, b {window}, c {window} WHERE {where}")
    rng = np.random.default_rng(5)
    for epoch in range(epochs):
        push(made, rng, epoch * rows, rows, values)
        made.step()
    return made


def push(into: Session, rng: np.random.Generator, start: int, rows: int, values: int = VALUES) -> None:
    ts = ((start + np.arange(rows)) * 1_000_000).astype("datetime64[us]")
    for stream in "abc":
        columns = {
            f"x_{pair}": rng.integers(0, values if pair == "ab" else VALUES, rows) for pair in COLUMNS if stream in pair
        }
        into.push(stream, pa.table({**columns, "ts": ts}))


def group_of(made: Session) -> JoinGroup:
    return next(iter(made.driver.pipeline.groups.values()))


def demand_of(group: JoinGroup) -> NodeDemand:
    policy = group.policy(Demand)
    assert policy is not None
    return next(iter(policy.demands.values()))


def same(reference: int, ranks: Ints) -> Ints:
    return ranks


def cpu(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    work()
    times = []
    for _ in range(rounds):
        began = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - began)
    return float(median(times))


def made_and_kept() -> tuple[float, float]:
    """Nanoseconds per combination of making and keeping it, and of what its consumer does with it."""
    with session("off") as one:
        group = group_of(one)
        node, kept = group.nodes[0]
        root = group.nodes[1][0]
        assert kept is not None
        fresh = {s: (group.bases[n].store.end - ROWS, group.bases[n].store.end) for n, s in enumerate("abc")}
        new = [group.bases[n].fresh(*fresh[s]) for n, s in enumerate("ab")]

        def make() -> int:
            pieces = list(node.produce(new, JoinSlice(fresh, same), True))
            for piece in pieces:
                kept.add(piece)
            end = kept.store.end
            # Purging sweeps over what is live about four times in the life of a combination.
            kept.store.keep(np.arange(kept.store.live) < kept.store.live - sum(map(len, pieces)))
            assert kept.store.end == end
            return sum(map(len, pieces))

        made = list(node.produce(new, JoinSlice(fresh, same), True))
        number = sum(map(len, made))
        making = cpu(make) / number
        using = (
            cpu(lambda: [list(root.produce([piece, None], JoinSlice(fresh, same), False)) for piece in made]) / number
        )
        return making, using


def resumed(values: int) -> tuple[float, int, int]:
    """Nanoseconds per row touched in order to resume, rows touched, and pairs found."""
    with session("exact", values=values) as one:
        group = group_of(one)
        demand, last = demand_of(group), group.bases[2].store.end
        novelty = Novelty.of(JoinSlice({"c": (last - ROWS, last)}, same), group.bases.values())
        assert novelty is not None
        gathering = Gathering(demand.node, group.bases[2], ())
        pairs = woken_pairs(
            gathering, demand.conditions.all[0].novel(last - ROWS, last, novelty.low), novelty.low, same, None
        )
        assert pairs is not None
        before = demand.edge.woken
        nanoseconds = cpu(lambda: demand.resuming.wake(novelty, novelty.low, NodeOutput(None)))
        touched = (demand.edge.woken - before) // (ROUNDS + 1)
        return nanoseconds / touched, touched, len(pairs[0])


def main() -> None:
    making, using = made_and_kept()
    with session("exact") as one:
        group = group_of(one)
        demand = demand_of(group)
        node, condition = demand.node, demand.conditions.all[0]
        base = group.bases
        fresh = {s: (base[n].store.end - ROWS, base[n].store.end) for n, s in enumerate("abc")}
        rows = [base[n].fresh(*fresh[s]) for n, s in enumerate("ab")]
        step = node.steps(0, node.orders[0])[0]
        other = node.inputs[step.input]
        probe = node.probe(0, 0, True, step, rows[0], JoinSlice(fresh, same))
        bounds = (probe.hashes, probe.limits, probe.floors)
        plain = cpu(lambda: found_pairs(other, step, False, *bounds))
        found = found_pairs(other, step, False, *bounds)
        pairs = len(found.left)
        asking = cpu(lambda: demand.holding.probe(probe))
        joined = node.joined(probe, found, None, True)
        alone = cpu(lambda: condition.passes(joined)) / len(joined)
        novel = cpu(lambda: condition.novel(*fresh["c"], int(rows[0].clock[0]))) / ROWS
        scan = cpu(lambda: found_pairs(other, step, True, *(bound[:200] for bound in bounds))) / (
            200 * other.store.live
        )
    waking = resumed(VALUES**3)[0]
    total, touched, woken = resumed(VALUES)
    resuming = (total * touched - waking * touched) / woken
    few, fixed = 5, {}
    for jit in ("off", "exact"):
        with session(jit, few, 100) as one:
            rng = np.random.default_rng(1)
            at = [100 * few]

            def advance(one: Session = one, rng: np.random.Generator = rng, at: list[int] = at) -> None:
                push(one, rng, at[0], few)
                at[0] += few
                one.step()

            fixed[jit] = cpu(advance, 101)
    costs = {
        "make_ns": round(making, 1),
        "use_ns": round(using, 1),
        "check_on_the_way_ns": round((asking - plain) / pairs, 1),
        "check_ns": round(alone, 1),
        "novel_ns": round(novel, 1),
        "wake_ns": round(waking, 1),
        "resume_ns": round(resuming, 1),
        "scan_ns": round(scan, 2),
        "fixed_ns": round(fixed["exact"] - fixed["off"], 1),
    }
    for name, value in costs.items():
        print(f"{name:22} {value:12,.1f}")
    harness.write(HERE / "results" / "costs.json", "unit costs of demand", costs)


if __name__ == "__main__":
    main()
