"""The oracle of event patterns, worked by hand."""

from __future__ import annotations

from typing import Any

from eddyline.model.patterns.constraint import Rule
from tests.oracle.patterns import Group, Leaf, Query, answer, cut


def rows(text: str, gap: int = 1) -> list[dict[str, Any]]:
    """One event per letter, of one trace, at 0, 1, 2, …"""
    return [{"k": 1, "type": t, "ts": at * gap} for at, t in enumerate(text)]


def found(query: Query, text: str, rules: tuple[Rule, ...] = ()) -> list[tuple[int, ...]]:
    return [tuple(m.bound.values()) for m in answer(query, rows(text), rules, ("k",))]


A, B, C = Leaf("A", "a"), Leaf("B", "b"), Leaf("C", "c")


def test_a_sequence_takes_every_earlier_event() -> None:
    assert found(Query(Group("SEQ", (A, B))), "AABA") == [(0, 2), (1, 2)]


def test_two_names_may_take_one_event() -> None:
    both = Group("AND", (Leaf("A", "x"), Leaf("A", "y")))
    assert found(Query(both), "A") == [(0, 0)]
    assert len(found(Query(both), "AA")) == 4


def test_a_gap_is_empty() -> None:
    pattern = Group("SEQ", (A, Group("NOT", (B,)), C))
    assert found(Query(pattern), "ABAC") == [(2, 3)]


def test_a_not_at_the_end_waits_for_within() -> None:
    query = Query(Group("SEQ", (A, Group("NOT", (B,)))), within=2)
    assert [(m.last, m.ts) for m in answer(query, rows("AXXA"), (), ("k",))] == [(0, 2), (3, 5)]
    assert found(query, "AXB") == [] and found(query, "AXXB") == [(0,)]


def test_first_match_is_the_oldest() -> None:
    assert found(Query(Group("SEQ", (A, B)), first=True), "AABB") == [(0, 2)]


def test_violations_and_ends() -> None:
    rules = (Rule("prior", ("A", "B")), Rule("end", ("E",)))
    assert cut(rows("ABAEA"), rules, ("k",), "type", "ts").violations == [2]
    assert found(Query(Group("SEQ", (A, C))), "ABACEC", rules) == [(0, 3)]


def test_a_required_type_that_can_no_longer_come() -> None:
    rules = (Rule("require", ("Z", "X")), Rule("prior", ("X", "A")))
    assert cut(rows("AZ"), rules, ("k",), "type", "ts").violations == [1]
    assert cut(rows("AZ"), (*rules, Rule("begin", ("Q",))), ("k",), "type", "ts").violations == []
