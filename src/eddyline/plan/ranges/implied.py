"""Windows that conditions between event times imply.

Answer   `implied_windows` gives a RANGE to a reference without a window if the conditions bound the age of its rows: how
         much older than the newest row of a combination they can be. Under `b.ts <= a.ts + INTERVAL '1 hour'` a row of
         `a` waits an hour. Stores forget rows by these windows; answers stay the same.
Limits   Only conditions that are differences of two event times (`predsat.py`), and RANGE windows of other references.
         A reference has an implied window only if the conditions bound it against every other stream of its query,
         directly or through further references.
"""

from __future__ import annotations

from collections.abc import Mapping

from eddyline.model.datatypes import INTERVAL, TIMESTAMP
from eddyline.model.expressions.expression import Call, Expression, Literal
from eddyline.model.query import BoundQuery
from eddyline.model.window import Range, Unbounded, Window
from eddyline.plan.lower import Lowered

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def implied_windows(query: BoundQuery, times: Mapping[str, str]) -> dict[str, Range]:
    """By alias, the windows that the conditions imply for references without one.

    Args:
        times: stream -> its event-time column.
    """
    streams = query.streams
    if len(streams) < 2 or not any(isinstance(reference.window, Unbounded) for reference in streams):
        return {}
    # NumPy is loaded with the first query that can have such a window.
    import numpy as np

    from eddyline.plan.ranges.predsat import NO_BOUND, System, closed, conjuncts_of

    found = conjuncts_of(_between(part) for part in query.where)
    places = {
        (variable.column.ref, variable.column.column): number
        for number, variable in enumerate(found.variables)
        if variable.column is not None and variable.is_column and not variable.falls
    }
    numbers = [places.get((reference.alias, times.get(reference.source, ""))) for reference in streams]
    if sum(number is not None for number in numbers) < 2:
        return {}
    known = System.of(len(found.variables), found.parts).bounds
    # Line i, column j: how much later than a row of reference j a row of reference i can be.
    bounds = np.full((len(streams), len(streams)), NO_BOUND)
    for i, later in enumerate(numbers):
        for j, earlier in enumerate(numbers):
            if later is not None and earlier is not None:
                bounds[i, j] = known[later, earlier]
    for j, reference in enumerate(streams):
        if isinstance(reference.window, Range):
            bounds[:, j] = np.minimum(bounds[:, j], reference.window.micros)
    bounds, _ = closed(bounds, np.zeros(bounds.shape, np.bool_))
    return {
        reference.alias: Range(max(0, int(bounds[:, j].max())))
        for j, reference in enumerate(streams)
        if isinstance(reference.window, Unbounded) and bounds[:, j].max() < NO_BOUND
    }


def _between(part: Expression) -> Expression:
    """`b.ts - a.ts <= d` as `b.ts <= a.ts + d`; another condition as it is."""
    if not (isinstance(part, Call) and part.function in _TURNED):
        return part
    (left, right), function = part.args, part.function
    if isinstance(left, Literal):
        left, right, function = right, left, _TURNED[function]
    if not (isinstance(left, Call) and left.function == "-" and left.type == INTERVAL and isinstance(right, Literal)):
        return part
    later, earlier = left.args
    if earlier.type != TIMESTAMP:
        return part
    return Call(function, (later, Call("+", (earlier, right), TIMESTAMP)), part.type)


def storing_windows(lowered: Lowered, times: Mapping[str, str]) -> tuple[Window | None, ...]:
    """The windows by which a join stores rows: those of the query, and implied ones."""
    found = implied_windows(lowered.query, times)
    return tuple(found.get(alias, window) for alias, window in zip(lowered.aliases, lowered.windows, strict=True))


def implied_line(query: BoundQuery, times: Mapping[str, str]) -> dict[str, str]:
    """The line of EXPLAIN with the implied windows; none if there are none."""
    windows = [f"{alias} [{window}]" for alias, window in implied_windows(query, times).items()]
    return {"implied by event times": ", ".join(windows)} if windows else {}
