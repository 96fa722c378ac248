"""The comparison itself: the oracle's own outcome is right, and every kind of damage to it is seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from tests.oracle.aggregation import is_aggregate, key_columns, same
from tests.property import specs
from tests.property.compare import Outcome, check_case, differences, plain_rows
from tests.property.shrink import shrink
from tests.property.specs import Case, Expected, expected
from tests.property.strategies import random_case


@cache
def drawn(seed: int) -> tuple[Case, Expected]:
    """A random case and what is right for it; the oracle is asked once for all tests of this file."""
    case = random_case(Random(seed))
    return case, expected(case)


def perfect(case: Case, truth: Expected) -> Outcome:
    """The outcome of an engine that is the oracle."""
    outcome = Outcome(
        dead={name: [(f"{word}: because", dict(values)) for word, values in dead] for name, dead in truth.dead.items()}
    )
    for spec in case.queries:
        query = case.query(spec)
        names = [name for name, _ in query.outputs]
        rows: list[dict[str, object]] = []
        if not is_aggregate(query):
            rows = [dict(zip(names, r.values, strict=True)) | {"_ts": r.ts} for r in truth.answers[spec.name]]
        elif spec.emit.kind == "close":
            rows = [
                dict(zip(names, values, strict=True)) | {"_op": "+", "_ts": ts}
                for ts, values in truth.closed[spec.name]
            ]
        else:
            before: dict[tuple[object, ...], tuple[object, ...]] = {}
            for now, table in truth.tables[spec.name].items():
                for key in before.keys() - table.keys():
                    gone = {names[i]: before[key][i] if i in key_columns(query) else None for i in range(len(names))}
                    rows.append(gone | {"_op": "-", "_ts": now})
                for key, values in table.items():
                    if key not in before or list(map(same, before[key])) != list(map(same, values)):
                        rows.append(dict(zip(names, values, strict=True)) | {"_op": "+", "_ts": now})
                before = table
        outcome.results[spec.name] = rows
    return outcome


def test_the_oracle_agrees_with_itself():
    for seed in range(200):
        case, truth = drawn(seed)
        assert not differences(case, perfect(case, truth), truth), f"seed {seed}"
    case, truth = drawn(7)
    check_case(case, lambda _: perfect(case, truth))


def lose(rows: list[object]) -> None:
    rows.pop(len(rows) // 2)


def repeat(rows: list[object]) -> None:
    rows.insert(0, rows[0])


def turn(rows: list[object]) -> None:
    rows.reverse()


@pytest.mark.parametrize("damage", [lose, repeat])
def test_every_damage_to_results_is_seen(damage: Callable[[list[object]], None]):
    tried = 0
    for seed in range(120):
        case, truth = drawn(seed)
        for query in case.queries:
            outcome = perfect(case, truth)
            if outcome.results[query.name]:
                damage(outcome.results[query.name])
                assert differences(case, outcome, truth), f"seed {seed}, query {query.name}"
                tried += 1
    assert tried > 80


def test_the_order_of_newest_rows_is_checked():
    seen = 0
    for seed in range(120):
        case, truth = drawn(seed)
        for name, right in truth.answers.items():
            outcome = perfect(case, truth)
            turn(outcome.results[name])
            distinct = {(r.newest, *map(same, r.values)) for r in right}
            if len({r.newest for r in right}) > 1 and len({d[1:] for d in distinct}) == len(distinct):
                assert any("order" in line or "goes back" in line for line in differences(case, outcome, truth)), (
                    f"seed {seed}"
                )
                seen += 1
    assert seen > 10


def test_a_lost_dead_letter_is_seen():
    seen = 0
    for seed in range(60):
        case, truth = drawn(seed)
        outcome = perfect(case, truth)
        for letters in outcome.dead.values():
            if letters:
                letters.pop()
                assert any("dead letters" in line for line in differences(case, outcome, truth))
                seen += 1
                break
    assert seen > 8


def test_a_case_can_be_pasted():
    names = {name: getattr(specs, name) for name in specs.__all__}
    for seed in range(60):
        case, truth = drawn(seed)
        pasted = eval(repr(case), names)
        assert repr(pasted) == repr(case)
        assert not differences(pasted, perfect(case, truth))


def test_arrow_and_back():
    for seed in range(40):
        case, _ = drawn(seed)
        for epoch in case.epochs():
            for name, rows in epoch.items():
                found = [tuple(map(same, row.values())) for row in plain_rows([case.arrow_rows(name, rows)])]
                assert found == [tuple(map(same, row)) for row in rows]


def test_a_failing_case_is_made_small():
    case = next(
        c for c in map(random_case, map(Random, range(100))) if any(len(r) > 5 for r in expected(c).answers.values())
    )

    def has_a_result(candidate: Case) -> bool:
        return any(expected(candidate).answers.values())

    small = shrink(case, has_a_result, seconds=20)
    assert has_a_result(small)
    assert len(small.queries) == 1
    assert sum(len(rows) for epoch in small.arrivals for _, rows in epoch) <= len(small.queries[0].references)
