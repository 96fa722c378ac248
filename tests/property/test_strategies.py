"""The generator: cases are worth running, and hypothesis can draw them too."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings

from tests.property.specs import Case, Last, QuerySpec, expected, streams_of
from tests.property.strategies import cases, random_case


def test_cases_are_repeatable():
    assert all(repr(random_case(Random(seed))) == repr(random_case(Random(seed))) for seed in range(50))


def test_cases_are_worth_running():
    drawn = [random_case(Random(seed)) for seed in range(400)]
    truths = [expected(case) for case in drawn]

    def share(question: list[bool]) -> float:
        return sum(question) / len(question)

    assert share([any(not t.is_empty(q.name) for q in c.queries) for c, t in zip(drawn, truths, strict=True)]) > 0.6
    assert share([any(word == "late" for dead in t.dead.values() for word, _ in dead) for t in truths]) > 0.15
    assert share([any(isinstance(r.window, Last) for q in c.queries for r in q.references) for c in drawn]) > 0.2
    assert share([any(joins_itself(c, i) for i in range(len(c.queries))) for c in drawn]) > 0.2
    assert share([any(c.idle()) for c in drawn]) > 0.05
    assert share([c.scheduler is not None for c in drawn]) > 0.05
    assert share([any("DECIMAL" in kind for s in c.streams for _, kind in s.columns) for c in drawn]) > 0.2
    assert share([any(closes_over_several(q) for q in c.queries) for c in drawn]) > 0.05
    assert all(taken.waiting == 0 for t in truths for taken in t.intakes.values())


def closes_over_several(query: QuerySpec) -> bool:
    return query.emit.kind == "close" and len(streams_of(query)) > 1


def joins_itself(case: Case, query: int) -> bool:
    streams = [r.source for r in case.queries[query].references if r.window is not None]
    return len(set(streams)) < len(streams)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases())
def test_hypothesis_draws_the_same_kind_of_case(case):
    truth = expected(case)
    assert set(truth.answers) | set(truth.tables) | set(truth.closed) == {q.name for q in case.queries}
