"""Any plan to any plan at any moment: answers unchanged.

Answer   Random cases, run as in `embedded.py`; between steps every join group is replanted with a random tree and
         random probe orders, as often as not.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from eddyline import Session
from eddyline.model.joining import Tree, leaves
from eddyline.operators.join.group import JoinGroup
from eddyline.plan.tree.tree_choice import Orders
from tests.property.compare import Outcome, check_case
from tests.property.embedded import run_embedded
from tests.property.specs import Case
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed

BLOCK = 50
BLOCKS = cases(4, soak=8)
FIRST = first_seed(700_000)


def random_tree(rng: Random, streams: list[int], tables: list[int]) -> Tree:
    """A random tree; every node has a stream below it, because tables alone never speak."""
    streams, tables = rng.sample(streams, len(streams)), rng.sample(tables, len(tables))
    if len(streams) + len(tables) == 1:
        return streams[0]
    here = [table for table in tables if rng.random() < 0.5 or len(streams) == 1]
    below = [table for table in tables if table not in here]
    count = 1 if len(streams) == 1 else rng.randint(2, len(streams))
    parts: list[tuple[list[int], list[int]]] = [([stream], []) for stream in streams[:count]]
    for stream in streams[count:]:
        rng.choice(parts)[0].append(stream)
    for table in below:
        rng.choice(parts)[1].append(table)
    branches: list[Tree] = [random_tree(rng, *part) for part in parts] + list(here)
    rng.shuffle(branches)
    return branches[0] if len(branches) == 1 else tuple(branches)


def random_orders(rng: Random, tree: Tree) -> Orders:
    if isinstance(tree, int):
        return ()
    places = range(len(tree))
    mine = tuple(tuple(rng.sample([p for p in places if p != origin], len(tree) - 1)) for origin in places)
    below = tuple(entry for branch in tree for entry in random_orders(rng, branch))
    return (*below, (tuple(sorted(leaves(tree))), mine))


def replant_some(session: Session, rng: Random) -> int:
    moved = 0
    for group in session.pipeline.groups.values():
        if isinstance(group, JoinGroup) and len(group.config.seats) > 1 and rng.random() < 0.5:
            seats = list(enumerate(group.config.seats))
            tree = random_tree(rng, [p for p, s in seats if not s.is_table], [p for p, s in seats if s.is_table])
            session.pipeline.replant(group, tree, random_orders(rng, tree) if rng.random() < 0.7 else ())
            moved += 1
    return moved


def run_migrating(case: Case, rng: Random, moves: list[int]) -> Outcome:
    return run_embedded(case, lambda session: moves.append(replant_some(session, rng)))


def spill_some(session: Session, rng: Random, folder: Path) -> int:
    stores = [store for _, store in session.pipeline.spilling.stores() if rng.random() < 0.5]
    return sum(store.spill(folder, least_rows=1) != 0 for store in stores)


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(2)))
def test_payload_on_disk_never_changes_the_answer(block: int, tmp_path: Path) -> None:
    spilt: list[int] = []
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)

        def run(case: Case, rng: Random = rng) -> Outcome:
            return run_embedded(case, lambda session: spilt.append(spill_some(session, rng, tmp_path)))

        try:
            check_case(random_case(Random(seed)), run)
        except Exception as problem:
            raise AssertionError(f"random_case(Random({seed})), spilling with Random({seed})") from problem
    assert sum(spilt) > BLOCK


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_plan_changes_never_change_the_answer(block: int) -> None:
    moves: list[int] = []
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        try:
            check_case(random_case(Random(seed)), lambda case, seed=seed: run_migrating(case, Random(seed), moves))
        except Exception as problem:
            raise AssertionError(f"random_case(Random({seed})), migrating with Random({seed})") from problem
    assert sum(moves) > BLOCK
