"""The one door, and all rules together: whatever conditions are written, the same rows satisfy them afterwards."""

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import Fault, PlanProblem
from eddyline.language import bind_script
from eddyline.model.datatypes import BOOLEAN, INT
from eddyline.model.expressions.expression import ColumnRef, Literal, conjuncts
from eddyline.model.query import BoundQuery, OutputColumn
from eddyline.operators.expressions.evaluate import Issues, compile_expression, compile_predicate
from eddyline.plan.rewrite import RULES, rewrite, run_rule
from eddyline.plan.verify import verify

WORLD = """
    CREATE STREAM a (x BIGINT, i INT, d DOUBLE, s STRING, f BOOLEAN, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM b (x BIGINT, i INT, d DOUBLE, s STRING, f BOOLEAN, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM c (x BIGINT, i INT, d DOUBLE, s STRING, f BOOLEAN, ts TIMESTAMP) WITH (time = 'ts');
"""
VALUES = {
    "x": pa.array([1, 1, 2, None, 2**62], pa.int64()),
    "i": pa.array([1, 2, None, 2, 2**31 - 1], pa.int32()),
    "d": pa.array([1.0, float("nan"), -0.0, None, 0.0]),
    "s": pa.array(["1", "b", None, "", "b"]),
    "f": pa.array([True, False, None, True, False]),
}


def bound(select: str) -> BoundQuery:
    return bind_script(f"{WORLD} CREATE QUERY q AS {select}").queries[0]


def crossed() -> dict[tuple[str, str], pa.Array]:
    """Every combination of the rows of a, b and c; column x of b and c in other orders, so that all meet."""
    size = len(VALUES["x"])
    grid = np.indices((size, size, size)).reshape(3, -1)
    return {
        (alias, name): v.take(pa.array((grid[n] + n) % size))
        for n, alias in enumerate("abc")
        for name, v in VALUES.items()
    }


def kept(query: BoundQuery, columns: dict[tuple[str, str], pa.Array]) -> list[bool]:
    rows = len(next(iter(columns.values())))
    mask = np.ones(rows, np.bool_)
    for part in query.where:
        mask &= compile_predicate(part)(columns, rows)
    return mask.tolist()


class Writer:
    """Writes random conditions: small pools, so that terms repeat, contradict and imply each other."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def column(self, kind: str) -> str:
        return f"{self.random.choice('abc')}.{kind}"

    def constant(self, kind: str) -> str:
        pools = {
            "x": ["1", "2", "1 + 1", "3 - 2", "9223372036854775807 + 1", "CAST(NULL AS BIGINT)"],
            "i": ["1", "2", "2 // 1", "7 // 0"],
            "d": ["0.0", "-0.0", "1.0", "0.5 * 2", "0.0 / 0.0", "CAST(NULL AS DOUBLE)"],
            "s": ["'1'", "'b'", "lower('B')", "''", "CAST(NULL AS STRING)"],
            "f": ["TRUE", "FALSE", "1 > 2", "CAST(NULL AS BOOLEAN)"],
        }
        return self.random.choice(pools[kind])

    def term(self) -> str:
        kind = self.random.choice("xxxidsf")
        if kind == "f" and self.random.random() < 0.6:
            return self.random.choice([self.constant("f"), self.column("f"), f"{self.column('s')} IS NULL"])
        comparison = self.random.choice(["=", "=", "=", "<>", "<", "<=", ">", ">="])
        sides = [self.column(kind), self.column(kind) if self.random.random() < 0.5 else self.constant(kind)]
        self.random.shuffle(sides)
        return f"{sides[0]} {comparison} {sides[1]}"

    def condition(self, depth: int) -> str:
        shape = self.random.random()
        if depth == 0 or shape < 0.3:
            return self.term()
        if shape < 0.4:
            return f"NOT ({self.condition(depth - 1)})"
        if shape < 0.6:
            common = self.term()
            return f"({common} AND {self.condition(depth - 1)}) OR ({self.condition(depth - 1)} AND {common})"
        word = " AND " if shape < 0.85 else " OR "
        return "(" + word.join(self.condition(depth - 1) for _ in range(self.random.randint(2, 3))) + ")"

    def equality(self) -> str:
        kind = self.random.choice("xxds")
        left, right = self.random.sample("abc", 2)
        return (
            f"{left}.{kind} = {right}.{kind}"
            if self.random.random() < 0.8
            else f"{left}.{kind} = {self.constant(kind)}"
        )

    def where(self) -> str:
        parts = [self.equality() for _ in range(self.random.randint(0, 4))]
        parts += [self.condition(self.random.randint(0, 2)) for _ in range(self.random.randint(0 if parts else 1, 2))]
        self.random.shuffle(parts)
        return " AND ".join(f"({part})" for part in parts)


def test_random_conditions_keep_their_rows() -> None:
    columns = crossed()
    changed = {name: 0 for name, _ in RULES}
    holding = 0
    for seed in range(300):
        where = Writer(seed).where()
        query = bound(f"SELECT a.x FROM a, b, c WHERE {where}")
        expected = kept(query, columns)
        holding += any(expected)
        for name, rule in RULES:
            query, trace = run_rule(name, rule, query)
            assert trace is not None
            changed[name] += trace.changed
            assert kept(query, columns) == expected, f"{name} with seed {seed}: {where}"
        again, _ = rewrite(query)
        assert kept(again, columns) == expected
    # The comparison is worth something only if rules found something to do, in conditions that some rows satisfy.
    assert min(changed.values()) > 30 and holding > 60, (changed, holding)


def test_equal_work_is_counted_equally_after_folding() -> None:
    """What cannot be computed is NULL and counted for each row, before and after."""
    before = bound("SELECT 9223372036854775807 + (1 + 1) AS large, x // (1 - 1) AS none FROM a")
    after, _ = rewrite(before)
    assert before.outputs != after.outputs
    columns = {("a", name): values for name, values in VALUES.items()}
    for old, new in zip(before.outputs, after.outputs, strict=True):
        old_issues, new_issues = Issues(), Issues()
        first = compile_expression(old.expression)(columns, 5, old_issues)
        second = compile_expression(new.expression)(columns, 5, new_issues)
        assert first.equals(second)
        assert old_issues.counts == new_issues.counts and old_issues.total > 0


def test_rules_build_on_each_other() -> None:
    """A join that stands in the one possible alternative of an OR, and a constant that folding finds, reach the third
    stream."""
    query = bound("SELECT a.x FROM a, b, c WHERE (1 > 2 OR (a.x = b.x AND b.x = c.x)) AND a.x = 1 + 1 AND TRUE")
    after, traces = rewrite(query)
    assert [str(part) for part in after.where] == [
        "a.x = b.x",
        "b.x = c.x",
        "a.x = 2",
        "b.x = 2",
        "c.x = 2",
        "a.x = c.x",
    ]
    assert [trace.rule for trace in traces if trace.changed] == [
        "fold_constants",
        "simplify_conditions",
        "spread_equalities",
    ]


def test_a_rewritten_query_stays_as_it_is() -> None:
    once, _ = rewrite(bound("SELECT a.x FROM a, b, c WHERE a.x = b.x AND c.x = b.x AND a.x = 1 + 1 AND NOT a.d < 1.0"))
    twice, traces = rewrite(once)
    assert twice is once
    assert not any(trace.changed for trace in traces)


def test_queries_that_say_the_same_get_the_same_joins() -> None:
    """Whichever two of three equalities are written, and in whatever order FROM lists the streams."""
    texts = (
        "SELECT a.x FROM a, b, c WHERE a.x = b.x AND b.x = c.x",
        "SELECT a.x FROM c, b, a WHERE a.x = b.x AND a.x = c.x",
        "SELECT a.x FROM b, a, c WHERE a.x = c.x AND b.x = c.x AND a.x = 1",
    )
    joins = [
        {str(p) for p in rewrite(bound(text))[0].where if str(p) != "a.x = 1" and " = 1" not in str(p)}
        for text in texts
    ]
    assert joins[0] == joins[1] == joins[2] == {"a.x = b.x", "b.x = c.x", "a.x = c.x"}


def test_a_trace_shows_what_went_and_what_came() -> None:
    _, trace = run_rule(*RULES[1], bound("SELECT x FROM a WHERE x = 1 AND NOT d < 2.0 AND x = 1"))
    assert trace is not None and trace.changed and trace.seconds > 0
    assert str(trace).splitlines() == [
        "rule simplify_conditions on q:",
        "  - where: NOT (a.d < 2.0)",
        "  - where: a.x = 1",
        "  + where: a.d >= 2.0",
    ]
    assert trace.before.splitlines() == [
        "where: a.x = 1",
        "where: NOT (a.d < 2.0)",
        "where: a.x = 1",
        "select: a.x AS x",
    ]


def test_a_rule_without_work_says_so() -> None:
    query = bound("SELECT x FROM a WHERE x = 1")
    after, trace = run_rule(*RULES[0], query)
    assert after is query
    assert trace is not None and not trace.changed
    assert str(trace) == "rule fold_constants on q:\n  nothing to do"


def test_a_rule_can_be_switched_off() -> None:
    query = bound("SELECT x FROM a WHERE x = 1 + 1 AND TRUE")
    after, traces = rewrite(query, off=frozenset({"fold_constants"}))
    assert [str(part) for part in after.where] == ["a.x = CAST(1 + 1 AS BIGINT)"]
    assert "fold_constants" not in [trace.rule for trace in traces]
    assert run_rule(*RULES[0], query, frozenset({RULES[0][0]})) == (query, None)


def test_an_unknown_rule_cannot_be_switched_off() -> None:
    with pytest.raises(PlanProblem, match="there is no rule fold_constant") as caught:
        rewrite(bound("SELECT x FROM a"), off=frozenset({"fold_constant"}))
    assert "fold_constants" in caught.value.hint


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda q: replace(q, where=(ColumnRef("z", "f", BOOLEAN),)), "reads z, which is not in FROM"),
        (lambda q: replace(q, where=(Literal(1, INT),)), "a condition of query q is INT"),
        (lambda q: replace(q, outputs=(OutputColumn("y", q.outputs[0].expression),)), "the outputs changed"),
        (lambda q: replace(q, references=q.references[:0]), "reads a, which is not in FROM"),
        (lambda q: replace(q, distinct=True), "the aggregation changed"),
    ],
)
def test_a_rule_that_breaks_a_query_is_found_out(broken, message) -> None:
    with pytest.raises(Fault, match=f"rule clumsy broke query q: .*{message}"):
        run_rule("clumsy", broken, bound("SELECT x FROM a WHERE x = 1"))


def test_a_long_chain_of_alternatives() -> None:
    query = bound("SELECT x FROM a WHERE " + " OR ".join(f"x = {n} AND i < {n} + 1" for n in range(80)))
    after, traces = rewrite(query)
    assert traces[0].changed
    columns = {("a", name): values for name, values in VALUES.items()}
    assert kept(after, columns) == kept(query, columns)


def test_what_is_nested_too_deeply_for_a_rule_runs_as_written() -> None:
    def endless(query: BoundQuery) -> BoundQuery:
        return endless(query)

    query = bound("SELECT x FROM a WHERE x = 1")
    after, trace = run_rule("endless", endless, query)
    assert after is query
    assert trace is not None and not trace.changed


def test_groups_and_outputs_change_together() -> None:
    query = bound(
        "SELECT x + (1 + 1) AS k, x + 2 AS l, count(*) AS n FROM a GROUP BY x + (1 + 1), x + 2 HAVING x + (1 + 1) > 3"
    )
    after, _ = rewrite(query)
    verify(after)
    assert [str(e) for e in after.group_by] == ["a.x + 2"]
    assert [str(o.expression) for o in after.outputs] == ["a.x + 2", "a.x + 2", "count(*)"]
    assert str(after.having) == "(a.x + 2) > 3"


def test_having_true_still_makes_an_aggregate() -> None:
    query = bound("SELECT count(*) AS n FROM a HAVING 1 < 2")
    after, _ = rewrite(query)
    assert str(after.having) == "TRUE" and after.is_aggregate


def test_where_stays_split_at_and() -> None:
    after, _ = rewrite(bound("SELECT x FROM a WHERE FALSE OR (x = 1 AND (i = 2 AND TRUE))"))
    assert all(conjuncts(part) == (part,) for part in after.where)
    assert len(after.where) == 2
