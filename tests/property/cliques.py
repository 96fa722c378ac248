"""Random cliques: every pair of streams joined on a column of its own, few values, short windows, any tree.

Answer   `clique_case(rng)` is a case in which rows are suspended and resumed often: 2 to 4 values, windows of a few
         ticks that may differ, bushy, left-deep and random trees, epochs from one row to all. `SetCase` runs a case
         under settings.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import combinations
from random import Random

import numpy as np

from eddyline.kernels import hashing
from tests.oracle.expressions import Call, Col, Lit
from tests.property.specs import Case, Last, QuerySpec, Range, Reference, Row, StreamSpec, Unbounded

SECOND = 1_000_000
_MOST_ROWS = {3: 16, 4: 11, 5: 8}
MODES = ("exact", "bloom", "auto")
CONTROLS = ("probes", "chain", "one-sided", "auto")


@dataclass(frozen=True)
class SetCase(Case):
    settings: tuple[tuple[str, str], ...] = ()

    def statements(self, directory: str = ".") -> list[str]:
        return [f"SET {name} = '{value}'" for name, value in self.settings] + super().statements(directory)


def under(case: Case, **settings: str) -> SetCase:
    plain = {field.name: getattr(case, field.name) for field in fields(Case)}
    return SetCase(**plain, settings=tuple(settings.items()))


def clique_case(rng: Random) -> Case:
    size = rng.choices((3, 4, 5), (4, 5, 2))[0]
    names = "abcde"[:size]
    pairs = list(combinations(names, 2))
    # Now and then a pair is left unjoined: a star, a chain, or a cross product on the way.
    joined = [pair for pair in pairs if rng.random() < 0.9] if rng.random() < 0.4 else pairs
    values = rng.choice((2, 2, 3, 4))
    last_values = values * rng.choice((1, 1, 3))
    streams = [
        StreamSpec(name, (*((column(name, other), "BIGINT") for other in names if other != name), ("ts", "TIMESTAMP")))
        for name in names
    ]
    where = tuple(Call("=", (Col(x, column(x, y), "BIGINT"), Col(y, column(y, x), "BIGINT"))) for x, y in joined)
    if rng.random() < 0.15:
        x, y = rng.sample(names, 2)
        where += (Call("<=", (Col(x, "ts", "TIMESTAMP"), Col(y, "ts", "TIMESTAMP"))),)
    if rng.random() < 0.15:
        x = rng.choice(names)
        where += (Call("<>", (Col(x, column(x, next(n for n in names if n != x)), "BIGINT"), Lit(1, "BIGINT"))),)
    queries = [_query(rng, f"q{i}", names, where) for i in range(rng.choices((1, 2), (4, 1))[0])]
    if len(queries) == 2 and rng.random() < 0.6:
        # The same joins under the same tree: one group serves both.
        queries[1] = QuerySpec(
            "q1", queries[1].references, where, queries[1].outputs, plan=queries[0].plan, probe=queries[0].probe
        )
    rows = _rows(rng, names, size, values, last_values)
    case = Case(tuple(streams), tuple(queries), _epochs(rng, rows), label="clique")
    return paced(case) if rng.random() < 0.6 else case


def paced(case: Case) -> Case:
    """The case with a row of nulls in every stream after each epoch: it joins nothing, and the frontier follows the
    rows closely.

    Without it the frontier waits for the slowest stream, and rows that came in many epochs are joined in one.
    """
    arrivals = []
    for epoch in case.arrivals:
        now = max(row[-1] for _, rows in epoch for row in rows)
        taken = dict(epoch)
        arrivals.append(
            tuple((s.name, (*taken.get(s.name, ()), (*(None for _ in s.columns[1:]), now))) for s in case.streams)
        )
    return replace(case, arrivals=tuple(arrivals))


def colliding(case: Case, first: str, second: str) -> Case:
    """The case with other values in two kinds of columns: the i-th value of the one and the i-th of the other hash
    alike for every i."""
    u, v = colliding_values()
    words = {first: u, second: v}
    places = {s.name: [words.get(name) for name, _ in s.columns] for s in case.streams}

    def changed(stream: str, row: Row) -> Row:
        return tuple(
            value if w is None or value is None else w[value] for value, w in zip(row, places[stream], strict=True)
        )

    arrivals = tuple(
        tuple((name, tuple(changed(name, row) for row in rows)) for name, rows in epoch) for epoch in case.arrivals
    )
    return replace(case, arrivals=arrivals)


def colliding_values(most: int = 16) -> tuple[list[int], list[int]]:
    """Values u and v such that all composite keys (u[i], v[i]) have one hash."""
    gold, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    u = list(range(most))
    mixed = [int(word) & mask for word in hashing.mix_all(np.array(u, np.int64))]
    v = [_unmixed((12345 - m * gold) & mask) for m in mixed]
    return u, v


def _unmixed(word: int) -> int:
    """The integer that `hashing.mix` makes this word of."""
    mask = (1 << 64) - 1
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        whole = word
        for _ in range(3):
            whole = word ^ (whole >> shift)
        word = whole * pow(factor, -1, 1 << 64) & mask
    return word - (1 << 64) if word >> 63 else word


def column(own: str, other: str) -> str:
    return "x_" + "".join(sorted(own + other))


def _query(rng: Random, name: str, names: str, where: tuple[Call, ...]) -> QuerySpec:
    same = _window(rng)
    differ = rng.random() < 0.6
    references = tuple(Reference(n, n, _window(rng) if differ else same) for n in names)
    outputs = tuple((f"t_{n}", Col(n, "ts", "TIMESTAMP")) for n in names)
    return QuerySpec(
        name, references, where, outputs, plan=_tree(rng, names), probe=rng.choice(("hash", "hash", "loop"))
    )


def _window(rng: Random) -> Range | Last | Unbounded:
    kind = rng.random()
    if kind < 0.75:
        return Range(SECOND * rng.choice((2, 4, 6, 10, 16)))
    return Last(rng.choice((1, 2, 4))) if kind < 0.85 else Unbounded()


def _tree(rng: Random, names: str) -> str:
    order = rng.sample(names, len(names))
    kind = rng.random()
    if kind < 0.3:
        tree = f"({order[0]} {order[1]})"
        for name in order[2:]:
            tree = f"({tree} {name})"
        return tree
    if kind < 0.7 and len(order) >= 4:
        tree = f"(({order[0]} {order[1]}) ({order[2]} {order[3]}))"
        return tree if len(order) == 4 else f"({tree} {order[4]})" if rng.random() < 0.5 else f"({order[4]} {tree})"
    return _random_tree(rng, order)


def _random_tree(rng: Random, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    cuts = sorted(rng.sample(range(1, len(names)), rng.randint(1, min(2, len(names) - 1))))
    parts = [names[a:b] for a, b in zip([0, *cuts], [*cuts, len(names)], strict=True)]
    return f"({' '.join(_random_tree(rng, part) for part in parts)})"


def _rows(rng: Random, names: str, size: int, values: int, last_values: int) -> list[tuple[str, Row]]:
    rows: list[tuple[str, Row]] = []
    ts = 0
    weights = [rng.choice((1, 1, 2, 4)) for _ in names]
    for _ in range(rng.randint(4, _MOST_ROWS[size] * size)):
        ts += SECOND * rng.choice((0, 1, 1, 2))
        name = rng.choices(names, weights)[0]
        most = last_values if name == names[-1] else values
        rows.append((name, (*(rng.randint(1, most) for _ in names[1:]), ts)))
    return rows


def _epochs(rng: Random, rows: list[tuple[str, Row]]) -> tuple[tuple[tuple[str, tuple[Row, ...]], ...], ...]:
    least, largest = rng.choices(((1, 1), (1, 6), (5, 20), (10**6, 10**6)), (30, 40, 20, 10))[0]
    epochs, at = [], 0
    while at < len(rows):
        size = rng.randint(least, largest)
        taken: dict[str, list[Row]] = {}
        for name, row in rows[at : at + size]:
            taken.setdefault(name, []).append(row)
        epochs.append(tuple((name, tuple(r)) for name, r in taken.items()))
        at += size
    return tuple(epochs)
