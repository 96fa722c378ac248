"""Templates and requests, by looking at every row for every request.

Answer   `answer(template, ask, rows, now)` is what a request gets at an instant: the ad-hoc query over the template's
         rows, "Aggregates" of docs/semantics.md at `now`. Rows are in the order of the output columns that the request
         names.
Limits   Grouping columns are columns of the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.oracle.aggregation import aggregate, grouping
from tests.oracle.expressions import Expression, Value
from tests.oracle.intake import Row
from tests.oracle.relational import Query, Window, live


@dataclass(frozen=True)
class Template:
    """`query` reads one stream and lists grouping columns and aggregates."""

    query: Query

    @property
    def keys(self) -> list[tuple[str, Expression]]:
        return [(name, e) for name, e in self.query.outputs if e in grouping(self.query)]


@dataclass(frozen=True)
class Ask:
    columns: tuple[str, ...]
    group_by: tuple[str, ...]
    window: Window
    #: Conditions on grouping columns, written over the columns of the stream.
    conditions: tuple[Expression, ...] = ()


def answer(template: Template, ask: Ask, rows: Sequence[Row], now: int) -> list[tuple[Value, ...]]:
    query = template.query
    named = dict(query.outputs)
    reference = replace(query.references[0], window=ask.window)
    asked = replace(
        query,
        references=(reference,),
        where=(*query.where, *ask.conditions),
        outputs=tuple(
            (name, named[name]) for name in (*ask.group_by, *(c for c in ask.columns if c not in ask.group_by))
        ),
        group_by=tuple(named[name] for name in ask.group_by),
    )
    table = aggregate(asked, live(asked, rows, None, now))
    order = [name for name, _ in asked.outputs]
    return [tuple(row[order.index(name)] for name in ask.columns) for row in table.values()]
