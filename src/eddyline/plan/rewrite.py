"""Rules over bound queries, all of which `run_rule` runs, checks and records.

Answer   `rewrite` gives a query with the same answer that is cheaper to run, and a trace of each rule.
State    None.
Limits   WHERE, HAVING and outputs change, and grouping expressions only together with the outputs that select them.
         Filters of one reference need no rule: `lower` puts them before the join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from eddyline.errors import Fault, PlanProblem
from eddyline.model.query import BoundQuery
from eddyline.plan.rules.fold_constants import fold_constants
from eddyline.plan.rules.pull_common_filters import pull_common_filters
from eddyline.plan.rules.simplify_conditions import simplify_conditions
from eddyline.plan.rules.spread_equalities import spread_equalities
from eddyline.plan.verify import verify, verify_rewritten

Rule = Callable[[BoundQuery], BoundQuery]

#: The rules in the order in which they run.
RULES: tuple[tuple[str, Rule], ...] = (
    # First: the other rules compare terms as they are written, and 1 + 1 is not written like 2.
    ("fold_constants", fold_constants),
    # After folding, which finds the TRUEs and FALSEs; an OR with one alternative left is then an AND for the next rule.
    ("simplify_conditions", simplify_conditions),
    # Before equalities are spread: some are only inside ORs.
    ("pull_common_filters", pull_common_filters),
    # Last: it reads all equalities that are conjuncts of WHERE, and adds terms.
    ("spread_equalities", spread_equalities),
)


@dataclass(frozen=True)
class RuleTrace:
    """What one rule changed in one query, and how long it took. The texts are properties: most are never read."""

    rule: str
    old: BoundQuery
    new: BoundQuery
    seconds: float

    @property
    def before(self) -> str:
        """The clauses that a rule may change, one line per term."""
        return _text(self.old)

    @property
    def after(self) -> str:
        return _text(self.new)

    @property
    def changed(self) -> bool:
        return self.new is not self.old and self.before != self.after

    def __str__(self) -> str:
        """The lines that went and the lines that came."""
        old, new = self.before.splitlines(), self.after.splitlines()
        lines = [f"  - {line}" for line in _only_in(old, new)] + [f"  + {line}" for line in _only_in(new, old)]
        if self.changed and not lines:
            lines = ["  the same terms in another order"]
        return "\n".join([f"rule {self.rule} on {self.old.name}:", *(lines or ["  nothing to do"])])


def rewrite(query: BoundQuery, off: frozenset[str] = frozenset()) -> tuple[BoundQuery, tuple[RuleTrace, ...]]:
    """The query after all rules except `off`, and one trace per rule that ran.

    >>> from eddyline.language import bind_script
    >>> job = bind_script('''
    ...     CREATE STREAM bids (price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    ...     CREATE QUERY dear AS SELECT price FROM bids WHERE price > 10.0 * 2.5;
    ... ''')
    >>> rewritten, traces = rewrite(job.queries[0])
    >>> print(*(trace for trace in traces if trace.changed))
    rule fold_constants on dear:
      - where: bids.price > (10.0 * 2.5)
      + where: bids.price > 25.0
    """
    names = [name for name, _ in RULES]
    unknown = sorted(off - {*names})
    if unknown:
        raise PlanProblem(f"there is no rule {', '.join(unknown)}", hint=f"rules are {', '.join(names)}")
    traces = []
    for name, rule in RULES:
        query, trace = run_rule(name, rule, query, off)
        if trace is not None:
            traces.append(trace)
    return query, tuple(traces)


def run_rule(
    name: str, rule: Rule, query: BoundQuery, off: frozenset[str] = frozenset()
) -> tuple[BoundQuery, RuleTrace | None]:
    """Run a rule unless it is in `off`, verify its result, and record what it changed and how long it took.

    Raises:
        Fault: the rule made a query that breaks a law, or that is not the same query.
    """
    if name in off:
        return query, None
    began = perf_counter()
    try:
        after = rule(query)
        if after is not query:
            verify(after)
            verify_rewritten(query, after)
    except RecursionError:
        # Rules recurse deeper than evaluation does: an expression that is too deep for a rule is evaluated as written.
        after = query
    except Fault as problem:
        raise Fault(f"rule {name} broke query {query.name}: {problem.message}", detail=problem.detail) from problem
    return after, RuleTrace(name, query, after, perf_counter() - began)


def _text(query: BoundQuery) -> str:
    lines = [f"where: {part}" for part in query.where]
    lines += [f"select: {o.expression} AS {o.name}" for o in query.outputs]
    lines += [f"group by: {e}" for e in query.group_by]
    if query.having is not None:
        lines.append(f"having: {query.having}")
    return "\n".join(lines)


def _only_in(lines: list[str], others: list[str]) -> list[str]:
    """The lines that the others do not have, or not as often; of several equal ones the last."""
    extra = Counter(lines) - Counter(others)
    found = []
    for line in reversed(lines):
        if extra[line]:
            extra[line] -= 1
            found.append(line)
    return found[::-1]
