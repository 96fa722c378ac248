"""Budgets and costs: the costs of operations on this machine, and the error of a query that exceeds the budgets.

Answer   `unit_costs()` and `index_costs()` give the costs that `eddyline lab calibrate` kept for this user, else the
         shipped ones. `refuse` is the error of a query for which no tree fits the budgets.
State    A file in the user's configuration folder holds measured costs.
Limits   CPU is seconds per second of event time, memory is bytes. Budgets hold for the job: a join group may use what
         the others leave.
Reading  docs/design/0002-cost-model.md
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from eddyline.errors import PlanProblem
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.tree.cost import UnitCosts
from eddyline.plan.tree.jtree.choice import Choice
from eddyline.settings import Settings

#: Seconds per operation of this engine on one core of a small server.
SHIPPED = UnitCosts(insert=3e-8, delete=1.35e-8, join=3.6e-8, probe=3.1e-8, link=4e-9, arrive=9.4e-8)
#: The same for an index over address bits.
SHIPPED_INDEX = IndexCosts(hash=1.5e-9, run=6.4e-9, visit=7.6e-11)


def costs_path() -> Path:
    """Where measured costs are kept."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "eddyline" / "costs.json"


def unit_costs() -> UnitCosts:
    """The costs to plan with."""
    return _costs()[0]


def index_costs() -> IndexCosts:
    """The costs to choose an index with."""
    return _costs()[1]


def _costs() -> tuple[UnitCosts, IndexCosts]:
    path = costs_path()
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return SHIPPED, SHIPPED_INDEX
    return _read(path, changed)


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int) -> tuple[UnitCosts, IndexCosts]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise PlanProblem(
            f"the unit costs in {path} cannot be read", detail=str(problem), hint="run eddyline lab calibrate"
        ) from problem
    if not isinstance(document, dict) or not isinstance(document.get("costs"), dict):
        raise PlanProblem(f"{path} holds no unit costs", hint="run eddyline lab calibrate")
    # A file that was kept before indexes were measured has no costs for them.
    index = IndexCosts.from_document(document["index"]) if "index" in document else SHIPPED_INDEX
    return UnitCosts.from_document(document["costs"]), index


def keep_costs(costs: UnitCosts, index: IndexCosts, path: Path | None = None) -> Path:
    """Write measured costs to where `unit_costs` and `index_costs` find them."""
    target = path or costs_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"costs": asdict(costs), "index": asdict(index)}, indent=2) + "\n", encoding="utf-8")
    return target


def bytes_text(count: float) -> str:
    """A size as people write it.

    >>> bytes_text(2_000_000_000), bytes_text(1234)
    ('2 GB', '1.23 kB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def cores_text(count: float) -> str:
    return f"{count:.3g} cores"


def amount_text(resource: str, amount: float) -> str:
    """An amount of `cpu` or of `memory`."""
    return cores_text(amount) if resource == "cpu" else bytes_text(amount)


def refuse(
    name: str, settings: Settings, choice: Choice, assumed: tuple[str, ...], on_disk: bool = False
) -> PlanProblem:
    """The error of a query that no tree brings within what is left of the budgets.

    Args:
        name: the query.
        settings: its settings, with the budgets of the job.
        choice: what the search found; its `nearest` tree exceeds least.
        assumed: streams that declare no rate.
        on_disk: the price counts on payload being spilled.
    """
    bound = choice.bound or "cpu"
    used = amount_text(bound, choice.cpu if bound == "cpu" else choice.memory)
    budget = settings.cpu_budget if bound == "cpu" else settings.memory_budget
    allowed = "" if budget is None else amount_text(bound, budget)
    detail = f"{choice.nearest.tree} comes nearest: {used} where the job may use {allowed}, {excess_text(choice)}"
    if on_disk:
        detail += "; that is with payload on disk"
    if assumed:
        detail += f"; the rate of {', '.join(assumed)} is assumed"
    ways = [f"SET {bound}_budget higher", "shorten windows", "SET over_budget = 'warn'"]
    if bound == "memory" and settings.over_budget != "spill":
        ways.append("SET over_budget = 'spill'")
    hint = f"{', '.join(ways[:-1])}, or {ways[-1]}"
    return PlanProblem(
        f"no plan of query {name} fits the {'CPU' if bound == 'cpu' else 'memory'} budget",
        detail=detail,
        hint=hint + ("; CREATE STREAM … WITH (rate = …) says how fast a stream is" if assumed else ""),
    )


def excess_text(choice: Choice) -> str:
    """By how much the nearest tree exceeds what is left."""
    if choice.excess > 1e6:
        return "nothing of which is left"
    return f"{choice.excess:.0%} too much" if choice.excess < 9 else f"{choice.excess + 1:.3g} times as much"
