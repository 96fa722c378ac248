"""Index choice: the tables of the dissertation, its errata, and every search against all configurations."""

from __future__ import annotations

import random
from math import comb
from time import process_time

import numpy as np
import pytest

from eddyline.errors import PlanProblem
from eddyline.operators.template.blocks import Codes, Field, Fields
from eddyline.plan.index_choice.candidates import batches, count
from eddyline.plan.index_choice.cost import IndexCostModel
from eddyline.plan.index_choice.eprune import pruned
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.rgreedy import Steps, ranking
from eddyline.plan.index_choice.search import METHODS, choose_index
from eddyline.plan.index_choice.workload import Attribute, Workload
from eddyline.tuning import TemplateTuning
from tests.oracle.index_choice import (
    cheapest,
    compositions,
    price,
    printed_benefit,
    printed_request_cost,
    printed_rgreedy,
)
from tests.pace import slowness
from tests.seeds import cases, some

PROBING = IndexCosts(hash=0, run=0, visit=1)
EXAMPLE_1 = {"A": 0.4, "AB": 0.1, "B": 0.3, "C": 0.2}
EXAMPLE_2 = {"A": 0.3, "AB": 0.4, "C": 0.3}
EXAMPLE_3 = {"A": 0.3, "AB": 0.4, "BC": 0.25, "C": 0.05}


def workload(
    weights: dict[str, float],
    names: str = "ABC",
    rows: float = 16,
    row_rate: float = 1,
    values: int | None = 2048,
    **other: int,
):
    """A workload whose window has 16 rows: with 4 bits the price is the dissertation's number of probed partitions."""
    attributes = [Attribute(name, other.get(name, values)) for name in names]
    return Workload.of(
        attributes, [(list(on), weight, rows) for on, weight in weights.items()], row_rate, sum(weights.values())
    )


def priced(weights: dict[str, float], *configurations: tuple[int, ...]) -> list[float]:
    return IndexCostModel(workload(weights), PROBING, 4).prices(np.array(configurations)).round(9).tolist()


def test_tables_of_the_examples() -> None:
    # Table 20.2, where 6.14 is printed for 6.1 and <3,1,0> is called the best of step 2.
    step_2 = priced(EXAMPLE_1, (1, 3, 0), (2, 2, 0), (3, 1, 0))
    assert priced(EXAMPLE_1, (4, 0, 0)) == [8.5] and step_2 == [7.1, 6.1, 6.5]
    assert priced(EXAMPLE_1, (1, 1, 2), (1, 2, 1), (2, 1, 1)) == [6.8, 6.2, 5.8]
    # Table 20.4; the best of {A, B} is <3,1,0>, not <2,2,0>.
    assert priced(EXAMPLE_2, (4, 0, 0), (1, 0, 3), (2, 0, 2), (3, 0, 1)) == [5.5, 6.2, 4.0, 3.8]
    assert priced(EXAMPLE_2, (3, 1, 0), (2, 2, 0)) == [5.8, 6.4]
    # Example 3: two configurations tie, fewer attributes win.
    assert priced(EXAMPLE_3, (2, 2, 0), (2, 1, 1)) == [3.4, 3.4]


@pytest.mark.parametrize("method", ["exact", "eprune", "enumerate"])
@pytest.mark.parametrize(("weights", "bits"), [(EXAMPLE_1, (2, 1, 1)), (EXAMPLE_2, (3, 0, 1)), (EXAMPLE_3, (2, 2, 0))])
def test_optima_of_the_examples(weights, bits, method) -> None:
    choice = choose_index(workload(weights), PROBING, 4, method)
    assert (choice.bits, choice.candidates) == (bits, 15)


def test_runs_of_rgreedy_in_the_examples() -> None:
    assert choose_index(workload(EXAMPLE_1), PROBING, 4, "rgreedy", "owl").candidates == 7
    for weights, owl, pcl in [
        (EXAMPLE_1, (2, 1, 1), (2, 1, 1)),
        (EXAMPLE_2, (4, 0, 0), (3, 0, 1)),
        (EXAMPLE_3, (2, 2, 0), (3, 0, 1)),
    ]:
        given = workload(weights)
        assert choose_index(given, PROBING, 4, "rgreedy", "owl").bits == owl
        assert choose_index(given, PROBING, 4, "rgreedy", "pcl").bits == pcl
        both = choose_index(given, PROBING, 4, "hybrid")
        assert both.bits == choose_index(given, PROBING, 4, "exact").bits


def test_example_5_narrow_domains() -> None:
    """A has two values: a second bit for it tells nothing apart."""
    narrow = workload(EXAMPLE_1, rows=1, A=2)
    assert price(narrow, PROBING, (2, 1, 1)) == pytest.approx(0.475)
    for method in METHODS:
        choice = choose_index(narrow, PROBING, 4, method)
        assert choice.bits == (1, 2, 1) and choice.cost == pytest.approx(0.3875)


def test_numbers_of_candidates() -> None:
    for names, found in [(4, 969), (8, 245_157), (10, 2_042_975)]:
        assert count([16] * names, 16) == comb(names + 15, 16) == found
    letters = "ABCDEFGHIJ"
    for names, found in [(4, 969), (8, 245_157)]:
        given = workload(dict.fromkeys(letters[:names], 1.0), letters[:names], values=None)
        assert choose_index(given, PROBING, 16, "exact").candidates == found
        assert choose_index(given, PROBING, 16, "enumerate").candidates == found


def test_two_attributes_less_leave_245157_candidates() -> None:
    letters = "ABCDEFGHIJ"
    given = workload(dict.fromkeys(letters[:8], 1.0), letters, rows=1e6, values=None)
    assert choose_index(given, IndexCosts(hash=1e-6, run=0, visit=1), 16, "eprune").candidates == 245_157


def test_the_worst_case_of_rgreedy() -> None:
    """Every step improves: all sets {1 … i} are priced, Σ C(15, i - 1)."""
    letters = "ABCDEFGHIJ"
    given = workload(dict.fromkeys(letters, 1.0), letters, values=None)
    assert (
        choose_index(given, PROBING, 16, "rgreedy", "owl").candidates == 27_824 == sum(comb(15, i) for i in range(10))
    )
    assert choose_index(given, PROBING, 16, "hybrid").candidates == 27_824


def test_the_exact_search_is_quick() -> None:
    letters = "ABCDEFGHIJ"
    lots = random.Random(3)
    patterns = {"".join(c for i, c in enumerate(letters) if mask >> i & 1): lots.random() for mask in range(1, 1024)}
    given, costs = workload(patterns, letters, rows=1e6, values=None), IndexCosts(hash=1e-9, run=1e-8, visit=1e-9)
    seconds = []
    for _ in range(3):
        began = process_time()
        choice = choose_index(given, costs, 16)
        seconds.append(process_time() - began)
    assert choice.candidates == 2_042_975 and min(seconds) < 1.0 * slowness()
    assert choice.cost == pytest.approx(price(given, costs, choice.bits), rel=1e-9)


# -- errata
# ------------------------------------------------------------------------------------------------------------------


def test_erratum_the_benefit_uses_b_bits() -> None:
    """N = 1, B = 4, weight 1.5, hash cost 1: with 2^N the attribute is pruned, yet <4> costs 1.094 against 1.5."""
    given, costs = workload({"A": 1.5}, "A", rows=1), IndexCosts(hash=1, run=0, visit=1)
    assert printed_benefit(given, costs, 0, exponent=1, once_per_pattern=False) < 0
    assert pruned(IndexCostModel(given, costs, 4)) == set()
    choice = choose_index(given, costs, 4, "eprune")
    assert (
        choice.bits == (4,)
        and choice.cost == pytest.approx(1.09375)
        and price(given, costs, (0,)) == pytest.approx(1.5)
    )


def test_erratum_rows_are_hashed_once() -> None:
    """A, AB, AC at 0.5 and hash cost 0.6: charged per pattern, A does not pay; the optimum is <4,0,0>."""
    given, costs = workload({"A": 0.5, "AB": 0.5, "AC": 0.5}, rows=1), IndexCosts(hash=0.6, run=0, visit=1)
    assert printed_benefit(given, costs, 0, exponent=4, once_per_pattern=True) < 0
    assert 0 not in pruned(IndexCostModel(given, costs, 4))
    assert choose_index(given, costs, 4, "eprune").bits == choose_index(given, costs, 4, "enumerate").bits == (4, 0, 0)


def test_erratum_requests_count_once() -> None:
    """(19.2) and (19.3) multiply by the request rate and sum over requests. (19.4) counts a request once: price is
    linear in the rate."""
    one, ten = (Workload.of([Attribute("A")], [(["A"], 1, 100)], 0, rate) for rate in (1, 10))
    assert [choose_index(given, PROBING, 2).cost for given in (one, ten)] == [25, 250]
    # Ten requests a second, each of which is counted ten times.
    assert [printed_request_cost(given, PROBING, (2,)) for given in (one, ten)] == [25, 2500]


def test_erratum_a_step_is_compared_as_a_whole() -> None:
    given = workload(EXAMPLE_1)
    assert printed_rgreedy(given, PROBING, 4, [0, 1, 2]) == (2, 2, 0)
    assert choose_index(given, PROBING, 4, "rgreedy", "owl").bits == (2, 1, 1)


@pytest.mark.parametrize("method", METHODS)
def test_erratum_caps_that_sum_to_less_than_the_bits(method) -> None:
    """Two values each: of 16 bits two are used."""
    choice = choose_index(workload({"A": 1, "B": 1}, "AB", values=2), PROBING, 16, method)
    assert choice.bits == (1, 1)


def test_erratum_three_values_deserve_two_bits() -> None:
    assert choose_index(workload({"A": 1}, "A", values=3), PROBING, 4).bits == (2,)
    one, two = Attribute("A", 3).share(1), Attribute("A", 3).share(2)
    assert one == pytest.approx(5 / 9) and two == pytest.approx(1 / 3)


def test_erratum_narrow_domains_are_numbered() -> None:
    """Two values numbered 0 and 1 are always told apart by one bit; two hashed values fall into one half every second
    time."""
    assert Attribute("A", 2).share(1) == 0.5
    hashed, numbered = [], []
    for pair in np.random.default_rng(1).integers(0, 1 << 40, (400, 2)):
        keys, nulls = pair.reshape(1, 2), np.zeros(2, np.int64)
        _, fields = Fields((1,)).fit(keys, nulls, Codes.of(keys, nulls, [2]), TemplateTuning())
        numbered.append(fields[0] == fields[1])
        hashed.append(len(set(Field(1, 0, None).of(pair)[0].tolist())) == 1)
    assert not any(numbered) and 160 < sum(hashed) < 240


def test_erratum_visiting_a_partition_costs_something() -> None:
    """10,000 rows, 16 bits, a condition on 4 of them: 4,096 partitions for 625 rows. A run has a price."""
    given = workload({"A": 0.5, "B": 0.5}, "AB", rows=10_000, values=None)
    without, with_runs = (choose_index(given, IndexCosts(0, run, 1), 16).bits for run in (0, 100))
    # 256 runs at the price of 100 rows each cost more than looking at all 10,000 rows.
    assert without == (8, 8) and with_runs == (0, 0)
    assert price(given, IndexCosts(0, 1, 1), (4, 12)) == pytest.approx(0.5 * (4096 + 625) + 0.5 * (16 + 10_000 / 4096))


def test_erratum_hybrid_is_not_optimal() -> None:
    given = workload({"A": 0.75, "B": 0.65, "AC": 0.95, "BC": 0.85})
    for heuristic in ("owl", "pcl"):
        assert choose_index(given, PROBING, 4, "rgreedy", heuristic).bits == (2, 1, 1)
    assert choose_index(given, PROBING, 4, "hybrid").bits == (2, 1, 1)
    assert choose_index(given, PROBING, 4, "exact").bits == (2, 2, 0)


def test_erratum_hybrid_misses_some_random_workloads() -> None:
    """Four attributes, two to eight patterns: a few in a hundred workloads."""
    ratios = []
    for seed in range(150):
        lots = random.Random(seed)
        masks = lots.sample(range(1, 16), lots.randint(2, 8))
        given = workload(
            {"".join(c for i, c in enumerate("ABCD") if mask >> i & 1): lots.random() + 0.01 for mask in masks}, "ABCD"
        )
        ratios.append(choose_index(given, PROBING, 6, "hybrid").cost / choose_index(given, PROBING, 6, "exact").cost)
    assert min(ratios) >= 1 - 1e-9 and 2 <= sum(ratio > 1 + 1e-9 for ratio in ratios) <= 15 and 1.01 < max(ratios) < 1.4


# -- random workloads
# --------------------------------------------------------------------------------------------------------


def drawn(seed: int) -> tuple[Workload, IndexCosts, int]:
    lots = random.Random(seed)
    names = "ABCDE"[: lots.randint(1, 5)]
    attributes = [Attribute(name, lots.choice([None, 2, 3, 5, 30, 2048])) for name in names]
    masks = lots.sample(range(2 ** len(names)), lots.randint(1, min(8, 2 ** len(names))))
    patterns = [
        ([c for i, c in enumerate(names) if mask >> i & 1], lots.random() + 0.01, lots.choice([10, 1000, 1e5]))
        for mask in masks
    ]
    costs = IndexCosts(hash=lots.choice([0, 1, 20, 500]), run=lots.choice([0, 0, 0.1, 3]), visit=1)
    return (
        Workload.of(attributes, patterns, lots.choice([0.1, 1, 10, 1000]), lots.choice([0.1, 1, 10])),
        costs,
        lots.randint(0, 7),
    )


def test_complete_searches_equal_all_configurations() -> None:
    """EPrune, enumeration and the exact search on 1,000 random workloads, with narrow domains, runs and hashing."""
    fewer = 0
    for seed in some(range(1000)):
        given, costs, bits = drawn(seed)
        truth = cheapest(given, costs, bits)
        found = {method: choose_index(given, costs, bits, method) for method in ("eprune", "enumerate", "exact")}
        for choice in found.values():
            assert choice.cost == pytest.approx(truth, rel=1e-9, abs=1e-12), seed
            assert price(given, costs, choice.bits) == pytest.approx(truth, rel=1e-9, abs=1e-12), seed
        assert len({choice.bits for choice in found.values()}) == 1, seed
        assert found["exact"].candidates == found["enumerate"].candidates >= found["eprune"].candidates
        fewer += found["eprune"].candidates < found["enumerate"].candidates
    assert fewer > cases(100)


def test_greedy_searches_find_configurations_that_cost_what_they_say() -> None:
    missed = 0
    for seed in some(range(300)):
        given, costs, bits = drawn(seed)
        truth = cheapest(given, costs, bits)
        ends = [choose_index(given, costs, bits, "rgreedy", heuristic) for heuristic in ("owl", "pcl")]
        both = choose_index(given, costs, bits, "hybrid")
        assert both.cost == pytest.approx(min(end.cost for end in ends)), seed
        for choice in [*ends, both]:
            assert price(given, costs, choice.bits) == pytest.approx(
                choice.cost, rel=1e-9, abs=1e-12
            ) and choice.cost >= truth * (1 - 1e-9)
            assert sum(choice.bits) in (0, given.used_bits(bits))
        missed += both.cost > truth * (1 + 1e-9)
    assert missed <= cases(100)


def test_batches_are_all_compositions() -> None:
    for caps, bits in [([2, 0, 3], 4), ([1], 0), ([1], 2), ([3, 3], 3), ([], 0)]:
        made = [tuple(row) for batch in batches(caps, bits) for row in batch.tolist()]
        assert sorted(made) == sorted(compositions(caps, bits)) and len(made) == count(caps, bits)
        some = [tuple(row) for batch in batches(caps, bits, low=1) for row in batch.tolist()]
        assert sorted(some) == sorted(one for one in made if all(one)) and len(some) == count(caps, bits, low=1)


def test_an_attribute_in_vain_can_be_needed() -> None:
    """A does not pay for itself, but somewhere the bits that G cannot use must go: only A takes them and helps."""
    given = Workload.of(
        [Attribute("A"), Attribute("D"), Attribute("G", 2)], [(["A"], 0.1, 10), (["G"], 0.9, 1000)], 1, 1
    )
    costs = IndexCosts(hash=3, run=0, visit=1)
    assert 0 not in pruned(IndexCostModel(given, costs, 8))
    assert choose_index(given, costs, 8, "eprune").bits == choose_index(given, costs, 8, "enumerate").bits == (7, 0, 1)


def test_rankings_price_a_set_once() -> None:
    model = IndexCostModel(workload(EXAMPLE_2), PROBING, 4)
    assert [list(ranking(model, heuristic)) for heuristic in ("owl", "pcl")] == [[0, 1, 2], [0, 2]]
    steps = Steps(model)
    assert steps.best([0, 1]) is steps.best([1, 0]) and steps.offered == 3


@pytest.mark.parametrize(
    ("bits", "method", "heuristic", "message"),
    [
        (-1, "exact", "owl", "-1 bits"),
        (25, "exact", "owl", "25 bits"),
        (4, "best", "owl", "no search best"),
        (4, "rgreedy", "x", "no ranking x"),
    ],
)
def test_refused(bits: int, method: str, heuristic: str, message: str) -> None:
    with pytest.raises(PlanProblem, match=message) as problem:
        choose_index(workload(EXAMPLE_1), PROBING, bits, method, heuristic)
    assert problem.value.hint


def test_too_many_candidates_for_a_complete_search() -> None:
    letters = "ABCDEFGHIJKLMNOPQRST"
    given = workload({letter: 1.0 + place for place, letter in enumerate(letters)}, letters, values=None)
    for method in ("exact", "enumerate", "eprune"):
        with pytest.raises(PlanProblem, match="configurations"):
            choose_index(given, PROBING, 24, method)
    assert sum(choose_index(given, PROBING, 10, "auto").bits) == 10
