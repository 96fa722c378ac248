"""What pages show of one registered query of a pipeline: in words, and as a plan to be drawn.

Answer   `described` says what a query is; `detail` has its plan as text and as a shape, and which queries its unit
         serves too.
State    None.
Limits   Reads a pipeline at rest. On Spark the pipeline is the driver's model, which has all plans and no rows.
"""

from __future__ import annotations

from typing import Any

from eddyline.operators.join.port import LONG_AGO
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.unit import Registered

#: How many of the queries that share a plan are named.
_NAMED = 50
#: What a unit counts of stretches of rows that it decided about as a whole.
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
    registered = pipeline.queries.get(name)
    if registered is None:
        return None
    text = registered.plan(pipeline)
    figures = registered.unit.report()
    others = [other for other in registered.unit.queries if other != name]
    return {
        "plan": f"{text}\n{more}" if more else text,
        "shape": registered.shape(text).as_json(),
        "shared_with": others[:_NAMED],
        "shared": len(others),
        "zones": {name: count for name in _ZONES if (count := getattr(figures, name))},
    }
