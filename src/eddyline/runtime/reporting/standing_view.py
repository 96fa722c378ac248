"""What pages show of one query that stands in a pipeline: in words, and as a plan to be drawn.

Answer   `described` says what a query is; `detail` has its plan as text and as a shape, and which queries its unit serves too.
State    None.
Limits   Reads a pipeline at rest. On Spark the pipeline is the driver's model, which has all plans and no rows.
"""

from __future__ import annotations

from typing import Any

from eddyline.operators.join.port import LONG_AGO
from eddyline.plan.shape import Part, query_shape, text_shape
from eddyline.runtime.pipeline import Pipeline
from eddyline.runtime.standing import StandingQuery
from eddyline.runtime.unit import Standing
from eddyline.runtime.units.filters import FilterQuery

#: How many of the queries that share a plan are named.
_NAMED = 50
#: What a unit counts of stretches of rows that it decided about as a whole.
_ZONES = ("zones_skipped", "zones_passed", "conditions_avoided")


def described(standing: Standing) -> dict[str, Any]:
    query = standing.query
    return {
        "sql": query.text,
        "start": None if standing.start == LONG_AGO else standing.start,
        "stop": standing.stop,
        "lease": query.settings.lease,
        "streams": sorted({reference.source for reference in query.streams}),
    }


def shape_of(standing: Standing, text: str) -> Part:
    """The plan of a query as parts."""
    if isinstance(standing, StandingQuery):
        group = standing.group
        return query_shape(standing.lowered, group.tree, lambda at: group.name_of(at) if len(at) > 1 else group.input_name(at[0]))
    if isinstance(standing, FilterQuery):
        return query_shape(standing.lowered, standing.group.tree, passing=(standing.unit.name, f"query {standing.name}"))
    return text_shape(standing.name, text, standing.unit.streams, standing.unit.name)


def detail(pipeline: Pipeline, name: str, more: str = "") -> dict[str, Any] | None:
    """The plan of a query; `more` are further lines of its text."""
    standing = pipeline.queries.get(name)
    if standing is None:
        return None
    text = standing.plan(pipeline)
    figures = standing.unit.report()
    others = [other for other in standing.unit.queries if other != name]
    return {
        "plan": f"{text}\n{more}" if more else text,
        "shape": shape_of(standing, text).as_json(),
        "shared_with": others[:_NAMED],
        "shared": len(others),
        "zones": {name: count for name in _ZONES if (count := getattr(figures, name))},
    }
