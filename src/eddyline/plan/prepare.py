"""From a bound query to its lowered form, and which module plans a query.

Answer   `prepare` runs the rules and lowers a query; `prepare_tree` gives its first tree too. `check` refuses a query
         that cannot be answered. `notices`, `explanation` and `shape` describe queries to users.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from eddyline.errors import PlanProblem
from eddyline.model.query import BoundQuery
from eddyline.model.template import BoundRequests, BoundTemplate
from eddyline.plan.lower import Lowered, lower
from eddyline.plan.rewrite import rewrite
from eddyline.plan.tree.jtree.tree import JTree
from eddyline.plan.tree.statistics import Sources
from eddyline.plan.tree.tree_choice import choose, choose_tree, positions_of, qualified
from eddyline.plan.verify import unseen, verify, warnings_of

if TYPE_CHECKING:
    from eddyline.plan.shape import Part

#: The searches for a join tree take no more.
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
    """The lowered query and its first tree; raises if the setting `plan` does not fit the query."""
    lowered = prepare(query)
    return lowered, choose_tree(lowered, sources)


def explained(lowered: Lowered, sources: Sources) -> str:
    """How a query would be answered if it ran alone, and the price of that."""
    from eddyline.plan.explain import cost_lines, explain

    choice = qualified(lowered, choose(lowered, sources))
    return explain(lowered, choice.tree, {**_endings(lowered.query, sources), **cost_lines(lowered, choice)})


def _endings(query: BoundQuery, sources: Sources) -> dict[str, str]:
    """The lines on what ends the wait of rows without a window."""
    from eddyline.plan.promised import promise_line, times_of
    from eddyline.plan.ranges.implied import implied_line

    return {**implied_line(query, times_of(sources)), **promise_line(query, sources)}


#: Queries that are not planned by rules and join trees -> the module that plans them: its `check`, `notices` and
#: `explanation` are called. It is loaded with the first such query.
_PLANNERS: tuple[tuple[Callable[[BoundQuery], bool], str], ...] = (
    (lambda query: query.pattern is not None, "eddyline.plan.patterns.patterns"),
    (lambda query: isinstance(query, BoundTemplate | BoundRequests), "eddyline.plan.template_text"),
)


def _planner(query: BoundQuery) -> Any:
    """The module that plans a query; None: it is planned by rules and a join tree."""
    found = next((module for serves, module in _PLANNERS if serves(query)), None)
    return None if found is None else import_module(found)


def check(query: BoundQuery, sources: Sources | None = None) -> None:
    """Refuse a query that cannot be answered, or that can never match; those behind its subqueries too."""
    for maker in query.makers:
        check(maker, sources)
    _check_propagation(query)
    if (planner := _planner(query)) is not None:
        planner.check(query, sources)
    else:
        verify(query)
        prepare_tree(query, sources)


def _check_propagation(query: BoundQuery) -> None:
    """Refuse `propagate` for queries that never find a value finished: all but joins, filters and groups that close."""
    ranked = query.ranking is not None or bool(query.followed) or query.distinct
    open_ended = query.group_window is not None or (query.is_aggregate and query.emit.kind != "close")
    if query.settings.propagate != "off" and (query.pattern is not None or ranked or open_ended):
        raise PlanProblem(
            f"query {query.name} puts out no punctuations",
            detail="a value of it is never finished" if query.pattern is None else "it is an event pattern",
            hint="EMIT ON CLOSE finishes groups; or propagate = 'off'",
        )


def notices(query: BoundQuery, sources: Sources | None = None) -> list[str]:
    """Warnings about a query and those behind its subqueries, one line each."""
    # Several queries behind one outer join may have equal warnings.
    inner = list(dict.fromkeys(line for maker in query.makers for line in notices(maker, sources)))
    planner = _planner(query)
    return inner + (unseen(query) + warnings_of(query, sources) if planner is None else planner.notices(query, sources))


def shape(query: BoundQuery, sources: Sources, text: str) -> Part:
    """The plan of a query that runs alone, as a drawing needs it; `text` is its explanation."""
    from eddyline.plan.shape import query_shape, text_shape

    if _planner(query) is not None:
        return text_shape(query.name, text, {reference.source for reference in query.streams}, query.name)
    lowered = prepare(query)
    return query_shape(lowered, positions_of(qualified(lowered, choose(lowered, sources)).tree, lowered))


def explanation(query: BoundQuery, sources: Sources) -> str:
    """How a query would be answered if it ran alone, and those behind its subqueries before it."""
    made = {maker.feeds.name: maker.feeds for maker in query.makers if maker.feeds is not None}
    texts = []
    for part in (*query.makers, query):
        planner = _planner(part)
        plan = explained(prepare(part), {**sources, **made}) if planner is None else planner.explanation(part, sources)
        texts.append(plan if part is query else f"{plan}\n")
    return "\n".join(texts)
