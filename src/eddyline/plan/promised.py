"""The declared punctuations that close the references of a query.

Answer   `closers` names, per reference, the declarations whose columns the query fixes: by equalities with other
         references, by filters and by the grouping columns of EMIT ON CLOSE. `promise_line` is a line of EXPLAIN.
         `lasting` are the references whose stores can only grow, because nothing closes another reference of their
         query.
Limits   PUNCTUATE may name any column: a stream with such statements counts as closable over the fixed columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from eddyline.model.expressions.expression import Call, ColumnRef, Expression, columns_of, refs_of
from eddyline.model.expressions.monotone import trend_of
from eddyline.model.query import BoundQuery
from eddyline.model.records.punctuation import regions_of
from eddyline.model.schema import Stream, Table
from eddyline.model.triggers import trigger_line
from eddyline.model.window import Unbounded

Sources = Mapping[str, Stream | Table]


def fixed_columns(query: BoundQuery, alias: str) -> set[str]:
    """The columns of a reference that the query fixes to values of others, or to constants."""
    found: set[str] = set()
    for part in query.where:
        if isinstance(part, Call) and part.function == "=" and len(refs_of(part)) > 1:
            sides = [next(iter(read)) for read in map(columns_of, part.args) if len(read) == 1]
            found |= {column for ref, column in sides if ref == alias}
        elif refs_of(part) == {alias}:
            found |= {column for column, pattern in regions_of(part).items() if pattern.constants is not None}
    if query.by_promises:
        found |= {column for key in query.group_by for ref, column in columns_of(key) if ref == alias}
    return found


def closers(query: BoundQuery, alias: str, sources: Sources) -> list[str]:
    """What can close a reference, one phrase per declaration."""
    stream = sources.get(query.reference(alias).source)
    if not isinstance(stream, Stream):
        return ["it is a table"] if isinstance(stream, Table) and stream.refresh is None else []
    fixed = fixed_columns(query, alias)
    found = []
    if any(_follows_time(key, alias, stream) for key in _keys(query, alias)):
        found.append("its event time")
    if stream.key and set(stream.key) <= fixed:
        found.append(f"its key {', '.join(stream.key)}")
    if stream.punctuation is not None and fixed:
        found.append(f"column {stream.punctuation} with {', '.join(sorted(fixed))}")
    found += [f"punctuation {d.name} from {d.source}" for d in stream.promised if set(d.columns) <= fixed]
    if stream.makers and stream.receives_punctuations and fixed:
        which = "its query finishes" if len(stream.makers) == 1 else "all parts of its UNION ALL finish"
        found.append(f"values of {', '.join(sorted(fixed))} that {which}")
    if fixed and (stream.remember is not None or stream.receives_punctuations) and not found:
        found.append(f"PUNCTUATE over {', '.join(sorted(fixed))}")
    return found


def _keys(query: BoundQuery, alias: str) -> list[Expression]:
    """The sides of equalities that read one reference alone."""
    sides = [side for part in query.where if isinstance(part, Call) and part.function == "=" for side in part.args]
    return [side for side in sides if refs_of(side) == {alias}]


def _follows_time(key: Expression, alias: str, stream: Stream) -> bool:
    trend = trend_of(key)
    return trend is not None and trend.column == ColumnRef(alias, stream.time, trend.column.type)


def promise_line(query: BoundQuery, sources: Sources) -> dict[str, str]:
    """The lines of EXPLAIN on what closes the references; none if no stream of the query has punctuations."""
    streams = [sources.get(reference.source) for reference in query.streams]
    if not any(isinstance(stream, Stream) and stream.is_punctuated for stream in streams):
        return {}
    found = {reference.alias: closers(query, reference.alias, sources) for reference in query.streams}
    ways = "; ".join(f"{alias}: {' or '.join(phrases) or 'nothing'}" for alias, phrases in found.items())
    return {"closed by": ways, "triggers": triggers_text(query)}


def triggers_text(query: BoundQuery, changed: Mapping[str, str] | None = None) -> str:
    """Which event runs which component of a query; `changed` are settings that changed while it runs."""
    settings, changes = query.settings, changed or {}
    purge = changes.get("purge", settings.purge) if settings.punctuations == "on" else "off"
    propagate = changes.get("propagate", settings.propagate) if query.announces else "off"
    return trigger_line(purge, propagate, settings.over_budget == "spill")


def times_of(sources: Sources) -> dict[str, str]:
    """The event-time columns of streams."""
    return {name: source.time for name, source in sources.items() if isinstance(source, Stream)}


def lasting(query: BoundQuery, sources: Sources) -> set[str]:
    """The references of which stored rows can wait for ever for a row of another reference."""
    open_ended = {r.alias for r in query.streams if not closers(query, r.alias, sources)}
    return {
        r.alias
        for r in query.streams
        if isinstance(r.window, Unbounded) and any(other.alias in open_ended for other in query.streams if other != r)
    }
