"""SunSAT and RunSAT: the errata, hand-worked cases, and random ones against all traces."""

from __future__ import annotations

from functools import cache
from itertools import product
from random import Random

import pytest

from eddyline.errors import PlanProblem
from eddyline.language import bind_script
from eddyline.model.patterns.constraint import EventType, Rule, Rules, rules_of
from eddyline.model.patterns.pattern import Failing
from eddyline.plan.patterns.failing import failing_of
from eddyline.plan.patterns.patterns import explain_pattern, plan_pattern, rules_for, warnings_of_pattern
from eddyline.plan.patterns.satisfy import DisjunctShape, conflict_of
from tests.oracle.patterns import breaks
from tests.seeds import cases, first_seed, is_whole

A_THEN_B = DisjunctShape(("A", "B"), (0, 1))
STREAM = "CREATE STREAM s (k BIGINT, type STRING, ts TIMESTAMP) WITH (time = 'ts');"


def prior(a: str, b: str) -> Rule:
    return Rule("prior", (a, b))


def test_prior_is_not_transitive() -> None:
    assert conflict_of(A_THEN_B, rules_of([prior("B", "X"), prior("X", "A")])) is None


def test_prior_is_closed_through_required_types() -> None:
    conflict = conflict_of(A_THEN_B, rules_of([prior("B", "X"), prior("X", "A"), Rule("require", ("A", "X"))]))
    assert conflict is not None and conflict.through_required
    assert {"PRIOR(B, X)", "PRIOR(X, A)", "REQUIRE(A, X)"} <= set(conflict.reasons)


def test_temporal_consistency_is_checked_again_for_what_is_seen() -> None:
    rules = rules_of([Rule("require", ("Z", "X")), prior("X", "A"), prior("B", "X")])
    assert conflict_of(A_THEN_B, rules) is None
    assert failing_of(A_THEN_B, rules).plus["Z"] is True


def test_local_conditions_are_not_deactivated_per_state() -> None:
    # SEQ(A, AND(B, C), D), trace A B Z: C is dead, whatever state B has moved the run to.
    shape = DisjunctShape(("A", "B", "C", "D"), (0, 1, 1, 7))
    assert failing_of(shape, rules_of([prior("C", "Z")])).local == {"Z": 4}


def test_prior_both_ways_is_exclusive_and_prior_to_itself_is_once() -> None:
    both = rules_of([prior("A", "B"), prior("B", "A")])
    assert conflict_of(DisjunctShape(("A", "B"), (0, 0)), both) is not None
    assert failing_of(DisjunctShape(("A",), (0,)), both).plus == {"B": False}
    once = rules_of([prior("A", "A")])
    assert conflict_of(DisjunctShape(("A", "A"), (0, 0)), once) is None
    assert conflict_of(DisjunctShape(("A", "A"), (0, 1)), once) is not None


def test_third_kind_of_global_condition() -> None:
    # p3 and T1 as they must read: the query needs A, A requires K, PRIOR(K, J), J seen and K not: over.
    found = failing_of(DisjunctShape(("A",), (0,)), rules_of([Rule("require", ("A", "K")), prior("K", "J")]))
    assert found.minus == {"J": frozenset({"K"})}
    assert not failing_of(DisjunctShape(("A",), (0,)), rules_of([Rule("require", ("K", "A")), prior("K", "J")])).minus


def test_clauses_of_several_events_are_masks() -> None:
    found = failing_of(DisjunctShape(("C",), (0,)), rules_of([Rule("if", ("A", "B", "C"), True)]))
    assert [mask.types for mask in found.masks] == [frozenset({"A", "B"})] and not found.plus


def test_nothing_follows_an_end() -> None:
    rules = rules_of([Rule("end", ("B",))])
    assert conflict_of(A_THEN_B, rules) is None
    assert conflict_of(DisjunctShape(("B", "A"), (0, 1)), rules) is not None
    assert conflict_of(DisjunctShape(("A", "B"), (0, 0)), rules_of([Rule("end", ("A", "B"))])) is not None


# -- all traces

_TYPES = "ABXY"
_LENGTH = 5


@cache
def _traces() -> list[tuple[tuple[int, ...], int, int]]:
    """Every trace of a few types: the trace, its types as bits, and for each pair (a, b) whether an a comes after a
    b."""
    found = []
    for length in range(1, _LENGTH + 1):
        for trace in product(range(4), repeat=length):
            after = 0
            for i, b in enumerate(trace):
                for a in trace[i + 1 :]:
                    after |= 1 << (4 * a + b)
            found.append((trace, sum(1 << t for t in set(trace)), after))
    return found


def _matches(trace: tuple[int, ...], shape: DisjunctShape, since: int = 0) -> bool:
    """Whether a match ends at the place `since` or later."""
    kinds = [_TYPES.index(str(t)) for t in shape.types]
    choices = [[i for i, t in enumerate(trace) if t == kind] for kind in kinds]
    return any(
        all(places[i] < places[j] for j, mask in enumerate(shape.before) for i in range(len(kinds)) if mask >> i & 1)
        for places in product(*choices)
        if max(places) >= since
    )


def _satisfiable(shape: DisjunctShape, rules: Rules) -> bool:
    at = _TYPES.index
    forbidden = 0
    for a, b in rules.priors:
        forbidden |= 1 << (4 * at(str(a)) + at(str(b)))
    bits = lambda types: sum(1 << at(str(t)) for t in types)
    horns = [(bits(h.given), 1 << at(str(h.needed))) for h in rules.horns]
    nevers = [bits(n.types) for n in rules.nevers]
    need = bits(set(shape.types))
    for trace, types, after in _traces():
        if need & ~types or after & forbidden or any(n & ~types == 0 for n in nevers):
            continue
        if any(given & ~types == 0 and not types & needed for given, needed in horns):
            continue
        if _matches(trace, shape):
            return True
    return False


def _random(rng: Random) -> tuple[DisjunctShape, Rules]:
    pick = lambda count: tuple(rng.sample(_TYPES, count))
    rules = []
    for _ in range(rng.randrange(1, 5)):
        kind = rng.choice(["prior", "prior", "prior", "exclusive", "require", "once", "if"])
        types: tuple[EventType, ...] = pick({"once": 1, "if": 3}.get(kind, 2))
        rules.append(Rule(kind, types, kind == "if" and rng.random() < 0.5))
    size = rng.choice([1, 2, 2, 3])
    before = [0] * size
    for j in range(size):
        for i in range(j):
            if rng.random() < 0.6:
                before[j] |= 1 << i | before[i]
    return DisjunctShape(tuple(rng.choice(_TYPES) for _ in range(size)), tuple(before)), rules_of(rules)


def test_a_disjunct_is_refused_exactly_if_no_trace_matches() -> None:
    for seed in range(first_seed(17_500), first_seed(17_500) + cases(2_000)):
        shape, rules = _random(Random(seed))
        assert (conflict_of(shape, rules) is None) == _satisfiable(shape, rules), f"seed {seed}: {shape} {rules}"


def test_what_is_over_has_no_extension_that_matches() -> None:
    """Prefixes of accepted events are extended in every way: none of those that are over comes to a match that ends
    later."""
    found = dict.fromkeys(("plus", "minus", "local", "masks"), 0)
    for seed in range(first_seed(17_600), first_seed(17_600) + cases(120)):
        rng = Random(seed)
        shape, rules = _random(rng)
        if conflict_of(shape, rules) is not None:
            continue
        listed = list(
            dict.fromkeys((*rules.priors.values(), *(h.rule for h in rules.horns), *(n.rule for n in rules.nevers)))
        )
        failing = failing_of(shape, rules)
        length = rng.randrange(1, _LENGTH)
        over: dict[tuple[int, ...], set[str]] = {}
        for trace, *_ in _traces():
            prefix, rest = trace[:length], trace[length:]
            seen: set[str] = set()
            if not _accepted(prefix, seen, listed):
                continue
            if prefix not in over:
                over[prefix] = _over(prefix, seen, shape, rules, failing)
                for kind in over[prefix]:
                    found[kind] += 1
            if over[prefix] and rest and _accepted(rest, seen, listed):
                # A type that excludes the disjunct excludes all matches; one that nothing follows leaves those that
                # were there.
                since = length if over[prefix] == {"local"} else 0
                assert not _matches(trace, shape, since), f"seed {seed}: {over[prefix]} {shape} {listed} {trace}"
    assert min(found.values()) > 20 or not is_whole(), found


def _over(prefix: tuple[int, ...], seen: set[str], shape: DisjunctShape, rules: Rules, failing: Failing) -> set[str]:
    """The kinds of failing conditions by which a disjunct is over after the events of a prefix, worked out from the
    definitions."""
    reached = 0
    for number in prefix:
        accepts = [
            at for at, kind in enumerate(shape.types) if kind == _TYPES[number] and not shape.before[at] & ~reached
        ]
        reached |= sum(1 << at for at in accepts)
    whole = (1 << len(shape.types)) - 1
    sinks = whole & ~sum(1 << at for at in range(len(shape.types)) if any(mask >> at & 1 for mask in shape.before))
    dead = 0
    for t in seen:
        dead |= failing.local.get(t, 0)
    closed = rules.closure(tuple(seen))
    kinds = {
        "plus": any(t in failing.plus for t in seen),
        "minus": any(k not in seen for t in seen for k in failing.minus.get(t, ())),
        "local": bool(dead & ~reached) or (reached == whole and not sinks & ~dead),
        "masks": any(mask.types <= closed for mask in failing.masks),
    }
    return {kind for kind, holds in kinds.items() if holds}


def _accepted(part: tuple[int, ...], seen: set[str], rules: list[Rule]) -> bool:
    for number in part:
        t = _TYPES[number]
        if breaks(seen, t, rules, True):
            return False
        seen.add(t)
    return True


# -- plans


def _plan(constraints: str, event: str, options: str = ""):  # type: ignore[no-untyped-def]
    job = bind_script(f"{STREAM} {constraints} CREATE QUERY q{options} AS EVENT {event};")
    pattern = job.queries[0].pattern
    assert pattern is not None
    return plan_pattern(job.queries[0], rules_for(pattern.book, job.constraints))


def test_a_pattern_that_can_never_match_is_refused_with_its_constraints() -> None:
    constraints = "CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k (EXCLUSIVE(A, B));"
    with pytest.raises(PlanProblem, match="can never match") as problem:
        _plan(constraints, "SEQ(A, B) FROM s TYPE type PARTITION BY k")
    assert "EXCLUSIVE(A, B)" in str(problem.value)
    kept = _plan(constraints, "SEQ(A, B) FROM s TYPE type PARTITION BY k", " WITH (unsatisfiable = 'warn')")
    assert not kept.kept and "EXCLUSIVE(A, B)" in kept.warnings[0]


def test_a_branch_that_can_never_match_is_dropped_with_a_warning() -> None:
    plan = _plan("CREATE CONSTRAINTS c ON s TYPE type (EXCLUSIVE(A, B), END(E));", "OR(SEQ(A, B), C) FROM s TYPE type")
    assert len(plan.kept) == 1 and "can never match" in plan.warnings[0]
    assert "can never match: EXCLUSIVE(A, B)" in explain_pattern(plan)


def test_state_that_nothing_bounds_is_a_warning() -> None:
    assert "grow for ever" in warnings_of_pattern(_plan("", "SEQ(A, B) FROM s TYPE type"))[0]
    assert not warnings_of_pattern(_plan("", "SEQ(A, B) FROM s TYPE type PARTITION BY k WITHIN 5 SECONDS"))
    assert "bounded by END AFTER 2 HOURS" in explain_pattern(
        _plan("CREATE CONSTRAINTS c ON s TYPE type (END AFTER 2 HOURS);", "SEQ(A, B) FROM s TYPE type")
    )
