"""Event patterns against the same pattern as a self-join on the trace, which the join engine answers.

Patterns of SEQ and AND with conditions and WITHIN; event times are distinct, so that the order of events is that of
their times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from random import Random

import pytest

from eddyline.session import Session
from tests.seeds import cases, first_seed, is_whole

CASES = cases(150)
TYPES = "ABC"
STREAM = "CREATE STREAM s (k BIGINT, j BIGINT, type STRING, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');"


@dataclass
class _Drawn:
    """An expression, with what it says of its names as conditions of a join."""

    rng: Random
    names: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)

    def node(self, depth: int) -> tuple[str, list[str]]:
        """Its text, and its names."""
        if not depth or self.rng.random() < 0.25:
            return self._leaf()
        operator = self.rng.choice(["SEQ", "SEQ", "AND"])
        members = [self.node(depth - 1) for _ in range(2 if len(self.names) > 1 else self.rng.choice([2, 3]))]
        if operator == "SEQ":
            for (_, before), (_, after) in combinations(members, 2):
                self.conditions += [f"{a}.ts < {b}.ts" for a in before for b in after]
        return f"{operator}({', '.join(text for text, _ in members)})", [n for _, names in members for n in names]

    def _leaf(self) -> tuple[str, list[str]]:
        name, kind = f"x{len(self.names)}", self.rng.choice(TYPES)
        self.names.append(name)
        self.conditions.append(f"{name}.type = '{kind}'")
        if self.rng.random() < 0.7:
            return f"{kind} {name}", [name]
        bound = self.rng.randrange(4)
        self.conditions.append(f"{name}.v > {bound}")
        return f"{kind}[v > {bound}] {name}", [name]


def statements(rng: Random) -> str:
    drawn = _Drawn(rng)
    text, names = drawn.node(2)
    where, within = "", ""
    if len(names) > 1 and rng.random() < 0.4:
        condition = f"{names[0]}.v {rng.choice(['=', '<', '>='])} {names[-1]}.v"
        where = f" WHERE {condition}"
        drawn.conditions.append(condition)
    if rng.random() < 0.5:
        span = rng.choice([2, 5, 9])
        within = f" WITHIN {span} SECONDS"
        pairs = [(a, b) for a in names for b in names if a != b]
        drawn.conditions += [f"{a}.ts - {b}.ts <= INTERVAL {span} SECONDS" for a, b in pairs]
    returned = ", ".join(f"{n}.j AS {n}" for n in names)
    drawn.conditions += [f"{names[0]}.k = {n}.k" for n in names[1:]]
    streams = ", ".join(f"s [UNBOUNDED] {n}" for n in names)
    return (
        f"CREATE QUERY pattern AS EVENT {text} FROM s TYPE type PARTITION BY k{where}{within} RETURN {returned};"
        f"CREATE QUERY joined AS SELECT {returned} FROM {streams} WHERE {' AND '.join(drawn.conditions)};"
    )


@pytest.mark.property
def test_a_pattern_is_a_self_join_on_the_trace() -> None:
    matched = 0
    for seed in range(first_seed(17_800), first_seed(17_800) + CASES):
        rng = Random(seed)
        text = statements(rng)
        with Session() as session:
            session.execute(STREAM + text)
            for at in range(12):
                row = {
                    "k": rng.randrange(2),
                    "j": at,
                    "type": rng.choice(TYPES),
                    "v": rng.choice([None, 1, 2, 3, 4]),
                    "ts": at * 1_000_000,
                }
                session.push("s", [row])
                if rng.random() < 0.3:
                    session.step_pending()
            session.run(once=True, final=False)
            found, wanted = (sorted(map(repr, session.queries[n].table().to_pylist())) for n in ("pattern", "joined"))
        assert found == wanted, f"seed {seed}: {text}"
        matched += bool(found)
    assert matched > CASES // 3 or not is_whole()
