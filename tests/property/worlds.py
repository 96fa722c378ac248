"""All features at once: random worlds, whose answers depend neither on epochs nor on settings, restarts, kills and
shards.

Answer   `check(world)` is what is wrong with the runs of a world: against the oracle where that knows its queries, and
         against the world's own run in one session otherwise. `python -m tests.property.worlds --minutes 60 --seed 1`
         looks for worlds that fail, shrinks them, and says how many worlds, queries and results it has compared.
Limits   Changes of EMIT ON CHANGE come with epochs: under other epochs the tables that they make in the end are
         compared.
"""

from __future__ import annotations

import sys
import time
import traceback
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from eddyline.language import bind_script
from eddyline.model.query import BoundQuery
from tests.oracle.intake import Values
from tests.property import compare
from tests.property.outer import OuterSpec, TreeSpec, expected_outer, expected_tree
from tests.property.shrink import shrink
from tests.property.specs import QuerySpec
from tests.property.world_flow import random_world
from tests.property.world_model import World, smaller
from tests.property.world_runs import Outcome, lives, sharded, straight

SHOWN = 5
#: What is compared with the straight run, by name: each variant has epochs and settings of its own, those with odd
#: numbers change settings.
RUNS: dict[str, tuple[Callable[[World, int], Outcome], int]] = {
    "epochs": (straight, 1),
    "lives": (lives, 2),
    "changing lives": (lives, 3),
    "shards": (sharded, 4),
    "changing shards": (sharded, 5),
}


@dataclass
class Tally:
    worlds: int = 0
    queries: int = 0
    results: int = 0
    failures: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        failed = f"failed: {self.failures}" if self.failures else "none failed"
        return f"{self.worlds:,} worlds, {self.queries:,} queries, {self.results:,} results compared; {failed}"


def runs_of(world: World) -> tuple[str, ...]:
    """Shards are dear: every fourth world has one of their runs."""
    dear = {0: ("shards",), 4: ("changing shards",)}.get(world.seed % 8, ())
    return (*(name for name in RUNS if "shards" not in name), *dear)


def check(world: World, runs: Sequence[str] = (), tally: Tally | None = None) -> list[str]:
    """What is wrong, as readable lines."""
    base = straight(world)
    found = [f"oracle: {line}" for line in _against_oracle(world, base)]
    bound = {
        q.name: q for q in bind_script(";\n".join(world.statements(frozenset(q.name for q in world.queries)))).queries
    }
    if world.final:
        found += [f"heartbeat: {line}" for line in _against_heartbeats(world, bound, base)]
    for name in runs or runs_of(world):
        run, variant = RUNS[name]
        other = run(world, variant)
        found += [f"{name}: {line}" for line in differences(world, bound, base, other)]
        if tally is not None:
            tally.results += sum(map(len, other.results.values()))
    if tally is not None:
        tally.worlds += 1
        tally.queries += len(world.results)
    return found


def differences(world: World, bound: dict[str, BoundQuery], base: Outcome, other: Outcome) -> list[str]:
    found: list[str] = []
    for name in world.results:
        if any(f"query {name} does not fit the shards" in why for why in other.refused):
            continue
        right, given = base.results.get(name, []), other.results.get(name, [])
        query = bound.get(name)
        stamps = [row["_ts"] for row in given]
        if stamps != sorted(stamps):
            found.append(f"{name}: _ts goes back")
        if name != "asks" and query is not None and query.is_changelog and query.emit.kind == "change":
            lines = _differing(made(query, right), made(query, given))
        else:
            lines = _differing(_bag(right), _bag(given))
        if lines:
            found += [f"{name} differs: {'' if query is None else query.text}", *lines]
    for name in world.streams:
        dead = [
            Counter((reason, str(row["id"])) for reason, row in outcome.dead.get(name, [])) for outcome in (base, other)
        ]
        lines = _differing(*dead)
        if lines:
            found += [f"dead letters of {name} differ", *lines]
    return found


def made(query: BoundQuery, changes: Sequence[Values]) -> Counter[object]:
    """The table that a changelog makes: rows by group, or a bag of rows where rows are ranked."""
    bag: Counter[object] = Counter()
    grouped = query.ranking is None
    keys = [o.name for o in query.outputs if query.distinct or o.expression in query.group_by]
    table: dict[object, object] = {}
    for change in changes:
        row = _plain(change, [name for name in change if name not in ("_op", "_ts")])
        if grouped:
            group = _plain(change, keys)
            if change["_op"] == "+":
                table[group] = row
            else:
                table.pop(group)
        elif change["_op"] == "+":
            bag[row] += 1
        else:
            bag[row] -= 1
    return +(Counter(table.values()) if grouped else bag)


def _plain(row: Values, names: Sequence[str]) -> object:
    return tuple((name, _value(row[name])) for name in names)


def _value(value: object) -> object:
    if isinstance(value, float):
        return f"{value + 0.0:.9g}"
    return str(value) if isinstance(value, list) else value


def _bag(rows: Sequence[Values]) -> Counter[object]:
    return Counter(_plain(row, list(row)) for row in rows)


def _differing(right: Counter[object], given: Counter[object]) -> list[str]:
    missing, extra = list((right - given).elements()), list((given - right).elements())
    return [*(f"  missing {row}" for row in missing[:SHOWN]), *(f"  extra {row}" for row in extra[:SHOWN])]


def _against_heartbeats(world: World, bound: dict[str, BoundQuery], base: Outcome) -> list[str]:
    """The end of the streams gives what heartbeats far ahead give, where neither *now* nor the number of rows decides."""
    beaten = straight(world, beat=True)
    compared = {name: query for name, query in bound.items() if not any(m.is_changelog for m in (*query.makers, query))}
    compared = {n: q for n, q in compared.items() if not (world.promised or _counts_rows(world, q))}
    found = []
    for name, query in compared.items():
        lines = _differing(_bag(beaten.results.get(name, [])), _bag(base.results.get(name, [])))
        found += [f"{name} differs: {query.text}", *lines] if lines else []
    return found


def _counts_rows(world: World, query: BoundQuery) -> bool:
    text = " ".join([query.text, *world.before])
    return "ROWS" in text and any(word in text for word in ("LEFT", "RIGHT", "FULL", "EXISTS"))


def _against_oracle(world: World, base: Outcome) -> list[str]:
    if world.promised:
        return []
    case = world.case(world.cuts(0))
    plain = [spec for spec in case.queries if isinstance(spec, QuerySpec)]
    alone = replace(case, queries=tuple(plain))
    outcome = compare.Outcome(base.results)
    found = [
        line
        for line in compare.differences(alone, outcome, compare.expected(alone))
        if not line.startswith(("stream ", "  missing (", "  extra ("))
    ]
    for spec in case.queries:
        if isinstance(spec, OuterSpec | TreeSpec):
            one = replace(case, queries=(spec,))  # type: ignore[arg-type]
            right = (expected_outer if isinstance(spec, OuterSpec) else expected_tree)(one)
            names = [name for name, _ in spec.join.outputs]
            lines = _differing(
                Counter((ts, compare.canonical(values)) for ts, values in right),
                Counter((row["_ts"], compare.canonical([row[n] for n in names])) for row in base.results[spec.name]),
            )
            found += [f"{spec.name}: {spec.statements()}", *lines] if lines else []
    return found


# -- looking for counterexamples


def failing(world: World, runs: Sequence[str] = ()) -> list[str]:
    """What is wrong with a world, an error of the engine included."""
    try:
        return check(world, runs)
    except Exception as problem:
        return [f"{type(problem).__name__}: {problem}", *traceback.format_exc().splitlines()[-8:]]


def _kind(lines: Sequence[str]) -> str:
    """The run that fails, and how: a world is shrunk for that."""
    return f"{lines[0].split(':')[0]}: {'dead' if 'dead letters' in lines[0] else 'results'}" if lines else ""


def report(seed: int, seconds: float = 60.0) -> str:
    """The smallest world that is found to fail as the one with this seed does."""
    world = random_world(seed)
    first = failing(world)
    if not first:
        return f"random_world({seed}) does not fail"
    run = first[0].split(":")[0]
    runs = (run,) if run in RUNS else ()
    world = shrink(
        world, lambda one: _sound(one) and _kind(failing(one, runs)) == _kind(first), seconds=seconds, smaller=smaller
    )
    lines = [
        f"random_world({seed}), made small",
        *failing(world, runs),
        "",
        *(f"  {s};" for s in world.statements(world.first)),
    ]
    lines += [f"  {q.statement}  -- comes later" for q in world.queries if q.name not in world.first]
    return "\n".join([*lines, *map(str, world.flow), f"cuts {[sorted(world.cuts(v)) for v in range(6)]}"])


def _sound(world: World) -> bool:
    """Whether the statements of a world can be carried out."""
    try:
        bind_script(";\n".join(world.statements(frozenset(q.name for q in world.queries))))
    except Exception:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(description="look for random worlds whose answers depend on what they must not depend on")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds per failing world")
    given = parser.parse_args(arguments)
    until = time.monotonic() + 60 * given.minutes
    tally, seed, said = Tally(), given.seed, time.monotonic()
    while time.monotonic() < until:
        world = random_world(seed)
        try:
            wrong = check(world, tally=tally)
        except Exception as problem:
            wrong = [f"{type(problem).__name__}: {problem}"]
        if wrong:
            tally.failures.append(seed)
            print(
                f"seed {seed} fails: {wrong[:3]}",
                *([report(seed, given.shrink)] if given.shrink else []),
                sep="\n",
                flush=True,
            )
        seed += 1
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"up to seed {seed}: {tally}", flush=True)
    print(tally)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
