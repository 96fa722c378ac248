"""SunSAT: whether a disjunct of an event pattern can match in any trace that keeps the constraints.

Answer   `conflict_of` closes the types of a disjunct under what they require and looks for types that never come
         together. Then it draws a graph: one node per leaf, one per further required type, an edge for every pair of
         the query's order and for every PRIOR between two nodes. A cycle is a conflict; without one, the nodes in
         topological order are a trace.

             SEQ(A, B), REQUIRE(A, X), PRIOR(X, A), PRIOR(B, X):      X ─► A ─► B ─► X

         Among leaves, one whose type END names is the last: every other leaf comes before it.
Limits   PRIOR is not closed through types that the disjunct neither has nor requires: PRIOR(B, X) and PRIOR(X, A) allow
         A B. Leaves of a type under ONCE are one node, since only one event can be all of them. Conditions of leaves
         are taken as satisfiable, NOT leaves take no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from eddyline.model.patterns.constraint import EventType, Rule, Rules
from eddyline.model.patterns.pattern import Disjunct, EventPattern

#: What an edge of the query's order is called in a conflict.
ORDER = "the order of the pattern"


@dataclass(frozen=True)
class Conflict:
    """Why a disjunct cannot match: the rules that forbid it together with the pattern.

    `through_required`: it rests on a cycle through a type that is required and that no event of the match and no seen
    event has. Such a cycle binds only traces that are seen from their beginning.
    """

    reasons: tuple[str, ...]
    through_required: bool = False

    def __str__(self) -> str:
        return ", ".join(self.reasons)


@dataclass(frozen=True)
class DisjunctShape:
    """The types of a disjunct's leaves and their order; constraints depend on nothing else."""

    types: tuple[EventType, ...]
    before: tuple[int, ...]

    @classmethod
    def of(cls, pattern: EventPattern, disjunct: Disjunct) -> DisjunctShape:
        return cls(tuple(pattern.leaves[number].type for number in disjunct.leaves), disjunct.before)


def conflict_of(shape: DisjunctShape, rules: Rules, seen: Iterable[EventType] = ()) -> Conflict | None:
    """Why no trace that keeps the rules and has the `seen` types matches; None: some trace does."""
    known = [*shape.types, *(t for t in dict.fromkeys(seen) if t not in shape.types)]
    closed = rules.closure(known)
    for never in rules.nevers:
        if never.types <= closed:
            return Conflict((str(never.rule), *_required_by(closed, known, rules)))
    # END is used only for types that occur for sure, not for types that are only required.
    ends = sorted({t for t in known if t in rules.end}, key=str)
    if len(ends) > 1:
        return Conflict((f"END({ends[0]}, {ends[1]})",))
    required = [t for t in sorted(closed, key=str) if t not in known]
    # PRIOR alone: a cycle among types that all occur, whatever the pattern's order.
    bare = [*known, *required]
    before = [*shape.before, *([0] * (len(bare) - len(shape.before)))]
    cycle = _cycle(bare, [0] * len(bare), rules, with_ends=False) or _cycle(known, before[: len(known)], rules)
    if cycle is not None:
        return Conflict(cycle)
    cycle = _cycle(bare, before, rules, with_ends=False) if required else None
    if cycle is not None:
        return Conflict((*cycle, *_required_by(closed, known, rules)), through_required=True)
    return None


def _required_by(closed: frozenset[EventType], known: Sequence[EventType], rules: Rules) -> tuple[str, ...]:
    return tuple(
        str(horn.rule)
        for horn in rules.horns
        if horn.needed in closed and horn.needed not in known and horn.given <= closed
    )


def _cycle(
    types: Sequence[EventType], before: Sequence[int], rules: Rules, with_ends: bool = True
) -> tuple[str, ...] | None:
    """The reasons along a cycle of the graph over nodes of these types, or None."""
    node = list(range(len(types)))
    for at, kind in enumerate(types):
        first = types.index(kind)
        if (kind, kind) in rules.priors or (with_ends and kind in rules.end):
            # One event is all of them.
            node[at] = node[first]
    edges: dict[int, dict[int, str]] = {n: {} for n in set(node)}
    for later, mask in enumerate(before):
        for earlier in range(len(types)):
            if mask >> earlier & 1:
                edges[node[earlier]].setdefault(node[later], ORDER)
    for a, first_type in enumerate(types):
        for b, second_type in enumerate(types):
            rule = rules.priors.get((first_type, second_type))
            if rule is not None and first_type != second_type:
                edges[node[a]].setdefault(node[b], str(rule))
            if with_ends and second_type in rules.end and first_type not in rules.end:
                edges[node[a]].setdefault(node[b], f"END({second_type})")
    for n in edges:
        if n in edges[n]:
            kind = types[n]
            once: Rule | None = rules.priors.get((kind, kind))
            return (f"END({kind})" if once is None else str(once), ORDER)
    return _walk(edges)


def _walk(edges: dict[int, dict[int, str]]) -> tuple[str, ...] | None:
    """The labels along some cycle; nodes that nothing points to are taken away until none is left."""
    left = dict(edges)
    while left:
        pointed = {to for targets in left.values() for to in targets if to in left}
        free = [n for n in left if n not in pointed]
        if not free:
            break
        for n in free:
            del left[n]
    if not left:
        return None
    # Every node that is left has a predecessor that is left: walk backwards until one comes twice.
    path: list[int] = [next(iter(left))]
    while True:
        previous = next(n for n, targets in left.items() if path[-1] in targets)
        if previous in path:
            circle = [*path[path.index(previous) :], previous]
            break
        path.append(previous)
    circle.reverse()
    return tuple(dict.fromkeys(left[a][b] for a, b in pairwise(circle)))
