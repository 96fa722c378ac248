"""PredSAT against a grid of points, against all pairs of rows, and the errata of the dissertation by name."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, DataType
from eddyline.model.expressions.differences import Conjunct, Ranges
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.model.expressions.functions import resolve
from eddyline.plan.ranges.predsat import HeldConjuncts, System, conjuncts_of
from tests.seeds import cases, first_seed, is_whole

MOST, LEAST = 2**63 - 1, -(2**63)
YES = Literal(True, BOOLEAN)


def part(
    operator: str, left: int, right: int, bound: int = 0, strict: bool = False, prefixes: bool = False
) -> Conjunct:
    return Conjunct(YES, operator, left, right, bound, strict, prefixes)


def holds(one: Conjunct, points: np.ndarray) -> np.ndarray:
    """Whether each point satisfies a conjunct; the last axis has the variables."""
    distance = points[..., one.left] - points[..., one.right]
    if one.operator == "<=":
        return distance < one.bound if one.strict else distance <= one.bound
    return distance == one.bound if one.operator == "=" else distance != one.bound


def drawn(rng: np.random.Generator, unit: int, is_real: bool) -> list[Conjunct]:
    operators = rng.choice(["<=", "<=", "<=", "="], int(rng.integers(1, 6)))
    found = []
    for operator in operators:
        left, right = rng.choice(3, 2, replace=False)
        strict = bool(is_real and operator == "<=" and rng.random() < 0.5)
        found.append(part(str(operator), int(left), int(right), int(rng.integers(-3, 4)) * unit, strict))
    return found


@pytest.mark.parametrize("is_real", [False, True])
def test_skip_agrees_with_a_grid_in_five_thousand_systems(is_real: bool) -> None:
    """Reals stand on quarters, and points between them on sixteenths: three strict steps fit into one quarter."""
    rng = np.random.default_rng(first_seed(1600))
    unit, size = (4, 17) if is_real else (1, 6)
    points = np.array(list(product(range(size), repeat=3)))
    found = 0
    for _ in range(cases(5_000)):
        parts = drawn(rng, unit, is_real)
        good = np.ones(len(points), np.bool_)
        for one in parts:
            good &= holds(one, points)
        low = rng.integers(0, size // unit, (3, 6)) * unit
        high = np.minimum(low + rng.integers(0, 3, (3, 6)) * unit, (size - 1) // unit * unit)
        opens = rng.random((2, 3, 6)) < (0.4 if is_real else 0.0)
        left = points[good]
        inside = np.ones((6, len(left)), np.bool_)
        for v in range(3):
            values = left[:, v]
            inside &= (values >= low[v][:, None] + opens[0, v][:, None]) & (
                values <= high[v][:, None] - opens[1, v][:, None]
            )
        ranges = {v: Ranges(low[v], high[v], None, opens[0, v], opens[1, v]) for v in range(3)}
        system = System.of(3, parts)
        # A range that is open at both ends and is one point is empty by itself: no difference says so.
        alone = ((low == high) & (opens[0] | opens[1])).any(axis=0)
        skipped = system.skips(ranges)
        assert (skipped[~alone] == ~inside.any(axis=1)[~alone]).all(), (parts, low, high)
        found += int(skipped.sum())
    assert 1 < found / cases(5_000) < 5.6


def test_decisions_about_zones_are_true_of_all_pairs_of_rows() -> None:
    rng = np.random.default_rng(first_seed(1600))
    counts = np.zeros(3, np.int64)
    for _ in range(cases(600)):
        parts = []
        for _ in range(int(rng.integers(1, 5))):
            left, right = rng.permutation(2)
            operator = str(rng.choice(["<=", "<=", "=", "<>"]))
            parts.append(
                part(
                    operator,
                    int(left),
                    int(right),
                    int(rng.integers(-4, 5)),
                    bool(operator == "<=" and rng.random() < 0.3),
                )
            )
        rows = np.sort(rng.integers(0, 40, (2, 5, 4)), axis=1 if rng.random() < 0.5 else 2)
        ranges = {
            0: Ranges(rows[0].min(axis=1)[:, None], rows[0].max(axis=1)[:, None]),
            1: Ranges(rows[1].min(axis=1), rows[1].max(axis=1)),
        }
        pairs = np.stack(np.broadcast_arrays(rows[0][:, None, :, None], rows[1][None, :, None, :]), axis=-1).reshape(
            5, 5, 16, 2
        )
        alive = np.ones((5, 5, 16), np.bool_)
        certain = HeldConjuncts(ranges)
        for one in parts:
            mine = holds(one, pairs)
            passed = certain.holds(one)
            assert passed is not None
            passed = np.broadcast_to(passed, (5, 5))
            assert (mine | ~alive)[passed].all(), (one, parts)
            counts[1] += passed.sum()
            alive &= mine
            certain.tested(one)
        skipped = np.broadcast_to(System.of(2, parts).skips(ranges), (5, 5))
        assert not alive[skipped].any()
        counts[0] += skipped.sum()
        counts[2] += skipped.size
    assert (counts[0] > counts[2] // 10 and counts[1] > counts[2] // 10) or not is_whole()


# -- errata


def column(name: str, kind: DataType = BIGINT) -> ColumnRef:
    return ColumnRef(name.partition(".")[0], name.partition(".")[2] or name, kind)


def number(value: object, kind: DataType = BIGINT) -> Literal:
    return Literal(value, kind)


def one_range(low: int, high: int, **more: object) -> Ranges:
    return Ranges(np.array([low]), np.array([high]), **more)  # type: ignore[arg-type]


def test_errata_a_predicate_is_not_dropped_on_bounds_that_it_made() -> None:
    """X >= 5 AND X < Y under X <= 5: (5, 3) must be tested."""
    found = conjuncts_of([resolve(">=", (column("x"), number(5))), resolve("<", (column("x"), column("y")))])
    x, five, y = (
        next(n for n, v in enumerate(found.variables) if str(v.column) == name) for name in ("x.x", "None", "y.y")
    )
    ranges = {x: one_range(LEAST, 5), y: one_range(LEAST, MOST), five: one_range(5, 5)}
    certain = found.passing(ranges)
    for one in found.parts:
        assert not certain.holds(one).any()  # type: ignore[union-attr]
        certain.tested(one)
    assert not found.system([p.condition for p in found.parts]).skips(ranges).any()


def test_errata_two_predicates_do_not_eliminate_each_other() -> None:
    """X < 100 AND X < Y under Y = 100: each follows from the other, (500, 100) must be tested once."""
    for order in ((0, 1), (1, 0)):
        hundred = resolve("<", (column("x"), number(100)))
        found = conjuncts_of([(hundred, resolve("<", (column("x"), column("y"))))[at] for at in order])
        ranges = {n: one_range(100, 100) for n in range(len(found.variables))}
        ranges[next(n for n, v in enumerate(found.variables) if str(v.column) == "x.x")] = one_range(LEAST, MOST)
        certain = found.passing(ranges)
        first, second = found.parts
        assert not certain.holds(first).any()  # type: ignore[union-attr]
        certain.tested(first)
        assert certain.holds(second).all()  # type: ignore[union-attr]


def test_errata_the_search_for_contradictions_is_complete() -> None:
    """Z = 9, Z < Y < X, X <= 10 has no whole numbers."""
    found = conjuncts_of([resolve("<", (column("z"), column("y"))), resolve("<", (column("y"), column("x")))])
    at = {str(v.column)[-1]: n for n, v in enumerate(found.variables)}
    system = found.system([p.condition for p in found.parts])
    ranges = {at["z"]: one_range(9, 9), at["y"]: one_range(LEAST, MOST), at["x"]: one_range(LEAST, 10)}
    assert system.skips(ranges).all()
    assert not system.skips({**ranges, at["x"]: one_range(LEAST, 11)}).any()


def test_errata_an_upper_bound_that_others_imply_is_used() -> None:
    """X < 100 holds under X <= 50, and under X < Y < 30 once those have been tested."""
    parts = [part("<=", 0, 1, -1), part("<=", 1, 2, -1), part("<=", 0, 3, -1)]
    ranges = {0: one_range(LEAST, MOST), 1: one_range(LEAST, MOST), 2: one_range(30, 30), 3: one_range(100, 100)}
    certain = HeldConjuncts({**ranges, 0: one_range(LEAST, 50)})
    assert certain.holds(parts[2]).all()  # type: ignore[union-attr]
    certain = HeldConjuncts(ranges)
    for one in (parts[1], parts[0]):
        certain.tested(one)
    assert certain.holds(parts[2]).all()  # type: ignore[union-attr]


def test_errata_chapter_13_h2_and_h4_pass() -> None:
    """A < 500 and B > 1000 make A < B true."""
    assert HeldConjuncts({0: one_range(LEAST, 499), 1: one_range(1001, MOST)}).holds(part("<=", 0, 1, -1)).all()  # type: ignore[union-attr]


def test_errata_12_4_only_the_join_condition_passes() -> None:
    """A < 800 AND A < B under B > 1000 is not True, as (12.4) says: A < 800 is still to be tested."""
    selects, joins = resolve("<", (column("a"), number(800))), resolve("<", (column("a"), column("b")))
    found = conjuncts_of([selects, joins])
    at = {str(v.column): n for n, v in enumerate(found.variables)}
    certain = found.passing(
        {at["a.a"]: one_range(LEAST, MOST), at["b.b"]: one_range(1001, MOST), at["None"]: one_range(800, 800)}
    )
    first, second = found.parts
    assert not certain.holds(first).any()  # type: ignore[union-attr]
    certain.tested(first)
    assert certain.holds(second).all()  # type: ignore[union-attr]


def test_errata_12_7_and_12_8_decide_about_rows_of_both_heralds() -> None:
    """The pairs that pass or are skipped have one row of each herald; the equations take both rows from the first."""
    ranges = {0: Ranges(np.array([[0], [20]]), np.array([[9], [29]])), 1: Ranges(np.array([0, 20]), np.array([9, 29]))}
    less = part("<=", 0, 1, -1)
    passed = HeldConjuncts(ranges).holds(less)
    assert passed is not None and passed.tolist() == [[False, True], [False, False]]
    assert System.of(2, [less]).skips(ranges).tolist() == [[False, False], [True, False]]


def test_errata_strict_bounds_move_by_one_for_whole_numbers_only() -> None:
    """0 < X < 1 has no whole number and many others; 0 < X < Y < 1 the same with a step between."""
    for between in (1, 2):
        edges = [(at, at + 1) for at in range(between + 1)]
        ends = {0: one_range(0, 0), between + 1: one_range(4, 4)}
        ranges = {**{at: one_range(LEAST, MOST) for at in range(1, between + 1)}, **ends}
        # Reals stand on quarters: 0 and 1 are the keys 0 and 4.
        reals = System.of(between + 2, [part("<=", a, b, 0, strict=True) for a, b in edges])
        assert not reals.skips(ranges).any() and reals.skips({**ranges, between + 1: one_range(0, 0)}).all()
        whole = System.of(between + 2, [part("<=", a, b, -1) for a, b in edges])
        assert whole.skips({**ranges, between + 1: one_range(1, 1)}).all()
        assert not whole.skips({**ranges, between + 1: one_range(between + 1, between + 1)}).any()


def test_errata_pass_rate_is_at_most_the_selectivity_and_that_at_most_what_is_not_dropped() -> None:
    rng = np.random.default_rng(first_seed(1600))
    for bound in range(-12, 13, 3):
        rows = np.sort(rng.integers(0, 40, (2, 40)), axis=1).reshape(2, 10, 4)
        ranges = {0: Ranges(rows[0, :, :1], rows[0, :, -1:]), 1: Ranges(rows[1, :, 0], rows[1, :, -1])}
        less = part("<=", 0, 1, bound)
        passed, skipped = HeldConjuncts(ranges).holds(less), System.of(2, [less]).skips(ranges)
        matching = np.count_nonzero(rows[0].ravel()[:, None] - rows[1].ravel() <= bound)
        assert passed is not None and passed.any() and skipped.any()
        assert 16 * passed.sum() <= matching <= 16 * (~skipped).sum()


# -- what becomes a difference


def difference(condition: Expression) -> tuple[int, bool, bool]:
    (one,) = conjuncts_of([condition]).parts
    return one.bound, one.strict, one.prefixes


def test_whole_numbers_dates_and_times_have_offsets() -> None:
    x, y = column("a.x", INT), column("b.y", BIGINT)
    assert difference(resolve("<", (x, resolve("+", (y, number(5)))))) == (4, False, False)
    assert difference(resolve(">=", (resolve("-", (x, number(2, INT))), y))) == (-2, False, False)
    a, b = column("a.ts", TIMESTAMP), column("b.ts", TIMESTAMP)
    assert difference(resolve("<=", (a, resolve("+", (b, number(7, INTERVAL)))))) == (7, False, False)
    assert difference(resolve("<=", (column("a.d", DATE), resolve("+", (column("b.d", DATE), number(3, INT)))))) == (
        3,
        False,
        False,
    )
    assert difference(resolve("<", (column("a.s", STRING), column("b.s", STRING)))) == (0, False, True)


def test_doubles_are_only_compared() -> None:
    """0.1 + 0.2 is more than 0.3: exact differences would call rows impossible that the engine makes."""
    x, y = column("a.x", DOUBLE), column("b.y", DOUBLE)
    shifted = resolve("+", (y, number(0.2, DOUBLE)))
    found = conjuncts_of([resolve("<", (x, shifted))])
    assert found.parts[0].bound == 0 and found.parts[0].strict
    assert [v.is_column for v in found.variables] == [True, False] and found.variables[1].core == shifted
    falling = conjuncts_of([resolve("<", (x, resolve("*", (y, number(-2.0, DOUBLE)))))])
    assert falling.variables[1].falls


def test_an_offset_that_may_overflow_narrows_what_is_decided() -> None:
    found = conjuncts_of([resolve("<", (column("a.x", INT), resolve("+", (column("b.y", INT), number(5, INT)))))])
    assert (found.variables[1].least, found.variables[1].most) == (-(2**31) - 5, 2**31 - 6)


@pytest.mark.parametrize(
    "condition",
    [
        resolve("<", (resolve("+", (column("a.x"), column("b.y"))), column("c.z"))),
        resolve("<", (resolve("*", (column("a.x", DOUBLE), number(0.0, DOUBLE))), column("b.y", DOUBLE))),
        resolve("<", (resolve("%", (column("a.x"), number(3))), column("b.y"))),
        Call("or", (resolve("<", (column("a.x"), column("b.y"))), YES), BOOLEAN),
    ],
)
def test_other_conditions_are_evaluated(condition: Expression) -> None:
    assert not conjuncts_of([condition]).parts


def test_differences_never_overflow() -> None:
    """Keys at both ends of 64 bits, and bounds that lead beyond them."""
    keys = np.array([LEAST, LEAST + 3, 0, MOST - 3, MOST])
    for bound in (-10, -1, 0, 1, 10):
        ranges = {0: Ranges(keys[:, None], keys[:, None]), 1: Ranges(keys, keys)}
        exact = np.array([[a - b > bound for b in keys.tolist()] for a in keys.tolist()])
        assert (System.of(2, [part("<=", 0, 1, bound)]).skips(ranges) == exact).all()
        passed = HeldConjuncts(ranges).holds(part("<=", 0, 1, bound))
        assert passed is not None and (passed == ~exact).all()
