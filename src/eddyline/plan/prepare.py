"""From a bound query to its lowered form, through the rules: what every driver and command does first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.errors import PlanProblem
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Stream
from eddyline.model.template import BoundRequests, BoundTemplate
from eddyline.plan.lower import Lowered, lower
from eddyline.plan.rewrite import rewrite
from eddyline.plan.tree.jtree.tree import JTree
from eddyline.plan.tree.statistics import Sources
from eddyline.plan.tree.tree_choice import choose, choose_tree, positions_of, qualified
from eddyline.plan.verify import verify, warnings_of

if TYPE_CHECKING:
    from eddyline.plan.patterns.patterns import PatternPlan
    from eddyline.plan.shape import Part

#: More would fit a stamp, but no search for a tree.
MOST_REFERENCES = 32


def prepare(query: BoundQuery) -> Lowered:
    if len(query.references) > MOST_REFERENCES:
        raise PlanProblem(
            f"query {query.name} joins {len(query.references)} references",
            hint=f"at most {MOST_REFERENCES} are joined in one query",
        )
    rewritten, _ = rewrite(query)
    return lower(rewritten)


def prepare_tree(query: BoundQuery, sources: Sources | None = None) -> tuple[Lowered, JTree]:
    """The lowered query and the tree it would start with; raises where the plan setting does not fit the query."""
    lowered = prepare(query)
    return lowered, choose_tree(lowered, sources)


def explained(lowered: Lowered, sources: Sources) -> str:
    """How a query would be answered if it ran alone, with what that would cost."""
    from eddyline.plan.explain import cost_lines, explain

    choice = qualified(lowered, choose(lowered, sources))
    return explain(lowered, choice.tree, {**_endings(lowered.query, sources), **cost_lines(lowered, choice)})


def _endings(query: BoundQuery, sources: Sources) -> dict[str, str]:
    """What ends the wait of rows that have no window."""
    from eddyline.plan.promised import promise_line, times_of
    from eddyline.plan.ranges.implied import implied_line

    return {**implied_line(query, times_of(sources)), **promise_line(query, sources)}


def pattern_plan(query: BoundQuery, sources: Sources | None) -> PatternPlan:
    """The plan of an EVENT query under the constraints that its stream has now."""
    # What only patterns, pictures or explanations need is loaded with the first of them.
    from eddyline.plan.patterns.patterns import plan_pattern, rules_for

    assert query.pattern is not None
    stream = (sources or {}).get(query.pattern.book.stream)
    return plan_pattern(query, rules_for(query.pattern.book, stream.constraints if isinstance(stream, Stream) else ()))


def check(query: BoundQuery, sources: Sources | None = None) -> None:
    """Refuse a query that cannot be answered, or that can never match; those behind its subqueries too."""
    for maker in query.makers:
        check(maker, sources)
    _check_propagation(query)
    if query.pattern is not None:
        pattern_plan(query, sources)
        return
    if type(query) is BoundQuery:
        # Templates and streams of requests have laws of their own.
        verify(query)
    prepare_tree(query, sources)


def _check_propagation(query: BoundQuery) -> None:
    """Only joins, filters and groups that close know of values that are finished."""
    if query.settings.propagate != "off" and (
        query.pattern is not None
        or query.ranking is not None
        or query.followed
        or query.group_window is not None
        or query.distinct
        or (query.is_aggregate and query.emit.kind != "close")
    ):
        raise PlanProblem(
            f"query {query.name} puts out no punctuations",
            detail="a value of it is never finished" if query.pattern is None else "it is an event pattern",
            hint="EMIT ON CLOSE finishes groups; or propagate = 'off'",
        )


def notices(query: BoundQuery, sources: Sources | None = None) -> list[str]:
    """What is worth knowing about a query and those behind its subqueries, one line each."""
    if isinstance(query, BoundTemplate | BoundRequests):
        # Requests go when they have been answered, and a template keeps its window.
        return []
    # Several queries behind one outer join say the same.
    inner = list(dict.fromkeys(line for maker in query.makers for line in notices(maker, sources)))
    if query.pattern is None:
        return inner + warnings_of(query, sources)
    from eddyline.plan.patterns.patterns import warnings_of_pattern

    return inner + warnings_of_pattern(pattern_plan(query, sources))


def shape(query: BoundQuery, sources: Sources, text: str) -> Part:
    """The plan of a query as it would be answered if it ran alone, to be drawn; `text` is its explanation."""
    from eddyline.plan.shape import query_shape, text_shape

    if query.pattern is not None or type(query) is not BoundQuery:
        return text_shape(query.name, text, {reference.source for reference in query.streams}, query.name)
    lowered = prepare(query)
    return query_shape(lowered, positions_of(qualified(lowered, choose(lowered, sources)).tree, lowered))


def explanation(query: BoundQuery, sources: Sources) -> str:
    """How a query would be answered if it ran alone, and those behind its subqueries before it."""
    made = {maker.feeds.name: maker.feeds for maker in query.makers if maker.feeds is not None}
    texts = []
    for part in (*query.makers, query):
        plan = (
            explained(prepare(part), {**sources, **made}) if part.pattern is None else _explained_pattern(part, sources)
        )
        texts.append(plan if part is query else f"{plan}\n")
    return "\n".join(texts)


def _explained_pattern(query: BoundQuery, sources: Sources) -> str:
    from eddyline.plan.patterns.patterns import explain_pattern

    return explain_pattern(pattern_plan(query, sources))
