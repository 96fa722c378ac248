"""The probe steps of a join: which index finds the rows of each input, and what remains to be tested.

Answer   `ProbeSteps.of(origin, order)` gives one `ProbeStep` per input in the order, worked out once per order.
State    The steps so far. The indexes that they need are made in the inputs' stores.
Limits   Of several equalities an index covers as many as it can; the others, and those on hashed keys, are verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from eddyline.model.expressions.expression import Expression, refs_of
from eddyline.model.joining import Equality
from eddyline.operators.join.inputs import Input, StreamInput

#: How many pairs a probing row is taken to give before any has probed.
UNSEEN = 64.0


@dataclass(slots=True)
class ProbeStep:
    """One probe: which input, by which index, and what else must hold. Or one condition: a number beyond the inputs."""

    input: int
    index: str | None
    probe_keys: tuple[tuple[int, str], ...]
    verify: tuple[Equality, ...]
    conditions: tuple[Expression, ...] = field(default=())
    #: How many pairs a probing row gave lately: sizes the next portion.
    pairs_per_row: float = UNSEEN


class ProbeSteps:
    def __init__(
        self,
        inputs: Sequence[Input],
        equalities: tuple[Equality, ...],
        residuals: tuple[Expression, ...],
        bases: Mapping[int, StreamInput],
        one_index_per_partner: bool = False,
    ) -> None:
        self.inputs = inputs
        self.equalities = equalities
        #: Conditions that need more than one of the inputs.
        self.residuals = residuals
        self.bases = bases
        #: Orders differ from batch to batch, and with them what is covered: one index per partner serves all orders.
        #: With fixed orders an index has all keys of the step, so that it finds no pair in vain.
        self.one_index_per_partner = one_index_per_partner
        self._steps: dict[tuple[int, tuple[int, ...]], list[ProbeStep]] = {}

    def of(self, origin: int, order: tuple[int, ...]) -> list[ProbeStep]:
        """The probe steps for new rows of input `origin`."""
        key = (origin, order)
        if key not in self._steps:
            covered = frozenset(self.inputs[origin].references)
            apart = any(number >= len(self.inputs) for number in order)
            steps = []
            for number in order:
                if number >= len(self.inputs):
                    steps.append(ProbeStep(number, None, (), (), (self.residuals[number - len(self.inputs)],)))
                    continue
                added = frozenset(self.inputs[number].references)
                step = self._step(number, covered, added)
                steps.append(replace(step, conditions=()) if apart else step)
                covered |= added
            self._steps[key] = steps
        return self._steps[key]

    def _step(self, number: int, covered: frozenset[int], added: frozenset[int]) -> ProbeStep:
        joining = [(e, s) for e in self.equalities if (s := e.sides(covered, added)) is not None]
        indexed = joining
        if len(self.inputs) > 2 and joining and self.one_index_per_partner:
            partners = [s[0] for _, s in joining]
            best = max(sorted(set(partners)), key=partners.count)
            indexed = [(e, s) for e, s in joining if s[0] == best]
        # Of several equalities on one key of the added side one is enough: spread equalities would only lengthen the
        # hash.
        indexed = [pair for n, pair in enumerate(indexed) if pair[1][2:] not in [other[1][2:] for other in indexed[:n]]]
        index = None
        if indexed:
            index = self.inputs[number].need_index(tuple((s[2], s[3]) for _, s in indexed))
        known = [indexed[0][0]] if len(indexed) == 1 and indexed[0][0].exact else []
        verify = tuple(e for e, _ in joining if not (e.exact and _follows(e, covered, added, self.equalities, known)))
        late = tuple(e for e in self.residuals if refs_of(e) <= covered | added and not refs_of(e) <= covered)
        probe_keys = tuple((s[0], s[1]) for _, s in indexed)
        return ProbeStep(number, index, probe_keys, verify, late)


def followed_order(origin: int, inputs: Sequence[Input], equalities: tuple[Equality, ...]) -> tuple[int, ...]:
    """The input that most equalities join with the covered ones is probed first; cross products come last."""
    covered = frozenset(inputs[origin].references)
    rest = [n for n in range(len(inputs)) if n != origin]
    order = []
    while rest:
        links = [sum(e.sides(covered, frozenset(inputs[n].references)) is not None for e in equalities) for n in rest]
        best = rest[links.index(max(links))]
        order.append(best)
        rest.remove(best)
        covered |= frozenset(inputs[best].references)
    return tuple(order)


def _follows(
    wanted: Equality,
    covered: frozenset[int],
    added: frozenset[int],
    equalities: tuple[Equality, ...],
    known: list[Equality],
) -> bool:
    """Whether exact equalities that hold already, on either side or by the index, imply this one."""
    within = [e for e in equalities if e.exact and any({e.left, e.right} <= side for side in (covered, added))]
    same = {(wanted.left, wanted.left_key)}
    grown = True
    while grown:
        grown = False
        for e in (*known, *within):
            ends = {(e.left, e.left_key), (e.right, e.right_key)}
            if len(ends & same) == 1:
                same |= ends
                grown = True
    return (wanted.right, wanted.right_key) in same
