"""The slow truth about index choice: every configuration, priced term by term from the definition.

Also the rules of the dissertation as they are printed, for the tests that show where they go wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.workload import Workload


def compositions(caps: list[int], bits: int) -> Iterator[tuple[int, ...]]:
    return (one for one in product(*(range(cap + 1) for cap in caps)) if sum(one) == bits)


def price(workload: Workload, costs: IndexCosts, bits: tuple[int, ...]) -> float:
    """row_rate · N_A · hash + request_rate · Σ F (2^(B − B_p) · run + rows · visit · ∏ share)."""
    total = workload.row_rate * sum(b > 0 for b in bits) * costs.hash
    for pattern in workload.patterns:
        fixed = [place for place in range(len(bits)) if pattern.mask >> place & 1]
        share = prod(workload.attributes[place].share(bits[place]) for place in fixed)
        runs = 2 ** (sum(bits) - sum(bits[place] for place in fixed))
        total += workload.request_rate * pattern.frequency * (runs * costs.run + pattern.rows * costs.visit * share)
    return total


def cheapest(workload: Workload, costs: IndexCosts, bits: int) -> float:
    caps = list(workload.caps)
    nothing = (0,) * len(caps)
    candidates = list(compositions(caps, min(bits, sum(caps))))
    return min(price(workload, costs, one) for one in [nothing, *candidates])


def printed_benefit(workload: Workload, costs: IndexCosts, place: int, exponent: int, once_per_pattern: bool) -> float:
    """Equation 20.2. `exponent` is the number of bits that the attribute is thought to get: printed N, meant B.

    `once_per_pattern` charges the hashing of rows once per pattern that asks for the attribute, as the printed sum
    does.
    """
    asking = [pattern for pattern in workload.patterns if pattern.mask >> place & 1]
    saved = sum(workload.request_rate * p.frequency * p.rows * costs.visit * (1 - 0.5**exponent) for p in asking)
    return saved - workload.row_rate * costs.hash * (len(asking) if once_per_pattern else 1)


def printed_request_cost(workload: Workload, costs: IndexCosts, bits: tuple[int, ...]) -> float:
    """Equations 19.2 and 19.3: what all requests of a second cost, once more times the rate of requests."""
    return workload.request_rate * (
        price(workload, costs, bits) - workload.row_rate * sum(b > 0 for b in bits) * costs.hash
    )


def printed_rgreedy(workload: Workload, costs: IndexCosts, bits: int, order: list[int]) -> tuple[int, ...]:
    """Algorithm 10 as printed: it returns at the first candidate that does not improve."""
    best = (0,) * len(order)
    cost = price(workload, costs, best)
    for taken in range(1, len(order) + 1):
        indexed = set(order[:taken])
        for one in compositions([bits] * len(order), bits):
            if {place for place, b in enumerate(one) if b} != indexed:
                continue
            if price(workload, costs, one) < cost:
                best, cost = one, price(workload, costs, one)
            else:
                return best
    return best
