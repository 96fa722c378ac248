"""From SEQ, AND, OR and NOT to disjuncts.

Answer   `disjuncts_of` multiplies an expression out: every disjunct has leaves, a strict partial order on them, and one
         gap per NOT. It returns the leaves in the order of the text.
Limits   At most 64 disjuncts. NOT stands between two members of a SEQ, or last in the whole expression or in an OR
         branch of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.errors import BindingProblem, Unsupported, located
from eddyline.language.syntax import EventGroup, EventLeaf, EventNode
from eddyline.model.patterns.pattern import MOST_DISJUNCTS, Disjunct, Gap

_PLACE = "NOT stands between two members of a SEQ, or last in the whole expression with WITHIN"


@dataclass(frozen=True)
class _Part:
    """A part of a disjunct: leaf numbers, pairs (earlier, later), gaps as (leaf, leaves before, leaves after)."""

    leaves: tuple[int, ...] = ()
    order: frozenset[tuple[int, int]] = frozenset()
    gaps: tuple[tuple[int, frozenset[int], frozenset[int]], ...] = ()


class _Multiplication:
    def __init__(self, within: int | None) -> None:
        self.within = within
        self.leaves: list[tuple[EventLeaf, bool]] = []

    def parts(self, node: EventNode, top: bool) -> list[_Part]:
        """`top`: the node is the whole expression or an OR branch of it, so that a NOT may stand last."""
        if isinstance(node, EventLeaf):
            return [_Part((self._add(node, False),))]
        if node.operator == "NOT":
            raise Unsupported("a NOT stands where it cannot", hint=_PLACE, position=node.position)
        if node.operator == "OR":
            found = [part for member in node.members for part in self.parts(member, top)]
            return self._few(found, node)
        return self._sequence(node, top) if node.operator == "SEQ" else self._all(node)

    def _all(self, node: EventGroup) -> list[_Part]:
        made = [_Part()]
        for member in node.members:
            others = self.parts(member, False)
            made = [_Part(a.leaves + b.leaves, a.order | b.order, a.gaps + b.gaps) for a in made for b in others]
            self._few(made, node)
        return made

    def _sequence(self, node: EventGroup, top: bool) -> list[_Part]:
        made = [_Part()]
        members = _flat(node)
        for place, member in enumerate(members):
            if isinstance(member, EventGroup) and member.operator == "NOT":
                is_last = all(isinstance(m, EventGroup) and m.operator == "NOT" for m in members[place + 1 :])
                with located(member.position):
                    self._check_not(is_last, top, any(part.leaves for part in made))
                leaf = member.members[0]
                assert isinstance(leaf, EventLeaf)
                number = self._add(leaf, True)
                made = [_Part(p.leaves, p.order, (*p.gaps, (number, frozenset(p.leaves), frozenset()))) for p in made]
                continue
            others = self.parts(member, False)
            made = [_followed(a, b) for a in made for b in others]
            self._few(made, node)
        return made

    def _check_not(self, is_last: bool, top: bool, follows: bool) -> None:
        if not follows:
            raise Unsupported("a SEQ begins with NOT", hint=_PLACE)
        if is_last and not top:
            raise Unsupported("a NOT stands last in a part of the expression", hint=_PLACE)
        if is_last and self.within is None:
            hint = "without it nothing says when it holds"
            raise BindingProblem("a NOT that stands last needs WITHIN", hint=hint)

    def _add(self, leaf: EventLeaf, negated: bool) -> int:
        self.leaves.append((leaf, negated))
        return len(self.leaves) - 1

    def _few(self, parts: list[_Part], node: EventNode) -> list[_Part]:
        if len(parts) > MOST_DISJUNCTS:
            message = f"a pattern has at most {MOST_DISJUNCTS} disjuncts"
            raise Unsupported(message, hint="write several queries", position=node.position)
        return parts


def _flat(node: EventGroup) -> list[EventNode]:
    """The members of a SEQ, with those of a SEQ in it put in its place."""
    found: list[EventNode] = []
    for member in node.members:
        found += _flat(member) if isinstance(member, EventGroup) and member.operator == "SEQ" else [member]
    return found


def _followed(a: _Part, b: _Part) -> _Part:
    """a, then b; a gap of a that is still open ends before b, and so before all that follows b."""
    order = a.order | b.order | {(x, y) for x in a.leaves for y in b.leaves}
    closed = tuple((leaf, before, after or frozenset(b.leaves)) for leaf, before, after in a.gaps)
    return _Part(a.leaves + b.leaves, order, closed + b.gaps)


def disjuncts_of(node: EventNode, within: int | None) -> tuple[tuple[Disjunct, ...], list[tuple[EventLeaf, bool]]]:
    """The disjuncts of an expression and its leaves, each with whether it is negated."""
    work = _Multiplication(within)
    parts = work.parts(node, True)
    for part in parts:
        _check_names(part, work.leaves)
    return tuple(_disjunct(part) for part in parts), work.leaves


def _check_names(part: _Part, leaves: list[tuple[EventLeaf, bool]]) -> None:
    seen: set[str] = set()
    for number in (*part.leaves, *(gap[0] for gap in part.gaps)):
        leaf = leaves[number][0]
        if leaf.name.lower() in seen:
            hint = f"give each its own alias: {leaf.type} {leaf.name}2"
            raise BindingProblem(f"{leaf.name} stands for two events", hint=hint, position=leaf.position)
        seen.add(leaf.name.lower())


def _disjunct(part: _Part) -> Disjunct:
    numbers = tuple(sorted(part.leaves))
    place = {number: at for at, number in enumerate(numbers)}
    before = [0] * len(numbers)
    for earlier, later in part.order:
        before[place[later]] |= 1 << place[earlier]
    bits = lambda found: sum(1 << place[number] for number in found)
    return Disjunct(numbers, tuple(before), tuple(Gap(leaf, bits(b), bits(a)) for leaf, b, a in part.gaps))
