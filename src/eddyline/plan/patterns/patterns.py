"""The plan of an EVENT query: disjuncts that can match, failing conditions, what bounds its state.

Answer   `plan_pattern` tests every disjunct against the rules of the book (SunSAT), drops those that can never match,
         and computes the failing conditions of the others (RunSAT). `explain_pattern` is the text of EXPLAIN,
         `warnings_of_pattern` lists state that may grow for ever.
Limits   Under `constraints = off` only the rules that end traces are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eddyline.errors import PlanProblem
from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import refs_of
from eddyline.model.patterns.constraint import ConstraintSet, EventBook, Rules, added_up
from eddyline.model.patterns.pattern import Disjunct, EventPattern, Failing, Gap
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.window import span_text
from eddyline.operators.pattern.config import PatternConfig
from eddyline.plan.explain import changed_line
from eddyline.plan.patterns.failing import failing_of
from eddyline.plan.patterns.satisfy import Conflict, DisjunctShape, conflict_of
from eddyline.plan.tree.statistics import Sources


@dataclass(frozen=True)
class PatternPlan:
    query: BoundQuery
    pattern: EventPattern
    rules: Rules
    #: Disjuncts that can match, with their failing conditions.
    kept: tuple[tuple[Disjunct, Failing], ...]
    dropped: Mapping[int, Conflict]
    #: prune | check | off
    mode: str

    def config(self, columns: Mapping[str, DataType]) -> PatternConfig:
        """The configuration of the operator."""
        disjuncts = tuple(disjunct for disjunct, _ in self.kept)
        failing = tuple(found if self.mode == "prune" else None for _, found in self.kept)
        kind = columns[self.pattern.book.type]
        most = self.query.settings.most_matches
        return PatternConfig(self.query.name, self.pattern, kind, disjuncts, failing, self.mode, most)

    @property
    def warnings(self) -> list[str]:
        """Disjuncts that can never match, one line each."""
        return [
            f"query {self.query.name}: {self.pattern.text_of(self.pattern.disjuncts[number])} can never match, because of {conflict}"
            for number, conflict in self.dropped.items()
        ]


def rules_for(book: EventBook, sets: Iterable[ConstraintSet]) -> Rules:
    return added_up(s for s in sets if s.book == book)


def plan_pattern(query: BoundQuery, rules: Rules) -> PatternPlan:
    """The plan of a query with a pattern.

    Raises:
        PlanProblem: no disjunct can match, and `SET unsatisfiable = 'error'`.
    """
    pattern = query.pattern
    assert pattern is not None
    if query.settings.constraints == "off":
        rules = Rules(begin=rules.begin, end=rules.end, end_after=rules.end_after)
    kept: list[tuple[Disjunct, Failing]] = []
    dropped: dict[int, Conflict] = {}
    for number, disjunct in enumerate(pattern.disjuncts):
        shape = DisjunctShape.of(pattern, disjunct)
        conflict = conflict_of(shape, rules)
        if conflict is None:
            kept.append((disjunct, failing_of(shape, rules)))
        else:
            dropped[number] = conflict
    if not kept and query.settings.unsatisfiable == "error":
        broken = [f"{pattern.text_of(pattern.disjuncts[n])} breaks {conflict}" for n, conflict in dropped.items()]
        hint = "mend the pattern or the constraints, or SET unsatisfiable = 'warn'"
        raise PlanProblem(f"query {query.name} can never match", detail="; ".join(broken), hint=hint)
    return PatternPlan(query, pattern, rules, tuple(kept), dropped, query.settings.constraints)


def bounds_of(pattern: EventPattern, rules: Rules) -> list[str]:
    """What bounds the state of a pattern; empty: nothing does."""
    found = []
    if pattern.within is not None:
        found.append(f"WITHIN {span_text(pattern.within)}")
    if rules.end:
        found.append(f"END({', '.join(sorted(map(str, rules.end)))})")
    if rules.end_after is not None:
        found.append(f"END AFTER {span_text(rules.end_after)}")
    return found


def warnings_of_pattern(plan: PatternPlan) -> list[str]:
    """One line each: disjuncts that never match, matches that may be very many, and state that nothing bounds.

    Raises:
        PlanProblem: nothing bounds the state, and `SET unbounded = 'error'`.
    """
    found = plan.warnings
    if not bounds_of(plan.pattern, plan.rules):
        text = f"query {plan.query.name}: the events kept of {plan.pattern.book.stream} grow for ever, nothing ends a match or a trace"
        if plan.query.settings.unbounded == "error":
            raise PlanProblem(
                text, hint="write WITHIN, or constraints with END or END AFTER, or SET unbounded = 'warn'"
            )
        found.append(text)
    return found + _explosions(plan)


def _explosions(plan: PatternPlan) -> list[str]:
    """A warning where events of the whole stream can make matches with each other, and nothing says how many."""
    pattern = plan.pattern
    steps = max((len(d.leaves) for d, _ in plan.kept if not _is_chained(pattern, d)), default=0)
    if pattern.first or pattern.keys or steps < 2:
        return []
    rows = f"all rows of {pattern.book.stream}"
    if pattern.within is not None:
        rows = f"the rows of {pattern.book.stream} within {span_text(pattern.within)}"
    return [
        f"query {plan.query.name}: the pattern may be quadratic or worse, it has neither FIRST MATCH nor PARTITION BY: "
        f"{rows} make matches of {steps} events with each other"
    ]


def _is_chained(pattern: EventPattern, disjunct: Disjunct) -> bool:
    """Whether each event of a leaf follows at most one event of the leaf before it: a NOT between them names the same
    type, and no condition."""
    named = {name for part in pattern.where for name in refs_of(part)}
    followed = 0
    for gap in disjunct.gaps:
        leaf = pattern.leaves[gap.leaf]
        if gap.after and leaf.condition is None and leaf.name not in named:
            last = [
                at for at in range(len(disjunct.leaves)) if gap.before >> at & 1 and not _is_inner(disjunct, at, gap)
            ]
            if len(last) == 1 and pattern.leaves[disjunct.leaves[last[0]]].type == leaf.type:
                followed |= 1 << last[0]
    whole = (1 << len(disjunct.leaves)) - 1
    return followed | disjunct.sinks == whole and disjunct.sinks.bit_count() == 1


def _is_inner(disjunct: Disjunct, at: int, gap: Gap) -> bool:
    """Whether another leaf before the gap comes after this one."""
    return any(gap.before >> other & 1 and disjunct.before[other] >> at & 1 for other in range(len(disjunct.leaves)))


def explain_pattern(plan: PatternPlan) -> str:
    """How the query is answered."""
    query, pattern = plan.query, plan.pattern
    lines = [f"query: {query.name}", f"event: {pattern.text}", f"  from {pattern.book}"]
    if pattern.where:
        lines.append("where: " + " AND ".join(map(str, pattern.where)))
    kept = dict(plan.kept)
    for number, disjunct in enumerate(pattern.disjuncts):
        lines.append(f"disjunct {number + 1}: {pattern.text_of(disjunct)}")
        for gap in disjunct.gaps:
            until = "until WITHIN has passed" if gap.after == 0 else "in between"
            lines.append(f"  no {pattern.leaves[gap.leaf]} {until}")
        if number in plan.dropped:
            lines.append(f"  can never match: {plan.dropped[number]}")
        elif plan.mode == "prune":
            lines += [f"  {line}" for line in kept[disjunct].lines(DisjunctShape.of(pattern, disjunct).types)]
    outputs = [f"{str(o.expression).removeprefix('_trace.')} AS {o.name}" for o in query.outputs]
    lines.append(f"return: {', '.join(outputs)}")
    lines.append(f"matches: {'first of each trace' if pattern.first else 'all'}")
    lines.append(f"constraints: {plan.mode}")
    bounds = bounds_of(pattern, plan.rules)
    lines.append("state: " + (f"bounded by {', '.join(bounds)}" if bounds else "nothing bounds it"))
    return "\n".join([*lines, *changed_line(query.settings, "constraints")])


# -- called by `plan/prepare.py`


def pattern_plan(query: BoundQuery, sources: Sources | None) -> PatternPlan:
    """The plan of an EVENT query under the constraints that its stream has now."""
    assert query.pattern is not None
    stream = (sources or {}).get(query.pattern.book.stream)
    return plan_pattern(query, rules_for(query.pattern.book, stream.constraints if isinstance(stream, Stream) else ()))


def check(query: BoundQuery, sources: Sources | None) -> None:
    pattern_plan(query, sources)


def notices(query: BoundQuery, sources: Sources | None) -> list[str]:
    return warnings_of_pattern(pattern_plan(query, sources))


def explanation(query: BoundQuery, sources: Sources | None) -> str:
    return explain_pattern(pattern_plan(query, sources))
