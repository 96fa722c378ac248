"""The exact search: every configuration is priced, and the work for a prefix is done once for all that begin with it.

Answer   `exact` finds the cheapest configuration. A price is a sum of products over attributes, so giving b bits to
         attribute a turns the weights of patterns into weights of patterns without a:

             w'[S] = w[S] + w[S + a] · share_a(b)

         After the last attribute one weight is left, the price of all requests.
State    None. Prefixes are extended in batches, depth first, so memory does not follow the number of candidates.
Limits   Time follows the number of candidates: about 30 ns each with ten attributes.
Reading  docs/operators/index.md#searching
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.plan.index_choice.candidates import Bits
from eddyline.plan.index_choice.cost import Best, IndexCostModel
from eddyline.plan.index_choice.workload import Floats

#: Weights held at once, per attribute.
_HELD = 1 << 18


@dataclass(frozen=True, slots=True)
class _Fold:
    """Which weights stay and which are multiplied when one attribute is decided."""

    stay: Bits
    multiplied: Bits
    #: Some pattern has no partner with or without the attribute: its place is behind the last weight, and is 0.
    lacking: bool


@dataclass(frozen=True, slots=True)
class _Prefixes:
    """Configurations of the first attributes that leave equally many bits for the others; one per column."""

    bits: npt.NDArray[np.int8]
    #: Per pattern over the attributes that follow: seconds for visits of rows. That of the empty pattern is first, and
    #: includes the hashing.
    visits: Floats
    #: The same for beginning runs; without rows if a run costs nothing.
    runs: Floats

    def part(self, columns: slice) -> _Prefixes:
        return _Prefixes(self.bits[:, columns], self.visits[:, columns], self.runs[:, columns])


#: Prefixes by the number of bits they leave.
_Level = dict[int, _Prefixes]


def exact(model: IndexCostModel) -> Best:
    """The cheapest configuration of the model's bits, or none of them if no index is cheapest."""
    best = Best.unindexed(model)
    masks = model.masks.tolist()
    first = [] if masks and masks[0] == 0 else [0.0]
    visits = np.array([*first, *model.visits.tolist()])[:, None]
    runs = (
        np.array([*first, *np.ldexp(model.runs, model.bits).tolist()])[:, None] if model.costs.run else np.zeros((0, 1))
    )
    start = _Prefixes(np.zeros((0, 1), np.int8), visits, runs)
    _extend(model, _folds(model, masks if not first else [0, *masks]), 0, {model.bits: start}, best)
    return best


def _folds(model: IndexCostModel, masks: list[int]) -> list[_Fold]:
    folds = []
    for place in range(len(model.workload.attributes)):
        row = {mask: index for index, mask in enumerate(masks)}
        rest = sorted({mask & ~(1 << place) for mask in masks})
        missing = len(masks)
        stay = [row.get(mask, missing) for mask in rest]
        multiplied = [row.get(mask | 1 << place, missing) for mask in rest]
        folds.append(_Fold(np.array(stay), np.array(multiplied), missing in stay or missing in multiplied))
        masks = rest
    return folds


def _extend(model: IndexCostModel, folds: list[_Fold], place: int, level: _Level, best: Best) -> None:
    if place == len(folds):
        for prefixes in level.values():
            # Only the empty pattern is left.
            price = prefixes.visits[0] + prefixes.runs[0] if model.costs.run else prefixes.visits[0]
            best.offer(prefixes.bits.T.astype(np.int64), price)
        return
    count = sum(prefixes.visits.shape[1] for prefixes in level.values())
    if count > 1 and count * len(folds[place].stay) > _HELD:
        for side in (0, 1):
            _extend(model, folds, place, {left: _half(prefixes, side) for left, prefixes in level.items()}, best)
        return
    _extend(model, folds, place + 1, _grown(model, folds[place], place, level), best)


def _half(prefixes: _Prefixes, side: int) -> _Prefixes:
    middle = (prefixes.visits.shape[1] + 1) // 2
    return prefixes.part(slice(middle, None) if side else slice(0, middle))


def _grown(model: IndexCostModel, fold: _Fold, place: int, level: _Level) -> _Level:
    """Each prefix with every number of bits for the attribute at `place` that leaves the rest room enough."""
    most, after = model.workload.caps[place], sum(model.workload.caps[place + 1 :])
    parts: dict[int, list[tuple[int, _Prefixes]]] = {}
    for left, prefixes in level.items():
        for own in range(max(left - after, 0), min(most, left) + 1):
            parts.setdefault(left - own, []).append((own, prefixes))
    return {left: _together(model, fold, place, some) for left, some in parts.items()}


def _together(model: IndexCostModel, fold: _Fold, place: int, parts: list[tuple[int, _Prefixes]]) -> _Prefixes:
    """Prefixes with their next bits, side by side."""
    width = sum(prefixes.visits.shape[1] for _, prefixes in parts)
    visits = np.empty((len(fold.stay), width))
    runs = np.empty((len(fold.stay) if model.costs.run else 0, width))
    bits = np.empty((place + 1, width), np.int8)
    begin = 0
    for own, prefixes in parts:
        end = begin + prefixes.visits.shape[1]
        _fold(fold, prefixes.visits, float(model.shares[place, own]), visits[:, begin:end])
        visits[0, begin:end] += model.hashing * (own > 0)
        if model.costs.run:
            _fold(fold, prefixes.runs, 0.5**own, runs[:, begin:end])
        bits[:place, begin:end] = prefixes.bits
        bits[place, begin:end] = own
        begin = end
    return _Prefixes(bits, visits, runs)


def _fold(fold: _Fold, weights: Floats, factor: float, out: Floats) -> None:
    if fold.lacking:
        weights = np.vstack([weights, np.zeros((1, weights.shape[1]))])
    np.multiply(weights[fold.multiplied], factor, out=out)
    out += weights[fold.stay]
