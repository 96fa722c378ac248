"""The rule of punctuations in `promises.py` against all rows that could come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from random import Random

import pytest

from tests.oracle.promises import Placed, Promise, Reference, World

VALUES = (0, 1, 2)
NOW = 1000


def drawn(rng: Random, cyclic: bool, wide: bool) -> World:
    """Two or three references; where the graph has no cycle, each equality has columns of its own."""
    edges = [("r0", "r1"), ("r1", "r2"), ("r0", "r2")][: 3 if cyclic else rng.choice((1, 2))]
    names = sorted({name for edge in edges for name in edge})
    equalities = [(a, "kj"[place % 2], b, "kj"[place % 2]) for place, (a, b) in enumerate(edges)]
    rows, promises = [], []
    for position, name in enumerate(names):
        for n in range(rng.randrange(4)):
            rows.append(Placed(name, {"k": rng.choice(VALUES), "j": rng.choice(VALUES)}, (n, position, n)))
        for _ in range(rng.randrange(5)):
            columns = "kj" if wide and rng.random() < 0.4 else rng.choice("kj")
            promises.append(Promise(name, tuple((column, rng.choice(VALUES)) for column in columns), (NOW - 1, 0, 0)))
    return World([Reference(name, name) for name in names], equalities, rows, promises)


def can_come(world: World, roots: Mapping[str, Mapping[str, object]]) -> bool:
    """Whether some rows that no promise forbids, 9 among their values, would make a result with the root and a new
    row."""
    choices = []
    for reference in world.references:
        new = [dict(zip("kj", values, strict=True)) for values in product((*VALUES, 9), repeat=2)]
        new = [row for row in new if not any(p.stream == reference.stream and p.covers(row) for p in world.promises)]
        rows = [(False, row.values) for row in world.rows if row.stream == reference.stream] + [
            (True, row) for row in new
        ]
        fixed = roots.get(reference.alias, {})
        choices.append(
            [(is_new, row) for is_new, row in rows if all(row[column] == value for column, value in fixed.items())]
        )
    for chosen in product(*choices):
        one = {reference.alias: row for reference, (_, row) in zip(world.references, chosen, strict=True)}
        if any(is_new for is_new, _ in chosen) and all(one[a][x] == one[b][y] for a, x, b, y in world.equalities):
            return True
    return False


@pytest.mark.parametrize(("cyclic", "wide"), [(False, False), (False, True), (True, False), (True, True)])
def test_the_rule_says_what_can_come(cyclic: bool, wide: bool) -> None:
    """Exact without cycles and with patterns of one column; otherwise a root that can get a result counts as alive."""
    found: Counter[tuple[bool, bool]] = Counter()
    for seed in range(120):
        world = drawn(Random(seed), cyclic, wide)
        for value in VALUES:
            for roots in (
                {"r0": {"k": value}, "r1": {"k": value}},
                {"r1": {"j": value}} if len(world.references) == 2 else {},
            ):
                if roots:
                    found[world.value_is_alive(roots, NOW), can_come(world, roots)] += 1
    assert found[True, True] > 50 and found[False, False] > 25
    assert found[False, True] == 0
    if not cyclic and not wide:
        assert found[True, False] == 0
