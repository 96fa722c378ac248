"""Random event patterns, constraints and streams, as SQL for the engine and as plain data for the oracle.

Answer   `random_case(rng)` draws one; `Case.text` are its statements, `Case.answer` what the oracle says of it.
Limits   Few types, traces and events: most cases have matches, violations and pruned runs, and every assignment can be
         tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from eddyline.model.patterns.constraint import Rule
from tests.oracle import patterns as oracle

TYPES = "ABCDEF"
STREAM = "CREATE STREAM s (k BIGINT, j STRING, type STRING, v BIGINT, u STRING, ts TIMESTAMP) WITH (time = 'ts');"
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("j", pa.string()),
        ("type", pa.string()),
        ("v", pa.int64()),
        ("u", pa.string()),
        ("ts", pa.timestamp("us")),
    ]
)
_COMPARE = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass
class Drawn:
    """A query as text and as the oracle's data."""

    name: str
    text: str
    query: oracle.Query
    outputs: tuple[str, ...]


@dataclass
class Case:
    rows: list[dict[str, Any]]
    rules: list[Rule]
    queries: list[Drawn]
    partition: tuple[str, ...]

    @property
    def book(self) -> str:
        by = f" PARTITION BY {', '.join(self.partition)}" if self.partition else ""
        return f"s TYPE type{by}"

    @property
    def constraints(self) -> str:
        return f"CREATE CONSTRAINTS c ON {self.book} ({', '.join(map(str, self.rules))});" if self.rules else ""

    def create(self, query: Drawn, options: str = "") -> str:
        return f"CREATE QUERY {query.name}{options} AS {query.text};"

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, SCHEMA)

    def answer(
        self, query: Drawn, check: bool = True, start: int | None = None, upto: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Per result the row number that each name is bound to, then `_ts`."""
        found = oracle.answer(query.query, self.rows, self.rules, self.partition, check=check, start=start, upto=upto)
        return [(*(m.bound.get(n) for n in query.outputs), m.ts) for m in found]

    def violations(self) -> list[int]:
        return oracle.cut(self.rows, self.rules, self.partition, "type", "ts").violations


@dataclass
class _Draw:
    rng: Random
    names: list[str] = field(default_factory=list)
    within: int | None = None
    #: The types of the leaves so far.
    kinds: list[str] = field(default_factory=list)

    def leaf(self, taken: set[str]) -> tuple[str, oracle.Leaf]:
        kind = self.rng.choice(TYPES)
        self.kinds.append(kind)
        again = [n for n in self.names if n not in taken]
        name = self.rng.choice(again) if again and self.rng.random() < 0.5 else f"x{len(self.names)}"
        if name not in self.names:
            self.names.append(name)
        taken.add(name)
        if self.rng.random() < 0.7:
            return f"{kind} {name}", oracle.Leaf(kind, name)
        operator, bound = self.rng.choice(list(_COMPARE)), self.rng.randrange(4)
        compare = _COMPARE[operator]
        return f"{kind}[v {operator} {bound}] {name}", oracle.Leaf(
            kind, name, lambda row: row["v"] is not None and compare(row["v"], bound)
        )

    def node(self, depth: int, taken: set[str], top: bool = False) -> tuple[str, oracle.Node]:
        """An expression; `taken` are names of other parts of the same conjunction."""
        operator = self.rng.choice(["SEQ", "SEQ", "AND", "OR", "leaf"]) if depth else "leaf"
        if top and depth and operator == "leaf":
            operator = "SEQ"
        if operator == "leaf":
            return self.leaf(taken)
        members: list[tuple[str, oracle.Node]] = []
        count = self.rng.choice([2, 2, 3])
        if operator == "OR":
            given, used = set(taken), set(taken)
            for _ in range(count):
                own = set(given)
                members.append(self.node(depth - 1, own, top))
                used |= own
            taken |= used
        else:
            for at in range(count):
                members.append(self.node(depth - 1, taken))
                while operator == "SEQ" and at < count - 1 and self.rng.random() < 0.2:
                    members.append(self._negated(taken))
            while operator == "SEQ" and top and self.within is not None and self.rng.random() < 0.25:
                members.append(self._negated(taken))
        return f"{operator}({', '.join(text for text, _ in members)})", oracle.Group(
            operator, tuple(node for _, node in members)
        )

    def _negated(self, taken: set[str]) -> tuple[str, oracle.Node]:
        # Half of them have the type of another leaf: its events are both.
        kind = self.rng.choice(self.kinds if self.rng.random() < 0.5 else TYPES)
        name = f"n{len(self.names)}{self.rng.randrange(1000)}"
        while name in taken:
            name += "x"
        taken.add(name)
        return f"NOT({kind} {name})", oracle.Group("NOT", (oracle.Leaf(kind, name),))


def _negated_names(node: oracle.Node) -> list[str]:
    if isinstance(node, oracle.Leaf):
        return []
    if node.operator == "NOT":
        return [m.name for m in node.members if isinstance(m, oracle.Leaf)]
    return [n for member in node.members for n in _negated_names(member)]


def _condition(rng: Random, names: Sequence[str], negated: Sequence[str]) -> tuple[str, oracle.Condition]:
    a = rng.choice([*names, *negated])
    b = rng.choice(names)
    if a == b or rng.random() < 0.2:
        operator, bound = rng.choice(["<>", ">", "<="]), rng.randrange(4)
        compare = _COMPARE[operator]
        return f"{a}.v {operator} {bound}", oracle.Condition(
            frozenset({a}), lambda rows: rows[a]["v"] is not None and compare(rows[a]["v"], bound)
        )
    if rng.random() < 0.3:
        return f"{a}.u = {b}.u", oracle.Condition(
            frozenset({a, b}), lambda rows: rows[a]["u"] is not None and rows[a]["u"] == rows[b]["u"]
        )
    if rng.random() < 0.2:
        return f"{a}.v + {b}.v > 3", oracle.Condition(
            frozenset({a, b}), lambda rows: None not in (rows[a]["v"], rows[b]["v"]) and rows[a]["v"] + rows[b]["v"] > 3
        )
    operator = rng.choice(list(_COMPARE))
    compare = _COMPARE[operator]
    return f"{a}.v {operator} {b}.v", oracle.Condition(
        frozenset({a, b}), lambda rows: None not in (rows[a]["v"], rows[b]["v"]) and compare(rows[a]["v"], rows[b]["v"])
    )


def random_query(rng: Random, name: str, book: str) -> Drawn:
    draw = _Draw(rng, within=rng.choice([None, None, 2, 4, 8]))
    text, node = draw.node(rng.choice([1, 2, 2]), set(), top=True)
    names, negated = oracle.names_of(node), _negated_names(node)
    conditions = [_condition(rng, names, negated) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
    first = rng.random() < 0.3
    parts = [f"EVENT {text} FROM {book}"]
    if conditions:
        parts.append("WHERE " + " AND ".join(c for c, _ in conditions))
    if draw.within is not None:
        parts.append(f"WITHIN {draw.within} MICROSECONDS")
    parts.append("FIRST MATCH" if first else "ALL MATCHES")
    # Rows are told apart by their text: j is their number.
    parts.append("RETURN " + ", ".join(f"{n}.j AS {n}" for n in names))
    return Drawn(
        name, " ".join(parts), oracle.Query(node, tuple(c for _, c in conditions), draw.within, first), tuple(names)
    )


def random_rules(rng: Random) -> list[Rule]:
    pick = lambda count: tuple(rng.sample(TYPES, count))
    found: list[Rule] = []
    for _ in range(rng.choice([0, 1, 2, 3, 4])):
        kind = rng.choice(["prior", "prior", "prior", "exclusive", "require", "once", "if", "if"])
        if kind == "once":
            found.append(Rule("once", pick(1)))
        elif kind == "if":
            found.append(Rule("if", pick(rng.choice([2, 3])), rng.random() < 0.7))
        else:
            found.append(Rule(kind, pick(2)))
    if rng.random() < 0.4:
        found.append(Rule("end", pick(rng.choice([1, 2]))))
    if rng.random() < 0.3:
        found.append(Rule("begin", pick(rng.choice([1, 2]))))
    if rng.random() < 0.3:
        found.append(Rule("end after", span=rng.choice([1, 3, 6])))
    return found


def random_rows(rng: Random, partition: Sequence[str]) -> list[dict[str, Any]]:
    ts, rows = 0, []
    keys = rng.choice([1, 2, 3])
    for number in range(rng.randrange(4, 15)):
        ts += rng.choice([0, 0, 1, 1, 2, 5])
        row: Mapping[str, Any] = {
            "k": None if rng.random() < 0.03 else rng.randrange(keys),
            "j": str(number),
            "type": None if rng.random() < 0.03 else rng.choice(TYPES),
            "v": None if rng.random() < 0.1 else rng.randrange(5),
            "u": None if rng.random() < 0.1 else rng.choice(["p", "q"]),
            "ts": ts,
        }
        rows.append(dict(row))
    return rows


def random_case(rng: Random, queries: int = 1) -> Case:
    partition = rng.choice([("k",), ("k",), ("k",), ("k", "u"), ()])
    case = Case(random_rows(rng, partition), random_rules(rng), [], partition)
    case.queries = [random_query(rng, f"q{n}", case.book) for n in range(queries)]
    return case
