"""RunSAT: after which events of a trace a disjunct can no longer match, computed when the query is planned.

Answer   `failing_of` gives for one disjunct, per type t that may be seen:

             plus    {disjunct, t} cannot match: over. Some hold only for traces seen from their beginning.
             minus   the disjunct requires k, and PRIOR(k, t): over if k has not been seen. Only for such traces.
             local   leaves whose type is PRIOR to t: no event will take them any more. Over if one of them is not
                     reached, or if all are reached and all leaves that could be last are dead.
             masks   types that are over only together: IF a AND b THEN …, where neither a nor b alone is enough.

Limits   Sound with respect to the checks of `operators/pattern/monitor.py`: a match that events without violations make
         is never ended. Clauses of several types are used one at a time.
"""

from __future__ import annotations

from eddyline.model.patterns.constraint import EventType, Rules
from eddyline.model.patterns.pattern import Failing, Mask
from eddyline.plan.patterns.satisfy import DisjunctShape, conflict_of


def failing_of(shape: DisjunctShape, rules: Rules) -> Failing:
    """The failing conditions of a disjunct that can match."""
    known = sorted(rules.types | set(shape.types), key=str)
    closed = rules.closure(shape.types)
    plus: dict[EventType, bool] = {}
    minus: dict[EventType, frozenset[EventType]] = {}
    local: dict[EventType, int] = {}
    for t in known:
        conflict = conflict_of(shape, rules, (t,)) if t not in shape.types else None
        if conflict is not None:
            plus[t] = conflict.through_required
        needed = frozenset(k for k in closed if k not in shape.types and k != t and (k, t) in rules.priors)
        if needed:
            minus[t] = needed
        dead = sum(1 << at for at, kind in enumerate(shape.types) if (kind, t) in rules.priors)
        if dead:
            local[t] = dead
    return Failing(plus, minus, local, tuple(_masks(shape, rules, closed, plus)))


def _masks(shape: DisjunctShape, rules: Rules, closed: frozenset[EventType], plus: dict[EventType, bool]) -> list[Mask]:
    """Sets of types that only together end the disjunct: those of a clause that are neither in it nor required by it."""
    found: dict[frozenset[EventType], bool] = {}
    for given in [horn.given for horn in rules.horns] + [never.types for never in rules.nevers]:
        rest = given - closed
        if len(rest) < 2 or any(t in plus for t in rest):
            continue
        conflict = conflict_of(shape, rules, sorted(rest, key=str))
        if conflict is not None and conflict_of(DisjunctShape((), ()), rules, sorted(rest, key=str)) is None:
            found[rest] = found.get(rest, True) and conflict.through_required
    return [Mask(types, only) for types, only in found.items()]
