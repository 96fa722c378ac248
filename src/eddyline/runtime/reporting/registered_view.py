"""The description of one registered query for pages, and its plan.

Answer   `described` has the SQL, start, stop, lease and streams of a query. `detail` has its plan as text and as a shape
         to draw, and the other queries of its unit.
State    None.
Limits   Called between two epochs. On Spark the pipeline is the model of the driver, which has all plans and no rows.
"""

from __future__ import annotations

from typing import Any

from eddyline.operators.join.port import LONG_AGO
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.unit import Registered

#: How many of the queries that share a plan are named.
_NAMED = 50
#: Counts of a unit: stretches of rows that it skipped or passed as a whole, and conditions that this avoided.
_ZONES = ("zones_skipped", "zones_passed", "conditions_avoided")


def described(registered: Registered) -> dict[str, Any]:
    query = registered.query
    return {
        "sql": query.text,
        "start": None if registered.start == LONG_AGO else registered.start,
        "stop": registered.stop,
        "lease": query.settings.lease,
        "streams": sorted({reference.source for reference in query.streams}),
    }


def detail(pipeline: Pipeline, name: str, more: str = "") -> dict[str, Any] | None:
    """The plan of a query; `more` are further lines of its text."""
    if (registered := pipeline.queries.get(name)) is None:
        return None
    text, figures = registered.plan(pipeline), registered.unit.report()
    others = [other for other in registered.unit.queries if other != name]
    return {
        "plan": f"{text}\n{more}" if more else text,
        "shape": registered.shape(text).as_json(),
        "shared_with": others[:_NAMED],
        "shared": len(others),
        "zones": {name: count for name in _ZONES if (count := getattr(figures, name))},
    }
