"""Runs the goldens of the rules: a query, and its plan after one rule.

A `.cq` file is named after its rule. A case begins with `# name:` and a line `# what:`; then come declarations, a line
`plan rule=…`, a SELECT, a line `----`, and the plan after this rule alone. With REWRITE_GOLDEN=1 the plans are written
anew.

Each case is also run over generated rows: the answer of the query as written and of the query after the rule, computed
plainly over the cross product of its references, and the answer of the engine to the latter, are the same. Windows are
unbounded, so that the cross product is the answer.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.language import Job, bind_script, parse_select
from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Expression, Literal, walk
from eddyline.model.query import BoundQuery
from eddyline.operators.expressions.evaluate import compile_expression, compile_predicate
from eddyline.plan.explain import explain
from eddyline.plan.lower import lower
from eddyline.plan.rewrite import RULES, rewrite, run_rule
from eddyline.plan.tree.tree_choice import choose_tree
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.pipeline import Pipeline

HERE = Path(__file__).parent / "plan"
REWRITE = os.environ.get("REWRITE_GOLDEN") == "1"
ROWS = 14


@dataclass(frozen=True)
class Case:
    file: Path
    #: The text of the file up to and with the line `----`.
    head: str
    name: str
    rule: str
    declarations: str
    select: str
    expected: str

    def bind(self) -> tuple[Job, BoundQuery]:
        job = bind_script(self.declarations)
        return job, job.query("golden", parse_select(self.select))


def cases() -> list[Case]:
    found = []
    for file in sorted(HERE.glob("*.cq")):
        for block in file.read_text().split("# name:")[1:]:
            head, _, expected = block.partition("\n----\n")
            parts = re.fullmatch(r"([^\n]*)\n# what: [^\n]+\n(.*)\nplan rule=(\w+)\n(.*)", head, re.S)
            assert parts is not None, (
                f"{file.name}: a case has a name, a line '# what:', declarations and 'plan rule=…'\n{head}"
            )
            name, declarations, rule, select = parts.groups()
            found.append(
                Case(file, f"# name:{head}\n----\n", name.strip(), rule, declarations, select, expected.strip("\n"))
            )
    return found


def label(case: Case) -> str:
    return case.name


# -- rows


def pools(query: BoundQuery) -> dict[str, list[Any]]:
    """Values per type: a few that meet each other, the odd ones, and those that the query speaks of, with their
    neighbours."""
    found: dict[str, list[Any]] = {
        "BOOLEAN": [True, False, None],
        "INT": [1, 2, 3, None],
        "BIGINT": [1, 2, 3, None],
        "DOUBLE": [1.0, 2.0, 0.0, -0.0, math.nan, math.inf, None],
        "STRING": ["a", "b", "", None],
        "DECIMAL": [Decimal("1.00"), Decimal("2.00"), None],
        "DATE": [0, 1, 2, None],
    }
    having = () if query.having is None else (query.having,)
    for whole in (*query.where, *(o.expression for o in query.outputs), *having):
        for e in walk(whole):
            if isinstance(e, Literal) and e.value is not None and e.type.name in found:
                near = (
                    [e.value + 1, e.value - 1]
                    if e.type.name in ("INT", "BIGINT", "DOUBLE", "DATE") and abs(e.value) < 2**30
                    else []
                )
                found[e.type.name] += [e.value, e.value, *near]
    found["INT"] = [v for v in found["INT"] + found["BIGINT"] if v is None or abs(v) < 2**31]
    found["BIGINT"] = found["BIGINT"] + found["INT"]
    return found


def generated(job: Job, query: BoundQuery, seed: str) -> dict[str, pa.Table]:
    """Rows of every stream that the query reads."""
    random = Random(seed)
    values = pools(query)
    tables = {}
    for stream in job.streams:
        columns = []
        for column in stream.schema.columns:
            if column.name == stream.time:
                columns.append(pa.array(range(ROWS), pa.int64()).cast(column.type.arrow))
            else:
                columns.append(
                    pa.array([random.choice(values[column.type.name]) for _ in range(ROWS)], column.type.arrow)
                )
        tables[stream.name] = pa.table(columns, schema=stream.schema.arrow)
    return tables


# -- the plain answer


def plain_answer(query: BoundQuery, tables: dict[str, pa.Table]) -> Counter[tuple[object, ...]]:
    """WHERE over the cross product of the references; outputs of what is left, grouped where the query groups."""
    count = len(query.references)
    grid = np.indices((ROWS,) * count).reshape(count, -1)
    columns = {
        (reference.alias, name): tables[reference.source].column(name).combine_chunks().take(pa.array(grid[place]))
        for place, reference in enumerate(query.references)
        for name in tables[reference.source].column_names
    }
    kept = np.ones(grid.shape[1], np.bool_)
    for part in query.where:
        kept &= compile_predicate(part)(columns, grid.shape[1])
    columns = {name: column.filter(pa.array(kept)) for name, column in columns.items()}
    left = int(kept.sum())
    if not query.is_aggregate:
        return rows_of([compile_expression(o.expression)(columns, left) for o in query.outputs])
    return grouped_answer(query, columns, left)


def grouped_answer(
    query: BoundQuery, columns: dict[tuple[str, str], pa.Array], rows: int
) -> Counter[tuple[object, ...]]:
    wholes = [*(o.expression for o in query.outputs), *(() if query.having is None else (query.having,))]
    aggregates = list(dict.fromkeys(e for whole in wholes for e in walk(whole) if isinstance(e, Aggregate)))
    arguments = [a.arg if a.arg is not None else Literal(True, DataType("BOOLEAN")) for a in aggregates]
    keys = [compile_expression(e)(columns, rows) for e in query.group_by]
    names = [f"key{i}" for i in range(len(keys))]
    table = pa.table(
        [*keys, *(compile_expression(e)(columns, rows) for e in arguments)],
        names=[*names, *(f"arg{i}" for i in range(len(arguments)))],
    )
    made = table.group_by(names).aggregate([(f"arg{i}", a.function) for i, a in enumerate(aggregates)])
    above: dict[Expression, ColumnRef] = {
        e: ColumnRef("", name, e.type) for e, name in zip(query.group_by, names, strict=True)
    }
    above |= {a: ColumnRef("", f"arg{i}_{a.function}", a.type) for i, a in enumerate(aggregates)}
    groups = {
        ("", ref.column): made.column(ref.column).combine_chunks().cast(ref.type.arrow, safe=False)
        for ref in above.values()
    }
    if query.having is not None:
        holds = pa.array(compile_predicate(put_in(query.having, above))(groups, len(made)))
        groups = {name: column.filter(holds) for name, column in groups.items()}
    size = len(next(iter(groups.values())))
    return rows_of([compile_expression(put_in(o.expression, above))(groups, size) for o in query.outputs])


def put_in(e: Expression, above: dict[Expression, ColumnRef]) -> Expression:
    """The expression with what the grouping made in the place of its grouping expressions and aggregates."""
    if e in above:
        return above[e]
    return Call(e.function, tuple(put_in(a, above) for a in e.args), e.type) if isinstance(e, Call) else e


def rows_of(columns: list[pa.Array]) -> Counter[tuple[object, ...]]:
    # The texts of -0.0 and 0.0 differ, and those of two NaN are equal.
    return Counter(tuple(map(repr, row)) for row in zip(*(column.to_pylist() for column in columns), strict=True))


# -- the engine's answer


def engine_answer(job: Job, query: BoundQuery, tables: dict[str, pa.Table]) -> Counter[tuple[object, ...]]:
    pipeline = Pipeline(job.streams, query.settings)
    pipeline.add_query(query)
    outcome = pipeline.step(Epoch({name: Arrival(table) for name, table in tables.items()}, closing=True))
    found: Counter[tuple[object, ...]] = Counter()
    for table in outcome.results[query.name]:
        found += rows_of([table.column(o.name).combine_chunks() for o in query.outputs])
    return found


@pytest.mark.parametrize("case", cases(), ids=label)
def test_plan(case: Case) -> None:
    _, query = case.bind()
    rewritten, trace = run_rule(case.rule, dict(RULES)[case.rule], query)
    assert trace is not None
    lowered = lower(rewritten)
    actual = explain(lowered, choose_tree(lowered))
    if REWRITE and actual != case.expected:
        text = case.file.read_text()
        assert text.count(case.head) == 1
        case.file.write_text(text.replace(case.head + case.expected, case.head + actual))
        print(f"{case.file.name}: {case.name}\n{actual}")
    else:
        assert actual == case.expected


@pytest.mark.parametrize("case", cases(), ids=label)
@pytest.mark.parametrize("seed", range(3))
def test_answers(case: Case, seed: int) -> None:
    job, query = case.bind()
    tables = generated(job, query, f"{case.name} {seed}")
    expected = plain_answer(query, tables)
    alone, _ = run_rule(case.rule, dict(RULES)[case.rule], query)
    everything, _ = rewrite(query)
    for changed in (alone, everything):
        assert plain_answer(changed, tables) == expected
        if not query.is_aggregate:
            assert engine_answer(job, changed, tables) == expected


def test_goldens_say_something() -> None:
    """Every rule has a golden of its name, and most cases have answers to compare."""
    found = cases()
    assert {case.file.stem for case in found} == {name for name, _ in RULES}
    assert all(case.file.stem == case.rule and case.name.startswith(f"{case.rule} / ") for case in found)
    assert len({case.name for case in found}) == len(found)
    answers = 0
    for case in found:
        job, query = case.bind()
        answers += any(plain_answer(query, generated(job, query, f"{case.name} {seed}")) for seed in range(3))
    assert answers > len(found) / 2
